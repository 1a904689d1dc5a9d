//! Serves the bench site until its standard input ends, so that a bench can run it on another core.
//!
//! ```text
//! cargo run --release --example sim_server -- [PAGES] [PAGE_BYTES] [LINKS]
//! ```
//!
//! Prints the base URL as its first line, and what it counted when it ends.

use std::io::{self, Read, Write};

use crawler_node::sim::{BenchSite, Server, SimConfig, SiteSpec};

fn main() -> io::Result<()> {
    let mut numbers = std::env::args().skip(1).map(|text| {
        text.parse::<u32>().map_err(|_| {
            let problem = format!("{text:?} is no number; wanted: [PAGES] [PAGE_BYTES] [LINKS]");
            io::Error::new(io::ErrorKind::InvalidInput, problem)
        })
    });
    let pages = numbers.next().unwrap_or(Ok(20_000))?;
    let bytes = numbers.next().unwrap_or(Ok(8 * 1024))?;
    let links = numbers.next().unwrap_or(Ok(10))?;

    let site = BenchSite::new(pages, bytes as usize, links);
    let server = Server::start(SimConfig::one(SiteSpec::new("bench", site)))?;
    let mut out = io::stdout();
    writeln!(out, "http://{}/", server.addr())?;
    out.flush()?;

    io::stdin().read_to_end(&mut Vec::new())?;
    let counts = server.stop();
    writeln!(
        out,
        "requests {} duplicates {} peak_in_flight {} connections {}",
        counts.requests(),
        counts.duplicates(),
        counts.peak_in_flight,
        counts.connections
    )
}
