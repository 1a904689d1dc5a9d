//! What only a person can see to ends a run at once, and nothing is lost.

use std::fs;
use std::path::Path;

use crawler_node::sim::{
    EndpointKnobs, Fault, FaultKind, Knobs, MediaSite, Pick, Server, SimConfig, SiteSpec,
};
use serde_json::Value;

use crate::raw::{RawServer, answer, missing, page};
use crate::support::{Ran, binary, run};

const FILES: u32 = 20;

/// The report of the only site.
fn report(dir: &Path) -> Value {
    let text = fs::read_to_string(dir.join("report.json")).expect("a report");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let sites = report["sites"].as_object().expect("sites");
    sites.values().next().expect("a site").clone()
}

fn crawl(dir: &Path, cap: &str, more: &[&str]) -> Ran {
    let mut command = binary(dir);
    command
        .args(["crawl", "--out", "data", "--report", "report.json"])
        .args(["--max_concurrency_num", cap])
        .args(["--set", "limits.mode=fixed"])
        .args(more);
    run(&mut command)
}

#[test]
fn a_captcha_ends_the_run_at_once_with_what_to_do_and_the_next_run_goes_on() {
    for cap in ["1", "4"] {
        // The third answer wants a person.
        let captcha = Fault {
            kind: FaultKind::Replace {
                content_type: "text/html".to_owned(),
                body: "<p>prove that you are human".to_owned(),
            },
            pick: Pick::Arrivals(3..4),
        };
        let mut knobs = Knobs::default();
        let file = EndpointKnobs {
            faults: Some(vec![captcha]),
            ..EndpointKnobs::default()
        };
        knobs.endpoints.insert("file".to_owned(), file);
        let site = MediaSite::new(5, FILES);
        let spec = SiteSpec::new("media", site.clone()).knobs(knobs);
        let server = Server::start(SimConfig::one(spec)).expect("a server");
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("sites")).expect("a directory");
        let text = MediaSite::definition(&server.base_url("media").expect("a site"));
        fs::write(dir.path().join("sites/media.toml"), text).expect("a definition");
        let of_site = ["--sites", "sites", "--site", "demo-media"];
        let args = [&of_site[..], &["--mode", "search", "--keywords", "cats"]].concat();

        let ran = crawl(dir.path(), cap, &args);
        assert_eq!(ran.code, Some(4), "{}", ran.stderr);
        let stopped = report(dir.path());
        let why = stopped["reason"].as_str().expect("a reason");
        assert!(why.contains("/media/file/"), "{why}");
        assert!(why.contains("asks for a captcha"), "{why}");
        assert!(why.contains("sessions import --site demo-media"), "{why}");
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
        let tasks = |report: &Value, state: &str| report["tasks"][state].as_u64().unwrap_or(0);
        assert_eq!(tasks(&stopped, "parked"), 1);
        assert_eq!(tasks(&stopped, "leased"), 0);
        assert_eq!(tasks(&stopped, "failed"), 0);
        if cap == "1" {
            // With more at once, others come back before the third does.
            assert_eq!(stopped["endpoints"]["file"]["requests"], 3, "{stopped}");
            assert!(tasks(&stopped, "pending") >= 7, "{stopped}");
        }
        assert_eq!(
            tasks(&stopped, "added"),
            ["pending", "done", "parked"]
                .map(|state| tasks(&stopped, state))
                .iter()
                .sum::<u64>()
        );

        let ran = crawl(dir.path(), cap, &args);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let done = report(dir.path());
        assert_eq!(tasks(&done, "done"), u64::from(FILES) + 1);
        let saved = fs::read_dir(dir.path().join("data/media/demo-media/file"));
        assert_eq!(saved.expect("files").count(), site.expected().len());
    }
}

#[test]
fn a_page_behind_a_login_stops_no_crawl() {
    let server = RawServer::start("127.0.0.1:0", |asked| match asked.target {
        "/" => page("<a href=/private>p</a><a href=/a>a</a><a href=/b>b</a>"),
        "/private" => answer(401, b"WWW-Authenticate: Basic\r\n", ""),
        "/a" | "/b" => page(""),
        _ => missing(),
    });
    let dir = tempfile::tempdir().expect("a directory");
    let start = format!("{}/", server.base);
    let ran = crawl(dir.path(), "1", &["--urls", &start]);
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    let tasks = report(dir.path())["tasks"].clone();
    assert_eq!(tasks["done"], 3, "{tasks}");
    assert_eq!(tasks["parked"], 1, "{tasks}");
    assert_eq!(tasks["pending"], 0, "{tasks}");
}
