//! `crawl`: run the job of a directory, or go on where it stopped.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use slog::{Logger, info, warn};

use super::args::{Common, CrawlArgs};
use super::descriptors;
use super::failure::Failure;
use super::load::{self, Given};
use super::signals::Signals;
use super::{inputs, table, view};
use crate::engine::{Engine, JobHandle};
use crate::model::{Job, Mode};
use crate::settings::Settings;
use crate::site::SiteDefinition;
use crate::store::KillHook;
use crate::supervisor::Report;

/// Run the command; gives the exit code of the run.
pub(super) fn run(common: &Common, args: &CrawlArgs) -> Result<u8, Failure> {
    let loaded = load::settings(common, &given(args))?;
    let settings = loaded.settings;
    let sites_dir = args.sites.clone().or_else(|| settings.sites_dir.clone());
    let definitions = load::definitions(sites_dir.as_deref())?;
    load::check_site_names(&settings, &definitions)?;
    let job = job(args, &settings)?;
    if let Some(file) = &args.report {
        check_writable(file)?;
    }
    let view = view::View::new();
    let log = view.logger(&settings.log);
    let report =
        actix_rt::System::new().block_on(execute(settings, definitions, job, view, log))?;
    if let Some(file) = &args.report {
        write_report(file, &report.report)?;
    }
    Ok(report.report.outcome.exit_code_after(report.signal))
}

/// Options that set a configuration key.
fn given(args: &CrawlArgs) -> Vec<Given> {
    let mut given = Vec::new();
    if let Some(rate) = &args.rate {
        given.push(Given {
            key: "limits.rate",
            option: "--rate",
            value: rate.to_string(),
        });
    }
    if let Some(agent) = &args.user_agent {
        given.push(Given {
            key: "user_agent",
            option: "--user-agent",
            value: agent.clone(),
        });
    }
    given
}

/// The job that the options and the settings describe.
fn job(args: &CrawlArgs, settings: &Settings) -> Result<Job, Failure> {
    let given = args.inputs.given(("--urls", !args.urls.is_empty()));
    inputs::fit(&given, args.mode)?;
    let crawl_only = [
        ("--scope", args.scope.is_some()),
        ("--include", !args.include.is_empty()),
        ("--exclude", !args.exclude.is_empty()),
        ("--max-depth", args.max_depth.is_some()),
        ("--max-pages", args.max_pages.is_some()),
        ("--robots", args.robots.is_some()),
    ];
    let not_crawl = [
        ("--max-items", args.max_items.is_some()),
        ("--max-comments", args.max_comments.is_some()),
    ];
    for (options, fits, where_to) in [
        (&crawl_only[..], args.mode == Mode::Crawl, "mode crawl"),
        (
            &not_crawl[..],
            args.mode != Mode::Crawl,
            "modes search, detail and creator",
        ),
    ] {
        if let Some((option, _)) = options.iter().find(|(_, given)| *given && !fits) {
            return Err(Failure::usage(format!(
                "{option} belongs to {where_to}, but the mode is {}",
                args.mode
            )));
        }
    }
    let mut job = Job::new(args.mode);
    job.sites = args.site.clone();
    job.inputs = args.inputs.inputs(args.urls.clone());
    job.out = args.out.clone().unwrap_or_else(|| settings.out.clone());
    job.formats = args.format.clone();
    job.max_items = args.max_items;
    job.max_comments = args.max_comments;
    job.fresh = args.fresh;
    job.crawl = settings.crawl.clone();
    let rules = &mut job.crawl;
    rules.scope = args.scope.unwrap_or(rules.scope);
    rules.robots = args.robots.unwrap_or(rules.robots);
    rules.max_depth = args.max_depth.or(rules.max_depth);
    rules.max_pages = args.max_pages.or(rules.max_pages);
    rules.include.extend(args.include.iter().cloned());
    rules.exclude.extend(args.exclude.iter().cloned());
    Ok(job)
}

/// A report, and the signal that ended the run early.
pub(super) struct Ended {
    pub(super) report: Arc<Report>,
    pub(super) signal: Option<u8>,
}

async fn execute(
    settings: Settings,
    definitions: Vec<SiteDefinition>,
    job: Job,
    view: view::View,
    log: Logger,
) -> Result<Ended, Failure> {
    let mut signals = Signals::listen()?;
    let cap = settings.max_concurrency_num;
    let grace = settings.shutdown_grace;
    descriptors::provide(cap, &log);
    let mut builder = Engine::builder(settings).logger(log.clone());
    if let Ok(point) = std::env::var(KILL_AT) {
        builder = builder.kill_hook(move || kill_at(&point));
    }
    for definition in definitions {
        builder = builder.definition(definition);
    }
    let engine = builder.start()?;
    let handle = engine.submit(job).await?;
    tell_opening(&log, &handle, cap);
    let ended = wait(&engine, &handle, &mut signals, grace, &view, &log).await?;
    view.end();
    table::finish(&view, &log, &ended.report);
    engine.drain().await;
    Ok(ended)
}

fn tell_opening(log: &Logger, handle: &JobHandle, cap: u32) {
    let opening = handle.opening();
    info!(log, "job opened"; "directory" => %handle.out().display(), "run" => handle.run(),
        "resumed" => opening.resumed, "requests_again" => opening.void_leases,
        "failed_again" => opening.retried, "lists_reopened" => opening.reopened);
    if opening.complete {
        info!(
            log,
            "the job is complete already: only new inputs are asked for"
        );
    }
    if cap == 1 {
        info!(
            log,
            "the ceiling is 1 exchange at a time; --max_concurrency_num 8 would allow more"
        );
    }
}

/// Wait for the job's end; the first signal stops it, a second ends the process.
async fn wait(
    engine: &Engine,
    handle: &JobHandle,
    signals: &mut Signals,
    grace: Duration,
    view: &view::View,
    log: &Logger,
) -> Result<Ended, Failure> {
    let mut signal = None;
    let mut refresh = tokio::time::interval(view::REFRESH);
    let ended = handle.wait();
    tokio::pin!(ended);
    loop {
        tokio::select! {
            report = &mut ended => {
                return Ok(Ended { report: report?, signal });
            }
            number = signals.next() => {
                if signal.is_some() {
                    view.end();
                    warn!(log, "stopped at once by a second signal; the same command goes on");
                    exit_now(128 + number);
                }
                signal = Some(number);
                view.end();
                warn!(log, "asked to stop; a second signal ends at once"; "signal" => name(number));
                engine.stop(grace);
            }
            _ = refresh.tick() => view.refresh(handle.metrics(), engine.settings().max_concurrency_num),
        }
    }
}

const fn name(signal: u8) -> &'static str {
    match signal {
        2 => "SIGINT",
        _ => "SIGTERM",
    }
}

/// End the process in the middle of its work: what is committed is safe, the rest is asked again.
#[allow(clippy::exit, reason = "a second signal must not wait for anything")]
fn exit_now(code: u8) -> ! {
    std::process::exit(i32::from(code))
}

/// For tests: `POINT:N` ends the process at the Nth time that a store reaches this step.
const KILL_AT: &str = "TEST_KILL_AT";

fn kill_at(point: &str) -> KillHook {
    let (name, nth) = point.split_once(':').unwrap_or((point, "1"));
    let (name, mut left) = (name.to_owned(), nth.parse::<u32>().unwrap_or(1));
    Box::new(move |point| {
        if point.as_str() == name {
            left = left.saturating_sub(1);
            if left == 0 {
                std::process::abort();
            }
        }
    })
}

/// A report that cannot be written is better known before the crawl than after it.
fn check_writable(file: &Path) -> Result<(), Failure> {
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .map(drop)
        .map_err(|error| Failure::usage(format!("--report {}: {error}", file.display())))
}

/// Write a report where it was asked for.
pub(super) fn write_report(file: &Path, report: &Report) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(report)
        .map_err(|error| Failure::internal(format!("the report cannot be written: {error}")))?;
    text.push('\n');
    std::fs::write(file, text)
        .map_err(|error| Failure::internal(format!("--report {}: {error}", file.display())))
}
