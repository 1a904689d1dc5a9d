//! The `crawler-node` binary: parse, run, map to an exit code.

use std::process::ExitCode;

use clap::Parser;
use crawler_node::cli::{Cli, run};

/// A page brings some hundred small allocations on one thread that are freed on another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    run(Cli::parse())
}
