//! What pages and answers ask of robots, in mode `crawl`.

use crawler_node::RunOutcome;
use crawler_node::model::RobotsPolicy;
use crawler_node::{Engine, Job};

use super::server::{Raw, page, say};
use super::{fast, pages};
use crate::support::DEADLINE;

fn server() -> Raw {
    Raw::start(|heard| match heard.path.as_str() {
        "/robots.txt" => say(404, &[], ""),
        "/" => page(&[], &["/tagged", "/meta", "/for-me", "/for-others", "/rel"]),
        "/tagged" => page(&[("X-Robots-Tag", "NOFOLLOW, noindex")], &["/from-tagged"]),
        "/for-me" => page(&[("X-Robots-Tag", "crawler-node: none")], &["/from-mine"]),
        "/for-others" => page(
            &[("X-Robots-Tag", "googlebot: nofollow")],
            &["/from-others"],
        ),
        "/meta" => say(
            200,
            &[("Content-Type", "text/html")],
            "<META NAME=Crawler-Node CONTENT=NoFollow><a href=/from-meta>to</a>",
        ),
        "/rel" => say(
            200,
            &[("Content-Type", "text/html")],
            "<a rel=nofollow href=/from-nofollow>1</a> <a rel='ugc sponsored' href=/from-ugc>2</a>",
        ),
        _ => page(&[], &[]),
    })
}

async fn crawled(policy: RobotsPolicy) -> (Vec<String>, Vec<(String, serde_json::Value)>) {
    let server = server();
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::builder(fast(dir.path(), 2)).start().unwrap();
    let mut job = Job::crawl([server.url("/")]).out(dir.path().join("data"));
    job.crawl.robots = policy;
    let job = engine.submit(job).await.unwrap();
    let report = tokio::time::timeout(DEADLINE, job.wait())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(report.outcome, RunOutcome::Complete);
    engine.drain().await;
    let mut found = server.paths();
    found.retain(|path| path.starts_with("/from"));
    found.sort();
    let asked = pages(dir.path(), "data")
        .into_iter()
        .filter(|page| !page["robots"].is_null());
    let told = asked.map(|page| {
        let url = page["url"].as_str().unwrap().to_owned();
        (url[server.base.len()..].to_owned(), page["robots"].clone())
    });
    (found, told.collect())
}

#[actix_rt::test]
async fn nofollow_is_respected_in_headers_and_pages_and_every_page_is_kept_with_what_it_asks() {
    let (found, told) = crawled(RobotsPolicy::Obey).await;
    assert_eq!(found, ["/from-others", "/from-ugc"]);
    let told: Vec<_> = told
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str().unwrap()))
        .collect();
    assert_eq!(
        told,
        [
            ("/for-me", "none"),
            ("/meta", "nofollow"),
            ("/tagged", "nofollow, noindex")
        ]
    );
}

#[actix_rt::test]
async fn where_robots_are_off_pages_are_not_obeyed_either() {
    let (found, told) = crawled(RobotsPolicy::Off).await;
    assert_eq!(
        found,
        [
            "/from-meta",
            "/from-mine",
            "/from-others",
            "/from-tagged",
            "/from-ugc"
        ]
    );
    assert_eq!(told.len(), 3);
}
