//! What dies is started again; the permits and leases it held go back, and the other sites do not notice.

use std::collections::BTreeSet;
use std::time::Duration;

use crawler_node::governor::Crash;
use crawler_node::sim::{HtmlSite, Knobs, Latency, Server, SimConfig, SiteSpec};
use crawler_node::{Engine, Job};

use crate::support::{DEADLINE, records, settings};

const CAP: u32 = 4;

fn server() -> Server {
    let knobs = Knobs {
        latency: Latency::Fixed(Duration::from_millis(10)),
        ..Knobs::default()
    };
    Server::start(SimConfig {
        sites: vec![
            SiteSpec::new("one", HtmlSite::new(1, 60)).knobs(knobs.clone()),
            SiteSpec::new("two", HtmlSite::new(2, 60)).knobs(knobs),
        ],
        log_limit: 0,
    })
    .expect("the built-in sites")
}

/// Two jobs run; `crash` is called each time the server has seen another 40 requests. Both must end whole.
async fn with_crashes(times: u64, crash: impl Fn(&Engine)) {
    let server = server();
    let dir = tempfile::tempdir().expect("a directory");
    let engine = Engine::builder(settings(dir.path(), CAP))
        .start()
        .expect("an engine");
    let mut jobs = Vec::new();
    for name in ["one", "two"] {
        let url = format!("{}/", server.base_url(name).expect("a site"));
        let job = Job::crawl([url]).out(dir.path().join(name));
        jobs.push(engine.submit(job).await.expect("submitted"));
    }
    for nth in 1..=times {
        let server = &server;
        // Waiting blocks this thread only: the engine has its own.
        assert!(server.wait_for(DEADLINE, |counts| counts.requests() >= nth * 30));
        crash(&engine);
    }
    for (job, (name, site)) in jobs
        .iter()
        .zip([("one", HtmlSite::new(1, 60)), ("two", HtmlSite::new(2, 60))])
    {
        let report = job.wait().await.expect("ended");
        assert_eq!(report.exit_code, 0, "{report:?}");
        let stored: Vec<String> = records(&dir.path().join(name))
            .iter()
            .map(|record| path_of(record["url"].as_str().expect("a URL")))
            .collect();
        let distinct: BTreeSet<String> = stored.iter().cloned().collect();
        assert_eq!(distinct.len(), stored.len(), "a record was written twice");
        assert_eq!(distinct, site.expected());
    }
    let snapshot = engine.governor().snapshot().await.expect("a governor");
    assert_eq!(snapshot.in_flight, 0, "a permit was lost");
    engine.drain().await;
    assert!(server.stop().peak_in_flight <= CAP);
}

fn path_of(url: &str) -> String {
    let url = url::Url::parse(url).expect("a URL");
    match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    }
}

#[actix_rt::test]
async fn a_platform_actor_that_panics_is_started_again_and_nothing_is_lost() {
    with_crashes(3, |engine| engine.crash_site("web")).await;
}

#[actix_rt::test]
async fn a_governor_that_panics_is_started_again_and_counts_the_permits_still_out() {
    with_crashes(3, |engine| engine.governor().tell(Crash)).await;
}
