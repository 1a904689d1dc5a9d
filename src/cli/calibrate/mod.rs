//! `calibrate`: finds the concurrency that a site takes, by real requests at rising levels.

mod local;
mod show;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::ProgressBar;
use slog::{Logger, info, warn};
use tokio::sync::watch;

use self::local::Written;
use super::args::{CalibrateArgs, Common};
use super::descriptors;
use super::failure::{Failure, printed};
use super::inputs;
use super::load::{self, Given};
use super::signals::Signals;
use super::view::View;
use crate::calibrate::{Rules, Verdict};
use crate::engine::Engine;
use crate::engine::calibrate::{End, Findings, Opening, Seen, Trial};
use crate::model::{Job, Mode};
use crate::settings::{Layer, Loaded, Settings};
use crate::site::SiteDefinition;

/// The key that is looked for.
const KEY: &str = "max_concurrency_num";
/// Where a ladder ends when nobody set a ceiling.
const CEILING: u32 = 16;

/// Run the command; gives 0 when a level was found, 3 when none was, 4 when the site refuses, 130 when interrupted.
pub(super) fn run(common: &Common, args: &CalibrateArgs) -> Result<u8, Failure> {
    let given: Vec<Given> = args
        .max
        .iter()
        .map(|max| Given {
            key: KEY,
            option: "--max",
            value: max.clone(),
        })
        .collect();
    let mut loaded = load::settings(common, &given)?;
    let chosen = choose_ceiling(args, &mut loaded)?;
    let settings = &loaded.settings;
    let sites_dir = args.sites.clone().or_else(|| settings.sites_dir.clone());
    let definitions = load::definitions(sites_dir.as_deref())?;
    load::check_site_names(settings, &definitions)?;
    let trial = trial(args, settings)?;
    trial
        .rules
        .check()
        .map_err(|error| Failure::usage(error.to_string()))?;
    let dir = common.config.clone().unwrap_or_else(|| "config".into());
    if args.write {
        let keys = keys(args.site.as_deref(), u32::MAX, 0);
        let keys: Vec<_> = keys.into_iter().map(|(key, _)| key).collect();
        local::check(&dir, &keys).map_err(|why| Failure::usage(format!("--write: {why}")))?;
    }
    let view = View::new();
    let log = view.logger(&settings.log);
    if !chosen {
        info!(log, "no ceiling is configured; --max N sets one"; "ceiling" => settings.max_concurrency_num);
    }
    let ran = actix_rt::System::new().block_on(execute(
        settings.clone(),
        definitions,
        &trial,
        &view,
        &log,
    ));
    view.end();
    let (findings, signal) = ran?;
    let code = code(&findings, signal);
    let mut written = Vec::new();
    if let (true, 0, Verdict::Found(found)) = (args.write, code, &findings.verdict) {
        let keys = keys(args.site.as_deref(), found.level, lasting_cap(common)?);
        written = local::write(&dir, &keys)
            .map_err(|why| Failure::internal(format!("--write: {why}")))?;
        tell_overridden(&loaded, &written, &log);
    }
    let result = show::Result::new(&findings, &trial.rules, code, &written);
    let text = if args.json {
        serde_json::to_string_pretty(&result)
            .map_err(|error| Failure::internal(error.to_string()))?
            + "\n"
    } else {
        result.text()
    };
    put(&args.out, &text)?;
    Ok(code)
}

/// The ceiling is the cap that is configured, when somebody chose it; the cap that holds by default chooses nothing.
/// Gives whether it was chosen.
fn choose_ceiling(args: &CalibrateArgs, loaded: &mut Loaded) -> Result<bool, Failure> {
    let origin = loaded.provenance.of(KEY);
    let cap = loaded.settings.max_concurrency_num;
    let chosen = origin.is_some_and(|origin| origin.layer() > Layer::Default)
        || cap != Settings::default().max_concurrency_num;
    let most = args.levels.iter().max().copied();
    if !chosen {
        loaded.settings.max_concurrency_num = most
            .unwrap_or(CEILING)
            .clamp(1, crate::calibrate::MAX_LEVEL);
        return Ok(false);
    }
    if let (Some(most), Some(origin)) = (most.filter(|most| *most > cap), origin) {
        return Err(Failure::usage(format!(
            "--levels: level {most} is above {KEY}, which is {cap} ({origin}); --max {most} raises it for this command"
        )));
    }
    Ok(true)
}

/// What is to be found out, as the options say it.
fn trial(args: &CalibrateArgs, settings: &Settings) -> Result<Trial, Failure> {
    let urls: Vec<String> = args.url.iter().chain(&args.urls).cloned().collect();
    let given = args.inputs.given(("--url", !urls.is_empty()));
    if given.is_empty() && args.site.is_none() {
        return Err(Failure::usage(
            "nothing to ask for: give --url URL, or --site SITE with --keywords, --ids or --creators",
        ));
    }
    let mode = match (args.mode, &given[..]) {
        (Some(mode), _) => mode,
        (None, [(mode, _)]) => *mode,
        (None, []) => Mode::Crawl,
        (None, [(_, a), (_, b), ..]) => {
            return Err(Failure::usage(format!(
                "{a} and {b} belong to different modes: give one of them"
            )));
        }
    };
    inputs::fit(&given, mode)?;
    let length = Duration::try_from_secs_f64(args.seconds)
        .map_err(|_| Failure::usage(format!("--seconds {}: allowed: 0.1 to 3600", args.seconds)))?;
    let mut job = Job::new(mode);
    job.sites = args.site.iter().cloned().collect();
    job.inputs = args.inputs.inputs(urls);
    job.crawl = settings.crawl.clone();
    Ok(Trial {
        job,
        levels: (!args.levels.is_empty()).then(|| args.levels.clone()),
        rate: args.rate,
        rules: Rules {
            length,
            warmup: args.warmup,
            max_errors: args.max_errors,
            confidence: args.confidence,
            max_requests: args.max_requests,
        },
    })
}

async fn execute(
    settings: Settings,
    definitions: Vec<SiteDefinition>,
    trial: &Trial,
    view: &View,
    log: &Logger,
) -> Result<(Findings, Option<u8>), Failure> {
    let mut signals = Signals::listen()?;
    descriptors::provide(settings.max_concurrency_num, log);
    let mut builder = Engine::builder(settings).logger(log.clone());
    for definition in definitions {
        builder = builder.definition(definition);
    }
    let engine = builder.start()?;
    let (ask_to_stop, stop) = watch::channel(false);
    let line = view.line();
    let seen = |seen: Seen<'_>| tell(&seen, trial, line.as_ref(), log);
    let mut signal = None;
    let found = {
        let findings = engine.calibrate(trial, stop, &seen);
        tokio::pin!(findings);
        loop {
            tokio::select! {
                findings = &mut findings => break findings,
                number = signals.next() => {
                    if signal.is_some() {
                        view.end();
                        exit_now(128 + number);
                    }
                    signal = Some(number);
                    ask_to_stop.send_replace(true);
                }
            }
        }
    };
    engine.drain().await;
    Ok((found?, signal))
}

/// End the process while exchanges are cut off.
#[allow(clippy::exit, reason = "a second signal must not wait for anything")]
fn exit_now(code: u8) -> ! {
    std::process::exit(i32::from(code))
}

/// Progress: a line that changes on a terminal, lines of the log elsewhere.
fn tell(seen: &Seen<'_>, trial: &Trial, line: Option<&ProgressBar>, log: &Logger) {
    match seen {
        Seen::Opening(opening) => tell_opening(opening, log),
        Seen::Left(what, why) => warn!(log, "input not used"; "input" => what, "why" => why),
        Seen::Waiting(wait) => {
            let wait = show::wait(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
            info!(log, "a pause is waited for"; "for" => %wait);
        }
        Seen::Running(running) => {
            if let Some(line) = line {
                line.set_message(show::running(running, trial.rules.length));
            }
        }
        Seen::Level(level) => info!(log, "level ended"; "level" => level.level,
            "requests" => level.requests, "ok_per_second" => format!("{:.1}", level.ok_per_second),
            "refused" => level.refused, "errors" => level.errors),
    }
}

fn tell_opening(opening: &Opening, log: &Logger) {
    const SHOWN: usize = 3;
    let more = opening.targets.len().saturating_sub(SHOWN);
    let mut targets = opening.targets[..opening.targets.len() - more].join(", ");
    if more > 0 {
        targets.push_str(&format!(" and {more} more"));
    }
    let levels: Vec<String> = opening.levels.iter().map(u32::to_string).collect();
    info!(log, "about to ask again and again, by level of concurrency"; "what" => targets,
        "levels" => levels.join(", "), "requests_at_most" => opening.requests_at_most,
        "seconds_at_most" => format!("{:.1}", opening.seconds_at_most),
        "robots_txt" => if opening.robots_obeyed { "obeyed" } else { "off" },
        "user_agent" => &opening.user_agent);
}

/// The exit code, the first that applies.
fn code(findings: &Findings, signal: Option<u8>) -> u8 {
    match (&findings.end, signal, &findings.verdict) {
        (End::Interrupted, signal, _) => 128 + signal.unwrap_or(2),
        (End::Blocked { .. } | End::Paused { .. }, ..) => 4,
        (End::Done | End::Above { .. }, _, Verdict::Found(_)) => 0,
        _ => 3,
    }
}

/// The global cap of the next command, which has none of this one's options.
fn lasting_cap(common: &Common) -> Result<u32, Failure> {
    let plain = Common {
        config: common.config.clone(),
        set: Vec::new(),
        max_concurrency_num: None,
        state: None,
        log_level: None,
    };
    load::settings(&plain, &[]).map(|loaded| loaded.settings.max_concurrency_num)
}

/// The keys that give a level its effect: a site's own cap, and the global one, `lasting`, where that is lower.
fn keys(site: Option<&str>, level: u32, lasting: u32) -> Vec<(Vec<&str>, u32)> {
    let mut keys = Vec::new();
    if site.is_none() || lasting < level {
        keys.push((vec![KEY], level));
    }
    if let Some(site) = site {
        keys.push((vec!["sites", site, KEY], level));
    }
    keys
}

/// A later layer wins over the file: the number written there would have no effect.
fn tell_overridden(loaded: &Loaded, written: &[Written], log: &Logger) {
    for one in written {
        if let Some(origin) = loaded.provenance.of(&one.key)
            && origin.layer() == Layer::Variables
        {
            warn!(log, "what was written has no effect while a later layer sets it too";
                "key" => &one.key, "set_by" => %origin);
        }
    }
}

/// Put the result where it was asked for.
fn put(out: &Path, text: &str) -> Result<(), Failure> {
    if *out == *PathBuf::from("-") {
        return printed(io::stdout().lock().write_all(text.as_bytes())).map(drop);
    }
    std::fs::write(out, text)
        .map_err(|error| Failure::usage(format!("--out {}: {error}", out.display())))
}
