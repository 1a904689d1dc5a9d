//! What a refusal teaches, and what the end of a block teaches.

use std::time::Duration;

use super::cycle::Reading;
use super::halt::Cause;
use super::phase::{self, Phase, REST};
use super::slots::Slots;
use super::units::{between, pace};
use super::{Adapt, LONGEST_WINDOW, Sent};
use crate::model::Timestamp;

/// Suspicion above which a limit is taken for shared with others.
pub(super) const SURELY_SHARED: f64 = 2.5;
/// Suspicion above which a refusal at rest is no bound: others may have caused it.
const PERHAPS_SHARED: f64 = 1.5;
/// Requests that would be refused before the first refusal is back, if a pause was too short: with more of
/// them at stake one request goes first.
const CHEAP_TO_TRY: f64 = 2.5;
/// Weight of a refusal in the mean time that refusals take.
const REFUSAL_WEIGHT: f64 = 0.2;
/// Share of a pace that must have been served for its refusal to be a surprise.
const SERVED: f64 = 0.9;
/// What is left of the estimate when others use the same limit: the usual yield of rate laws.
const SHARED_CUT: f64 = 0.8;
/// A probe that went beyond this share of the estimate has left what the estimate knew.
const FAR_PROBE: f64 = 1.35;
/// What a refused pace leaves of itself as estimate, when nothing better is known.
const BLIND_CUT: f64 = 0.85;
/// A refused pace was above the limit by at least this.
const NEAR_CUT: f64 = 0.97;
/// Share of the way from the estimate to a refused pace that a probe has proved.
const PROBE_SHARE: f64 = 0.25;
/// What a pace that was refused at rest grows by as a bound, with each probe that is refused beyond it.
const BOUND_GROWTH: f64 = 1.03;
/// A lane refused before it measured anything falls to this share.
const EARLY_CUT: f64 = 0.75;
/// A cut to less than this share means that the limit itself has changed …
const DEEP_CUT: f64 = 0.8;
/// … and is looked at again after so many seconds.
const HOLD_AFTER_FALL: f64 = 6.0;
/// One event lowers the estimate to no less than this share …
const DEEPEST_CUT: f64 = 0.35;
/// … and a measurement to this share of the pace that was refused.
const DEEPEST_MEASURE: f64 = 0.1;
/// A measured rate is used with this margin.
const MEASURED_SHARE: f64 = 0.98;
/// A proven block of so many seconds is a window or a ban, not a bucket that fills again.
const LONG_BLOCK: f64 = 1.0;
/// So is a wait of so many seconds that the server asks for; one second may be less, rounded up, and two
/// as a date, which has whole seconds only.
const LONG_WAIT: f64 = 2.1;
/// A cycle of so many windows' length is more than one window.
const SEVERAL_WINDOWS: f64 = 1.9;
/// A ban lasts at least so many seconds …
const BAN_BLOCK: f64 = 20.0;
/// … and follows at least so many refusals.
const BAN_REFUSALS: f64 = 15.0;
/// What a ban leaves of the estimate: the rate was right, or nearly so; the refusals were too many.
const BAN_CUT: f64 = 0.9;
/// The same while the rate is not known.
const BLIND_BAN_CUT: f64 = 0.4;
/// Seconds of rest before the first probe after a measurement: it may have been rough.
const HOLD_AFTER_MEASURE: f64 = 1.0;
/// What the rest grows by with each probe that met the same limit.
const HOLD_GROWTH: f64 = 2.5;
/// Seconds of rest where others use the same limit: what they leave must be taken up soon.
const HOLD_IF_SHARED: f64 = 3.0;
/// Least seconds of rest once a limit of requests in flight was met.
const HOLD_AT_CAP: f64 = 4.0;
/// Seconds that nothing divides by less than.
const LEAST_SECONDS: f64 = 1e-3;

/// How long the server has been refusing, proven by refusals only: never by our own silence.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Block {
    /// Whether nothing was accepted by a probe since.
    pub(super) is_open: bool,
    /// When the cycle began that ended in the first refusal.
    pub(super) cycle_began: Timestamp,
    /// Requests accepted in that cycle.
    pub(super) accepted: f64,
    /// When the first refused request had left.
    pub(super) first: Timestamp,
    /// When the last refused request had left.
    pub(super) last: Timestamp,
}

impl Adapt {
    /// A request was refused.
    pub(super) fn refused(
        &mut self,
        sent: &Sent,
        is_probe: bool,
        cause: Cause,
        asked: Option<Duration>,
        now: Timestamp,
        rng: &mut fastrand::Rng,
    ) {
        let answered = between(sent.at, now);
        self.refusal_latency += REFUSAL_WEIGHT * (answered - self.refusal_latency);
        let first = is_probe || sent.epoch == self.halt.epoch();
        self.credit.spend(first);
        // Whatever was out when the lane was halted has been decided about, a probe that was given up too.
        if !is_probe && (!first || !self.halt.is_open()) {
            return;
        }
        if is_probe {
            self.block.last = sent.at;
        } else {
            self.congested(sent, asked.filter(|asked| !asked.is_zero()));
        }
        let stale = self.w * self.refusal_latency;
        self.halt.pause(
            cause,
            self.latency.mean(),
            asked,
            stale > CHEAP_TO_TRY,
            now,
            rng,
        );
    }

    /// The first refusal of an epoch: the one cut of the event.
    fn congested(&mut self, sent: &Sent, asked: Option<Duration>) {
        let refused = self.rate(sent.at);
        self.events = self.events.saturating_add(1);
        self.boost = 0.0;
        let asked_seconds = asked.map(|asked| asked.as_secs_f64());
        if self.block.is_open && self.cycle.accepted(sent.sequence) < 1.0 {
            // Still the same exhaustion: the pause was too short, which says nothing new of the rate.
            self.block.last = sent.at;
            self.block.accepted += self.cycle.accepted(sent.sequence);
            return;
        }
        let reading = self.cycle.read(sent.sequence, sent.at, asked_seconds);
        self.met = true;
        self.block = Block {
            is_open: true,
            cycle_began: self.cycle.resumed(),
            accepted: reading.accepted,
            first: sent.at,
            last: sent.at,
        };
        if let (Some(asked), Some(told), Some(window)) = (asked, reading.told, reading.window)
            && asked.as_secs_f64() > LONG_WAIT
            && reading.is_conclusive()
        {
            // A long window, and the server says when it ends.
            self.horizon = window.min(LONGEST_WINDOW);
            self.w = pace(MEASURED_SHARE * told.max(reading.lower).min(refused));
            self.phase = Phase::Hold { until: sent.at };
            self.slots = Slots::Free;
            return;
        }
        if self.slots.is_refuted(self.latency.mean()) {
            if self.slots.rules() {
                // The pace only kept out of the way of the cap.
                self.w = pace(reading.lower.min(self.w));
            }
            self.slots = Slots::Free;
        }
        if self.slots.found().is_some_and(|cap| sent.in_flight >= cap) {
            self.refused_at_cap(sent, reading);
        } else {
            self.cut(sent, refused, reading);
        }
    }

    /// The cap that was found had just been reached: the limit is there, whether it counts requests in
    /// flight or seconds. What was let through is the pace, or what one fewer in flight would let through.
    fn refused_at_cap(&mut self, sent: &Sent, reading: Reading) {
        let latency = self.latency.mean().max(LEAST_SECONDS);
        let fewer = f64::from(sent.in_flight.saturating_sub(1)) / latency;
        let through = if reading.is_conclusive() {
            reading.lower.max(fewer)
        } else {
            EARLY_CUT * self.w
        };
        self.w = pace(through.min(self.w));
        self.phase = Phase::Hold { until: sent.at };
        self.hold = self.hold.max(HOLD_AT_CAP);
        let needed = REST * self.w * latency;
        self.slots.refused(sent.in_flight, needed);
    }

    /// Lower the estimate; `refused` is the pace at which the refused request left.
    fn cut(&mut self, sent: &Sent, refused: f64, reading: Reading) {
        let w = self.w;
        let next = match self.phase {
            Phase::Start => {
                self.measure(sent, refused);
                return;
            }
            Phase::Measure { to, .. } => {
                if !reading.is_conclusive() {
                    let again = EARLY_CUT * to / phase::MEASURE_TO;
                    self.phase = Phase::measure(sent.at, again, self.latency.mean());
                    w.min(again)
                } else {
                    self.slots = Slots::Free;
                    self.hold = HOLD_AFTER_MEASURE;
                    self.phase = Phase::Hold { until: sent.at };
                    (MEASURED_SHARE * reading.rate())
                        .clamp(DEEPEST_MEASURE * refused, NEAR_CUT * refused)
                }
            }
            Phase::Probe { .. } if refused < FAR_PROBE * w => {
                self.hold = (self.hold * HOLD_GROWTH).min(self.temper.longest_hold);
                let closer = (w + PROBE_SHARE * (refused - w))
                    .min(NEAR_CUT * refused)
                    .max(EARLY_CUT * w);
                let bound = self.refused_at_rest;
                // Pace by pace the bound is forgotten, for the limit may have risen a little.
                self.refused_at_rest *= BOUND_GROWTH;
                if refused < FAR_PROBE * bound && self.shared < PERHAPS_SHARED {
                    closer.min(bound)
                } else {
                    closer
                }
            }
            Phase::Probe { .. } => {
                self.hold = HOLD_AFTER_MEASURE;
                self.phase = Phase::measure(sent.at, refused, self.latency.mean());
                BLIND_CUT * refused
            }
            Phase::Recover { .. } | Phase::Hold { .. } => {
                let at_rest = matches!(self.phase, Phase::Hold { .. });
                if at_rest {
                    self.refused_at_rest = refused;
                    // A lane that is still too fast has been served less than it sent; one that was served
                    // what it sent until now has met something new.
                    if reading.lower > SERVED * refused {
                        self.shared += 1.0;
                    }
                }
                if self.is_shared() {
                    self.hold = HOLD_IF_SHARED;
                    SHARED_CUT * w
                } else if reading.is_conclusive() {
                    let read = if at_rest { MEASURED_SHARE } else { 1.0 } * reading.rate();
                    let next = (NEAR_CUT * w).min(read.max(DEEPEST_CUT * w));
                    if next < DEEP_CUT * w {
                        // The limit fell: what was known of it is void, and it may rise again.
                        self.hold = HOLD_AFTER_FALL;
                    }
                    next
                } else if self.probed {
                    // One request was let through and hardly another: what comes back is a trickle.
                    reading.lower.clamp(DEEPEST_CUT * w, EARLY_CUT * w)
                } else {
                    EARLY_CUT * w
                }
            }
        };
        self.w = pace(next);
    }

    /// Find out what kind of limit this is.
    fn measure(&mut self, sent: &Sent, refused: f64) {
        self.hold = HOLD_AFTER_MEASURE;
        self.slots = Slots::trial(sent.in_flight);
        self.phase = Phase::measure(sent.at, refused, self.latency.mean());
        self.w = pace(BLIND_CUT * refused);
    }

    /// The half-open probe was answered: how long had the server been refusing?
    pub(super) fn reopen(&mut self, now: Timestamp) {
        let refused = !matches!(self.halt.cause(), None | Some(Cause::Outage));
        let proven = between(self.block.first, self.block.last);
        if refused && proven > LONG_BLOCK {
            let banned =
                proven > BAN_BLOCK && self.horizon == 0.0 && self.credit.recent() >= BAN_REFUSALS;
            if banned {
                // A ban is no window: what was accepted before it says nothing of the rate.
                self.credit.banned();
                self.cycle.forget();
                self.w = pace(match self.phase {
                    // Nothing was measured yet: the pace was far too high.
                    Phase::Start | Phase::Measure { .. } => BLIND_BAN_CUT * self.w,
                    _ => BAN_CUT * self.w,
                });
                self.phase = Phase::Hold { until: now };
                self.slots = Slots::Free;
            } else {
                let ended = 0.5 * between(self.block.last, now);
                let window = between(self.block.cycle_began, self.block.last) + ended;
                // A cycle over several windows says nothing of their length.
                if self.horizon == 0.0 || window < SEVERAL_WINDOWS * self.horizon {
                    self.horizon = self.horizon.max(window.min(LONGEST_WINDOW));
                }
                self.w = pace(
                    self.w
                        .min(MEASURED_SHARE * self.block.accepted / window.max(LEAST_SECONDS)),
                );
                self.phase = Phase::Hold { until: now };
                self.slots = Slots::Free;
            }
        }
        self.block.is_open = false;
        self.probed = true;
        self.halt.open();
        self.resume(true, now);
    }
}
