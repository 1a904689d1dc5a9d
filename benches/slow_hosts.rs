//! Healthy hosts beside many slow ones, in one crawl: what the slow ones cost the others, in one run.
//!
//! `cargo bench --bench slow_hosts [-- HOSTS ROUNDS]`: 1000 hosts and 3 rounds unless said otherwise.

#![allow(
    missing_docs,
    clippy::print_stdout,
    reason = "a program that prints a table"
)]

use std::time::{Duration, Instant};

use crawler_node::settings::{LimitMode, LimitSettings};
use crawler_node::sim::{HtmlSite, Knobs, Latency, Server, SimConfig, SiteSpec, SlowHosts};
use crawler_node::{Engine, Job, Settings};

/// Pages of each healthy host.
const PAGES: u32 = 1500;
/// Exchanges in flight for each host.
const PER_HOST: u32 = 4;
const HEALTHY: [&str; 2] = ["one", "two"];
const DEADLINE: Duration = Duration::from_secs(120);

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Run {
    pages_per_second: f64,
    descriptors: usize,
    resident: u64,
    slow_at_once: usize,
}

fn settings(state: &std::path::Path, hosts: u16) -> Settings {
    Settings {
        max_concurrency_num: u32::from(hosts) + 100,
        state: Some(state.to_owned()),
        limits: LimitSettings {
            mode: Some(LimitMode::Fixed),
            max_concurrency_num: Some(PER_HOST),
            ..LimitSettings::default()
        },
        ..Settings::default()
    }
}

async fn run(hosts: u16, slow: Option<&SlowHosts>) -> Run {
    let knobs = Knobs {
        latency: Latency::Fixed(Duration::from_millis(10)),
        ..Knobs::default()
    };
    let server = Server::start(SimConfig {
        sites: HEALTHY
            .map(|name| SiteSpec::new(name, HtmlSite::new(1, PAGES)).knobs(knobs.clone()))
            .to_vec(),
        log_limit: 0,
    })
    .expect("the built-in sites");
    let dir = tempfile::tempdir().expect("a directory");
    let engine = Engine::builder(settings(dir.path(), hosts))
        .start()
        .expect("an engine");
    // The slow ones come first: the others must not wait for them.
    let mut urls: Vec<String> = slow.iter().flat_map(|slow| slow.urls()).collect();
    let healthy = |name: &&str| format!("{}/", server.base_url(name).expect("a site"));
    urls.extend(HEALTHY.iter().map(healthy));
    let job = Job::crawl(urls).out(dir.path().join("out"));
    let job = engine.submit(job).await.expect("submitted");
    let all = |share: u64| u64::from(PAGES) * HEALTHY.len() as u64 * share / 100;
    // What it costs to begin is not what a healthy host is served with later on.
    let (start, end) = tokio::task::spawn_blocking(move || {
        assert!(server.wait_for(DEADLINE, |counts| counts.requests() >= all(10)));
        let start = Instant::now();
        assert!(server.wait_for(DEADLINE, |counts| counts.requests() >= all(90)));
        (start, Instant::now())
    })
    .await
    .expect("served");
    let run = Run {
        pages_per_second: all(80) as f64 / end.duration_since(start).as_secs_f64(),
        descriptors: std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count),
        resident: resident(),
        slow_at_once: slow.map_or(0, SlowHosts::open),
    };
    engine.stop(Duration::ZERO);
    job.wait().await.expect("ended");
    engine.drain().await;
    run
}

/// Resident memory of this process, which holds the servers too, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    1024 * kib.unwrap_or_default()
}

fn main() {
    let numbers: Vec<u16> = std::env::args()
        .filter_map(|arg| arg.parse().ok())
        .collect();
    let hosts = numbers.first().copied().unwrap_or(1000);
    let rounds = numbers.get(1).copied().unwrap_or(3);
    // Both ends of every connection are in this process.
    let needed = 2 * u64::from(hosts) + 1000;
    crawler_node::cli::allow_open_files(needed).expect("enough descriptors");
    actix::System::new().block_on(async {
        let mut ratios = Vec::new();
        println!("{hosts} slow hosts beside {} healthy ones", HEALTHY.len());
        println!("round    alone/s  beside/s  ratio  open  descriptors  resident MiB (alone)");
        for round in 1..=rounds {
            let alone = run(hosts, None).await;
            let slow = SlowHosts::start(hosts).expect("slow hosts");
            let beside = run(hosts, Some(&slow)).await;
            let ratio = beside.pages_per_second / alone.pages_per_second;
            println!(
                "{round:>5} {:>10.0} {:>9.0} {ratio:>6.3} {:>5} {:>12} {:>9} ({})",
                alone.pages_per_second,
                beside.pages_per_second,
                beside.slow_at_once,
                beside.descriptors,
                beside.resident >> 20,
                alone.resident >> 20,
            );
            ratios.push(ratio);
        }
        ratios.sort_by(f64::total_cmp);
        println!("median ratio {:.3}", ratios[ratios.len() / 2]);
    });
}
