//! `--max-items` and `--max-comments` are exact, and raising one goes on with what had ended at it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crawler_node::sim::{ApiSite, Server, SimConfig, SiteSpec};
use serde_json::Value;

use crate::support::{binary, records, run};

const KEYWORDS: [&str; 2] = ["rust", "actors"];

/// No item is found by two keywords, and every item has more comments than a page.
fn api() -> ApiSite {
    ApiSite {
        shared_items: 0,
        min_comments: 9,
        max_comments: 12,
        ..ApiSite::new(7)
    }
}

fn server() -> Server {
    Server::start(SimConfig {
        sites: vec![SiteSpec::new("demo-api", api())],
        log_limit: 0,
    })
    .expect("the built-in site")
}

/// Run a search with these options over the job in `dir`.
fn search(dir: &Path, server: &Server, caps: &[&str]) {
    let base = server.base_url("demo-api").expect("the API site");
    let sites = dir.join("sites");
    std::fs::create_dir_all(&sites).expect("a directory");
    std::fs::write(sites.join("demo-api.toml"), ApiSite::definition(&base)).expect("written");
    let ran = run(binary(dir)
        .arg("crawl")
        .args(["--sites", "sites", "--site", "demo-api"])
        .args(["--mode", "search", "--keywords", &KEYWORDS.join(",")])
        .args(["--out", "job", "--max_concurrency_num", "4"])
        .args(caps));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

/// The keys of what is in the outputs, by kind; nothing is there twice.
fn keys(dir: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for record in records(&dir.join("job")) {
        let text = |name: &str| record[name].as_str().expect("text").to_owned();
        let new = keys.entry(text("_kind")).or_default().insert(text("_key"));
        assert!(new, "twice: {record}");
    }
    keys
}

/// How many comments each item has in the outputs.
fn comments(dir: &Path) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let all = records(&dir.join("job"));
    for record in all.iter().filter(|record| record["_kind"] == "comment") {
        let Value::String(item) = &record["item_id"] else {
            panic!("a comment without its item: {record}");
        };
        *counts.entry(item.clone()).or_default() += 1;
    }
    counts
}

fn first(most: usize) -> BTreeSet<String> {
    let found = |keyword: &&str| api().found(keyword).into_iter().take(most);
    let ids = KEYWORDS.iter().flat_map(found);
    ids.map(|id| id.to_string()).collect()
}

#[test]
fn a_raised_cap_on_items_goes_on_where_the_lower_one_ended() {
    let (dir, server) = (tempfile::tempdir().expect("a directory"), server());
    for (most, expected) in [("5", 5), ("12", 12), ("12", 12), ("8", 12), ("16", 16)] {
        search(
            dir.path(),
            &server,
            &["--max-items", most, "--max-comments", "2"],
        );
        assert_eq!(keys(dir.path())["content"], first(expected), "cap {most}");
        assert_eq!(keys(dir.path())["comment"].len(), 2 * 2 * expected);
    }
    search(dir.path(), &server, &["--max-comments", "2"]);
    assert_eq!(keys(dir.path())["content"], first(usize::MAX), "lifted");
}

#[test]
fn a_raised_cap_on_comments_is_exact_for_every_item() {
    let (dir, server) = (tempfile::tempdir().expect("a directory"), server());
    for most in [3, 8, 9] {
        let cap = most.to_string();
        search(
            dir.path(),
            &server,
            &["--max-items", "3", "--max-comments", &cap],
        );
        keys(dir.path());
        let comments = comments(dir.path());
        assert_eq!(comments.len(), 6);
        assert!(comments.values().all(|n| *n == most), "{comments:?}");
    }
}
