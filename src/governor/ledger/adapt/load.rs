//! The periodic evaluation: what was sent and answered, whether the server queues, whether a bound holds.

use super::Adapt;
use super::phase::{self, Phase, next_step};
use super::slots::Slots;
use super::units::{between, pace, span};
use crate::model::Timestamp;

/// Shortest period, seconds.
const SHORTEST: f64 = 0.5;
/// A period lasts at least so many latencies, for its answers must be seen.
const LATENCIES: f64 = 1.25;
/// And so many requests.
const REQUESTS: f64 = 4.0;
/// A lane that sent at least this share of what its pace allowed was busy: its pace is proven.
const BUSY: f64 = 0.6;
/// A cap binds when more than this share of the requests had to wait for it.
const BOUND: f64 = 0.5;
/// Or more than this share, while fewer were sent …
const BOUND_SOME: f64 = 0.15;
/// … than this share of what the pace allowed: pace and cap then take turns.
const BOUND_BELOW: f64 = 0.93;
/// Weight of a period in the smoothed goodput.
const SMOOTHING: f64 = 0.3;
/// Latency above this multiple of the baseline is a queue …
const QUEUE: f64 = 1.6;
/// … at rest, where the baseline follows slowly, this multiple.
const QUEUE_AT_REST: f64 = 2.0;
/// Noise of the latency that is no queue, in deviations.
const NOISE: f64 = 0.5;
/// While searching, a server that answers less than this share of the pace is behind: half may still be on
/// the way, for the pace was half of that before.
const KEEPS_UP: f64 = 0.5;
/// It queues, if it is behind for so many periods on end at the same pace.
const BEHIND: u32 = 4;
/// Head-room of the pace over the goodput while the requests in flight bind.
const HEADROOM: f64 = 1.15;
/// A probe beyond this multiple of the estimate …
const FOUND_PACE: f64 = 1.3;
/// … that the server has really served to this multiple has found a higher limit.
const FOUND_GOODPUT: f64 = 1.05;
/// … beyond so many seconds of the estimate: less may have been saved in a bucket.
const FOUND_EXCESS: f64 = 0.5;
/// Most doublings in a row that make a probe faster.
const MOST_BOOST: f64 = 4.0;
/// Time constant of the suspicion that a limit is shared, seconds.
const SUSPICION: f64 = 60.0;
/// A measurement without a refusal must last so many latencies, and so many pauses: what was saved up in
/// the pause is used up then.
const QUIET_LATENCIES: f64 = 8.0;
const QUIET_PAUSES: f64 = 5.0;
const SHORTEST_QUIET: f64 = 1.0;
/// Seconds of rest after a higher limit was found …
const HOLD_AFTER_FIND: f64 = 4.0;
/// … and units of time by which the next probe begins advanced: it need not be slow at first.
const HEAD_START: f64 = 1.5;
/// Share of the goodput that drains a queue.
const DRAIN_SHARE: f64 = 0.97;
/// A queue met by a probe changes the estimate to no less than this share …
const DEEPEST_DRAIN: f64 = 0.6;
/// … and no more than this.
const HIGHEST_DRAIN: f64 = 1.2;
/// A queue met at rest changes it to no less than this share.
const DEEPEST_AT_REST: f64 = 0.8;
/// Share of the new estimate at which the draining begins.
const DRAIN_FROM: f64 = 0.7;
/// Seconds of rest after a queue was met in the search.
const HOLD_AFTER_QUEUE: f64 = 4.0;
/// A server that queues is not probed more often than so many seconds, after some probes.
const LONGEST_QUEUE_HOLD: f64 = 30.0;
/// Share of the way to the mean latency that the baseline goes in a period: while searching, …
const FOLLOW_SEARCH: f64 = 0.2;
/// … recovering, …
const FOLLOW_RECOVERY: f64 = 0.1;
/// … at rest, …
const FOLLOW_REST: f64 = 0.03;
/// … at rest with a queue, …
const FOLLOW_QUEUE: f64 = 0.01;
/// … and beyond the estimate, where only less is believed.
const FOLLOW_PROBE: f64 = 0.05;

/// Counters of the current period.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    began: Timestamp,
    sent: f64,
    /// Requests that waited for the cap, not for the pace.
    bound: f64,
    answered: f64,
    failed: f64,
    /// Good answers per second, smoothed over periods.
    goodput: f64,
    /// Periods on end in which the server answered far less than was sent.
    behind: u32,
}

impl Load {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            began: now,
            sent: 0.0,
            bound: 0.0,
            answered: 0.0,
            failed: 0.0,
            goodput: 0.0,
            behind: 0,
        }
    }

    pub(super) fn sent(&mut self, bound: bool) {
        self.sent += 1.0;
        self.bound += f64::from(u8::from(bound));
    }

    pub(super) fn answered(&mut self) {
        self.answered += 1.0;
    }

    pub(super) fn failed(&mut self) {
        self.failed += 1.0;
    }

    fn is_empty(&self) -> bool {
        self.sent + self.answered + self.failed == 0.0
    }

    fn restart(&mut self, now: Timestamp) {
        *self = Self {
            goodput: self.goodput,
            behind: self.behind,
            ..Self::new(now)
        };
    }
}

impl Adapt {
    /// When the current period ends.
    pub(super) fn period_end(&self) -> Timestamp {
        self.load.began + span(self.period())
    }

    /// Evaluate the period that has ended, and skip those after it that have ended by `until`: they are
    /// empty, for whatever happens is preceded by a call, and only let time pass.
    pub(super) fn evaluate(&mut self, until: Timestamp) {
        let length = self.period();
        let end = self.period_end();
        if self.load.is_empty() {
            self.phase.idle(length);
        } else {
            self.evaluate_period(end, length);
        }
        let idle = (between(end, until) / self.period()).floor() * self.period();
        self.phase.idle(idle);
        self.load.restart(end + span(idle));
    }

    /// Length of a period, seconds.
    fn period(&self) -> f64 {
        SHORTEST
            .max(LATENCIES * self.latency.baseline())
            .max(REQUESTS / self.w)
    }

    fn evaluate_period(&mut self, end: Timestamp, length: f64) {
        let load = self.load;
        let goodput = load.answered / length;
        self.credit.earn(&self.temper, load.answered, length);
        self.shared *= (-length / SUSPICION).exp();
        if !self.halt.is_open() {
            return;
        }
        self.load.goodput = if load.goodput == 0.0 {
            goodput
        } else {
            load.goodput + SMOOTHING * (goodput - load.goodput)
        };
        let middle = end - span(0.5 * length);
        let allowed = self.rate(middle) * length;
        let cap_binds = load.bound > BOUND * load.sent
            || load.bound > BOUND_SOME * load.sent && load.sent < BOUND_BELOW * allowed;
        // A pace that only a told bound kept back is not proved: the bound may lapse at any time.
        let busy = cap_binds || load.sent >= BUSY * self.own_rate(middle) * length;
        if !busy {
            self.phase.idle(length);
            return;
        }
        if self.slots.found().is_some() {
            if cap_binds {
                let may_raise = self.may_probe();
                self.slots.bound(length, may_raise);
            }
            if self.slots.rules() {
                self.pace_above_cap();
            }
            if cap_binds || self.slots.rules() {
                self.phase.idle(length);
                self.follow_latency(false);
                return;
            }
        }
        if self.slots.is_trial() && cap_binds {
            self.try_cap(end);
            return;
        }
        let queue = if matches!(self.phase, Phase::Hold { .. }) {
            QUEUE_AT_REST
        } else {
            QUEUE
        };
        let keeps_up = load.answered >= KEEPS_UP * allowed;
        self.load.behind = if keeps_up {
            0
        } else {
            load.behind.saturating_add(1)
        };
        let saturated = cap_binds
            || self.load.behind >= BEHIND
            || self.latency.is_settled()
                && self.latency.mean()
                    > queue * self.latency.baseline() + NOISE * self.latency.deviation();
        if saturated {
            self.saturated(goodput);
        }
        self.settle(end, length, saturated);
        self.follow_latency(saturated);
    }

    /// The cap on trial binds, not the pace.
    fn try_cap(&mut self, end: Timestamp) {
        if let Phase::Measure { since, climb, .. } = self.phase
            && between(since, end) >= climb + self.quiet()
        {
            self.slots.end_trial(true);
            self.phase = Phase::Hold { until: end };
            self.halt.forgive();
            self.pace_above_cap();
        }
        self.follow_latency(false);
    }

    /// The pace that the cap allows by Little's law, and some more.
    pub(super) fn pace_above_cap(&mut self) {
        if let Some(cap) = self.slots.found()
            && self.latency.mean() > 0.0
        {
            self.w = pace(HEADROOM * f64::from(cap) / self.latency.mean());
        }
    }

    /// Seconds without a refusal that prove a pace after an exhaustion.
    fn quiet(&self) -> f64 {
        (QUIET_LATENCIES * self.latency.mean())
            .max(QUIET_PAUSES * self.cycle.pause())
            .max(SHORTEST_QUIET)
    }

    /// What a busy period proves in each phase.
    fn settle(&mut self, end: Timestamp, length: f64, saturated: bool) {
        match self.phase {
            Phase::Start if !saturated && self.load.behind == 0 => {
                self.w = pace(next_step(self.w));
            }
            Phase::Measure {
                since, to, climb, ..
            } if between(since, end) >= climb + self.quiet() => {
                self.slots.end_trial(false);
                self.w = pace(to / phase::MEASURE_TO);
                self.halt.forgive();
                self.phase = Phase::Hold { until: end };
            }
            Phase::Hold { until } if end >= until && self.may_probe() => {
                self.excess = 0.0;
                self.phase = Phase::Probe {
                    since: end,
                    unit: self.unit(),
                };
            }
            Phase::Probe { unit, .. } => {
                let now = self.rate(end);
                self.excess += self.load.answered - self.w * length;
                if now > FOUND_PACE * self.w
                    && self.load.answered / length > FOUND_GOODPUT * self.w
                    && self.excess > FOUND_EXCESS * self.w
                {
                    self.excess = 0.0;
                    self.w = pace(now / HEADROOM);
                    self.hold = HOLD_AFTER_FIND;
                    self.boost = (self.boost + 1.0).min(MOST_BOOST);
                    self.phase = Phase::Probe {
                        since: end - span(HEAD_START * unit),
                        unit: self.unit(),
                    };
                }
            }
            _ => {}
        }
    }

    /// The server queues: more requests only wait longer.
    fn saturated(&mut self, goodput: f64) {
        let smooth = self.load.goodput;
        match self.phase {
            Phase::Start | Phase::Measure { .. } => {
                self.w = pace(DRAIN_SHARE * goodput);
                self.hold = HOLD_AFTER_QUEUE;
                self.slots = Slots::Free;
            }
            Phase::Probe { .. } => {
                self.w = pace(
                    (DRAIN_SHARE * smooth).clamp(DEEPEST_DRAIN * self.w, HIGHEST_DRAIN * self.w),
                );
                self.hold = (2.0 * self.hold).min(LONGEST_QUEUE_HOLD);
            }
            Phase::Hold { .. } => {
                self.w = pace(smooth.clamp(DEEPEST_AT_REST * self.w, self.w));
            }
            Phase::Recover { .. } => return,
        }
        self.phase = Phase::Recover {
            since: self.load.began + span(self.period()),
            from: DRAIN_FROM * self.w,
            length: self.recovery_length(),
        };
    }

    /// Let the baseline follow where the load is known to be low.
    fn follow_latency(&mut self, saturated: bool) {
        if !self.latency.is_known() {
            return;
        }
        match self.phase {
            Phase::Start | Phase::Measure { .. } if !saturated => {
                self.latency.rebase(FOLLOW_SEARCH)
            }
            Phase::Recover { .. } => self.latency.rebase(FOLLOW_RECOVERY),
            Phase::Hold { .. } => {
                self.latency.rebase_down(FOLLOW_REST);
                if !saturated {
                    self.latency.rebase(FOLLOW_QUEUE);
                }
            }
            Phase::Probe { .. } => self.latency.rebase_down(FOLLOW_PROBE),
            Phase::Start | Phase::Measure { .. } => {}
        }
    }

    /// A pause ended: periods begin anew.
    pub(super) fn restart_load(&mut self, now: Timestamp) {
        let length = between(self.load.began, now).min(self.period());
        self.credit.earn(&self.temper, self.load.answered, length);
        self.load.restart(now);
    }
}
