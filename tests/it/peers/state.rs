//! What is kept across lives of the process: used quota. What comes from the configuration: everything else.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crawler_node::sim::{ApiSite, Server, SimConfig, SiteSpec};

use super::site::{log, most_within};
use crate::support::{DEADLINE, binary, run};

struct Api {
    server: Server,
    ids: String,
    dir: tempfile::TempDir,
}

impl Api {
    fn start() -> Self {
        let site = ApiSite::new(2);
        let server = Server::start(SimConfig {
            sites: vec![SiteSpec::new("api", site.clone())],
            log_limit: 1000,
        })
        .expect("the built-in site");
        let base = server.base_url("api").expect("the site");
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("sites")).expect("a directory");
        let definition = ApiSite::definition(&base);
        std::fs::write(dir.path().join("sites/api.toml"), definition).expect("a file");
        let ids: Vec<String> = ["rust", "actors"]
            .iter()
            .flat_map(|word| site.found(word))
            .map(|id| site.item_url(&base, id))
            .collect();
        Self {
            server,
            ids: ids.join(","),
            dir,
        }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn command(&self, quota: &str) -> Command {
        self.limited("QUOTA", quota)
    }

    /// Under one limit and no other.
    fn limited(&self, key: &str, limit: &str) -> Command {
        let mut command = binary(self.path());
        command
            .args([
                "crawl", "--sites", "sites", "--site", "demo-api", "--mode", "detail",
            ])
            .args(["--ids", &self.ids, "--max_concurrency_num", "1"])
            .args(["--set", "limits.mode=fixed"])
            .env("CRAWLER__MAX_WAIT", "1s")
            .env(format!("CRAWLER__SITES__DEMO_API__{key}"), limit)
            .stderr(Stdio::null());
        command
    }

    /// Run until the server has seen so many requests, then kill.
    fn killed_at(&self, quota: &str, requests: u64) {
        self.kill_at(&mut self.command(quota), requests);
    }

    fn kill_at(&self, command: &mut Command, requests: u64) {
        let mut child = command.spawn().expect("the binary starts");
        assert!(
            self.server
                .wait_for(DEADLINE, |counts| counts.requests() >= requests)
        );
        child.kill().expect("killed");
        child.wait().expect("ended");
    }
}

#[test]
fn l08_a_quota_holds_across_kills() {
    let api = Api::start();
    for requests in [3, 5, 7] {
        api.killed_at("10/min", requests);
    }
    let last = run(&mut api.command("10/min"));
    assert_eq!(last.code, Some(4));
    let log = log(&api.server, "api");
    let most = most_within(&log, Duration::from_secs(60));
    // A use is stored before its request leaves: each kill may cost one that was never sent.
    assert!((7..=10).contains(&most), "{most} requests within a minute");
}

#[test]
fn l09_limits_come_from_the_configuration_and_only_what_was_used_from_the_state() {
    let api = Api::start();
    let first = run(&mut api.command("6/min"));
    assert_eq!((first.code, log(&api.server, "api").len()), (Some(4), 6));
    // Raised: what was used counts against the new quota.
    let second = run(&mut api.command("14/min"));
    assert_eq!((second.code, log(&api.server, "api").len()), (Some(4), 14));
    // Lowered: more is used than it allows.
    let third = run(&mut api.command("10/min"));
    assert_eq!((third.code, log(&api.server, "api").len()), (Some(4), 14));
}

/// A quota is all but used, then the process is killed and started anew, three times within the minute.
#[test]
fn l08_three_restarts_within_the_minute_send_nothing_beyond_the_quota() {
    let api = Api::start();
    api.killed_at("10/min", 9);
    for _ in 0..3 {
        let again = run(&mut api.command("10/min"));
        assert_eq!(again.code, Some(4), "{}", again.stderr);
    }
    let log = log(&api.server, "api");
    let times: Vec<_> = log.iter().map(|entry| entry.at).collect();
    // The kill may cost a use that was stored and never sent.
    assert!((9..=10).contains(&log.len()), "{times:?}");
}

/// A rate is that of the configuration, whatever rate the state was written under; only when the last request
/// left is from the state.
#[test]
fn l09_a_rate_comes_from_the_configuration_and_the_last_request_from_the_state() {
    let api = Api::start();
    // 20/s, then 10/s.
    api.kill_at(&mut api.limited("RATE", "20/s"), 6);
    let before = log(&api.server, "api").len();
    let mut second = api.limited("RATE", "10/s");
    let second = run(second.env("CRAWLER__SITES__DEMO_API__QUOTA", "14/min"));
    assert_eq!(second.code, Some(4), "{}", second.stderr);
    let all = log(&api.server, "api");
    let later = &all[before..];
    assert_eq!(later.len(), 14);
    let most = most_within(later, Duration::from_millis(950));
    assert!(most <= 10, "{most} requests within 0.95 s at 10/s");

    // A slow rate is kept in the state: the next process waits out the interval that it is told, not the old one.
    let api = Api::start();
    api.kill_at(&mut api.limited("RATE", "60/min"), 2);
    let before = log(&api.server, "api").len();
    api.kill_at(&mut api.limited("RATE", "30/min"), before as u64 + 2);
    let all = log(&api.server, "api");
    let gaps = all.windows(2).map(|pair| pair[1].at - pair[0].at);
    let gaps: Vec<_> = gaps.skip(before - 1).collect();
    let slack = Duration::from_millis(50);
    assert!(
        gaps.iter()
            .all(|gap| *gap + slack >= Duration::from_secs(2)),
        "{gaps:?}"
    );
}
