//! What a lane learns from answers: pauses, the half-open probe, and not-before instants.

use std::time::Duration;

use super::failures::FailureShare;
use super::level::{Gate, time_gate};
use super::{Fault, Faults};
use crate::governor::messages::{PermitId, WaitReason};
use crate::model::{Outcome, Timestamp};
use crate::settings::BackoffSettings;

/// A block is lifted by people or long timers: it is paused for longer than a request to slow down.
const BLOCKED_FACTOR: f64 = 4.0;
/// A lane that stays quiet for this many of its last pauses is forgiven its failures.
const FORGIVE_PAUSES: u32 = 4;
/// So is one that served this many requests since its last pause began: it refuses some, not all.
const FORGIVE_SERVED: u32 = 5;
/// Share by which a Retry-After may be lengthened, so that lanes do not wake in one instant.
const RETRY_AFTER_JITTER: f64 = 0.02;
/// The most that the jitter of a Retry-After adds.
const RETRY_AFTER_JITTER_MAX: Duration = Duration::from_secs(5);

/// Why a lane pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The server asked for it.
    Refusal,
    /// Most requests failed.
    Breaker,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Pause {
        until: Timestamp,
        cause: Cause,
    },
    /// One probe at a time: `None` when the next request is to be it.
    HalfOpen {
        probe: Option<PermitId>,
        cause: Cause,
    },
}

/// The back-off of one lane, shared by all its tasks.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    phase: Phase,
    /// Counts decisions. A permit carries the epoch it was granted in; only the first bad answer of the
    /// current epoch decides anything, for the others were on their way when it was decided.
    epoch: u32,
    failures: u32,
    last_pause: Duration,
    /// Good answers since the last pause began, whenever their requests had left.
    served: u32,
    opened: Timestamp,
    not_before: Timestamp,
    breaker: Breaker,
}

/// What is known of a permit when its report comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported {
    pub(crate) permit: PermitId,
    pub(crate) epoch: u32,
    pub(crate) outcome: Outcome,
    /// What the server asked to wait.
    pub(crate) wait: Option<Duration>,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            phase: Phase::Open,
            epoch: 0,
            failures: 0,
            last_pause: Duration::ZERO,
            served: 0,
            opened: Timestamp::ZERO,
            not_before: Timestamp::ZERO,
            breaker: Breaker::default(),
        }
    }
}

impl Backoff {
    /// The epoch, where the lane is open and no time has to pass.
    #[inline]
    pub(crate) fn calm(&self, now: Timestamp) -> Option<u32> {
        (self.phase == Phase::Open && now >= self.not_before).then_some(self.epoch)
    }

    pub(crate) fn time_gate(&self, now: Timestamp) -> Option<(Timestamp, WaitReason)> {
        let pause = match self.phase {
            Phase::Pause { until, .. } => until,
            _ => Timestamp::ZERO,
        };
        time_gate(self.not_before, pause, now)
    }

    pub(crate) fn gate(&self, now: Timestamp, faults: Faults) -> Gate {
        if let Some((at, why)) = self.time_gate(now)
            && !(faults.on(Fault::NotBeforeIgnored) && why == WaitReason::NotBefore)
        {
            return Gate::At(at, why);
        }
        match self.phase {
            Phase::HalfOpen { probe: Some(_), .. } if !faults.on(Fault::TwoProbes) => {
                Gate::Wait(WaitReason::Probe)
            }
            _ => Gate::Open,
        }
    }

    /// A permit is granted through an open gate. Returns its epoch.
    #[inline]
    pub(crate) fn begin(&mut self, permit: PermitId) -> u32 {
        match self.phase {
            Phase::Open => {}
            Phase::Pause { cause, .. } | Phase::HalfOpen { cause, .. } => {
                self.phase = Phase::HalfOpen {
                    probe: Some(permit),
                    cause,
                };
            }
        }
        self.epoch
    }

    /// Whether a permit decided in `epoch` may still leave: nothing was decided since.
    pub(crate) fn still_open(&self, permit: PermitId, epoch: u32, now: Timestamp) -> bool {
        let turn = match self.phase {
            Phase::Open => true,
            Phase::Pause { .. } => false,
            Phase::HalfOpen { probe, .. } => probe == Some(permit),
        };
        turn && epoch == self.epoch && self.time_gate(now).is_none()
    }

    /// Nothing leaves before `at`.
    pub(crate) fn not_before(&mut self, at: Timestamp) {
        self.not_before = self.not_before.max(at);
    }

    /// A permit ended without telling anything. If it was the probe, the next request is one.
    #[inline]
    pub(crate) fn lost(&mut self, permit: PermitId) {
        if let Phase::HalfOpen { probe, .. } = &mut self.phase
            && *probe == Some(permit)
        {
            *probe = None;
        }
    }

    /// What an answer teaches.
    pub(crate) fn report(
        &mut self,
        report: Reported,
        now: Timestamp,
        settings: &BackoffSettings,
        rng: &mut fastrand::Rng,
        faults: Faults,
    ) {
        let asked = report.wait.unwrap_or_default();
        if !asked.is_zero() {
            self.not_before = self.not_before.max(now + asked);
        }
        let refused = matches!(report.outcome, Outcome::Limited | Outcome::Blocked);
        if report.outcome.is_success() {
            self.served = self.served.saturating_add(1);
        }
        let failed = matches!(
            report.outcome,
            Outcome::ServerError | Outcome::Timeout | Outcome::Network
        );
        let factor = match report.outcome {
            Outcome::Blocked => BLOCKED_FACTOR,
            _ => 1.0,
        };
        match self.phase {
            Phase::HalfOpen {
                probe: Some(probe),
                cause,
            } if probe == report.permit => match report.outcome {
                Outcome::Cancelled | Outcome::Denied => self.lost(probe),
                _ if refused => self.pause(Cause::Refusal, factor, asked, now, settings, rng),
                // A 5xx shows that the server does not refuse us any more; silence shows nothing.
                Outcome::Timeout | Outcome::Network => {
                    self.pause(cause, factor, asked, now, settings, rng);
                }
                Outcome::ServerError if cause == Cause::Breaker => {
                    self.pause(cause, factor, asked, now, settings, rng);
                }
                _ => {
                    self.phase = Phase::Open;
                    self.opened = now;
                }
            },
            _ if report.epoch != self.epoch && !faults.on(Fault::CutPerAnswer) => {}
            Phase::Open | Phase::Pause { .. } if refused => {
                self.pause(Cause::Refusal, factor, asked, now, settings, rng);
            }
            Phase::Open if self.breaker.trips(report.outcome, failed) => {
                self.pause(Cause::Breaker, factor, asked, now, settings, rng);
            }
            _ => {}
        }
    }

    fn pause(
        &mut self,
        cause: Cause,
        factor: f64,
        asked: Duration,
        now: Timestamp,
        settings: &BackoffSettings,
        rng: &mut fastrand::Rng,
    ) {
        self.forgive(now);
        self.failures = self.failures.saturating_add(1);
        let own = length(settings, self.failures, factor);
        let jitter = own.mul_f64(settings.jitter.clamp(0.0, 1.0) * rng.f64());
        let own = own + jitter;
        // Upwards only: what the server asked for is a floor.
        let spread = asked
            .min(RETRY_AFTER_JITTER_MAX * 50)
            .mul_f64(RETRY_AFTER_JITTER * rng.f64())
            .min(RETRY_AFTER_JITTER_MAX);
        let until = (now + own).max(now + asked.saturating_add(spread));
        self.last_pause = own;
        self.served = 0;
        self.epoch = self.epoch.wrapping_add(1);
        self.breaker = Breaker::default();
        self.phase = Phase::Pause {
            until: until.max(self.not_before),
            cause,
        };
    }

    /// Failures are in a row only while they come soon after one another.
    fn forgive(&mut self, now: Timestamp) {
        let quiet = now.since(self.opened) > self.last_pause * FORGIVE_PAUSES;
        if self.phase == Phase::Open && (quiet || self.served >= FORGIVE_SERVED) {
            self.failures = 0;
        }
    }

    /// Whether a probe has to come first, or failures are counted that are not forgiven yet.
    pub(crate) fn is_on_guard(&self, now: Timestamp) -> bool {
        self.phase != Phase::Open || self.failures(now) > 0
    }

    /// Whether it was refused, and has not forgotten it.
    pub(crate) fn is_marked(&self) -> bool {
        self.phase != Phase::Open || self.failures > 0
    }

    pub(crate) fn failures(&self, now: Timestamp) -> u32 {
        let mut then = self.clone();
        then.forgive(now);
        then.failures
    }

    #[cfg(test)]
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The probe that is out.
    pub(crate) fn probe(&self) -> Option<PermitId> {
        match self.phase {
            Phase::HalfOpen { probe, .. } => probe,
            _ => None,
        }
    }

    /// `open`, `pause` or `half_open`, as the snapshot says it.
    pub(crate) fn state(&self, now: Timestamp) -> &'static str {
        match self.phase {
            _ if self.time_gate(now).is_some() => "pause",
            Phase::Open => "open",
            Phase::Pause { .. } | Phase::HalfOpen { .. } => "half_open",
        }
    }
}

/// `base × factor^(failures - 1)`, at most `max`: saturates for any number of failures.
fn length(settings: &BackoffSettings, failures: u32, factor: f64) -> Duration {
    let max = settings.max.as_secs_f64();
    let exponent = f64::from(failures.saturating_sub(1));
    let seconds = settings.base.as_secs_f64() * settings.factor.max(1.0).powf(exponent) * factor;
    // NaN cannot arise from settings in range; `min` would take the other operand if it did.
    Duration::try_from_secs_f64(seconds.min(max)).unwrap_or(settings.max)
}

/// Opens when failures are more than half of the answers, with confidence.
#[derive(Clone, Copy, Debug, Default)]
struct Breaker(FailureShare);

impl Breaker {
    /// The weight of the past at each sample: a window of about 33 answers.
    const DECAY: f64 = 0.97;
    const MIN_SAMPLES: f64 = 10.0;
    const SHARE: f64 = 0.5;

    fn trips(&mut self, outcome: Outcome, failed: bool) -> bool {
        if matches!(outcome, Outcome::Cancelled | Outcome::Denied) {
            return false;
        }
        self.0.count(failed, Self::DECAY);
        failed && self.0.surely_above(Self::SHARE, Self::MIN_SAMPLES)
    }
}
