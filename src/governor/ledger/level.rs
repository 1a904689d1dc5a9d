//! One level of limits, a site group or a lane: cap, pace, quotas, and a pause by a person.

use std::collections::VecDeque;
use std::time::Duration;

use super::pace::Pace;
use super::{Fault, Faults};
use crate::governor::messages::WaitReason;
use crate::model::Timestamp;
use crate::settings::{LimitSettings, Quota, Rate};

/// From this interval on, a rate must hold across a kill, and its uses are stored.
const STORED_INTERVAL_NANOS: u64 = 1_000_000_000;

/// Whether a request may pass, and if not, what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    /// A time has to pass.
    At(Timestamp, WaitReason),
    /// Something has to happen: a release, the result of a probe, the answer of the quota store.
    Wait(WaitReason),
}

/// The pace of `limits`, or that of the ceiling where it is slower.
fn slower(limits: &LimitSettings, ceiling: Option<Duration>) -> Option<(Rate, u32)> {
    let own = Pace::of(limits);
    match (own, ceiling) {
        (Some((rate, _)), Some(least)) if rate.interval() >= least => own,
        (_, Some(least)) => Some((Rate::one_per(least), 1)),
        (_, None) => own,
    }
}

/// Whether uses of the rate of `limits` are stored before a permit leaves.
fn must_store(limits: &LimitSettings) -> bool {
    limits
        .rate
        .is_some_and(|rate| rate.interval().as_nanos() >= u128::from(STORED_INTERVAL_NANOS))
}

/// What has to pass of a lane's own times: an instant that the server named, or the end of a pause.
pub(crate) fn time_gate(
    not_before: Timestamp,
    pause: Timestamp,
    now: Timestamp,
) -> Option<(Timestamp, WaitReason)> {
    if not_before > now {
        // The pause that goes with it may last a little longer.
        Some((not_before.max(pause), WaitReason::NotBefore))
    } else if pause > now {
        Some((pause, WaitReason::Backoff))
    } else {
        None
    }
}

/// A level and what counts against it.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    cap: u32,
    pub(crate) in_flight: u32,
    pub(crate) peak: u32,
    pace: Option<Pace>,
    /// Whether its pace must hold across a kill: that of its limits, not that of its ceiling.
    stored_pace: bool,
    /// The least time between two requests, whatever its limits allow.
    ceiling: Option<Duration>,
    quotas: Vec<Quota>,
    /// Grants within the longest quota window, oldest first.
    uses: VecDeque<Timestamp>,
    /// Grants decided whose use is being stored.
    pending: u32,
    /// Names the last grant, for [`Level::unused`].
    sequence: u64,
    last_grant: Option<Timestamp>,
    /// Nothing before this: a person said so. `MAX`: without an end.
    pub(crate) paused: Timestamp,
    /// Nothing before this: the quota store failed.
    blocked: Timestamp,
    /// Whether its pace knows of all stored uses already, in this ledger or in the one before.
    recalled: bool,
}

/// What a level must not forget when its governor dies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LevelMemory {
    pub(crate) tat: Option<Timestamp>,
    pub(crate) last_grant: Option<Timestamp>,
    pub(crate) sequence: u64,
    pub(crate) peak: u32,
    pub(crate) recalled: bool,
    pub(crate) ceiling: Option<Duration>,
}

impl Level {
    /// A level under `limits`. `start` is the earliest first request of a pace that remembers nothing.
    pub(crate) fn new(limits: &LimitSettings, start: Timestamp, memory: LevelMemory) -> Self {
        let stored_pace = must_store(limits);
        let pace = slower(limits, memory.ceiling).map(|(rate, burst)| {
            match memory.tat {
                Some(tat) => Pace::with_tat(rate, burst, tat),
                // Stored rates replay what the quota store remembers, and need no careful start.
                None if stored_pace => Pace::with_tat(rate, burst, Timestamp::ZERO),
                None => Pace::spent(rate, burst, start),
            }
        });
        Self {
            cap: limits.max_concurrency_num.unwrap_or(u32::MAX),
            in_flight: 0,
            peak: memory.peak,
            pace,
            stored_pace,
            ceiling: memory.ceiling,
            quotas: limits.quota.clone(),
            uses: VecDeque::new(),
            pending: 0,
            sequence: memory.sequence,
            last_grant: memory.last_grant,
            paused: Timestamp::ZERO,
            blocked: Timestamp::ZERO,
            recalled: memory.recalled,
        }
    }

    pub(crate) fn memory(&self) -> LevelMemory {
        LevelMemory {
            tat: self.pace.as_ref().map(Pace::tat),
            last_grant: self.last_grant,
            sequence: self.sequence,
            peak: self.peak,
            recalled: self.recalled,
            ceiling: self.ceiling,
        }
    }

    /// The least time between two requests from now on, beside its `limits`. Gives whether that is new.
    pub(crate) fn set_ceiling(
        &mut self,
        ceiling: Option<Duration>,
        limits: &LimitSettings,
        now: Timestamp,
        faults: Faults,
    ) -> bool {
        let new = self.ceiling != ceiling;
        if new {
            self.ceiling = ceiling;
            self.retune(limits, now, faults);
            // What left while nothing, or less, was asked for counts from now on.
            if let (Some(least), Some(pace), Some(last)) =
                (ceiling, &mut self.pace, self.last_grant)
            {
                pace.hold(last + least);
            }
        }
        new
    }

    /// Whether it holds nothing back and nobody holds a slot of it: as it was before its first request. A pause
    /// by a person is remembered elsewhere.
    pub(crate) fn is_at_rest(&self, now: Timestamp) -> bool {
        let window = self.longest_window();
        self.in_flight == 0
            && self.pending == 0
            && self.blocked <= now
            && self.pace.is_none_or(|pace| pace.tat() <= now)
            && self.uses.back().is_none_or(|last| *last + window <= now)
    }

    /// New limits; what was used stays used.
    pub(crate) fn retune(&mut self, limits: &LimitSettings, now: Timestamp, faults: Faults) {
        self.cap = limits.max_concurrency_num.unwrap_or(u32::MAX);
        self.stored_pace = must_store(limits);
        self.pace = match (slower(limits, self.ceiling), self.pace.take()) {
            (None, _) => None,
            (Some((rate, burst)), Some(mut pace)) => {
                if faults.on(Fault::FreshBurst) {
                    pace = Pace::with_tat(rate, burst, now);
                } else {
                    pace.retune(rate, burst, now);
                }
                Some(pace)
            }
            (Some((rate, burst)), None) => {
                // Requests sent while nothing paced them count as a spent burst.
                let interval = rate.interval();
                let earliest = self.last_grant.map_or(now, |last| now.max(last + interval));
                Some(Pace::spent(rate, burst, earliest))
            }
        };
        self.quotas.clone_from(&limits.quota);
    }

    /// Whether its uses have to be stored before a permit leaves.
    pub(crate) fn stored(&self) -> bool {
        !self.quotas.is_empty() || self.stored_pace
    }

    /// The most that may be out; `u32::MAX`: no cap of its own.
    pub(crate) fn cap(&self) -> u32 {
        self.cap
    }

    pub(crate) fn has_quota(&self) -> bool {
        !self.quotas.is_empty()
    }

    /// How long a stored use matters.
    pub(crate) fn keep(&self) -> Duration {
        let pace = self.pace.map_or(0, |pace| pace.memory());
        self.longest_window().max(Duration::from_nanos(pace))
    }

    fn longest_window(&self) -> Duration {
        let windows = self.quotas.iter().map(|quota| quota.window);
        windows.max().unwrap_or_default()
    }

    /// Times that have to pass before any request, pace and slots left aside: what patience is about.
    pub(crate) fn time_gate(&self, now: Timestamp) -> Option<(Timestamp, WaitReason)> {
        let mut at = (now, WaitReason::Paused);
        for gate in [
            (self.paused, WaitReason::Paused),
            (self.blocked, WaitReason::Quota),
        ] {
            if gate.0 > at.0 {
                at = gate;
            }
        }
        for quota in &self.quotas {
            if let Some(due) = self.quota_due(quota)
                && due > at.0
            {
                at = (due, WaitReason::Quota);
            }
        }
        (at.0 > now).then_some(at)
    }

    /// When the window of `quota` has room; `None` where only the quota store's answer can tell.
    fn quota_due(&self, quota: &Quota) -> Option<Timestamp> {
        let room = usize::try_from(quota.count.checked_sub(self.pending)?).unwrap_or(usize::MAX);
        if room == 0 {
            return None;
        }
        Some(match self.uses.len().checked_sub(room) {
            Some(index) => self.uses[index] + quota.window,
            None => Timestamp::ZERO,
        })
    }

    /// Whether one more request may pass now, and nothing of it has to be stored before. Where it is not, the
    /// gate may still be open.
    #[inline]
    pub(crate) fn is_calm(&self, now: Timestamp) -> bool {
        self.in_flight < self.cap
            && now >= self.paused
            && now >= self.blocked
            && self.quotas.is_empty()
            && !self.stored_pace
            && self
                .pace
                .as_ref()
                .is_none_or(|pace| self.pending == 0 && now >= pace.earliest(now, 0))
    }

    /// Decides a request and lets it leave, through a calm gate.
    #[inline]
    pub(crate) fn grant(&mut self, now: Timestamp) -> u64 {
        self.adopt();
        if let Some(pace) = &mut self.pace {
            pace.take(now);
        }
        self.last_grant = Some(now);
        self.sequence += 1;
        self.sequence
    }

    /// Whether one more request may pass now.
    pub(crate) fn gate(&self, now: Timestamp, faults: Faults) -> Gate {
        let full = if faults.on(Fault::CapOffByOne) {
            self.in_flight > self.cap
        } else {
            self.in_flight >= self.cap
        };
        if full {
            return Gate::Wait(WaitReason::Cap);
        }
        if let Some((at, why)) = self.time_gate(now) {
            return Gate::At(at, why);
        }
        if self.pending > 0 && self.quotas.iter().any(|q| self.quota_due(q).is_none()) {
            return Gate::Wait(WaitReason::Quota);
        }
        if let Some(pace) = &self.pace {
            let earliest = pace.earliest(now, self.pending);
            if now < earliest {
                return match self.pending {
                    0 => Gate::At(earliest, WaitReason::Rate),
                    _ => Gate::Wait(WaitReason::Rate),
                };
            }
        }
        Gate::Open
    }

    /// The gate for a request that is decided already, itself left out of the counts.
    pub(crate) fn would_open(&mut self, now: Timestamp, faults: Faults) -> bool {
        self.in_flight -= 1;
        self.pending -= 1;
        let open = self.gate(now, faults) == Gate::Open;
        self.in_flight += 1;
        self.pending += 1;
        open
    }

    /// A request is decided: it holds a slot, and a place in pace and quota until it is sent.
    pub(crate) fn reserve(&mut self) {
        self.in_flight += 1;
        self.peak = self.peak.max(self.in_flight);
        self.pending += 1;
    }

    /// The decided request leaves at `now`. Returns its number, for [`Level::unused`].
    pub(crate) fn commit(&mut self, now: Timestamp, faults: Faults) -> u64 {
        self.pending = self.pending.saturating_sub(1);
        if let Some(pace) = &mut self.pace {
            pace.take(now);
        }
        if self.has_quota() && !faults.on(Fault::QuotaForgotten) {
            self.note(now);
        }
        self.last_grant = Some(now);
        self.sequence += 1;
        self.sequence
    }

    /// The decided request does not leave: its place in pace and quota is free. The slot is freed apart.
    pub(crate) fn abort(&mut self) {
        self.pending = self.pending.saturating_sub(1);
    }

    /// A permit of an earlier ledger holds a slot.
    #[inline]
    pub(crate) fn adopt(&mut self) {
        self.in_flight += 1;
        self.peak = self.peak.max(self.in_flight);
    }

    /// A slot comes back.
    #[inline]
    pub(crate) fn free(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Grant number `grant` was not used. Its place in the pace comes back if it was the last one;
    /// a quota's use stays, for it is on disk already.
    #[inline]
    pub(crate) fn unused(&mut self, grant: u64) {
        if grant == self.sequence
            && let Some(pace) = &mut self.pace
        {
            pace.give_back();
            self.sequence += 1;
        }
    }

    /// All stored requests, oldest first, read back at the start. A pace that was carried over from a
    /// ledger that knew them does not count them again.
    pub(crate) fn recall(&mut self, uses: Vec<Timestamp>) {
        for at in uses {
            if let Some(pace) = &mut self.pace
                && !self.recalled
            {
                pace.take(at);
            }
            if self.has_quota() {
                self.note(at);
            }
        }
        self.recalled = true;
    }

    /// A request that another process sent beside this ledger.
    pub(crate) fn foreign(&mut self, at: Timestamp) {
        if let Some(pace) = &mut self.pace {
            pace.take(at);
        }
        if self.has_quota() {
            self.note(at);
        }
    }

    fn note(&mut self, at: Timestamp) {
        let place = self.uses.partition_point(|use_| *use_ <= at);
        self.uses.insert(place, at);
        let horizon = at - self.longest_window();
        while self.uses.front().is_some_and(|use_| *use_ < horizon) {
            self.uses.pop_front();
        }
    }

    /// The quota store could not answer: nothing leaves before `until`.
    pub(crate) fn block(&mut self, until: Timestamp) {
        self.blocked = self.blocked.max(until);
    }
}
