//! A lane that has to wait keeps few leases: the others go on as if they were alone.

use std::time::Duration;

use crawler_node::settings::LimitSettings;
use crawler_node::sim::Knobs;

use super::site::{Pages, Plain, base, fixed, latency, log, pages, run, serve, stored};

fn pace(rate: &str) -> LimitSettings {
    LimitSettings {
        rate: Some(rate.parse().expect("a rate")),
        ..LimitSettings::default()
    }
}

/// How long the pages of endpoint `b` took, beside `slow` pages of an endpoint that is asked ten times a second.
async fn free_pages_beside(slow: usize) -> Duration {
    let server = serve([("a", Plain::default(), latency(10))]);
    let dir = tempfile::tempdir().expect("a directory");
    let base = base(&server, "a");
    let urls = pages(&base, "a", slow)
        .chain(pages(&base, "b", 300))
        .collect::<Vec<_>>();
    let mut site = Pages::new(urls);
    site.limits.endpoints.insert("a".to_owned(), pace("10/s"));
    let report = run(fixed(dir.path(), 4), site, dir.path()).await;
    assert_eq!((report.exit_code, stored(&report)), (0, 300 + slow as u64));
    let mut free = log(&server, "a");
    free.retain(|entry| entry.class == "b");
    free.iter()
        .filter_map(|entry| entry.ended)
        .max()
        .expect("ended")
        - free[0].at
}

#[actix_rt::test]
async fn an_endpoint_at_its_pace_does_not_starve_another() {
    let alone = free_pages_beside(0).await;
    let beside = free_pages_beside(40).await;
    let most = alone.mul_f64(1.3) + Duration::from_millis(300);
    assert!(
        beside < most,
        "{beside:?} beside a slow endpoint, {alone:?} alone"
    );
}

#[actix_rt::test]
async fn many_slow_hosts_wait_side_by_side() {
    const HOSTS: [&str; 30] = [
        "h00", "h01", "h02", "h03", "h04", "h05", "h06", "h07", "h08", "h09", "h10", "h11", "h12",
        "h13", "h14", "h15", "h16", "h17", "h18", "h19", "h20", "h21", "h22", "h23", "h24", "h25",
        "h26", "h27", "h28", "h29",
    ];
    let server = serve(HOSTS.map(|name| (name, Plain::default(), Knobs::default())));
    let dir = tempfile::tempdir().expect("a directory");
    let urls: Vec<_> = HOSTS
        .iter()
        .flat_map(|name| pages(&base(&server, name), "a", 4))
        .collect();
    let site = Pages::new(urls).by_host().limited(pace("1/s"));
    let report = run(fixed(dir.path(), 4), site, dir.path()).await;
    assert_eq!((report.exit_code, stored(&report)), (0, 120));
    let last = HOSTS
        .iter()
        .flat_map(|name| log(&server, name))
        .map(|entry| entry.at)
        .max();
    // Three seconds for each host, four where a use is stored first; cap and prefetch hold twelve tasks, so that in
    // turn they would take ten and more.
    assert!(last < Some(Duration::from_secs(7)), "{last:?}");
}
