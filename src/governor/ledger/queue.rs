//! The requests that wait in one lane.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::governor::messages::Ticket;
use crate::model::Timestamp;

/// A waiter gains one class per this time.
pub(crate) const AGING: Duration = Duration::from_secs(10);

/// A place in a queue. One class of priority is worth [`AGING`] of waiting; expressed as an arrival
/// that much later, the order never has to be computed anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    virtual_arrival: Timestamp,
    order: u64,
}

impl Place {
    pub(crate) fn new(now: Timestamp, priority: u8, order: u64) -> Self {
        Self {
            virtual_arrival: now + AGING * u32::from(priority),
            order,
        }
    }
}

/// A request that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub(crate) ticket: Ticket,
    pub(crate) patience: Duration,
    pub(crate) asked: Timestamp,
}

/// First come first served within a class, with aging between classes.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    waiters: BTreeMap<Place, Waiter>,
    /// No waiter's patience is shorter than this.
    least_patience: Duration,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            waiters: BTreeMap::new(),
            least_patience: Duration::MAX,
        }
    }
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.waiters.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub(crate) fn push(&mut self, place: Place, waiter: Waiter) {
        self.least_patience = self.least_patience.min(waiter.patience);
        self.waiters.insert(place, waiter);
    }

    pub(crate) fn pop(&mut self) -> Option<(Place, Waiter)> {
        self.waiters.pop_first()
    }

    pub(crate) fn remove(&mut self, place: Place) -> Option<Waiter> {
        self.waiters.remove(&place)
    }

    /// Takes out all whose patience is shorter than `wait`, in order.
    pub(crate) fn impatient(&mut self, wait: Duration) -> Vec<Waiter> {
        if wait <= self.least_patience {
            return Vec::new();
        }
        let mut gone = Vec::new();
        let mut least = Duration::MAX;
        self.waiters.retain(|_, waiter| {
            let stays = wait <= waiter.patience;
            if stays {
                least = least.min(waiter.patience);
            } else {
                gone.push(*waiter);
            }
            stays
        });
        self.least_patience = least;
        gone
    }

    /// Takes out all.
    pub(crate) fn clear(&mut self) -> Vec<Waiter> {
        self.least_patience = Duration::MAX;
        std::mem::take(&mut self.waiters).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of the queue is the order that the properties' model has.
    #[test]
    fn a_place_is_worth_ten_seconds_a_class() {
        let at = |seconds| Timestamp::ZERO + Duration::from_secs(seconds);
        assert!(Place::new(at(0), 1, 1) < Place::new(at(11), 0, 2));
        assert!(Place::new(at(9), 0, 2) < Place::new(at(0), 1, 1));
        assert!(Place::new(at(5), 0, 1) < Place::new(at(5), 0, 2));
    }
}
