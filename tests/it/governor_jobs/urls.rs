//! Lists of URLs: hosts that refuse, one of them beside another that does not.

use std::collections::BTreeSet;
use std::time::Duration;

use crawler_node::sim::{BenchSite, Knobs, LogEntry, Server, SimConfig, SiteSpec};

use super::process::finish;
use super::table::Row;
use crate::support::{binary, records};

const DEADLINE: Duration = Duration::from_secs(300);

/// A host with so many pages.
pub(super) struct Host {
    pub(super) name: &'static str,
    pub(super) pages: u32,
    pub(super) knobs: Knobs,
}

/// Fetches all pages of the hosts, nothing told; gives the row of the first host, and the log without robots.txt.
pub(super) fn run(hosts: &[Host], ceiling: u32, ideal: Duration) -> (Row, Vec<LogEntry>) {
    let specs = hosts.iter().map(|host| {
        SiteSpec::new(host.name, BenchSite::new(host.pages, 500, 1)).knobs(host.knobs.clone())
    });
    let server = Server::start(SimConfig {
        sites: specs.collect(),
        log_limit: 20_000,
    })
    .expect("the built-in sites");
    let dir = tempfile::tempdir().expect("a directory");
    let mut wanted = BTreeSet::new();
    for host in hosts {
        let base = server.base_url(host.name).expect("the host");
        wanted.extend((0..host.pages).map(|page| match page {
            0 => format!("{base}/"),
            page => format!("{base}/p/{page}"),
        }));
    }
    let mut command = binary(dir.path());
    command
        .args(["crawl", "--out", "out", "--max-depth", "0"])
        .args(["--max-concurrency-num", &ceiling.to_string()])
        .arg("--urls")
        .args(&wanted);
    let ended = finish(&mut command, dir.path(), DEADLINE);

    let mut log = server.log();
    log.retain(|entry| entry.class != "robots");
    let counts = server
        .stop()
        .sites
        .remove(hosts[0].name)
        .unwrap_or_default();
    for record in records(&dir.path().join("out")) {
        wanted.remove(record["requested_url"].as_str().expect("text"));
    }
    let row = Row {
        name: hosts[0].name,
        requests: counts.requests,
        refused: counts.refused,
        bans: counts.bans,
        peak: counts.peak_in_flight,
        took: ended.took,
        ideal,
        t90: None,
        lost: wanted.len(),
        code: ended.code,
        stderr: ended.stderr,
    };
    (row, log)
}
