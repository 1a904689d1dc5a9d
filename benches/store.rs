//! What a page costs in the store: complete it with one record and ten links of which one is new, and lease the next,
//! in batches of 32 and 256 per commit. The figure is wall time per page, synced; beside it CPU time where the
//! system tells it.

use std::path::Path;
use std::time::{Duration, Instant};

use crawler_node::model::{
    Completion, Mode, Name, NewTask, Outcome, Record, TaskEnd, TaskKey, UnixMillis,
};
use crawler_node::store::{Exchange, Frontier, JobStore, LaneRoom, OpenOptions, Push, Runs};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::json;

/// Pages per measured job.
const PAGES: u64 = 20_000;

struct Job {
    site: Name,
    lane: Name,
    endpoint: Name,
    kind: Name,
}

impl Job {
    fn new() -> Self {
        Self {
            site: "web".into(),
            lane: "127.0.0.1:8080".into(),
            endpoint: "page".into(),
            kind: "page".into(),
        }
    }

    fn task(&self, n: u64) -> NewTask {
        let url = format!("http://127.0.0.1:8080/section/{}/page-{n}.html", n % 100);
        let key = TaskKey::of("web", "page", &url);
        let params = json!({ "url": url });
        NewTask {
            endpoint: self.endpoint.clone(),
            params: params.as_object().cloned().unwrap_or_default(),
            key,
            lane: self.lane.clone(),
            priority: 1,
            depth: 1,
            list: false,
        }
    }

    fn record(&self, url: &str) -> Record {
        let fields = json!({
            "url": url,
            "requested_url": url,
            "status": 200,
            "title": "The title of a page as it is found in books",
            "depth": 1,
            "content_type": "text/html",
        });
        Record {
            site: self.site.clone(),
            kind: self.kind.clone(),
            key: url.to_owned(),
            fields: fields.as_object().cloned().unwrap_or_default(),
        }
    }
}

/// CPU time of this thread, where the system tells it.
fn cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

/// Crawl `pages` pages; wall and CPU time of the store alone. Links that are known are met `known` times a page.
fn crawl(dir: &Path, pages: u64, batch: usize, known: u64) -> (Duration, Option<Duration>) {
    let job = Job::new();
    let now = UnixMillis(1_700_000_000_000);
    let options = OpenOptions::new(dir, vec!["web".to_owned()], Mode::Crawl, now);
    let mut store = JobStore::open(options).expect("a fresh directory");
    // Twice the batch is ready from the start, so that a lease never comes back short.
    let ahead = 2 * batch as u64;
    let seeds = Push {
        site: job.site.clone(),
        tasks: (0..ahead).map(|n| job.task(n)).collect(),
    };
    store.push(now, seeds).expect("a push");
    store.commit(now).expect("a commit");
    let mut next = ahead;
    let mut left = pages;
    let mut completions = Vec::new();
    let (mut wall, mut busy) = (Duration::ZERO, cpu().map(|_| Duration::ZERO));
    while left > 0 {
        let exchange = Exchange {
            site: job.site.clone(),
            owner: 1,
            completions: std::mem::take(&mut completions),
            lease: batch,
            room: LaneRoom::default(),
        };
        let (start, start_cpu) = (Instant::now(), cpu());
        let leased = store.exchange(now, exchange).expect("an exchange");
        store.commit(now).expect("a commit");
        wall += start.elapsed();
        if let (Some(busy), Some(from), Some(to)) = (&mut busy, start_cpu, cpu()) {
            *busy += to.saturating_sub(from);
        }
        left = left.saturating_sub(leased.tasks.len() as u64);
        for task in leased.tasks {
            let url = task.params["url"].as_str().unwrap_or_default().to_owned();
            let mut follow: Vec<NewTask> = (0..known)
                .map(|n| job.task((next * 7 + n) % next))
                .collect();
            follow.push(job.task(next));
            next += 1;
            completions.push(Completion {
                task: task.id,
                lease: task.lease,
                end: TaskEnd::Done {
                    outcome: Outcome::Ok,
                },
                records: vec![job.record(&url)],
                follow,
                list: None,
            });
        }
    }
    store.close(now, "interrupted", None).expect("a close");
    (wall, busy)
}

fn per_page(c: &mut Criterion) {
    let mut group = c.benchmark_group("store/page");
    group.sample_size(10);
    group.throughput(Throughput::Elements(PAGES));
    for (batch, known) in [(32, 0), (256, 0), (256, 9)] {
        let name = format!("batch {batch}, {known} known links");
        let mut cpu = Vec::new();
        group.bench_function(BenchmarkId::from_parameter(&name), |b| {
            b.iter_custom(|times| {
                let mut wall = Duration::ZERO;
                for _ in 0..times {
                    let dir = tempfile::tempdir().expect("a directory");
                    let (took, busy) = crawl(dir.path(), PAGES, batch, known);
                    wall += took;
                    cpu.extend(busy);
                }
                wall
            });
        });
        if let Some(least) = cpu.iter().min() {
            let micros = least.as_secs_f64() * 1e6 / PAGES as f64;
            eprintln!("{name}: {micros:.1} µs CPU a page");
        }
    }
    group.finish();
}

criterion_group!(benches, per_page);
criterion_main!(benches);
