//! Control laws of other projects, to compare with: own implementations of what they publish, with their defaults.
//!
//! Only the laws: no queues, sessions or retries around them, beside the back-off that is part of a law. They have no
//! classifier, so a refusal in a 200 is a good answer to them. Each endpoint has a limiter of its own, which is the
//! kinder of the two ways to use them.

mod aimd;
mod arc;
mod autothrottle;
mod aws;
mod crawlee;
mod fixed;
mod gradient2;
mod jitter;
mod sre;
mod vegas;

use std::collections::HashMap;
use std::time::Duration;

use fastrand::Rng;

use super::control::{Control, Poll, View};
use crate::governor::Hints;
use crate::model::{Outcome, Timestamp};

/// All of them.
pub const PEERS: [Peer; 10] = [
    Peer::Fixed,
    Peer::Jitter,
    Peer::Aimd,
    Peer::Vegas,
    Peer::Gradient2,
    Peer::Arc,
    Peer::Aws,
    Peer::AutoThrottle,
    Peer::Crawlee,
    Peer::Sre,
];

/// Another project's law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// 16 workers.
    Fixed,
    /// 16 workers with full jitter.
    Jitter,
    /// Netflix `AIMDLimit`.
    Aimd,
    /// Netflix `VegasLimit`.
    Vegas,
    /// Netflix `Gradient2Limit`.
    Gradient2,
    /// Vector's adaptive request concurrency.
    Arc,
    /// AWS SDKs' adaptive retry mode.
    Aws,
    /// Scrapy's AutoThrottle.
    AutoThrottle,
    /// Crawlee's pool and throttling.
    Crawlee,
    /// The SRE book's client-side throttling.
    Sre,
}

impl Peer {
    /// By which it is called.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Jitter => "jitter",
            Self::Aimd => "aimd",
            Self::Vegas => "vegas",
            Self::Gradient2 => "gradient2",
            Self::Arc => "arc",
            Self::Aws => "aws",
            Self::AutoThrottle => "autothrottle",
            Self::Crawlee => "crawlee",
            Self::Sre => "sre",
        }
    }

    /// One line for people.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Fixed => "a semaphore of 16",
            Self::Jitter => "a semaphore of 16, back-off with full jitter",
            Self::Aimd => "Netflix concurrency-limits, AIMDLimit",
            Self::Vegas => "Netflix concurrency-limits, VegasLimit",
            Self::Gradient2 => "Netflix concurrency-limits, Gradient2Limit",
            Self::Arc => "Vector, adaptive request concurrency",
            Self::Aws => "AWS SDKs, adaptive retry mode",
            Self::AutoThrottle => "Scrapy, AutoThrottle",
            Self::Crawlee => "Crawlee, AutoscaledPool and ThrottlingRequestManager",
            Self::Sre => "Google SRE book, client-side throttling",
        }
    }

    /// The control of one client under the law.
    #[must_use]
    pub fn control(self, seed: u64, endpoints: usize) -> Box<dyn Control> {
        let mut seeds = Rng::with_seed(seed);
        let lane = |_| Lane {
            law: self.law(seeds.fork()),
            out: 0,
            tasks: u64::MAX,
        };
        Box::new(PeerControl {
            lanes: (0..endpoints).map(lane).collect(),
            permits: HashMap::new(),
            next: 0,
        })
    }

    fn law(self, rng: Rng) -> Box<dyn Law> {
        match self {
            Self::Fixed => Box::new(fixed::Fixed::new()),
            Self::Jitter => Box::new(jitter::Jitter::new(rng)),
            Self::Aimd => Box::new(aimd::Aimd::new()),
            Self::Vegas => Box::new(vegas::Vegas::new(rng)),
            Self::Gradient2 => Box::new(gradient2::Gradient2::new()),
            Self::Arc => Box::new(arc::Arc::new()),
            Self::Aws => Box::new(aws::Aws::new(rng)),
            Self::AutoThrottle => Box::new(autothrottle::AutoThrottle::new(rng)),
            Self::Crawlee => Box::new(crawlee::Crawlee::new()),
            Self::Sre => Box::new(sre::Sre::new(rng)),
        }
    }
}

/// A law in seconds since the start.
trait Law {
    /// Whether a request may leave, with `out` requests out.
    fn gate(&mut self, now: f64, out: u32) -> Ask;

    /// A request leaves; `out` counts it. What is returned comes back with its answer.
    fn sent(&mut self, _now: f64, _out: u32) -> u32 {
        0
    }

    /// An answer came.
    fn answer(&mut self, answer: &Answer);

    /// Its pace, where it has one, and its cap.
    fn view(&self) -> (f64, Option<u32>);
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Ask {
    Go,
    /// Not before.
    At(f64),
    /// Not before an answer.
    Full,
}

/// One more beside `out`, where at most `limit` may be out.
fn within(limit: f64, out: u32) -> Ask {
    if f64::from(out) + 1.0 <= limit {
        Ask::Go
    } else {
        Ask::Full
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Good,
    Limited,
    /// 5xx, a time-out, a broken connection.
    Failed,
}

struct Answer {
    now: f64,
    kind: Kind,
    /// Seconds from the grant.
    held: f64,
    retry_after: Option<f64>,
    /// Requests out when it was sent, itself included.
    out_when_sent: u32,
    /// What [`Law::sent`] returned.
    tag: u32,
}

struct Lane {
    law: Box<dyn Law>,
    out: u32,
    tasks: u64,
}

struct Permit {
    lane: usize,
    out: u32,
    tag: u32,
}

struct PeerControl {
    lanes: Vec<Lane>,
    permits: HashMap<u64, Permit>,
    next: u64,
}

impl Control for PeerControl {
    fn poll(&mut self, now: Timestamp) -> Poll {
        let clock = seconds(now.since(Timestamp::ZERO));
        let mut earliest = f64::INFINITY;
        for turn in 0..self.lanes.len() {
            let nth = (self.next as usize + turn) % self.lanes.len();
            let lane = &mut self.lanes[nth];
            if lane.tasks == 0 {
                continue;
            }
            match lane.law.gate(clock, lane.out) {
                Ask::Go => {
                    lane.out += 1;
                    let tag = lane.law.sent(clock, lane.out);
                    self.next += 1;
                    let permit = Permit {
                        lane: nth,
                        out: lane.out,
                        tag,
                    };
                    self.permits.insert(self.next, permit);
                    return Poll::Send {
                        endpoint: nth,
                        permit: self.next,
                    };
                }
                Ask::At(at) => earliest = earliest.min(at),
                Ask::Full => {}
            }
        }
        Poll::Wait(earliest.is_finite().then(|| {
            // Rounded up, so that the time has come when it is asked again.
            now + Duration::from_secs_f64((earliest - clock).clamp(1e-6, 1e6))
        }))
    }

    fn end(
        &mut self,
        now: Timestamp,
        permit: u64,
        outcome: Outcome,
        hints: &Hints,
        held: Duration,
    ) {
        let kind = match outcome {
            Outcome::Limited | Outcome::Blocked => Kind::Limited,
            outcome if outcome.is_success() => Kind::Good,
            _ => Kind::Failed,
        };
        let Some(permit) = self.permits.remove(&permit) else {
            return;
        };
        let lane = &mut self.lanes[permit.lane];
        lane.out = lane.out.saturating_sub(1);
        lane.law.answer(&Answer {
            now: seconds(now.since(Timestamp::ZERO)),
            kind,
            held: seconds(held),
            retry_after: hints.retry_after.map(seconds),
            out_when_sent: permit.out,
            tag: permit.tag,
        });
    }

    fn drop_permit(&mut self, _: Timestamp, permit: u64) {
        if let Some(permit) = self.permits.remove(&permit) {
            let lane = &mut self.lanes[permit.lane];
            lane.out = lane.out.saturating_sub(1);
        }
    }

    fn view(&self, _: Timestamp, endpoint: usize) -> View {
        let (pace, cap) = self.lanes[endpoint].law.view();
        View {
            pace,
            cap,
            state: "",
        }
    }

    fn waiting(&mut self, _: Timestamp, endpoint: usize, tasks: u64) {
        self.lanes[endpoint].tasks = tasks;
    }

    fn sees_soft_blocks(&self) -> bool {
        false
    }
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}
