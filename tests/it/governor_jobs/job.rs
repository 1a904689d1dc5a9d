//! The job: 2 keywords × 8 pages × 20 items × (the item and 2 pages of comments).

use std::collections::BTreeSet;
use std::time::Duration;

use crawler_node::sim::{ApiSite, Server, SimConfig, SiteSpec};

use super::limits::Hidden;
use super::process::finish;
use super::table::{Row, t90};
use crate::support::{binary, records};

/// Search pages of the job.
pub(super) const SEARCHES: u32 = 2 * 8;
/// Requests of the job, each once.
pub(super) const REQUESTS: u32 = SEARCHES + SEARCHES * 20 * 3;

const KEYWORDS: [&str; 2] = ["rust", "actors"];
const CEILING: u32 = 32;
const DEADLINE: Duration = Duration::from_secs(300);

/// What the crawler is told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// Nothing; it may learn.
    Nothing,
    /// Nothing, and it may not learn: what back-off alone comes to.
    NothingAndFixed,
    /// The limit.
    Limit,
}

fn site() -> ApiSite {
    ApiSite {
        items: 160,
        shared_items: 0,
        page_size: 20,
        min_comments: 21,
        max_comments: 40,
        topic_posts: 0,
        ..ApiSite::new(9)
    }
}

/// Runs the job against one hidden limit.
pub(super) fn run(hidden: &Hidden, told: Told) -> Row {
    let spec = SiteSpec::new("job", site()).knobs(hidden.knobs.clone());
    let server = Server::start(SimConfig {
        sites: vec![spec],
        log_limit: 20_000,
    })
    .expect("the built-in site");
    let base = server.base_url("job").expect("the site");
    let dir = tempfile::tempdir().expect("a directory");
    let sites = dir.path().join("sites");
    std::fs::create_dir(&sites).expect("a directory");
    let definition = include_str!("site.toml").replace("{base_url}", &base);
    std::fs::write(sites.join("job.toml"), definition).expect("a definition");

    let mut command = binary(dir.path());
    command
        .args([
            "crawl", "--sites", "sites", "--site", "job", "--mode", "search",
        ])
        .args(["--keywords", &KEYWORDS.join(","), "--out", "out"])
        .args(["--max-concurrency-num", &CEILING.to_string()]);
    let (mode, settings) = match told {
        Told::Nothing => ("adaptive", &[][..]),
        Told::NothingAndFixed => ("fixed", &[][..]),
        Told::Limit => ("fixed", hidden.told),
    };
    command.args(["--set", &format!("limits.mode={mode}")]);
    for setting in settings {
        command.args(["--set", setting]);
    }
    let ended = finish(&mut command, dir.path(), DEADLINE);

    let log = server.log();
    let counts = server.stop().sites.remove("job").unwrap_or_default();
    let found: BTreeSet<(String, String)> = records(&dir.path().join("out"))
        .iter()
        .map(|record| {
            let text = |field: &str| record[field].as_str().expect("text").to_owned();
            (text("_kind"), text("_key"))
        })
        .collect();
    let lost = site().expected(&KEYWORDS).difference(&found).count();
    Row {
        name: hidden.name,
        requests: counts.requests,
        refused: counts.refused,
        bans: counts.bans,
        peak: counts.peak_in_flight,
        took: ended.took,
        ideal: hidden.ideal,
        t90: hidden.rate.and_then(|rate| t90(&log, rate)),
        lost,
        code: ended.code,
        stderr: ended.stderr,
    }
}
