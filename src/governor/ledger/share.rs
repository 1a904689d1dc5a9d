//! How groups share the global cap: by slot time, that is by how long they hold slots.

use std::collections::BTreeSet;
use std::time::Duration;

/// Fixed-point scale of slots per weight.
const SCALE: u64 = 1 << 16;

/// Order of groups that could use a slot. The first is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Claim {
    /// A group without any slot comes before one that has some: each active site has a slot of its own.
    holds: bool,
    /// Slots held per weight.
    load: u64,
    /// Slot time used per weight, in nanoseconds.
    service: u64,
    group: u32,
}

/// The claim of one group.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    weight: u32,
    service: u64,
    claim: Option<Claim>,
}

/// All groups with a request that could leave at once if there were a slot.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    ready: BTreeSet<Claim>,
    /// Service of the last group served: a group that was idle starts here, and saves nothing up.
    level: u64,
}

impl Share {
    pub(crate) fn new(weight: u32) -> Self {
        Self {
            weight: weight.max(1),
            service: 0,
            claim: None,
        }
    }

    /// What it used before it was dropped.
    pub(crate) fn resume(&mut self, service: u64) {
        self.service = service;
    }

    /// Slot time used per weight, in nanoseconds.
    pub(crate) fn service(&self) -> u64 {
        self.service
    }

    /// A slot was held for `held`.
    #[inline]
    pub(crate) fn charge(&mut self, held: Duration) {
        let nanos = u64::try_from(held.as_nanos()).unwrap_or(u64::MAX);
        // A division is among the dearest steps of a release, and most sites weigh 1.
        let share = match self.weight {
            1 => nanos,
            weight => nanos / u64::from(weight),
        };
        self.service = self.service.saturating_add(share);
    }
}

impl Claims {
    pub(crate) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// The group has a request that could leave.
    pub(crate) fn enter(&mut self, group: u32, share: &mut Share, in_flight: u32) {
        if share.claim.is_none() && in_flight == 0 {
            share.service = share.service.max(self.level);
        }
        let claim = Claim {
            holds: in_flight > 0,
            load: u64::from(in_flight) * SCALE / u64::from(share.weight),
            service: share.service,
            group,
        };
        if share.claim != Some(claim) {
            self.leave(share);
            self.ready.insert(claim);
            share.claim = Some(claim);
        }
    }

    /// The group has none.
    pub(crate) fn leave(&mut self, share: &mut Share) {
        if let Some(claim) = share.claim.take() {
            self.ready.remove(&claim);
        }
    }

    /// The group to serve next.
    pub(crate) fn first(&self) -> Option<u32> {
        self.ready.first().map(|claim| claim.group)
    }

    /// The group was served.
    pub(crate) fn served(&mut self, share: &Share) {
        self.level = self.level.max(share.service);
    }
}
