//! The governor over real sockets, as the simulator has it in virtual time: there is always another request waiting.
//!
//! One of the runs goes always; `GOVERNOR_JOBS=full` runs all. They last a quarter of the benchmark's.

use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use actix::{Arbiter, System};
use crawler_node::Settings;
use crawler_node::exchange::Client;
use crawler_node::governor::hints::hints;
use crawler_node::governor::ledger::LedgerConfig;
use crawler_node::governor::{Governor, LaneKey, MemoryQuotaStore, RateGovernor, Registry};
use crawler_node::model::{Outcome, Request, UnixMillis};
use crawler_node::settings::ExchangeSettings;
use crawler_node::sim::simulator::{
    self, Change, Configured, Draw, LedgerControl, OriginSpec, Scenario,
};
use crawler_node::sim::{
    BenchSite, Knobs, Latency, Limit, LogEntry, Refusal, Server, SimConfig, SiteSpec, Step, When,
};
use futures_util::future::join_all;
use tokio::time::{Instant, timeout_at};
use url::Url;

/// Requests that wait or are out at once; more than any of the limits below needs.
const DEMAND: usize = 64;

/// One limit, and what becomes of it.
struct Run {
    name: &'static str,
    limit: Limit,
    /// Requests a second that it admits in the long run.
    rate: f64,
    changes: Vec<(Duration, Limit, f64)>,
    lasts: Duration,
}

impl Run {
    fn new(name: &'static str, limit: Limit, rate: f64) -> Self {
        Self {
            name,
            limit,
            rate,
            changes: Vec::new(),
            lasts: Duration::from_secs(30),
        }
    }

    /// The most good answers that the limits allow.
    fn ideal(&self) -> f64 {
        let starts = [Duration::ZERO]
            .into_iter()
            .chain(self.changes.iter().map(|change| change.0));
        let ends = self
            .changes
            .iter()
            .map(|change| change.0)
            .chain([self.lasts]);
        let rates = [self.rate]
            .into_iter()
            .chain(self.changes.iter().map(|change| change.2));
        let parts = starts.zip(ends).zip(rates);
        parts
            .map(|((from, to), rate)| (to - from).as_secs_f64() * rate)
            .sum()
    }

    fn knobs(&self) -> Knobs {
        let steps = self.changes.iter().map(|(at, limit, _)| Step {
            when: When::Time(*at),
            limits: vec![limit.clone()],
        });
        Knobs {
            seed: 3,
            latency: Latency::Tail(Duration::from_millis(80), Duration::from_millis(20)),
            limits: vec![self.limit.clone()],
            steps: steps.collect(),
            refusal: Refusal {
                after: Duration::from_millis(10),
                ..Refusal::default()
            },
            ..Knobs::default()
        }
    }
}

fn bucket(per_second: f64, burst: u32) -> Limit {
    Limit::Bucket { per_second, burst }
}

fn runs() -> Vec<Run> {
    let in_flight = Limit::Concurrency { max: 20 };
    let window = Limit::Fixed {
        max: 100,
        window: Duration::from_secs(1),
        phase: Duration::from_millis(370),
    };
    let quarter = Duration::from_secs(15);
    vec![
        Run::new("b4", bucket(50.0, 10), 50.0),
        Run::new("b1", in_flight, 20.0 / 0.1),
        Run::new("b2", window, 100.0),
        Run {
            changes: vec![
                (quarter, bucket(20.0, 10), 20.0),
                (quarter * 2, bucket(150.0, 10), 150.0),
            ],
            lasts: quarter * 4,
            ..Run::new("b8", bucket(100.0, 10), 100.0)
        },
    ]
}

/// Good answers ÷ ideal, and the share of the requests that was refused.
#[derive(Clone, Copy, Debug)]
struct Figures {
    goodput: f64,
    refused: f64,
}

/// What the server saw within the run.
fn figures(run: &Run, log: &[LogEntry]) -> Figures {
    let start = log[0].at;
    let seen: Vec<_> = log
        .iter()
        .filter(|entry| entry.at < start + run.lasts)
        .collect();
    let refused = seen.iter().filter(|entry| entry.refused).count();
    let good = seen
        .iter()
        .filter(|entry| entry.status == Some(200))
        .filter(|entry| entry.ended.is_some_and(|ended| ended < start + run.lasts))
        .count();
    Figures {
        goodput: good as f64 / run.ideal(),
        refused: refused as f64 / seen.len() as f64,
    }
}

async fn ask_until(end: Instant, governor: Governor, client: Rc<Client>, url: Url) {
    let lane = Arc::new(LaneKey {
        site: "s".into(),
        host: None,
        endpoint: "e".into(),
    });
    let asked = async || {
        let permit = governor
            .acquire(Arc::clone(&lane), 0, Duration::MAX)
            .await
            .expect("a permit");
        let exchanged = client.exchange(permit, &Request::get(url.clone())).await;
        let answer = exchanged.result.expect("an answer");
        let outcome = match answer.status {
            200 => Outcome::Ok,
            _ => Outcome::Limited,
        };
        let hints = hints(&answer.headers, UnixMillis::now());
        exchanged.receipt.report(outcome, hints);
    };
    while timeout_at(end, asked()).await.is_ok() {}
}

async fn over_sockets(run: &Run) -> Figures {
    let spec = SiteSpec::new("s", BenchSite::new(1, 500, 1)).knobs(run.knobs());
    let server = Server::start(SimConfig {
        sites: vec![spec],
        log_limit: 100_000,
    })
    .expect("the built-in site");
    let registry = Registry::new();
    let settings = Settings {
        max_concurrency_num: 1000,
        ..Settings::default()
    };
    let addr = RateGovernor::start_in(
        &Arbiter::current(),
        LedgerConfig::from_settings(&settings),
        registry.clone(),
        Box::new(MemoryQuotaStore::default()),
        None,
        1,
    );
    let governor = Governor::new(addr, registry);
    let client = Client::new(
        &ExchangeSettings {
            ..settings.exchange
        },
        "test/1",
    )
    .expect("a client");
    let client = Rc::new(client);
    let base = server.base_url("s").expect("the site");
    let url = Url::parse(&format!("{base}/")).expect("a URL");
    let end = Instant::now() + run.lasts;
    let asking = (0..DEMAND).map(|_| ask_until(end, governor.clone(), client.clone(), url.clone()));
    join_all(asking).await;
    figures(run, &server.log())
}

/// The same in virtual time.
fn in_virtual_time(run: &Run) -> Vec<Figures> {
    let mut origin = OriginSpec {
        endpoints: vec![vec![run.limit.clone()]],
        ..OriginSpec::default()
    };
    origin.service.time = Draw::ms(80, 20);
    let changes = run.changes.iter().map(|(at, limit, _)| Change {
        at: *at,
        limits: Vec::new(),
        endpoints: vec![vec![limit.clone()]],
    });
    let scenario = Scenario {
        name: run.name.to_owned(),
        lasts: run.lasts,
        origin,
        changes: changes.collect(),
        // Loopback.
        wire: Duration::from_micros(200),
        warm_up: Duration::ZERO,
        ..Scenario::default()
    };
    // A few of them, for a run of thirty seconds has its luck.
    let figures = (0..10).map(|seed| {
        let report = simulator::run(&scenario, seed, &mut |seed| {
            Box::new(LedgerControl::new(&scenario, &Configured::default(), seed))
        });
        Figures {
            goodput: report.good as f64 / run.ideal(),
            refused: report.refused_share,
        }
    });
    figures.collect()
}

#[test]
fn sockets_and_virtual_time_agree() {
    let all = std::env::var("GOVERNOR_JOBS").is_ok_and(|value| value == "full");
    let mut runs = runs();
    runs.truncate(if all { runs.len() } else { 1 });
    // Each on a thread of its own: one must not wait for the others.
    let real: Vec<Figures> = thread::scope(|scope| {
        let run = |run| System::new().block_on(over_sockets(run));
        let threads: Vec<_> = runs
            .iter()
            .map(|one| scope.spawn(move || run(one)))
            .collect();
        let figures = threads.into_iter().map(|thread| thread.join());
        figures.map(|figures| figures.expect("a run")).collect()
    });
    for (run, real) in runs.iter().zip(&real) {
        let thought = in_virtual_time(run);
        let goodput = thought.iter().map(|figures| figures.goodput);
        let (least, most) = (
            goodput.clone().fold(1.0, f64::min),
            goodput.fold(0.0, f64::max),
        );
        let refused = thought
            .iter()
            .map(|figures| figures.refused)
            .fold(0.0, f64::max);
        let seen = format!(
            "{}: goodput {:.3}, refused {:.2} %; in virtual time {least:.3} to {most:.3}, at most {:.2} %",
            run.name,
            real.goodput,
            100.0 * real.refused,
            100.0 * refused
        );
        eprintln!("{seen}");
        assert!(
            (least - 0.05..=most + 0.05).contains(&real.goodput),
            "{seen}"
        );
        assert!(real.refused <= refused + 0.01, "{seen}");
    }
}
