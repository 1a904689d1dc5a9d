//! What can happen in a run, and the order in which it does.

use std::cmp::Ordering;

use super::told::Header;
use crate::model::{Outcome, Timestamp};

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// `None`: a stranger's.
    pub(super) client: Option<usize>,
    pub(super) endpoint: usize,
    pub(super) permit: u64,
    pub(super) sent: Timestamp,
    /// The client will not see the answer.
    pub(super) abandoned: bool,
}

#[derive(Debug)]
pub(super) enum Event {
    /// A request reaches the origin.
    Arrive(Flight),
    /// An admitted request is no longer at work.
    Ended(usize),
    /// An answer, or what stands for it, reaches the client.
    Answer(Flight, Outcome, bool, Option<Box<Header>>),
    /// A client wanted to be asked again.
    Wake(usize),
    /// A task is added.
    Task(usize, usize),
    /// A permit is dropped before it was used.
    Drop(usize, usize, u64),
    /// A stranger sends.
    Stranger,
    /// The limits change.
    Change(usize),
    /// Every control dies and comes back.
    Restart,
    /// What the controls believe is noted.
    Look,
}

pub(super) struct Queued {
    pub(super) at: Timestamp,
    pub(super) nth: u64,
    pub(super) event: Event,
}

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.nth) == (other.at, other.nth)
    }
}
impl Eq for Queued {}
impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Queued {
    /// The earliest is the greatest; of one instant, the one queued first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.nth).cmp(&(self.at, self.nth))
    }
}
