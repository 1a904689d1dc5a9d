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
}

impl Timers {
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
