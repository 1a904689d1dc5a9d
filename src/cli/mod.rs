//! The command line: one file per command. It translates between people and the engine, and decides nothing.

mod args;
mod calibrate;
mod config;
mod crawl;
mod demo;
mod descriptors;
mod failure;
mod inputs;
mod load;
mod plan;
mod report;
mod sessions;
mod signals;
mod simulate;
mod sites;
mod table;
mod view;

use std::io::Write;
use std::process::ExitCode;

pub use args::Cli;
pub use descriptors::{TooFew, allow_open_files};

use args::Command;
use failure::Failure;

/// Run a parsed command line. Never returns an unhandled error: what went wrong is on stderr, and the
/// exit code says of which kind it was.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    let result = match cli.command {
        Command::Demo(args) => demo::run(&cli.common, &args),
        Command::Crawl(args) => crawl::run(&cli.common, &args),
        Command::Calibrate(args) => calibrate::run(&cli.common, &args),
        Command::Config(args) => load::settings(&cli.common, &[]).and_then(|loaded| {
            let mut out = std::io::stdout().lock();
            failure::printed(if args.json {
                config::show_json(&loaded, &mut out)
            } else {
                config::show(&loaded, &mut out)
            })
        }),
        Command::Sites(args) => sites::run(&cli.common, &args),
        Command::Sessions(args) => sessions::run(&cli.common, &args),
        Command::Report(args) => report::run(&cli.common, &args),
        Command::Plan(args) => plan::explain(args.rps, args.latency)
            .map_err(|error| Failure::usage(error.to_string()))
            .and_then(|text| failure::printed(writeln!(std::io::stdout().lock(), "{text}"))),
        Command::Simulate(args) => simulate::run(&cli.common, &args),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.tell(),
    }
}
