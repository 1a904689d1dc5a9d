//! The governor over real sockets, as the simulator has it in virtual time: there is always another request waiting.
//!
//! What is compared is the mean of several runs with the mean of many: a run of half a minute has its luck, by the
//! phase of the server's windows above all, and single runs of a fixed window spread over ten points even in
//! virtual time. Both sides spread the phase over the window and draw anew what the law and the server draw.
//! The simulated server takes as long as the real one was seen to take: what a loaded machine adds to an answer
//! is no matter of the law, and where requests in flight are limited it takes its share of the goodput.
//!
//! One of the scenarios goes always; `GOVERNOR_JOBS=full` runs all. They last a quarter of the benchmark's.

use std::fmt;
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
/// Runs of a scenario over sockets, at the same time.
const ROUNDS: u32 = 4;
/// Runs of it in virtual time.
const SEEDS: u64 = 40;
/// How far the mean goodput over sockets may be from that in virtual time.
const APART: f64 = 0.05;
/// The same of the refused share.
const REFUSED_APART: f64 = 0.01;

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

    /// The limit as the server of this round has it: the rounds spread its windows' phase.
    fn limit(&self, round: u32) -> Limit {
        match self.limit {
            Limit::Fixed { max, window, .. } => Limit::Fixed {
                max,
                window,
                phase: window.mul_f64((f64::from(round) + 0.5) / f64::from(ROUNDS)),
            },
            ref other => other.clone(),
        }
    }

    fn knobs(&self, round: u32) -> Knobs {
        let steps = self.changes.iter().map(|(at, limit, _)| Step {
            when: When::Time(*at),
            limits: vec![limit.clone()],
        });
        Knobs {
            seed: u64::from(round) + 1,
            latency: Latency::Tail(LEAST, TAIL),
            limits: vec![self.limit(round)],
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
        // Each round and each seed has its own.
        phase: Duration::ZERO,
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

/// What the server is asked to take for an answer: at least, and beyond it on the mean.
const LEAST: Duration = Duration::from_millis(80);
const TAIL: Duration = Duration::from_millis(20);

/// Good answers ÷ ideal, and the share of the requests that was refused.
#[derive(Clone, Copy, Debug)]
struct Figures {
    goodput: f64,
    refused: f64,
}

impl Figures {
    fn mean(of: &[Self]) -> Self {
        let count = of.len() as f64;
        Self {
            goodput: of.iter().map(|one| one.goodput).sum::<f64>() / count,
            refused: of.iter().map(|one| one.refused).sum::<f64>() / count,
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (goodput, refused) = (self.goodput, 100.0 * self.refused);
        write!(f, "goodput {goodput:.3}, refused {refused:.2} %")
    }
}

/// Mean time of a good answer: at the server, and from the permit to its end at the client.
#[derive(Clone, Copy, Debug)]
struct Times {
    server: Duration,
    client: Duration,
}

fn mean_of(times: &[Duration]) -> Duration {
    let count = u32::try_from(times.len()).expect("a count");
    times.iter().sum::<Duration>() / count.max(1)
}

/// How long the server had the good answers.
fn at_work(log: &[LogEntry]) -> Duration {
    let good = log.iter().filter(|entry| entry.status == Some(200));
    let times = good.filter_map(|entry| Some(entry.ended? - entry.at));
    mean_of(&times.collect::<Vec<_>>())
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

/// Asks until `end`; how long the good answers took.
async fn ask_until(
    end: Instant,
    governor: Governor,
    client: Rc<Client>,
    url: Url,
) -> Vec<Duration> {
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
        let start = Instant::now();
        let exchanged = client.exchange(permit, &Request::get(url.clone())).await;
        let took = start.elapsed();
        let answer = exchanged.result.expect("an answer");
        let outcome = match answer.status {
            200 => Outcome::Ok,
            _ => Outcome::Limited,
        };
        let hints = hints(&answer.headers, UnixMillis::now());
        exchanged.receipt.report(outcome, hints);
        (outcome == Outcome::Ok).then_some(took)
    };
    let mut times = Vec::new();
    while let Ok(took) = timeout_at(end, asked()).await {
        times.extend(took);
    }
    times
}

async fn over_sockets(run: &Run, round: u32) -> (Figures, Times) {
    let spec = SiteSpec::new("s", BenchSite::new(1, 500, 1)).knobs(run.knobs(round));
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
        u64::from(round) + 1,
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
    let took = join_all(asking).await.concat();
    let log = server.log();
    let times = Times {
        server: at_work(&log),
        client: mean_of(&took),
    };
    (figures(run, &log), times)
}

/// The same in virtual time, with the times that were seen over sockets.
fn in_virtual_time(run: &Run, seen: Times) -> Vec<Figures> {
    let mut origin = OriginSpec {
        endpoints: vec![vec![run.limit.clone()]],
        ..OriginSpec::default()
    };
    origin.service.time = Draw {
        fixed: seen.server.saturating_sub(TAIL).max(LEAST),
        random: TAIL,
    };
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
        wire: seen.client.saturating_sub(seen.server) / 2,
        warm_up: Duration::ZERO,
        ..Scenario::default()
    };
    let figures = (0..SEEDS).map(|seed| {
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
    for run in &runs {
        // Each round on a thread of its own: one must not wait for the others.
        let (real, times): (Vec<Figures>, Vec<Times>) = thread::scope(|scope| {
            let start =
                |round| scope.spawn(move || System::new().block_on(over_sockets(run, round)));
            let threads: Vec<_> = (0..ROUNDS).map(start).collect();
            let figures = threads.into_iter().map(|thread| thread.join());
            figures.map(|figures| figures.expect("a run")).collect()
        });
        let took = Times {
            server: mean_of(&times.iter().map(|times| times.server).collect::<Vec<_>>()),
            client: mean_of(&times.iter().map(|times| times.client).collect::<Vec<_>>()),
        };
        let mean = Figures::mean(&real);
        let thought = Figures::mean(&in_virtual_time(run, took));
        let rounds: Vec<String> = real.iter().map(Figures::to_string).collect();
        let rounds = rounds.join("; ");
        let seen = format!(
            "{}: {mean}; in virtual time {thought}; rounds: {rounds}; {took:?}",
            run.name
        );
        eprintln!("{seen}");
        assert!((mean.goodput - thought.goodput).abs() <= APART, "{seen}");
        assert!(
            (mean.refused - thought.refused).abs() <= REFUSED_APART,
            "{seen}"
        );
    }
}
