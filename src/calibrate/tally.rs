//! Counting what a level came to.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::wilson::{Interval, wilson};
use crate::model::Outcome;

/// Longest latency that the histogram tells apart: an hour, in microseconds.
const LONGEST_MICROS: u64 = 3_600_000_000;

/// One exchange. Times count from the start of its level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exchange {
    /// When its permit was granted.
    pub granted: Duration,
    /// When the permit was given back: the body was read, or the exchange had failed.
    pub released: Duration,
    /// Its class.
    pub outcome: Outcome,
    /// From the first byte sent to the last byte of the answer, where one came.
    pub latency: Option<Duration>,
}

/// What the process used while the window of a level was open. `None`: it cannot be told on this system.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Processor time, in seconds, over all threads.
    pub cpu_seconds: Option<f64>,
    /// Resident memory at the end, in bytes.
    pub memory_bytes: Option<u64>,
}

/// Counts the exchanges of one level. Bounded memory, whatever the number of exchanges.
///
/// What counts lies in a window that opens when the level is warm and closes at its end: a request counts when it
/// was *granted* in the window, and to its own end, so that a time-out after the window is not overlooked.
#[derive(Clone, Debug)]
pub struct Tally {
    opened: Option<Duration>,
    closed: Option<Duration>,
    outcomes: [u64; Outcome::ALL.len()],
    /// Sum of the times that permits granted in the window were held, in seconds.
    held: f64,
    /// Exchange-seconds within the window, of all exchanges that reach into it.
    in_flight: f64,
    /// Successes that ended in the window.
    ended_ok: u64,
    /// Latency of successes, in seconds: sum and count; and in microseconds.
    latency_sum: f64,
    latency: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            opened: None,
            closed: None,
            outcomes: [0; Outcome::ALL.len()],
            held: 0.0,
            in_flight: 0.0,
            ended_ok: 0,
            latency_sum: 0.0,
            latency: Histogram::new_with_bounds(1, LONGEST_MICROS, 3)
                .unwrap_or_else(|_| unreachable!("the bounds are constants in range")),
        }
    }
}

impl Tally {
    /// The level is warm: what is granted from `at` on counts. Said once; later calls change nothing.
    pub fn open(&mut self, at: Duration) {
        self.opened.get_or_insert(at);
    }

    /// The level is over: what is granted from `at` on does not count. Said once; later calls change nothing.
    pub fn close(&mut self, at: Duration) {
        self.closed.get_or_insert(at);
    }

    /// Whether the level is warm.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.opened.is_some()
    }

    /// An exchange has ended.
    pub fn record(&mut self, exchange: &Exchange) {
        // Before the window opened nothing counts, and this exchange is over.
        let Some(opened) = self.opened else { return };
        let end = self.closed.unwrap_or(Duration::MAX);
        let overlap = exchange
            .released
            .min(end)
            .saturating_sub(exchange.granted.max(opened));
        self.in_flight += overlap.as_secs_f64();
        let success = exchange.outcome.is_success();
        if success && exchange.released >= opened && exchange.released <= end {
            self.ended_ok += 1;
        }
        if exchange.granted < opened || exchange.granted >= end {
            return;
        }
        self.outcomes[exchange.outcome as usize] += 1;
        self.held += exchange
            .released
            .saturating_sub(exchange.granted)
            .as_secs_f64();
        // A refusal is answered faster than a page: only successes say how long an answer takes.
        if let (true, Some(latency)) = (success, exchange.latency) {
            self.latency_sum += latency.as_secs_f64();
            let micros = u64::try_from(latency.as_micros()).unwrap_or(LONGEST_MICROS);
            self.latency.saturating_record(micros);
        }
    }

    /// Requests that count so far, and the bad ones among them.
    #[must_use]
    pub fn so_far(&self) -> (u64, u64) {
        (self.asked(), self.count(is_bad))
    }

    fn asked(&self) -> u64 {
        // What never was a request says nothing about the site.
        self.count(|outcome| !matches!(outcome, Outcome::Cancelled | Outcome::Denied))
    }

    fn count(&self, wanted: impl Fn(Outcome) -> bool) -> u64 {
        let all = Outcome::ALL.into_iter();
        all.filter(|outcome| wanted(*outcome))
            .map(|outcome| self.outcomes[outcome as usize])
            .sum()
    }

    /// What the level showed. `z` is the quantile of the interval; `complete` whether it ran its whole course.
    #[must_use]
    pub fn measured(&self, level: u32, z: f64, usage: Usage, complete: bool) -> Measured {
        let window = match (self.opened, self.closed) {
            (Some(opened), Some(closed)) => closed.saturating_sub(opened).as_secs_f64(),
            _ => 0.0,
        };
        let per_second = |number: f64| if window > 0.0 { number / window } else { 0.0 };
        let requests = self.asked();
        let bad = self.count(is_bad);
        let Interval { low, high } = wilson(bad, requests, z);
        let timed = self.latency.len();
        let quantile = |q| (timed > 0).then(|| self.latency.value_at_quantile(q) as f64 / 1000.0);
        Measured {
            level,
            complete,
            window_seconds: window,
            requests,
            ok: self.count(Outcome::is_success),
            refused: self.count(is_refusal),
            errors: self.count(|outcome| is_bad(outcome) && !is_refusal(outcome)),
            outcomes: Outcome::ALL
                .into_iter()
                .map(|outcome| (outcome, self.outcomes[outcome as usize]))
                .filter(|(_, count)| *count > 0)
                .collect(),
            ok_ended: self.ended_ok,
            ok_per_second: per_second(self.ended_ok as f64),
            bad_share: if requests == 0 {
                0.0
            } else {
                bad as f64 / requests as f64
            },
            bad_share_low: low,
            bad_share_high: high,
            latency_ms_mean: (timed > 0).then(|| self.latency_sum * 1000.0 / timed as f64),
            latency_ms_p50: quantile(0.5),
            latency_ms_p95: quantile(0.95),
            in_flight_mean: per_second(self.in_flight),
            in_flight_predicted: per_second(self.held),
            in_flight_deviation: (self.held > 0.0).then(|| self.in_flight / self.held - 1.0),
            cpu_percent: usage
                .cpu_seconds
                .filter(|_| window > 0.0)
                .map(|cpu| 100.0 * cpu / window),
            memory_bytes: usage.memory_bytes,
        }
    }
}

/// Whether an outcome speaks against a level: the site refuses, or it or the way to it gives way.
#[must_use]
pub const fn is_bad(outcome: Outcome) -> bool {
    is_refusal(outcome)
        || matches!(
            outcome,
            Outcome::ServerError
                | Outcome::Timeout
                | Outcome::Network
                | Outcome::Truncated
                | Outcome::Oversize
                | Outcome::Malformed
        )
}

/// Whether the site refuses: for now, this client, or this identity.
#[must_use]
pub const fn is_refusal(outcome: Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Limited | Outcome::Blocked | Outcome::Captcha | Outcome::Login
    )
}

/// What one level showed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// The most exchanges in flight at once.
    pub level: u32,
    /// Whether it ran its whole course; else it was broken off, and is not judged.
    pub complete: bool,
    /// Length of the window that counts, in seconds.
    pub window_seconds: f64,
    /// Requests sent in the window.
    pub requests: u64,
    /// Answers that hold what was asked for.
    pub ok: u64,
    /// `limited`, `blocked`, `captcha` and `login`.
    pub refused: u64,
    /// `server_error`, `timeout`, `network`, `truncated`, `oversize` and `malformed`.
    pub errors: u64,
    /// All of them by class.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Good answers that ended in the window.
    pub ok_ended: u64,
    /// The same per second.
    pub ok_per_second: f64,
    /// Refused and errors, as a share of the requests. 0 to 1.
    pub bad_share: f64,
    /// The true share is hardly less.
    pub bad_share_low: f64,
    /// The true share is hardly more.
    pub bad_share_high: f64,
    /// Mean time of a good answer, in milliseconds. `None` without one.
    pub latency_ms_mean: Option<f64>,
    /// Its median.
    pub latency_ms_p50: Option<f64>,
    /// Its 95th percentile.
    pub latency_ms_p95: Option<f64>,
    /// Exchanges in flight, on average over the window.
    pub in_flight_mean: f64,
    /// What Little's law says it is: requests per second times the mean time that a permit is held.
    pub in_flight_predicted: f64,
    /// How far the first is from the second, as a share of it. `None` where nothing was in flight. In a steady state it
    /// is near 0; a large one says that the window was too short for the answers.
    pub in_flight_deviation: Option<f64>,
    /// Processor time of this process, in percent of one core. `None`: it cannot be told here.
    pub cpu_percent: Option<f64>,
    /// Resident memory of this process at the end. `None`: it cannot be told here.
    pub memory_bytes: Option<u64>,
}

impl Measured {
    /// Refused and errors.
    #[must_use]
    pub const fn bad(&self) -> u64 {
        self.refused + self.errors
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::calibrate::{Rules, Standing, standing, z_of};

    const Z: f64 = 1.96;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn exchange(granted: u64, released: u64, outcome: Outcome) -> Exchange {
        Exchange {
            granted: ms(granted),
            released: ms(released),
            outcome,
            latency: Some(ms(released - granted)),
        }
    }

    #[test]
    fn what_was_asked_in_the_window_counts_to_its_end() {
        let mut tally = Tally::default();
        tally.record(&exchange(0, 50, Outcome::Ok));
        tally.open(ms(100));
        // Asked while it was cold, ended in the window: part of the pace and of what was in flight only.
        tally.record(&exchange(50, 150, Outcome::Ok));
        tally.record(&exchange(150, 250, Outcome::Ok));
        tally.close(ms(1100));
        tally.record(&exchange(1000, 6000, Outcome::Timeout));
        tally.record(&exchange(1200, 1300, Outcome::Limited));
        let got = tally.measured(2, Z, Usage::default(), true);
        assert_eq!(
            (got.requests, got.ok, got.errors, got.refused),
            (2, 1, 1, 0)
        );
        assert_eq!(got.window_seconds, 1.0);
        assert_eq!(got.ok_per_second, 2.0);
        assert!((got.in_flight_mean - 0.25).abs() < 1e-9);
        assert!((got.in_flight_predicted - 5.1).abs() < 1e-9);
        assert_eq!(got.bad_share, 0.5);
        assert_eq!(got.latency_ms_mean, Some(100.0));
        assert_eq!(got.cpu_percent, None);
    }

    #[test]
    fn processor_time_is_a_share_of_the_window() {
        let mut tally = Tally::default();
        tally.open(ms(0));
        tally.close(ms(2000));
        let usage = Usage {
            cpu_seconds: Some(0.5),
            memory_bytes: Some(7),
        };
        let got = tally.measured(1, Z, usage, true);
        assert_eq!((got.cpu_percent, got.memory_bytes), (Some(25.0), Some(7)));
        assert_eq!(
            Tally::default().measured(1, Z, usage, true).cpu_percent,
            None
        );
    }

    /// The client gives up after 5 s, the server would have answered 429 after 6 s.
    #[test]
    fn t45_a_limit_that_shows_as_time_outs_counts() {
        let mut tally = Tally::default();
        tally.open(ms(0));
        for n in 0..110 {
            let outcome = if n < 15 {
                Outcome::Timeout
            } else {
                Outcome::Ok
            };
            let took = if n < 15 { 5000 } else { 100 };
            tally.record(&exchange(n * 50, n * 50 + took, outcome));
        }
        tally.close(ms(6000));
        let rules = Rules::default();
        let got = tally.measured(8, z_of(rules.confidence), Usage::default(), true);
        assert_eq!((got.requests, got.errors, got.refused), (110, 15, 0));
        assert_eq!(standing(&got, &rules), Standing::Above);
    }

    #[test]
    fn gone_and_wrong_requests_say_nothing_against_a_level() {
        for outcome in Outcome::ALL {
            let neutral = matches!(
                outcome,
                Outcome::Gone
                    | Outcome::ClientError
                    | Outcome::Signature
                    | Outcome::Withheld
                    | Outcome::Denied
                    | Outcome::Cancelled
            );
            assert_eq!(
                is_bad(outcome),
                !neutral && !outcome.is_success(),
                "{outcome}"
            );
        }
        let mut tally = Tally::default();
        tally.open(ms(0));
        tally.record(&exchange(0, 1, Outcome::Gone));
        tally.record(&exchange(0, 1, Outcome::Cancelled));
        tally.close(ms(10));
        let got = tally.measured(1, Z, Usage::default(), true);
        assert_eq!((got.requests, got.ok, got.bad()), (1, 0, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        /// `level` workers without a pause: the exchanges in flight are the level, and Little's law finds them.
        #[test]
        fn busy_workers_obey_littles_law(
            level in 1_u32..20,
            took in 1_u64..100,
            bad_every in 2_u64..50,
        ) {
            let mut tally = Tally::default();
            tally.open(ms(1000));
            let mut nth = 0;
            for turn in 0..(4000 / took) {
                if turn * took + took > 3000 {
                    tally.close(ms(3000));
                }
                for _ in 0..level {
                    nth += 1;
                    let outcome = if nth % bad_every == 0 { Outcome::Limited } else { Outcome::Ok };
                    tally.record(&exchange(turn * took, turn * took + took, outcome));
                }
            }
            tally.close(ms(3000));
            let got = tally.measured(level, Z, Usage::default(), true);
            // The window cuts at most one turn on either side.
            let edge = f64::from(level) * 2.0 * took as f64 / 2000.0 + 1e-9;
            prop_assert!((got.in_flight_predicted - f64::from(level)).abs() <= edge);
            prop_assert!(got.in_flight_mean <= f64::from(level) + 1e-9);
            prop_assert_eq!(got.requests, got.outcomes.values().sum::<u64>());
            prop_assert_eq!(got.requests, got.ok + got.bad());
        }

        /// Whatever is recorded, nothing is counted twice, and no number leaves its range.
        #[test]
        fn any_exchanges_give_sane_figures(
            all in prop::collection::vec((0_u64..2000, 0_u64..3000, 0..Outcome::ALL.len()), 0..60),
            open in 0_u64..2000,
            length in 0_u64..2000,
        ) {
            let mut tally = Tally::default();
            tally.open(ms(open));
            for (granted, took, nth) in &all {
                tally.record(&exchange(*granted, granted + took, Outcome::ALL[*nth]));
            }
            tally.close(ms(open + length));
            let got = tally.measured(3, Z, Usage::default(), true);
            prop_assert!(got.requests <= all.len() as u64);
            prop_assert!(got.ok + got.bad() <= got.requests);
            prop_assert!(got.bad_share_low <= got.bad_share && got.bad_share <= got.bad_share_high);
            prop_assert!(got.ok_per_second.is_finite() && got.in_flight_mean.is_finite());
            prop_assert!(got.latency_ms_p50 <= got.latency_ms_p95);
        }
    }
}
