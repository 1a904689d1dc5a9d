//! `simulate`: the rate control against a described server, in virtual time.

mod benchmark;
mod show;

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use super::args::{Common, SimulateArgs};
use super::failure::{Failure, printed};
use crate::sim::simulator::{
    Law, Report, Sample, Scenario, built_in, named, read, run_traced, strip, svg,
};

/// Parts of a run in pictures and in JSON.
const STEPS: u32 = 256;

/// Run one scenario, list them, or compare laws over all of them.
pub(super) fn run(common: &Common, args: &SimulateArgs) -> Result<u8, Failure> {
    if let Some(set) = common.set.first() {
        return Err(Failure::usage(format!(
            "--set {set}: a simulation takes its limits from its file, below [limits]"
        )));
    }
    if args.benchmark {
        return benchmark::run(args);
    }
    let Some(name) = &args.scenario else {
        return list();
    };
    let mut scenario = find(name)?;
    if let Some(cap) = &common.max_concurrency_num {
        scenario.configured.max_concurrency_num = parse_cap(cap)?;
    }
    if let Some(seconds) = args.seconds {
        scenario.lasts = std::time::Duration::from_secs(seconds);
        scenario.warm_up = scenario.warm_up.min(scenario.lasts / 4);
    }
    let one = Run::of(&scenario, args.law, args.seed);
    if let Some(path) = &args.svg {
        let title = format!("{} — {} — law {}", one.scenario, one.about, one.law);
        std::fs::write(path, svg(&title, &one.samples))
            .map_err(|error| Failure::usage(format!("--svg {}: {error}", path.display())))?;
    }
    let mut out = io::stdout().lock();
    printed(if args.json {
        serde_json::to_string_pretty(&one)
            .map_err(io::Error::from)
            .and_then(|text| writeln!(out, "{text}"))
    } else {
        let colour = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
        write!(out, "{}\n{}", show::text(&one), strip(&one.samples, colour))
    })
}

/// One run with all that is said of it.
#[derive(Debug, Serialize)]
struct Run {
    scenario: String,
    about: String,
    law: String,
    seed: u64,
    seconds: f64,
    warm_up: f64,
    report: Report,
    samples: Vec<Sample>,
}

impl Run {
    fn of(scenario: &Scenario, law: Law, seed: u64) -> Self {
        let make = &mut |seed| law.control(scenario, seed);
        let (report, samples) = run_traced(scenario, seed, make, STEPS);
        Self {
            scenario: scenario.name.clone(),
            about: scenario.about.clone(),
            law: law.to_string(),
            seed,
            seconds: scenario.lasts.as_secs_f64(),
            warm_up: scenario.warm_up.as_secs_f64(),
            report,
            samples,
        }
    }
}

/// The built-in scenario of this name, or what the file says.
fn find(name: &str) -> Result<Scenario, Failure> {
    if let Some(scenario) = named(name) {
        return Ok(scenario);
    }
    let text = std::fs::read_to_string(name).map_err(|error| {
        let all = built_in();
        let nearest = all
            .iter()
            .max_by(|a, b| strsim::jaro(&a.name, name).total_cmp(&strsim::jaro(&b.name, name)))
            .map_or("", |nearest| &nearest.name);
        Failure::usage(format!(
            "{name}: {error}; no built-in scenario is called so either; nearest: {nearest}; \
             `simulate --list` shows all"
        ))
    })?;
    read(name, &text).map_err(|errors| Failure::usage(errors.to_string()))
}

fn parse_cap(text: &str) -> Result<u32, Failure> {
    let cap = text.parse().ok().filter(|cap| (1..=10_000).contains(cap));
    cap.ok_or_else(|| {
        Failure::usage(format!(
            "--max-concurrency-num {text}: must be a whole number from 1 to 10000"
        ))
    })
}

fn list() -> Result<u8, Failure> {
    let mut text = String::from("scenarios\n");
    for scenario in built_in() {
        text += &format!("  {:12} {}\n", scenario.name, scenario.about);
    }
    text += "laws\n";
    for law in Law::all() {
        text += &format!("  {law:15} {}\n", law.about());
    }
    printed(io::stdout().lock().write_all(text.as_bytes()))
}
