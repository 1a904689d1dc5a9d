//! A site that asks for a list of pages and stores one record for each, and servers of such pages.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crawler_node::model::{
    Answer, Job, Name, NewTask, Outcome, Record, Request, RobotsPolicy, Task, TaskKey,
};
use crawler_node::settings::{LimitMode, LimitSettings};
use crawler_node::sim::{self, Content, Knobs, Latency, LogEntry, Server, SimConfig, SiteSpec};
use crawler_node::site::{
    Reader, Reading, Redirect, Seeds, Site, SiteError, SiteLimits, Target, urls,
};
use crawler_node::{Engine, Report, Settings};
use url::Url;

use crate::support::{DEADLINE, settings};

/// Pages to ask for, each by its endpoint and URL.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    name: Name,
    pages: Vec<(String, Url)>,
    pub(crate) limits: SiteLimits,
    /// Whether each host is a lane of its own; else each endpoint is.
    pub(crate) by_host: bool,
    /// Panics once while it reads every page of so many.
    pub(crate) panics_each: Option<usize>,
    read: Arc<AtomicUsize>,
}

impl Pages {
    pub(crate) fn new(pages: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let parsed = |(endpoint, url): (&str, String)| {
            (endpoint.to_owned(), Url::parse(&url).expect("a URL"))
        };
        Self {
            name: "pages".into(),
            pages: pages.into_iter().map(parsed).collect(),
            limits: SiteLimits::default(),
            by_host: false,
            panics_each: None,
            read: Arc::default(),
        }
    }

    /// `count` pages of `class` on `base`, for the endpoint of the same name.
    pub(crate) fn of(base: &str, class: &'static str, count: usize) -> Self {
        Self::new(pages(base, class, count))
    }

    pub(crate) fn limited(mut self, limits: LimitSettings) -> Self {
        self.limits.site = limits;
        self
    }

    pub(crate) fn by_host(mut self) -> Self {
        self.by_host = true;
        self
    }

    fn lane(&self, endpoint: &str, url: &Url) -> Name {
        match self.by_host {
            true => urls::authority(url).into(),
            false => endpoint.into(),
        }
    }
}

/// `count` pages of `class` on `base`.
pub(crate) fn pages(
    base: &str,
    class: &'static str,
    count: usize,
) -> impl Iterator<Item = (&'static str, String)> + use<> {
    let base = base.to_owned();
    (0..count).map(move |n| (class, format!("{base}/{class}/{n}")))
}

impl Site for Pages {
    fn name(&self) -> &Name {
        &self.name
    }

    fn limits(&self) -> SiteLimits {
        self.limits.clone()
    }

    fn robots(&self) -> RobotsPolicy {
        RobotsPolicy::Off
    }

    fn lanes_by_host(&self) -> bool {
        self.by_host
    }

    fn seeds(&self, _: &Job) -> Seeds {
        let task = |(endpoint, url): &(String, Url)| NewTask {
            endpoint: endpoint.as_str().into(),
            params: [("url".to_owned(), url.as_str().into())]
                .into_iter()
                .collect(),
            key: TaskKey::of(&self.name, endpoint, url.as_str()),
            lane: self.lane(endpoint, url),
            priority: 0,
            depth: 0,
            list: false,
        };
        Seeds {
            tasks: self.pages.iter().map(task).collect(),
            rejected: Vec::new(),
        }
    }

    fn request(&self, task: &Task) -> Result<Request, SiteError> {
        let url = task.params["url"].as_str().expect("a text");
        Ok(Request::get(Url::parse(url).expect("a URL")))
    }

    fn classify(&self, _: &Task, answer: &Answer) -> Outcome {
        let told = answer.headers.get("retry-after").is_some();
        match &answer.body[..] {
            b"slow down\n" => Outcome::Limited,
            _ => Outcome::of_status(answer.status, told),
        }
    }

    fn read(&self, task: &Task, answer: &Answer, _: &Reader<'_>) -> Result<Reading, SiteError> {
        let read = self.read.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(
            self.panics_each
                .is_none_or(|each| !read.is_multiple_of(each)),
            "a drill"
        );
        Ok(Reading {
            records: vec![Record {
                site: self.name.clone(),
                kind: "page".into(),
                key: task.params["url"].as_str().expect("a text").to_owned(),
                fields: [("status".to_owned(), answer.status.into())]
                    .into_iter()
                    .collect(),
            }],
            ..Reading::default()
        })
    }

    fn redirect(&self, task: &Task, target: &Url) -> Redirect {
        Redirect::Follow {
            url: target.clone(),
            claim: Some(Target {
                key: TaskKey::of(&self.name, &task.endpoint, target.as_str()),
                params: [("url".to_owned(), target.as_str().into())]
                    .into_iter()
                    .collect(),
            }),
            lane: self.lane(&task.endpoint, target),
        }
    }
}

const CLASSES: [&str; 4] = ["a", "b", "r", "other"];

/// Answers every path; `/r/N` leads to `/b/N` of another server, where one is named.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plain {
    pub(crate) away: Option<String>,
    /// Answers 503 until then.
    pub(crate) out_until: Option<Instant>,
}

impl Content for Plain {
    fn classes(&self) -> &'static [&'static str] {
        &CLASSES
    }

    fn class_of(&self, target: &str) -> usize {
        let class = target.split('/').nth(1).unwrap_or_default();
        CLASSES
            .iter()
            .position(|known| *known == class)
            .unwrap_or(3)
    }

    fn answer(&self, request: &sim::Request<'_>) -> sim::Answer {
        if self.out_until.is_some_and(|until| Instant::now() < until) {
            return sim::Answer::new(503, "text/plain", "out\n");
        }
        match (request.target.strip_prefix("/r/"), &self.away) {
            (Some(n), Some(away)) => sim::Answer::redirect(302, format!("{away}/b/{n}")),
            _ => sim::Answer::html("<title>Page</title>"),
        }
    }
}

/// A server with one site for each of `knobs`, called `a`, `b`, …
pub(crate) fn serve(sites: impl IntoIterator<Item = (&'static str, Plain, Knobs)>) -> Server {
    let spec = |(name, content, knobs)| SiteSpec::new(name, content).knobs(knobs);
    Server::start(SimConfig {
        sites: sites.into_iter().map(spec).collect(),
        log_limit: 100_000,
    })
    .expect("the server")
}

pub(crate) fn base(server: &Server, name: &str) -> String {
    server.base_url(name).expect("the site")
}

/// Every answer takes this long.
pub(crate) fn latency(millis: u64) -> Knobs {
    Knobs {
        latency: Latency::Fixed(Duration::from_millis(millis)),
        ..Knobs::default()
    }
}

/// Settings under which only what is configured limits.
pub(crate) fn fixed(dir: &Path, cap: u32) -> Settings {
    let mut settings = settings(dir, cap);
    settings.limits.mode = Some(LimitMode::Fixed);
    settings
}

/// Run a job to its end.
pub(crate) async fn run(settings: Settings, site: Pages, dir: &Path) -> Report {
    let engine = Engine::builder(settings)
        .site(site)
        .start()
        .expect("an engine");
    let job = Job::detail("pages", ["all"]).out(dir.join("data"));
    let job = engine.submit(job).await.expect("submitted");
    let ended = tokio::time::timeout(DEADLINE, job.wait());
    let report = ended.await.expect("in time").expect("a report");
    let snapshot = engine.governor().snapshot().await.expect("a governor");
    assert_eq!(snapshot.in_flight, 0, "a permit was lost");
    engine.drain().await;
    (*report).clone()
}

/// Records stored.
pub(crate) fn stored(report: &Report) -> u64 {
    report.sites["pages"]
        .records
        .values()
        .map(|kind| kind.stored)
        .sum()
}

/// Tasks in a state.
pub(crate) fn tasks(report: &Report, state: &str) -> u64 {
    report.sites["pages"].tasks[state]
}

/// What arrived at a site of the server, once all has ended.
pub(crate) fn log(server: &Server, site: &str) -> Vec<LogEntry> {
    assert!(server.wait_for(DEADLINE, |counts| counts.in_flight == 0));
    let mut log = server.log();
    log.retain(|entry| entry.site == site);
    log
}

/// The most that arrived within any span of this length.
pub(crate) fn most_within(log: &[LogEntry], span: Duration) -> usize {
    let within = |first: &LogEntry| {
        log.iter()
            .filter(|entry| entry.at >= first.at && entry.at < first.at + span)
            .count()
    };
    log.iter().map(within).max().unwrap_or(0)
}
