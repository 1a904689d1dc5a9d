//! A server in virtual time, small enough to be read at a glance.

use std::time::Duration;

use super::{Hand, Sent, at};
use crate::governor::ledger::level::Gate;
use crate::governor::messages::{Hints, PermitId};
use crate::model::{Outcome, Timestamp};

/// What a server does with a request: outcome, hints, seconds until the answer is back.
pub(super) type Answer = (Outcome, Hints, f64);

/// What came of a run.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    /// Instants of good answers, seconds.
    pub(super) good: Vec<f64>,
    /// Instants of refusals, seconds.
    pub(super) refused: Vec<f64>,
    /// Requests sent.
    pub(super) sent: u64,
    /// Most in flight at once.
    pub(super) peak: u32,
    /// Times that the gate was asked.
    pub(super) asked: u64,
}

impl Outcomes {
    pub(super) fn rate(&self, from: f64, until: f64) -> f64 {
        let count = self
            .good
            .iter()
            .filter(|at| (from..until).contains(*at))
            .count();
        count as f64 / (until - from)
    }

    /// Most refusals in any span of so many seconds.
    pub(super) fn most_refused(&self, span: f64) -> usize {
        let within = |from: f64| {
            let span = from..from + span;
            self.refused.iter().filter(|at| span.contains(*at)).count()
        };
        self.refused
            .iter()
            .map(|from| within(*from))
            .max()
            .unwrap_or(0)
    }
}

/// Run a lane that always has a request waiting. `server` is asked at each departure: the instant and the
/// requests in flight, this one among them.
pub(super) fn run(
    hand: &mut Hand,
    from: f64,
    until: f64,
    mut server: impl FnMut(f64, u32, &mut fastrand::Rng) -> Answer,
) -> Outcomes {
    let mut out: Vec<(Timestamp, PermitId, Sent, Outcome, Hints)> = Vec::new();
    let mut outcomes = Outcomes::default();
    let mut dice = fastrand::Rng::with_seed(7);
    let mut now = at(from);
    while now < at(until) {
        outcomes.asked += 1;
        let in_flight = out.len() as u32;
        let wake = match hand.gate(now, in_flight) {
            Gate::Open => {
                let (permit, sent) = hand.send(now, in_flight);
                let seconds = now.since(Timestamp::ZERO).as_secs_f64();
                let (outcome, hints, after) = server(seconds, in_flight + 1, &mut dice);
                out.push((
                    now + Duration::from_secs_f64(after),
                    permit,
                    sent,
                    outcome,
                    hints,
                ));
                outcomes.sent += 1;
                outcomes.peak = outcomes.peak.max(in_flight + 1);
                continue;
            }
            Gate::At(when, _) => when,
            Gate::Wait(_) => Timestamp::MAX,
        };
        let first = (0..out.len()).min_by_key(|nth| out[*nth].0);
        match first {
            Some(nth) if out[nth].0 <= wake => {
                let (when, permit, sent, outcome, hints) = out.swap_remove(nth);
                now = when;
                hand.answer((permit, sent), outcome, &hints, now);
                let seconds = now.since(Timestamp::ZERO).as_secs_f64();
                match outcome {
                    Outcome::Ok => outcomes.good.push(seconds),
                    Outcome::Limited => outcomes.refused.push(seconds),
                    _ => {}
                }
            }
            _ => now = wake,
        }
    }
    outcomes
}

/// A token bucket.
pub(super) struct Bucket {
    tokens: f64,
    burst: f64,
    last: f64,
}

impl Bucket {
    pub(super) fn new(burst: f64) -> Self {
        Self {
            tokens: burst,
            burst,
            last: 0.0,
        }
    }

    /// Whether a request at `now` is let in at `rate` tokens per second.
    pub(super) fn admits(&mut self, now: f64, rate: f64) -> bool {
        self.tokens = (self.tokens + (now - self.last) * rate).min(self.burst);
        self.last = now;
        let admitted = self.tokens >= 1.0;
        if admitted {
            self.tokens -= 1.0;
        }
        admitted
    }
}

pub(super) fn good(seconds: f64) -> Answer {
    (Outcome::Ok, Hints::default(), seconds)
}

pub(super) fn refusal() -> Answer {
    (Outcome::Limited, Hints::default(), 0.03)
}
