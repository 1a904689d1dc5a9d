//! The HTTP cache between runs: what has not changed costs a 304, and the records are the same.

use std::path::Path;

use crawler_node::settings::CacheMode;
use crawler_node::{Report, RunOutcome, Settings};

use super::server::{Heard, Raw, Say, page, say};
use super::{crawl, fast, pages};

fn kept(dir: &Path, cap: u32) -> Settings {
    let mut settings = fast(dir, cap);
    settings.cache.mode = CacheMode::Revalidate;
    settings
}

fn outcomes(report: &Report) -> Vec<(&str, u64)> {
    let outcomes = &report.sites["web"].endpoints["page"].outcomes;
    outcomes
        .iter()
        .map(|(name, count)| (name.as_str(), *count))
        .collect()
}

/// Pages with tags, dates or both, that are the same each time.
fn unchanging(heard: &Heard) -> Say {
    const DATE: &str = "Tue, 15 Nov 1994 08:12:31 GMT";
    let tag = format!("\"{}\"", heard.path);
    let (fields, links): (Vec<(&str, &str)>, &[&str]) = match heard.path.as_str() {
        "/robots.txt" => return say(404, &[], ""),
        "/" => (vec![("ETag", &tag)], &["/a", "/b", "/c", "/?q=1"]),
        "/a" => (vec![("Last-Modified", DATE)], &["/d"]),
        "/b" => (vec![("ETag", &tag), ("Last-Modified", DATE)], &[]),
        _ => (
            vec![("ETag", &tag), ("Vary", "Accept-Encoding, User-Agent")],
            &[],
        ),
    };
    let known = heard.field("if-none-match") == Some(&tag)
        || (!tag.is_empty()
            && heard.field("if-none-match").is_none()
            && heard.field("if-modified-since") == Some(DATE));
    match known {
        true => say(304, &fields, ""),
        false => page(&fields, links),
    }
}

#[actix_rt::test]
async fn a_recrawl_of_unchanged_pages_costs_304s_and_gives_the_same_records() {
    let server = Raw::start(unchanging);
    let dir = tempfile::tempdir().unwrap();
    let start = server.url("/");
    let first = crawl(kept(dir.path(), 3), dir.path(), "first", &[&start]).await;
    assert_eq!(outcomes(&first), [("ok", 6)]);
    assert!(
        server
            .log()
            .iter()
            .all(|heard| heard.field("if-none-match").is_none())
    );
    let second = crawl(kept(dir.path(), 3), dir.path(), "second", &[&start]).await;
    assert_eq!(second.outcome, RunOutcome::Complete);
    assert_eq!(outcomes(&second), [("not_modified", 6)]);
    assert_eq!(pages(dir.path(), "first"), pages(dir.path(), "second"));
    assert_eq!(pages(dir.path(), "second").len(), 6);
    // A third time: what a 304 left of an entry is as good as before.
    let third = crawl(kept(dir.path(), 3), dir.path(), "third", &[&start]).await;
    assert_eq!(outcomes(&third), [("not_modified", 6)]);
    assert_eq!(pages(dir.path(), "first"), pages(dir.path(), "third"));
}

#[actix_rt::test]
async fn nothing_is_kept_unless_it_is_asked_for() {
    let server = Raw::start(unchanging);
    let dir = tempfile::tempdir().unwrap();
    for out in ["first", "second"] {
        let report = crawl(fast(dir.path(), 3), dir.path(), out, &[&server.url("/")]).await;
        assert_eq!(outcomes(&report), [("ok", 6)]);
    }
}

#[actix_rt::test]
async fn a_page_that_has_changed_is_read_anew() {
    let server = Raw::start(|heard| {
        let version = if heard.nth < 1 { "\"1\"" } else { "\"2\"" };
        match heard.path.as_str() {
            "/robots.txt" => say(404, &[], ""),
            _ if heard.field("if-none-match") == Some(version) => say(304, &[], ""),
            "/" => page(
                &[("ETag", version)],
                &[["/old"], ["/new"]][heard.nth.min(1)],
            ),
            _ => page(&[], &[]),
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let start = server.url("/");
    for (out, paths) in [
        ("0", ["/", "/old"]),
        ("1", ["/", "/new"]),
        ("2", ["/", "/new"]),
    ] {
        let before = server.log().len();
        let report = crawl(kept(dir.path(), 1), dir.path(), out, &[&start]).await;
        assert_eq!(report.outcome, RunOutcome::Complete);
        let asked: Vec<_> = server.log().split_off(before);
        let pages = asked.iter().map(|heard| heard.path.as_str());
        assert_eq!(
            pages
                .filter(|path| *path != "/robots.txt")
                .collect::<Vec<_>>(),
            paths,
            "{out}"
        );
    }
}

#[actix_rt::test]
async fn what_must_not_be_kept_is_asked_plainly() {
    for fields in [
        &[("ETag", "\"1\""), ("Cache-Control", "no-store")][..],
        &[("ETag", "\"1\""), ("Vary", "*")],
        &[],
    ] {
        let server = Raw::start(move |heard| match heard.path.as_str() {
            "/robots.txt" => say(404, &[], ""),
            _ => page(fields, &[]),
        });
        let dir = tempfile::tempdir().unwrap();
        for out in ["first", "second"] {
            crawl(kept(dir.path(), 1), dir.path(), out, &[&server.url("/")]).await;
        }
        let conditional = |heard: &Heard| heard.field("if-none-match").is_some();
        assert!(!server.log().iter().any(conditional), "{fields:?}");
    }
}

#[actix_rt::test]
async fn another_user_agent_does_not_use_an_answer_that_depends_on_it() {
    let server = Raw::start(|heard| match heard.path.as_str() {
        "/robots.txt" => say(404, &[], ""),
        _ if heard.field("if-none-match").is_some() => say(304, &[], ""),
        _ => page(&[("ETag", "\"1\""), ("Vary", "User-Agent")], &[]),
    });
    let dir = tempfile::tempdir().unwrap();
    let mut of = Vec::new();
    for (out, agent) in [
        ("0", "one/1"),
        ("1", "one/1"),
        ("2", "two/1"),
        ("3", "one/1"),
    ] {
        let mut settings = kept(dir.path(), 1);
        settings.user_agent = agent.to_owned();
        let report = crawl(settings, dir.path(), out, &[&server.url("/")]).await;
        of.push(outcomes(&report)[0].0.to_owned());
    }
    assert_eq!(of, ["ok", "not_modified", "ok", "ok"]);
}

#[actix_rt::test]
async fn a_304_that_nobody_asked_for_or_that_speaks_of_another_page_is_asked_again_plainly() {
    let server = Raw::start(|heard| match (heard.path.as_str(), heard.nth) {
        ("/robots.txt", _) => say(404, &[], ""),
        ("/unasked", 0) => say(304, &[], ""),
        ("/other", 1) => say(304, &[("ETag", "\"2\"")], ""),
        ("/other", n) => page(&[("ETag", if n == 0 { "\"1\"" } else { "\"2\"" })], &[]),
        _ => page(&[], &[]),
    });
    let dir = tempfile::tempdir().unwrap();
    let report = crawl(
        kept(dir.path(), 1),
        dir.path(),
        "0",
        &[&server.url("/unasked")],
    )
    .await;
    assert_eq!(report.outcome, RunOutcome::Complete, "{report:?}");
    assert_eq!(server.paths(), ["/unasked", "/unasked"]);
    assert_eq!(pages(dir.path(), "0").len(), 1);
    for out in ["1", "2"] {
        let report = crawl(
            kept(dir.path(), 1),
            dir.path(),
            out,
            &[&server.url("/other")],
        )
        .await;
        assert_eq!(report.outcome, RunOutcome::Complete, "{report:?}");
        assert_eq!(pages(dir.path(), out).len(), 1);
    }
    let log = server.log();
    let asked: Vec<_> = log.iter().filter(|heard| heard.path == "/other").collect();
    let tags: Vec<_> = asked
        .iter()
        .map(|heard| heard.field("if-none-match"))
        .collect();
    assert_eq!(tags, [None, Some("\"1\""), None]);
}

#[actix_rt::test]
async fn a_server_that_says_nothing_but_304_loses_no_page_in_silence() {
    let server = Raw::start(|heard| match heard.path.as_str() {
        "/robots.txt" => say(404, &[], ""),
        _ => say(304, &[], ""),
    });
    let dir = tempfile::tempdir().unwrap();
    let report = crawl(kept(dir.path(), 1), dir.path(), "data", &[&server.url("/")]).await;
    assert_eq!(report.outcome, RunOutcome::Partial, "{report:?}");
}

#[actix_rt::test]
async fn damaged_entries_are_asked_plainly() {
    let server = Raw::start(unchanging);
    let dir = tempfile::tempdir().unwrap();
    let start = server.url("/");
    crawl(kept(dir.path(), 3), dir.path(), "first", &[&start]).await;
    let file = dir.path().join("state/cache.db");
    let raw = rusqlite::Connection::open(&file).unwrap();
    raw.execute(
        "UPDATE entry SET body = x'00' WHERE rowid % 2 = 0 AND kind = 'answer'",
        [],
    )
    .unwrap();
    raw.execute(
        "UPDATE entry SET description = '{}' WHERE rowid % 2 = 1 AND kind = 'answer'",
        [],
    )
    .unwrap();
    drop(raw);
    let second = crawl(kept(dir.path(), 3), dir.path(), "second", &[&start]).await;
    assert_eq!(outcomes(&second), [("ok", 6)]);
    assert_eq!(pages(dir.path(), "first"), pages(dir.path(), "second"));
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(dir.path().join(format!("state/cache.db{end}")));
    }
    std::fs::write(&file, "no database at all. ".repeat(1000)).unwrap();
    let third = crawl(kept(dir.path(), 3), dir.path(), "third", &[&start]).await;
    assert_eq!(outcomes(&third), [("ok", 6)]);
    assert_eq!(pages(dir.path(), "first"), pages(dir.path(), "third"));
}
