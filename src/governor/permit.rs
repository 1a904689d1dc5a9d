//! The right to make one HTTP exchange.

use std::sync::Arc;

use tokio::time::Instant;

use super::counter::Counter;
use super::desk::{Entry, Told};
use super::messages::{Hints, LaneKey, PermitId};
use crate::model::Outcome;

/// The right to make one HTTP exchange, until its deadline.
///
/// Dropped, it is returned as perhaps used, with the outcome [`Outcome::Cancelled`]: its slot is free,
/// its place in pace and quota is not.
#[derive(Debug)]
#[must_use = "a permit that is dropped at once still counts as a request"]
pub struct Permit {
    slot: Slot,
    lane: Arc<LaneKey>,
    deadline: Instant,
}

impl Permit {
    pub(crate) fn new(
        counter: Arc<Counter>,
        id: PermitId,
        lane: Arc<LaneKey>,
        deadline: Instant,
    ) -> Self {
        Self {
            slot: Slot {
                counter,
                id,
                held: true,
            },
            lane,
            deadline,
        }
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> PermitId {
        self.slot.id
    }

    /// What it counts against.
    #[must_use]
    pub fn lane(&self) -> &Arc<LaneKey> {
        &self.lane
    }

    /// When it is taken back. The exchange has to end before.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Says what the answer was before the exchange has ended: from here on the lane grants nothing that
    /// the answer forbids, though its body is still being read. Said once; the [`Receipt`]'s report then
    /// adds nothing.
    pub fn refused(&self, outcome: Outcome, hints: Hints) {
        report(&self.slot.counter, self.id(), outcome, hints);
    }

    /// The exchange has ended, the slot is free. `used`: whether a request was, or may have been, sent;
    /// an unused permit gives back its place in the pace.
    pub fn release(mut self, used: bool) -> Receipt {
        self.slot.free(used)
    }
}

/// A slot under the caps, freed once, whatever becomes of its holder.
#[derive(Debug)]
struct Slot {
    counter: Arc<Counter>,
    id: PermitId,
    held: bool,
}

impl Slot {
    fn free(&mut self, used: bool) -> Receipt {
        self.held = false;
        let permit = self.id;
        let release = Entry::Release { permit, used };
        self.counter.at_desk(|desk| desk.hand_in(release));
        Receipt {
            counter: self.counter.clone(),
            id: permit,
            reported: false,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.held {
            drop(self.free(true));
        }
    }
}

/// The duty to say what the answer was. Dropped, it says [`Outcome::Cancelled`].
#[derive(Debug)]
#[must_use = "the governor learns from reports"]
pub struct Receipt {
    counter: Arc<Counter>,
    id: PermitId,
    reported: bool,
}

impl Receipt {
    /// The permit it came from.
    #[must_use]
    pub fn id(&self) -> PermitId {
        self.id
    }

    /// What the answer was.
    pub fn report(mut self, outcome: Outcome, hints: Hints) {
        self.send(outcome, hints);
    }

    fn send(&mut self, outcome: Outcome, hints: Hints) {
        self.reported = true;
        report(&self.counter, self.id, outcome, hints);
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if !self.reported {
            self.send(Outcome::Cancelled, Hints::default());
        }
    }
}

fn report(counter: &Arc<Counter>, permit: PermitId, outcome: Outcome, hints: Hints) {
    let hints = (hints != Hints::default()).then(|| Box::new(hints));
    let told = Told {
        permit,
        outcome,
        hints,
    };
    counter.at_desk(|desk| desk.hand_in(Entry::Report(told)));
}
