//! When a ledger has to be woken.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::governor::messages::PermitId;
use crate::model::Timestamp;

/// What is to be looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wake {
    Lane(u32),
    Group(u32),
    All,
}

/// One heap for closed gates, and two queues for permits: leases and report times are of one length
/// each, so that they end in the order they began.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    pub(crate) gates: BinaryHeap<Reverse<(Timestamp, Wake)>>,
    pub(crate) leases: VecDeque<(Timestamp, PermitId)>,
    pub(crate) reports: VecDeque<(Timestamp, PermitId)>,
    /// Nothing is due before this.
    quiet: Timestamp,
}

impl Timers {
    #[inline]
    pub(crate) fn add_gate(&mut self, at: Timestamp, wake: Wake) {
        self.quiet = self.quiet.min(at);
        self.gates.push(Reverse((at, wake)));
    }

    #[inline]
    pub(crate) fn add_lease(&mut self, until: Timestamp, permit: PermitId) {
        self.quiet = self.quiet.min(until);
        self.leases.push_back((until, permit));
    }

    #[inline]
    pub(crate) fn add_report(&mut self, until: Timestamp, permit: PermitId) {
        self.quiet = self.quiet.min(until);
        self.reports.push_back((until, permit));
    }

    /// Whether anything may be due.
    #[inline]
    pub(crate) fn may_be_due(&self, now: Timestamp) -> bool {
        now >= self.quiet
    }

    /// Whether most entries are of permits that ended in time, when `out` have not.
    #[inline]
    pub(crate) fn has_leftovers(&self, out: usize) -> bool {
        self.leases.len().max(self.reports.len()) > 64 + 4 * out
    }

    /// All that was due has been taken out.
    pub(crate) fn all_done(&mut self) {
        let gate = self.gates.peek().map(|entry| entry.0.0);
        let lease = self.leases.front().map(|entry| entry.0);
        let report = self.reports.front().map(|entry| entry.0);
        let first = [gate, lease, report].into_iter().flatten().min();
        self.quiet = first.unwrap_or(Timestamp::MAX);
    }

    /// The first gate that is due, taken out.
    pub(crate) fn due_gate(&mut self, now: Timestamp) -> Option<(Timestamp, Wake)> {
        let Reverse((at, _)) = self.gates.peek()?;
        if *at > now {
            return None;
        }
        self.gates.pop().map(|Reverse(entry)| entry)
    }
}

/// The first entry of a queue that is due, taken out.
pub(crate) fn due(queue: &mut VecDeque<(Timestamp, PermitId)>, now: Timestamp) -> Option<PermitId> {
    let (at, _) = queue.front()?;
    if *at > now {
        return None;
    }
    queue.pop_front().map(|(_, permit)| permit)
}
