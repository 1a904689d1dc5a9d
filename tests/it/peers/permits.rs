//! Permits are neither lost nor given away early, whatever becomes of the exchange.

use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use crawler_node::governor::{Governor, LaneKey};
use crawler_node::settings::LimitSettings;
use crawler_node::sim::{Fault, FaultKind, Knobs, Pick};
use crawler_node::{Engine, Job};

use super::site::{Pages, Plain, base, fixed, latency, run, serve, stored, tasks};
use crate::support::DEADLINE;

#[actix_rt::test]
async fn l11_no_slot_is_lost_or_made_by_hangs_resets_cuts_and_panics() {
    const URLS: usize = 2000;
    let fault = |kind, share| Fault {
        kind,
        pick: Pick::Attempts { share },
    };
    let knobs = Knobs {
        seed: 11,
        faults: vec![
            fault(FaultKind::Hang, 0.01),
            fault(FaultKind::Reset, 0.05),
            fault(FaultKind::Truncate, 0.05),
        ],
        ..Knobs::default()
    };
    let server = serve([("a", Plain::default(), knobs)]);
    let dir = tempfile::tempdir().expect("a directory");
    let mut settings = fixed(dir.path(), 4);
    settings.test_time_scale = 0.001;
    settings.exchange.head_timeout = Duration::from_millis(200);
    settings.retry.max_attempts = 10;
    let mut site = Pages::of(&base(&server, "a"), "a", URLS);
    site.panics_each = Some(50);
    let engine = Engine::builder(settings)
        .site(site)
        .start()
        .expect("an engine");
    let job = Job::detail("pages", ["all"]).out(dir.path().join("data"));
    let job = engine.submit(job).await.expect("submitted");
    let ended = tokio::time::timeout(DEADLINE, job.wait());
    let report = ended.await.expect("in time").expect("a report");
    assert_eq!(
        stored(&report) + tasks(&report, "failed"),
        URLS as u64,
        "{report:?}"
    );
    // A page whose reading panics is asked once more; with bad luck it panics again.
    assert!(tasks(&report, "failed") <= 20, "{report:?}");
    assert_eq!(report.peak_in_flight, 4);
    free_permits(engine.governor(), 4).await;
    engine.drain().await;
    let counts = server.stop();
    assert!(counts.sites["a"].faults > 150, "{counts:?}");
    assert_eq!(counts.peak_in_flight, 4, "as the server counts them");
}

/// Exactly so many permits are free: they are granted, and one more waits.
async fn free_permits(governor: &Governor, free: u32) {
    let lane = Arc::new(LaneKey {
        site: "another".into(),
        host: None,
        endpoint: "e".into(),
    });
    let ask = || governor.acquire(lane.clone(), 0, Duration::MAX);
    let mut held = Vec::new();
    for _ in 0..free {
        let permit = tokio::time::timeout(DEADLINE, ask()).await;
        held.push(permit.expect("a free permit").expect("granted"));
    }
    let mut more = std::pin::pin!(ask());
    let waits =
        std::future::poll_fn(|context| Poll::Ready(more.as_mut().poll(context).is_pending()));
    let waits = waits.await;
    let state = governor.snapshot().await.expect("a governor");
    let waiting: u32 = state.lanes.iter().map(|lane| lane.waiting).sum();
    assert_eq!((waits, state.in_flight, waiting), (true, free, 1));
    drop(held);
    drop(more.await.expect("granted when one is back"));
}

/// Reads requests and never answers; counts the most connections that were open at once, as the clients see it.
fn silent(done: Arc<AtomicBool>, peak: Arc<AtomicUsize>, seen: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("set");
    let base = format!("http://{}", listener.local_addr().expect("its address"));
    std::thread::spawn(move || {
        let mut open: Vec<TcpStream> = Vec::new();
        while !done.load(Ordering::SeqCst) {
            let Ok((stream, _)) = listener.accept() else {
                std::thread::yield_now();
                continue;
            };
            stream.set_nonblocking(true).expect("set");
            open.push(stream);
            // On loopback an end is here before anything that was sent after it.
            open.retain_mut(|stream| {
                let mut buffer = [0; 4096];
                loop {
                    match stream.read(&mut buffer) {
                        Ok(0) => return false,
                        Ok(_) => {}
                        Err(error) => return error.kind() == ErrorKind::WouldBlock,
                    }
                }
            });
            seen.fetch_add(1, Ordering::SeqCst);
            peak.fetch_max(open.len(), Ordering::SeqCst);
        }
    });
    base
}

#[actix_rt::test]
async fn l12_a_slot_is_free_when_the_connection_is_closed_and_not_before() {
    let done = Arc::new(AtomicBool::new(false));
    let (peak, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let base = silent(done.clone(), peak.clone(), seen.clone());
    let dir = tempfile::tempdir().expect("a directory");
    let mut settings = fixed(dir.path(), 4);
    settings.exchange.head_timeout = Duration::from_millis(100);
    settings.retry.max_attempts = 1;
    settings.max_wait = Duration::from_secs(20);
    let report = run(settings, Pages::of(&base, "a", 40), dir.path()).await;
    done.store(true, Ordering::SeqCst);
    assert_eq!(report.exit_code, 4, "{report:?}");
    assert!(seen.load(Ordering::SeqCst) >= 8, "{report:?}");
    assert_eq!(peak.load(Ordering::SeqCst), 4);
}

#[actix_rt::test]
async fn l13_a_cap_beyond_the_cap_above_it_is_the_cap_above_it() {
    let server = serve([("a", Plain::default(), latency(20))]);
    let dir = tempfile::tempdir().expect("a directory");
    let mut site = Pages::of(&base(&server, "a"), "a", 40);
    let limits = LimitSettings {
        max_concurrency_num: Some(10),
        ..LimitSettings::default()
    };
    site.limits.endpoints.insert("a".to_owned(), limits);
    let report = run(fixed(dir.path(), 5), site, dir.path()).await;
    assert_eq!((report.exit_code, stored(&report)), (0, 40));
    assert_eq!(server.stop().peak_in_flight, 5);
}

#[actix_rt::test]
async fn t27_a_kept_connection_holds_no_permit() {
    let server = serve([("a", Plain::default(), Knobs::default())]);
    let dir = tempfile::tempdir().expect("a directory");
    let started = Instant::now();
    let report = run(
        fixed(dir.path(), 1),
        Pages::of(&base(&server, "a"), "a", 30),
        dir.path(),
    )
    .await;
    assert_eq!((report.exit_code, stored(&report)), (0, 30));
    // The server never closes; a permit that waited for it would wait for the client's clocks.
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(server.stop().connections, 1);
}
