//! What holds in every history: thousands of random ones, each reproducible from its seed.

use std::time::Duration;

use super::{Hand, Sent, at};
use crate::governor::ledger::level::Gate;
use crate::governor::messages::{Hints, PermitId};
use crate::model::{Outcome, Timestamp};

const HISTORIES: u64 = 10_000;
const STEPS: usize = 120;

/// A random history of one lane, with the checks that hold at every step.
struct History {
    hand: Hand,
    dice: fastrand::Rng,
    now: Timestamp,
    out: Vec<(PermitId, Sent)>,
    /// The latest instant that a header told to wait for.
    not_before: Timestamp,
    /// Whether the lane is asked to catch up at random moments too.
    restless: bool,
}

impl History {
    fn new(seed: u64, restless: bool) -> Self {
        Self {
            hand: Hand::new(seed),
            dice: fastrand::Rng::with_seed(!seed),
            now: at(0.0),
            out: Vec::new(),
            not_before: at(0.0),
            restless,
        }
    }

    fn wait(&mut self) {
        let seconds = match self.dice.u8(..10) {
            0 => 0.0,
            1..=6 => self.dice.f64() * 0.2,
            7 | 8 => self.dice.f64() * 3.0,
            _ => self.dice.f64() * 400.0,
        };
        let (from, to) = (self.now, self.now + Duration::from_secs_f64(seconds));
        if self.restless {
            for nth in 1..5_u32 {
                self.hand.lane.advance(from + to.since(from) * nth / 5);
            }
        }
        self.now = to;
    }

    fn hints(&mut self) -> Hints {
        let wait = |dice: &mut fastrand::Rng| {
            Some(match dice.u8(..8) {
                0 => Duration::ZERO,
                1 => Duration::from_secs(1_000_000_000_000),
                _ => Duration::from_secs_f64(dice.f64() * 20.0),
            })
        };
        let rates = [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e-3, 5.0, 1e6];
        Hints {
            retry_after: if self.dice.u8(..20) == 0 {
                wait(&mut self.dice)
            } else {
                None
            },
            exhausted: if self.dice.u8(..60) == 0 {
                wait(&mut self.dice)
            } else {
                None
            },
            rate: (self.dice.u8(..20) == 0).then(|| rates[self.dice.usize(..rates.len())]),
            cap: (self.dice.u8(..40) == 0).then(|| self.dice.u32(..10)),
            bucket: None,
            ..Hints::default()
        }
    }

    fn outcome(&mut self) -> Outcome {
        match self.dice.u8(..10) {
            0..=5 => Outcome::Ok,
            6 | 7 => Outcome::Limited,
            _ => Outcome::ALL[self.dice.usize(..Outcome::ALL.len())],
        }
    }

    fn step(&mut self) {
        self.wait();
        match self.dice.u8(..3) {
            0 | 1 if self.out.len() < 40 => {
                let in_flight = self.out.len() as u32;
                match self.hand.gate(self.now, in_flight) {
                    Gate::Open => {
                        assert!(
                            self.now >= self.not_before,
                            "sent before a not-before instant"
                        );
                        let sent = self.hand.send(self.now, in_flight);
                        assert!(self.hand.lane.still_open(sent.0, &sent.1, self.now));
                        self.out.push(sent);
                    }
                    Gate::At(when, _) => assert!(when > self.now, "a wait that is over"),
                    Gate::Wait(_) => {}
                }
            }
            _ if !self.out.is_empty() => {
                let sent = self.out.swap_remove(self.dice.usize(..self.out.len()));
                if self.dice.u8(..10) == 0 {
                    self.hand.lane.advance(self.now);
                    self.hand.lane.lost(sent.0, &sent.1, self.now);
                } else {
                    let (hints, outcome) = (self.hints(), self.outcome());
                    for wait in [hints.retry_after, hints.exhausted].into_iter().flatten() {
                        self.not_before = self.not_before.max(self.now + wait);
                    }
                    self.hand.answer(sent, outcome, &hints, self.now);
                }
            }
            _ => {}
        }
        self.check();
    }

    fn check(&self) {
        let view = self.hand.lane.view(self.now);
        assert!(
            view.pace.is_finite() && view.pace >= 0.05 && view.pace <= 1e6,
            "{view:?}"
        );
        assert!(
            view.estimate.is_finite() && view.credit.is_finite(),
            "{view:?}"
        );
        assert!((-1.0..=5.0).contains(&view.credit), "{view:?}");
        let probes = self
            .out
            .iter()
            .filter(|(permit, _)| self.hand.lane.probe() == Some(*permit));
        assert!(probes.count() <= 1);
        if let Some((until, _)) = self.hand.lane.time_gate(self.now) {
            let own = self.now + Duration::from_secs(90);
            assert!(
                until <= own.max(self.not_before + Duration::from_secs(6)),
                "a pause without end"
            );
        }
    }

    fn run(mut self) -> Self {
        for _ in 0..STEPS {
            self.step();
        }
        self
    }
}

#[test]
fn invariants_3_4_8_12_hold_in_every_history() {
    for seed in 0..HISTORIES {
        History::new(seed, false).run();
    }
}

#[test]
fn invariant_22_the_same_history_gives_the_same_lane() {
    for seed in 0..HISTORIES / 10 {
        let lane = |seed| format!("{:?}", History::new(seed, false).run().hand.lane);
        assert_eq!(lane(seed), lane(seed));
    }
}

#[test]
fn t56_it_does_not_matter_how_often_the_lane_catches_up() {
    for seed in 0..HISTORIES {
        let view = |restless| {
            let mut history = History::new(seed, restless).run();
            history.hand.lane.advance(history.now);
            history.hand.lane.view(history.now)
        };
        let (calm_view, view) = (view(false), view(true));
        assert_eq!(
            (calm_view.state, calm_view.cap),
            (view.state, view.cap),
            "seed {seed}"
        );
        assert!(
            (calm_view.pace - view.pace).abs() <= 1e-6 * view.pace,
            "seed {seed}: {calm_view:?} {view:?}"
        );
    }
}

#[test]
fn invariant_5_the_order_within_a_burst_does_not_matter() {
    for seed in 0..HISTORIES {
        let mut dice = fastrand::Rng::with_seed(seed);
        let warm_up = dice.u32(1..60);
        let count = dice.u32(2..12);
        let estimate = |shuffled: bool| {
            let mut hand = Hand::new(seed);
            for nth in 0..warm_up {
                let now = at(f64::from(nth) * 0.2);
                let sent = hand.send(now, 0);
                hand.answer(
                    sent,
                    Outcome::Ok,
                    &Hints::default(),
                    now + Duration::from_millis(100),
                );
            }
            let start = at(f64::from(warm_up) * 0.2 + 0.2);
            let mut burst: Vec<_> = (0..count).map(|nth| hand.send(start, nth)).collect();
            if shuffled {
                // All left at one instant; the first in number stays first, as the count is exact.
                fastrand::Rng::with_seed(seed).shuffle(&mut burst[1..]);
            }
            for sent in burst {
                hand.answer(sent, Outcome::Limited, &Hints::default(), start);
            }
            let view = hand.lane.view(start);
            (view.estimate, view.events)
        };
        let (straight, shuffled) = (estimate(false), estimate(true));
        assert_eq!(straight, shuffled);
        assert_eq!(straight.1, 1);
    }
}

#[test]
fn invariant_20_only_good_answers_teach_the_latency() {
    for seed in 0..HISTORIES {
        let mut hand = Hand::new(seed);
        let mut dice = fastrand::Rng::with_seed(seed);
        for nth in 0..30_u32 {
            let now = at(f64::from(nth) * 100.0);
            let sent = hand.send(now, 0);
            let outcome = Outcome::ALL[dice.usize(..Outcome::ALL.len())];
            let good = outcome.is_success() || outcome == Outcome::Gone;
            let held = if good { 100 } else { 90_000 };
            hand.answer(
                sent,
                outcome,
                &Hints::default(),
                now + Duration::from_millis(held),
            );
        }
        let latency = hand.lane.learned().latency;
        assert!(latency == 0.0 || (latency - 0.1).abs() < 1e-9, "{latency}");
    }
}

#[test]
fn invariant_21_idle_time_earns_nothing() {
    for seed in 0..HISTORIES / 10 {
        let mut history = History::new(seed, false).run();
        for sent in std::mem::take(&mut history.out) {
            history.hand.lane.lost(sent.0, &sent.1, history.now);
        }
        // Longer than any period or pause that is not told.
        let calm = history.now + Duration::from_secs(86_400);
        history.hand.lane.advance(calm);
        let before = history.hand.lane.view(calm);
        let later = calm + Duration::from_secs(86_400);
        history.hand.lane.advance(later);
        let after = history.hand.lane.view(later);
        assert!(after.estimate <= before.estimate && after.credit <= before.credit);
        // What was told is forgotten; within a period a climb goes on, but no further.
        assert!(
            after.pace <= 1.5 * before.pace.max(after.estimate),
            "{before:?} {after:?}"
        );
    }
}

#[test]
fn invariant_23_a_lane_is_small() {
    assert!(
        size_of::<super::Adapt>() < 2048,
        "{}",
        size_of::<super::Adapt>()
    );
}

#[test]
fn invariant_8_the_end_of_time_is_survived() {
    let end = Timestamp::from_nanos(u64::MAX - 5);
    let mut hand = Hand::new(1);
    for _ in 0..100 {
        let sent = hand.send(end, 0);
        hand.answer(sent, Outcome::Limited, &super::retry_after(1e12), end);
        hand.lane.advance(Timestamp::MAX);
    }
    assert!(hand.lane.view(end).pace.is_finite());
}
