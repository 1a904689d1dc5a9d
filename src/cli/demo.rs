//! `demo`: the whole product in one command. Two built-in sites on loopback, with limits that they do not
//! tell, are crawled at once; then what the servers saw is put beside what the crawler believes.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::args::{Common, DemoArgs};
use super::failure::{Failure, printed};
use super::load::{self, Given};
use super::signals::Signals;
use super::{table, view};
use crate::engine::Engine;
use crate::model::Job;
use crate::settings::{Origin, Settings};
use crate::sim::{
    ApiSite, Counts, HtmlSite, Knobs, Latency, Limit, Refusal, RetryAfter, Server, SimConfig,
    SiteSpec,
};
use crate::site::SiteDefinition;
use crate::supervisor::Report;

const API: &str = "demo-api";
const HTML: &str = "web";
const KEYWORDS: [&str; 3] = ["rust", "actors", "爬虫"];
/// The cap of the demo, unless a variable or an option sets one: more than one, so that there is something to cap.
const CAP: &str = "8";

/// Run the demo; exit code 0 only when both sides agree and nothing is missing.
pub(super) fn run(common: &Common, args: &DemoArgs) -> Result<u8, Failure> {
    let loaded = load::settings(common, &[])?;
    let mut settings = if !matches!(
        loaded.provenance.of("max_concurrency_num"),
        Some(Origin::Variable { .. } | Origin::Option { .. })
    ) {
        let cap = Given {
            key: "max_concurrency_num",
            option: "demo's cap",
            value: CAP.to_owned(),
        };
        load::settings(common, &[cap])?.settings
    } else {
        loaded.settings
    };
    let temporary = Temporary::new()?;
    let out = args.out.clone().unwrap_or_else(|| temporary.0.clone());
    settings.state = Some(out.join("state"));
    let sites = Sites::new();
    let server = sites
        .start()
        .map_err(|error| Failure::internal(format!("the built-in sites: {error}")))?;
    let view = view::View::new();
    let log = view.logger(&settings.log);
    let ran = actix_rt::System::new().block_on(execute(settings, &server, &out, &view, log));
    view.end();
    let counts = server.stop();
    let reports = match ran? {
        Ran::Ended(reports) => reports,
        Ran::Stopped(signal) => return Ok(128 + signal),
    };
    let comparison = Comparison::new(&sites, &counts, &reports, &out)?;
    if let Some(file) = &args.report {
        let text = serde_json::to_string_pretty(&comparison)
            .map_err(|error| Failure::internal(error.to_string()))?;
        std::fs::write(file, text + "\n")
            .map_err(|error| Failure::internal(format!("--report {}: {error}", file.display())))?;
    }
    printed(write!(io::stdout().lock(), "{}", comparison.text()))?;
    Ok(u8::from(!comparison.agrees))
}

/// A directory that goes away with the demo.
struct Temporary(std::path::PathBuf);

impl Temporary {
    fn new() -> Result<Self, Failure> {
        let dir = std::env::temp_dir().join(format!(
            "crawler-node-demo-{}-{:08x}",
            std::process::id(),
            fastrand::u32(..)
        ));
        std::fs::create_dir_all(&dir)
            .map_err(|error| Failure::internal(format!("{}: {error}", dir.display())))?;
        Ok(Self(dir))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // What cannot be removed from the temporary folder is left to the system.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The sites of the demo, and what a whole crawl of them comes to.
struct Sites {
    api: ApiSite,
    html: HtmlSite,
}

impl Sites {
    fn new() -> Self {
        Self {
            api: ApiSite::new(7),
            html: HtmlSite::new(7, 150),
        }
    }

    fn start(&self) -> io::Result<Server> {
        let latency = Latency::Between(Duration::from_millis(15), Duration::from_millis(45));
        let api = Knobs {
            latency: latency.clone(),
            limits: vec![Limit::Bucket {
                per_second: 120.0,
                burst: 30,
            }],
            refusal: Refusal::status(429).retry_after(RetryAfter::Seconds),
            ..Knobs::default()
        };
        let html = Knobs {
            latency,
            limits: vec![Limit::Fixed {
                max: 60,
                window: Duration::from_secs(1),
                phase: Duration::ZERO,
            }],
            refusal: Refusal::status(503).retry_after(RetryAfter::Seconds),
            ..Knobs::default()
        };
        Server::start(SimConfig {
            sites: vec![
                SiteSpec::new(API, self.api.clone()).knobs(api),
                SiteSpec::new(HTML, self.html.clone()).knobs(html),
            ],
            log_limit: 0,
        })
    }
}

enum Ran {
    Ended(Vec<Arc<Report>>),
    Stopped(u8),
}

async fn execute(
    settings: Settings,
    server: &Server,
    out: &Path,
    view: &view::View,
    log: slog::Logger,
) -> Result<Ran, Failure> {
    let mut signals = Signals::listen()?;
    let url = |site| {
        server
            .base_url(site)
            .ok_or_else(|| Failure::internal(format!("no site {site}")))
    };
    let text = ApiSite::definition(&url(API)?);
    let definition = SiteDefinition::parse("demo-api.toml", &text)
        .map_err(|errors| Failure::internal(errors.to_string()))?;
    let grace = settings.shutdown_grace;
    let engine = Engine::builder(settings)
        .definition(definition)
        .logger(log)
        .start()?;
    let search = engine
        .submit(Job::search(API, KEYWORDS).out(out.join("api")))
        .await?;
    let pages = engine
        .submit(Job::crawl([format!("{}/", url(HTML)?)]).out(out.join("html")))
        .await?;
    let mut refresh = tokio::time::interval(view::REFRESH);
    let both = async { Ok::<_, Failure>(vec![search.wait().await?, pages.wait().await?]) };
    tokio::pin!(both);
    let mut stopped = None;
    let reports = loop {
        tokio::select! {
            reports = &mut both => break reports?,
            signal = signals.next() => {
                if stopped.is_some() {
                    return Ok(Ran::Stopped(signal));
                }
                stopped = Some(signal);
                engine.stop(grace);
            }
            _ = refresh.tick() => {
                view.refresh(search.metrics(), engine.settings().max_concurrency_num);
                view.refresh(pages.metrics(), engine.settings().max_concurrency_num);
            }
        }
    };
    engine.drain().await;
    Ok(stopped.map_or(Ran::Ended(reports), Ran::Stopped))
}

/// What both sides say of one thing.
#[derive(Debug, Serialize)]
struct Row {
    what: String,
    server: String,
    crawler: String,
    agrees: bool,
}

#[derive(Debug, Serialize)]
struct Comparison {
    rows: Vec<Row>,
    agrees: bool,
    elapsed_seconds: f64,
}

impl Comparison {
    fn new(
        sites: &Sites,
        counts: &Counts,
        reports: &[Arc<Report>],
        out: &Path,
    ) -> Result<Self, Failure> {
        let mut rows = Vec::new();
        let mut row = |what: String, server: String, crawler: String, agrees: bool| {
            rows.push(Row {
                what,
                server,
                crawler,
                agrees,
            });
        };
        for (report, name) in reports.iter().zip([API, HTML]) {
            let seen = counts.sites.get(name).cloned().unwrap_or_default();
            let believed = Believed::of(report, name);
            row(
                format!("{name}: requests"),
                seen.requests.to_string(),
                believed.requests.to_string(),
                seen.requests == believed.requests,
            );
            row(
                format!("{name}: refusals"),
                seen.refused.to_string(),
                believed.limited.to_string(),
                seen.refused == believed.limited,
            );
            row(
                format!("{name}: served twice"),
                seen.duplicates.to_string(),
                "0".to_owned(),
                seen.duplicates == 0,
            );
            row(
                format!("{name}: outcome"),
                "–".to_owned(),
                report.outcome.as_str().to_owned(),
                report.exit_code == 0,
            );
        }
        let (peak, cap) = (
            reports
                .iter()
                .map(|report| report.peak_in_flight)
                .max()
                .unwrap_or(0),
            reports
                .first()
                .map_or(0, |report| report.max_concurrency_num),
        );
        row(
            format!("peak in flight (cap {cap})"),
            counts.peak_in_flight.to_string(),
            peak.to_string(),
            counts.peak_in_flight <= peak && peak <= cap,
        );
        let expected = sites.api.expected(&KEYWORDS);
        let stored = records(&out.join("api"))?;
        row(
            format!("{API}: records"),
            expected.len().to_string(),
            stored.len().to_string(),
            stored == expected,
        );
        let expected = sites.html.expected();
        let stored: BTreeSet<String> = records(&out.join("html"))?
            .into_iter()
            .filter_map(|(_, url)| url::Url::parse(&url).ok())
            .map(|url| match url.query() {
                Some(query) => format!("{}?{query}", url.path()),
                None => url.path().to_owned(),
            })
            .collect();
        row(
            format!("{HTML}: pages"),
            expected.len().to_string(),
            stored.len().to_string(),
            stored == expected,
        );
        Ok(Self {
            agrees: rows.iter().all(|row| row.agrees),
            rows,
            elapsed_seconds: reports
                .iter()
                .map(|report| report.elapsed_seconds)
                .fold(0.0, f64::max),
        })
    }

    fn text(&self) -> String {
        let mut table = table::table(&["", "the servers saw", "the crawler believes", "agree"], 1);
        for row in &self.rows {
            table.add_row([
                row.what.as_str(),
                &row.server,
                &row.crawler,
                if row.agrees { "yes" } else { "NO" },
            ]);
        }
        let verdict = if self.agrees {
            "Both sides agree, and nothing is missing."
        } else {
            "The two sides do NOT agree."
        };
        format!("{table}\n{verdict} ({:.1} s)\n", self.elapsed_seconds)
    }
}

/// What the crawler's report says of a site, robots.txt left out as the servers do.
struct Believed {
    requests: u64,
    limited: u64,
}

impl Believed {
    fn of(report: &Report, site: &str) -> Self {
        let endpoints = report
            .sites
            .get(site)
            .into_iter()
            .flat_map(|site| &site.endpoints)
            .filter(|(name, _)| *name != "robots");
        let mut believed = Self {
            requests: 0,
            limited: 0,
        };
        for (_, endpoint) in endpoints {
            believed.requests += endpoint.requests;
            believed.limited += endpoint.limited;
        }
        believed
    }
}

/// The (kind, key) of every record in the files of a job; pages by their URL.
fn records(dir: &Path) -> Result<BTreeSet<(String, String)>, Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::internal(format!("{}: {error}", dir.display()));
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(dir).map_err(|error| failed(&error))? {
        let path = entry.map_err(|error| failed(&error))?.path();
        if path
            .extension()
            .is_none_or(|extension| extension != "jsonl")
        {
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(|error| failed(&error))?;
        for line in text.lines() {
            let record: Value = serde_json::from_str(line).map_err(|error| failed(&error))?;
            let field = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
            let key = if field("_kind") == "page" {
                "url"
            } else {
                "_key"
            };
            found.insert((field("_kind"), field(key)));
        }
    }
    Ok(found)
}
