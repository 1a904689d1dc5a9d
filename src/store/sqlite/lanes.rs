//! Which lane is served next: a table in memory with one row per lane, about 150 bytes each.
//!
//! Among the lanes that have ready tasks and are not held, the one whose head has the smallest priority goes first;
//! of equals the one that was served longest ago. So the order is breadth-first across hosts and fair between them.

use std::collections::{BTreeSet, HashMap};

use super::names::NameId;
use crate::model::{Name, UnixMillis};

/// The number of a lane within its job.
pub(super) type LaneId = u32;

/// One lane.
#[derive(Debug)]
struct Lane {
    site: NameId,
    /// Priority of its first ready task; `None`: none is ready.
    head: Option<i32>,
    /// Token of the last lease taken from it: larger is later.
    served: i64,
    held: Option<UnixMillis>,
    /// Whether it has had its share of the leases that are being taken.
    aside: bool,
}

/// The lanes of one site, in the order in which they are served.
#[derive(Debug, Default)]
struct Order {
    ready: BTreeSet<(i32, i64, LaneId)>,
    held: BTreeSet<(UnixMillis, LaneId)>,
}

/// All lanes of a job.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    all: Vec<Lane>,
    names: Vec<Name>,
    ids: HashMap<(NameId, Name), LaneId>,
    orders: HashMap<NameId, Order>,
    changed: BTreeSet<LaneId>,
}

impl Lanes {
    /// The lane called `name` of `site`.
    pub(super) fn find(&self, site: NameId, name: &Name) -> Option<LaneId> {
        self.ids.get(&(site, name.clone())).copied()
    }

    /// Add a lane; its number is the next one.
    pub(super) fn add(&mut self, site: NameId, name: &Name, served: i64) -> LaneId {
        let id = LaneId::try_from(self.all.len()).unwrap_or(LaneId::MAX);
        self.all.push(Lane {
            site,
            head: None,
            served,
            held: None,
            aside: false,
        });
        self.names.push(name.clone());
        self.ids.insert((site, name.clone()), id);
        id
    }

    /// Its name.
    pub(super) fn name(&self, lane: LaneId) -> Name {
        self.names
            .get(lane as usize)
            .cloned()
            .unwrap_or_else(|| "?".into())
    }

    /// How many there are.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.all.len()).unwrap_or(u32::MAX)
    }

    /// Change a lane and put it where it now belongs.
    fn update(&mut self, id: LaneId, change: impl FnOnce(&mut Lane)) {
        let Some(lane) = self.all.get_mut(id as usize) else {
            return;
        };
        let order = self.orders.entry(lane.site).or_default();
        if let Some(head) = lane.head
            && lane.held.is_none()
            && !lane.aside
        {
            order.ready.remove(&(head, lane.served, id));
        }
        if let Some(until) = lane.held {
            order.held.remove(&(until, id));
        }
        change(lane);
        match (lane.held, lane.head) {
            (Some(until), _) => {
                order.held.insert((until, id));
            }
            (None, Some(head)) if !lane.aside => {
                order.ready.insert((head, lane.served, id));
            }
            (None, _) => {}
        }
    }

    /// Pass a lane over, or no longer.
    pub(super) fn set_aside(&mut self, lane: LaneId, aside: bool) {
        self.update(lane, |lane| lane.aside = aside);
    }

    /// A task of this priority became ready.
    pub(super) fn offer(&mut self, lane: LaneId, priority: i32) {
        let head = self.all.get(lane as usize).and_then(|lane| lane.head);
        if head.is_none_or(|head| priority < head) {
            self.update(lane, |lane| lane.head = Some(priority));
        }
    }

    /// A lease with this token was taken; `head` is the priority of what is first now.
    pub(super) fn took(&mut self, lane: LaneId, token: i64, head: Option<i32>) {
        self.changed.insert(lane);
        self.update(lane, |lane| {
            lane.served = token;
            lane.head = head;
        });
    }

    /// What is first now.
    pub(super) fn set_head(&mut self, lane: LaneId, head: Option<i32>) {
        self.update(lane, |lane| lane.head = head);
    }

    /// Serve nothing of it until then; the later of two holds counts.
    pub(super) fn hold(&mut self, lane: LaneId, until: UnixMillis) {
        self.update(lane, |lane| {
            lane.held = Some(lane.held.map_or(until, |held| held.max(until)));
        });
    }

    /// Whether it is held.
    pub(super) fn is_held(&self, lane: LaneId) -> bool {
        self.all
            .get(lane as usize)
            .is_some_and(|lane| lane.held.is_some())
    }

    /// End the holds of a site that are over.
    pub(super) fn end_holds(&mut self, site: NameId, now: UnixMillis) {
        while let Some(&(until, lane)) = self.orders.get(&site).and_then(|o| o.held.first())
            && until <= now
        {
            self.update(lane, |lane| lane.held = None);
        }
    }

    /// The lane to serve, the priority of its head, and that of the lane after it.
    pub(super) fn next(&self, site: NameId) -> Option<(LaneId, i32, Option<i32>)> {
        let mut ready = self.orders.get(&site)?.ready.iter();
        let &(head, _, lane) = ready.next()?;
        Some((lane, head, ready.next().map(|&(head, _, _)| head)))
    }

    /// The earliest end of a hold for which a task waits.
    pub(super) fn next_hold(&self, site: NameId) -> Option<UnixMillis> {
        let held = &self.orders.get(&site)?.held;
        held.iter()
            .find(|(_, lane)| {
                self.all
                    .get(*lane as usize)
                    .is_some_and(|lane| lane.head.is_some())
            })
            .map(|&(until, _)| until)
    }

    /// The end of a lane's hold.
    pub(super) fn held_until(&self, lane: LaneId) -> Option<UnixMillis> {
        self.all.get(lane as usize).and_then(|lane| lane.held)
    }

    /// The lanes served since the last call, with the token of their last lease.
    pub(super) fn take_changed(&mut self) -> Vec<(LaneId, i64)> {
        std::mem::take(&mut self.changed)
            .into_iter()
            .filter_map(|id| Some((id, self.all.get(id as usize)?.served)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(count: u32) -> Lanes {
        let mut lanes = Lanes::default();
        for n in 0..count {
            lanes.add(0, &format!("l{n}").into(), 0);
        }
        lanes
    }

    #[test]
    fn smallest_priority_first_then_longest_unserved() {
        let mut lanes = lanes(3);
        lanes.offer(0, 5);
        lanes.offer(1, 5);
        lanes.offer(2, 7);
        assert_eq!(lanes.next(0), Some((0, 5, Some(5))));
        lanes.took(0, 1, Some(5));
        assert_eq!(lanes.next(0), Some((1, 5, Some(5))));
        lanes.took(1, 2, None);
        assert_eq!(lanes.next(0), Some((0, 5, Some(7))));
        lanes.offer(2, 1);
        assert_eq!(lanes.next(0), Some((2, 1, Some(5))));
        lanes.offer(2, 9);
        assert_eq!(
            lanes.next(0),
            Some((2, 1, Some(5))),
            "a head only rises when it is taken"
        );
        assert_eq!(lanes.next(1), None);
    }

    #[test]
    fn a_held_lane_waits_and_returns_with_its_head() {
        let mut lanes = lanes(2);
        lanes.offer(0, 1);
        lanes.hold(0, UnixMillis(10));
        lanes.hold(0, UnixMillis(5));
        lanes.hold(1, UnixMillis(3));
        assert_eq!(lanes.next(0), None);
        assert_eq!(
            lanes.next_hold(0),
            Some(UnixMillis(10)),
            "no task waits in the other"
        );
        lanes.offer(0, 0);
        lanes.end_holds(0, UnixMillis(9));
        assert_eq!(lanes.next(0), None);
        lanes.end_holds(0, UnixMillis(10));
        assert_eq!(lanes.next(0), Some((0, 0, None)));
        assert_eq!(lanes.next_hold(0), None);
    }

    #[test]
    fn a_lane_set_aside_is_passed_over_and_keeps_its_place() {
        let mut lanes = lanes(2);
        lanes.offer(0, 1);
        lanes.offer(1, 2);
        lanes.set_aside(0, true);
        assert_eq!(lanes.next(0), Some((1, 2, None)));
        lanes.offer(0, 0);
        lanes.took(0, 1, Some(0));
        assert_eq!(lanes.next(0), Some((1, 2, None)));
        lanes.set_aside(0, false);
        assert_eq!(lanes.next(0), Some((0, 0, Some(2))));
    }

    #[test]
    fn only_served_lanes_are_written() {
        let mut lanes = lanes(2);
        lanes.offer(0, 1);
        lanes.offer(1, 1);
        lanes.took(1, 7, None);
        assert_eq!(lanes.take_changed(), [(1, 7)]);
        assert_eq!(lanes.take_changed(), []);
    }
}
