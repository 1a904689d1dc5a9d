//! What spares servers: robots.txt and questions instead of requests, against a server that writes raw bytes.

mod cache;
mod directives;
mod robots;
mod server;

use std::path::Path;
use std::sync::Arc;

use crawler_node::{Engine, Job, Report, Settings};
use serde_json::Value;

use crate::support::{DEADLINE, records, settings};

/// Settings under which nothing but what the servers say slows a crawl down.
fn fast(dir: &Path, cap: u32) -> Settings {
    settings(dir, cap)
}

/// Crawls `urls` into the directory `out` below `dir`.
async fn crawl(settings: Settings, dir: &Path, out: &str, urls: &[&str]) -> Arc<Report> {
    let engine = Engine::builder(settings).start().expect("an engine");
    let job = Job::crawl(urls.iter().copied()).out(dir.join(out));
    let job = engine.submit(job).await.expect("submitted");
    let report = tokio::time::timeout(DEADLINE, job.wait())
        .await
        .expect("in time")
        .expect("a report");
    engine.drain().await;
    report
}

/// The records of a job without what tells runs apart, sorted by URL.
fn pages(dir: &Path, out: &str) -> Vec<Value> {
    let mut pages = records(&dir.join(out));
    for page in &mut pages {
        let fields = page.as_object_mut().expect("an object");
        fields.remove("_run");
        fields.remove("_at");
    }
    pages.sort_by_key(|page| page["url"].to_string());
    pages
}
