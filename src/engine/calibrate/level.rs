//! Running one level: so many exchanges in flight as its cap lets through, for some seconds.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::messages::{End, Running, Seen};
use super::probe::{NoExchange, Probe, Probed};
use super::targets::{Target, millis};
use super::usage;
use crate::calibrate::{Exchange, Measured, Rules, Tally, Usage, z_of};
use crate::model::Outcome;

/// How often a running level is told of.
const TOLD_EVERY: Duration = Duration::from_millis(200);
/// Requests that wait beyond the cap, so that a slot that is given back is taken at once. At most the level itself.
const WAITING: u32 = 8;

/// What a level came to.
pub(super) struct Ran {
    pub(super) measured: Measured,
    /// Why nothing may follow it.
    pub(super) end: Option<End>,
}

/// The state that the workers of a level share, on one thread.
struct Level<'l> {
    probe: &'l Probe,
    targets: &'l [Target],
    start: Instant,
    length: Duration,
    /// Requests that it may send.
    requests: u64,
    /// Requests and time after which it is warm.
    warm: (u64, Duration),
    tally: RefCell<Tally>,
    granted: Cell<u64>,
    in_flight: Cell<u32>,
    turn: Cell<usize>,
    /// Targets whose lane is paused beyond the level's end.
    paused: RefCell<Vec<bool>>,
    end: RefCell<Option<End>>,
    /// What the process had used when the window opened.
    before: Cell<Usage>,
    /// Turns true when nothing more is asked.
    closed: watch::Sender<bool>,
}

/// Runs a level; the cap is set already. `requests` is what it may send.
pub(super) async fn run(
    probe: &Probe,
    targets: &[Target],
    level: u32,
    requests: u64,
    rules: &Rules,
    seen: &dyn Fn(Seen<'_>),
) -> Ran {
    let state = Level {
        probe,
        targets,
        start: Instant::now(),
        length: rules.length,
        requests,
        warm: rules.warmup_of(requests),
        tally: RefCell::default(),
        granted: Cell::new(0),
        in_flight: Cell::new(0),
        turn: Cell::new(0),
        paused: RefCell::new(vec![false; targets.len()]),
        end: RefCell::new(None),
        before: Cell::default(),
        closed: watch::Sender::new(false),
    };
    state.open_when_warm();
    let whole = state.work(level, seen).await;
    state.close();
    let used = usage::since(state.before.get(), usage::of_process());
    let end = state.end.into_inner();
    let complete = whole && end.is_none();
    let z = z_of(rules.confidence);
    Ran {
        measured: state.tally.into_inner().measured(level, z, used, complete),
        end,
    }
}

impl Level<'_> {
    /// Lets the workers work until the level's end, and what is in flight end by itself. `false`: a stop was asked for.
    async fn work(&self, level: u32, seen: &dyn Fn(Seen<'_>)) -> bool {
        let mut workers: FuturesUnordered<_> = (0..level + level.min(WAITING))
            .map(|_| self.worker())
            .collect();
        let mut stop = self.probe.stop.clone();
        let stopped = stop.wait_for(|stop| *stop);
        tokio::pin!(stopped);
        let mut tell = tokio::time::interval(TOLD_EVERY);
        let warm = sleep_until(self.start + self.warm.1);
        let over = sleep_until(self.start + self.length);
        tokio::pin!(warm, over);
        let (mut is_warm, mut is_over) = (false, false);
        loop {
            tokio::select! {
                biased;
                // Exchanges in flight are cut off: a person waits.
                _ = &mut stopped => {
                    self.end.replace(Some(End::Interrupted));
                    return false;
                }
                () = &mut warm, if !is_warm => {
                    is_warm = true;
                    self.open();
                }
                () = &mut over, if !is_over => {
                    is_over = true;
                    self.close();
                }
                _ = tell.tick() => seen(Seen::Running(self.running(level))),
                worker = workers.next() => if worker.is_none() {
                    return true;
                },
            }
        }
    }

    fn running(&self, level: u32) -> Running {
        let (requests, bad) = self.tally.borrow().so_far();
        Running {
            level,
            elapsed: self.start.elapsed(),
            requests,
            bad,
            in_flight: self.in_flight.get(),
        }
    }

    fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    fn open(&self) {
        let mut tally = self.tally.borrow_mut();
        if !tally.is_open() {
            tally.open(self.start.elapsed());
            self.before.set(usage::of_process());
        }
    }

    fn open_when_warm(&self) {
        if self.granted.get() >= self.warm.0 {
            self.open();
        }
    }

    /// Nothing that is granted from now on counts, and nothing more is asked.
    fn close(&self) {
        self.tally.borrow_mut().close(self.start.elapsed());
        self.closed.send_replace(true);
    }

    /// The next target whose lane is open.
    fn target(&self) -> Option<(usize, &Target)> {
        let paused = self.paused.borrow();
        (0..self.targets.len()).find_map(|_| {
            let turn = self.turn.get() % self.targets.len();
            self.turn.set(turn + 1);
            (!paused[turn]).then(|| (turn, &self.targets[turn]))
        })
    }

    async fn worker(&self) {
        let mut closed = self.closed.subscribe();
        while !self.is_closed() {
            let Some((nth, target)) = self.target() else {
                return;
            };
            let left = self.length.saturating_sub(self.start.elapsed());
            let permit = tokio::select! {
                biased;
                _ = closed.wait_for(|closed| *closed) => return,
                permit = self.probe.permit(&target.lane, left) => permit,
            };
            let permit = match permit {
                Ok(permit) => permit,
                Err(NoExchange::Later(_)) => {
                    self.paused.borrow_mut()[nth] = true;
                    continue;
                }
                Err(NoExchange::Stopped | NoExchange::Gone) => return,
            };
            if self.is_closed() {
                drop(permit.release(false));
                return;
            }
            self.open_when_warm();
            let granted = self.start.elapsed();
            self.granted.set(self.granted.get() + 1);
            self.in_flight.set(self.in_flight.get() + 1);
            let exchange = self.probe.exchange(permit, &target.task, &target.request);
            if self.granted.get() >= self.requests {
                self.close_after(granted);
            }
            let probed = exchange.await;
            self.in_flight.set(self.in_flight.get() - 1);
            self.tally.borrow_mut().record(&Exchange {
                granted,
                released: probed.released.saturating_duration_since(self.start),
                outcome: probed.outcome,
                latency: probed.answer.as_ref().ok().map(|answer| answer.total_time),
            });
            self.look(&probed);
        }
    }

    /// The last request that the level may send was granted at `granted`, and counts.
    fn close_after(&self, granted: Duration) {
        let just_after = granted + Duration::from_nanos(1);
        self.tally.borrow_mut().close(just_after);
        self.closed.send_replace(true);
    }

    /// A site that refuses this client is left alone at once.
    fn look(&self, probed: &Probed) {
        if matches!(
            probed.outcome,
            Outcome::Blocked | Outcome::Captcha | Outcome::Login
        ) {
            self.close();
            self.end.borrow_mut().get_or_insert(End::Blocked {
                outcome: probed.outcome,
                status: probed.answer.as_ref().map_or(0, |answer| answer.status),
                wait_ms: probed.said.retry_after.map(millis),
            });
        }
    }
}
