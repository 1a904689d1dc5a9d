//! What the outside of a ledger looks like: who holds what, what was sent when, what lanes were told.
//! Written from the rules, not from the ledger.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::governor::messages::{PermitId, Ticket};
use crate::model::Timestamp;
use crate::settings::LimitSettings;

/// What a moment without a rate adds to the allowance: no window over it binds.
const UNLIMITED: f64 = 1e6;

/// One request that left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) at: Timestamp,
    /// Requests the rate would have allowed from the beginning until then.
    pub(super) allowance: f64,
    pub(super) burst: u32,
    pub(super) permit: PermitId,
    quota_epoch: u32,
}

/// Limits of one level over time, and what was sent under them.
#[derive(Clone, Debug)]
pub(super) struct LevelModel {
    pub(super) limits: LimitSettings,
    pub(super) sent: Vec<Sent>,
    allowance: f64,
    since: Timestamp,
    /// Counts the times at which a first quota came: what was sent before is not counted against it.
    quota_epoch: u32,
}

impl LevelModel {
    pub(super) fn new(limits: LimitSettings, now: Timestamp) -> Self {
        Self {
            limits,
            sent: Vec::new(),
            allowance: 0.0,
            since: now,
            quota_epoch: 0,
        }
    }

    fn allowance(&self, now: Timestamp) -> f64 {
        let passed = now.since(self.since);
        match self.limits.rate {
            Some(rate) => {
                self.allowance + passed.as_nanos() as f64 / rate.interval().as_nanos() as f64
            }
            // Unlimited: see `send`.
            None => self.allowance + UNLIMITED,
        }
    }

    pub(super) fn retune(&mut self, limits: LimitSettings, now: Timestamp) {
        self.allowance = self.allowance(now);
        self.since = now;
        if self.limits.quota.is_empty() {
            self.quota_epoch += 1;
        }
        self.limits = limits;
    }

    pub(super) fn send(&mut self, permit: PermitId, now: Timestamp) {
        self.sent.push(Sent {
            at: now,
            allowance: self.allowance(now),
            burst: self.limits.burst.unwrap_or(1),
            permit,
            quota_epoch: self.quota_epoch,
        });
        if self.limits.rate.is_none() {
            self.allowance += UNLIMITED;
        }
    }

    /// Was not used: never left.
    pub(super) fn unsend(&mut self, permit: PermitId) {
        if let Some(place) = self.sent.iter().rposition(|sent| sent.permit == permit) {
            self.sent.remove(place);
        }
    }

    /// The quotas that hold now, in the window that ends now. Asked at each grant, that is for all windows
    /// there are.
    pub(super) fn check_quota(&self, now: Timestamp) -> Result<(), String> {
        for quota in &self.limits.quota {
            let sent = self.sent.iter().rev();
            let recent = sent
                .take_while(|sent| {
                    sent.quota_epoch == self.quota_epoch && sent.at + quota.window > now
                })
                .count();
            if recent > quota.count as usize {
                return Err(format!("{recent} requests within {quota} at {now:?}"));
            }
        }
        Ok(())
    }

    /// All windows between two requests: none holds more than the largest burst in it and what the rate
    /// added meanwhile.
    pub(super) fn check_rate(&self) -> Result<(), String> {
        let mut bursts: Vec<u32> = self.sent.iter().map(|sent| sent.burst).collect();
        bursts.sort_unstable();
        bursts.dedup();
        // The largest burst of a window is one of these; the window lies in a run without larger ones. In
        // such a run `count ≤ burst + added` is a matter of how far a request runs ahead of the rate, and
        // only the one that is farthest behind has to be looked at for each end.
        for burst in bursts {
            let mut behind: Option<(f64, Timestamp)> = None;
            for (place, sent) in self.sent.iter().enumerate() {
                if sent.burst > burst {
                    behind = None;
                    continue;
                }
                let ahead = place as f64 - sent.allowance;
                let (least, from) = behind
                    .filter(|(least, _)| *least <= ahead)
                    .unwrap_or((ahead, sent.at));
                behind = Some((least, from));
                let over = ahead - least + 1.0 - f64::from(burst);
                if over > 1e-6 {
                    return Err(format!(
                        "{over} requests over burst {burst} and rate from {from:?} to {:?}",
                        sent.at
                    ));
                }
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PhaseModel {
    Open,
    /// Nothing before; the next one is a probe.
    Closed(Timestamp),
    Probing(PermitId),
}

/// What a lane was told, and what must follow from it.
#[derive(Clone, Debug)]
pub(super) struct LaneModel {
    pub(super) group: usize,
    pub(super) level: LevelModel,
    pub(super) phase: PhaseModel,
    pub(super) epoch: u32,
    pub(super) failures_in_epoch: u32,
    pub(super) not_before: Timestamp,
    /// A person paused it until then.
    pub(super) paused: Timestamp,
    /// A permit was asked for here.
    pub(super) asked: bool,
    /// Requests that wait, by the order in which they are due.
    pub(super) waiting: BTreeMap<(Timestamp, u64), Ticket>,
}

impl LaneModel {
    pub(super) fn new(group: usize, limits: LimitSettings, now: Timestamp) -> Self {
        Self {
            group,
            level: LevelModel::new(limits, now),
            phase: PhaseModel::Open,
            epoch: 0,
            failures_in_epoch: 0,
            not_before: Timestamp::ZERO,
            paused: Timestamp::ZERO,
            asked: false,
            waiting: BTreeMap::new(),
        }
    }

    pub(super) fn lost(&mut self, permit: PermitId) {
        if self.phase == PhaseModel::Probing(permit) {
            self.phase = PhaseModel::Closed(Timestamp::ZERO);
        }
    }

    pub(super) fn cut(&mut self, now: Timestamp, base: Duration) {
        self.epoch += 1;
        self.failures_in_epoch = 0;
        self.phase = PhaseModel::Closed(now + base);
    }
}

/// Permits out, counted at each level.
#[derive(Clone, Debug, Default)]
pub(super) struct Out {
    pub(super) all: usize,
    pub(super) groups: [usize; 4],
    pub(super) lanes: [usize; 12],
}

impl Out {
    pub(super) fn add(&mut self, lane: usize, group: usize) {
        self.all += 1;
        self.groups[group] += 1;
        self.lanes[lane] += 1;
    }

    pub(super) fn remove(&mut self, lane: usize, group: usize) {
        self.all -= 1;
        self.groups[group] -= 1;
        self.lanes[lane] -= 1;
    }
}

/// A permit, as its holder knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) lane: usize,
    pub(super) deadline: Timestamp,
    pub(super) epoch: u32,
    pub(super) released: Option<Timestamp>,
    pub(super) reported: bool,
}
