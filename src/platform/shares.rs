//! How the leases of a site are shared between its lanes. Pure: time is an argument.
//!
//! A lane that has to wait (for its pace, a probe, a slot) needs few leases: one more than can leave at once. What
//! it holds beyond that, others could use. So each lane may have a few waiting tasks, and more only as its requests
//! leave; and when slots stay idle, those who wait without getting anywhere do not count.

use std::collections::HashMap;
use std::time::Duration;

use crate::model::{Name, Timestamp};
use crate::store::LaneRoom;

/// A slot that stays free for this long is wanted by nobody who holds a lease; a lane that got nothing for this long
/// waits for something else than a slot.
pub(super) const IDLE: Duration = Duration::from_millis(250);
/// Leases that may wait beyond cap and prefetch, in lanes that get nowhere.
const MOST_STUCK: usize = 1000;

/// What one lane's leases do.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// Before or between its exchanges.
    waiting: usize,
    /// In an exchange.
    flying: usize,
    /// Since when it waits without a grant, and how many the site had had by then.
    since: Timestamp,
    grants: u64,
    /// Whether it was given less than it may have had.
    withheld: bool,
}

/// The leases of one site, by lane.
#[derive(Debug, Default)]
pub(super) struct Shares {
    lanes: HashMap<Name, Use>,
    flying: usize,
    /// Permits that the site was given.
    grants: u64,
    /// When all slots were in use last.
    busy: Timestamp,
    cap: usize,
    prefetch: usize,
}

impl Shares {
    /// A site may have `cap` exchanges in flight, and `prefetch` leases beside.
    pub(super) fn set(&mut self, cap: usize, prefetch: usize) {
        (self.cap, self.prefetch) = (cap, prefetch);
    }

    /// A task waits in `lane`.
    pub(super) fn waits(&mut self, lane: &Name, now: Timestamp) {
        let held = self.lanes.entry(lane.clone()).or_default();
        if held.waiting == 0 {
            (held.since, held.grants) = (now, self.grants);
        }
        held.waiting += 1;
    }

    /// A task waits no longer, and did not get what it waited for.
    pub(super) fn gives_up(&mut self, lane: &Name) {
        self.change(lane, |held| held.waiting = held.waiting.saturating_sub(1));
    }

    /// A task that waited has its permit. True: the lane could do with more leases than it was given.
    pub(super) fn leaves(&mut self, lane: &Name, now: Timestamp) -> bool {
        let few = self.few();
        self.flying += 1;
        self.grants += 1;
        let grants = self.grants;
        if self.flying >= self.cap {
            self.busy = now;
        }
        let mut wants = false;
        self.change(lane, |held| {
            held.waiting = held.waiting.saturating_sub(1);
            held.flying += 1;
            (held.since, held.grants) = (now, grants);
            wants = held.withheld && held.waiting * 2 <= few;
            held.withheld &= !wants;
        });
        wants
    }

    /// An exchange of `lane` is over.
    pub(super) fn returns(&mut self, lane: &Name, now: Timestamp) {
        if self.flying >= self.cap {
            self.busy = now;
        }
        self.flying = self.flying.saturating_sub(1);
        self.change(lane, |held| held.flying = held.flying.saturating_sub(1));
    }

    fn change(&mut self, lane: &Name, change: impl FnOnce(&mut Use)) {
        if let Some(held) = self.lanes.get_mut(lane) {
            change(held);
            if held.waiting == 0 && held.flying == 0 {
                self.lanes.remove(lane);
            }
        }
    }

    /// Leases that a lane may have waiting, beside one for the slot that is free next.
    fn few(&self) -> usize {
        (self.prefetch / self.lanes.len().max(1)).max(1)
    }

    /// How many leases to ask for, and how many each lane may be given of them. `held`: leases held, and asked for.
    pub(super) fn ask(&mut self, held: usize, now: Timestamp) -> (usize, LaneRoom) {
        let few = self.few();
        let limit = self.cap + self.prefetch;
        let idle = now.since(self.busy) > IDLE && self.flying < self.cap;
        // Lanes are served in turn: one that was passed over for two rounds does not wait for a slot.
        let turns = (self.cap + 2 * self.lanes.len()) as u64;
        let is_stuck = |lane: &&Use| {
            (idle && now.since(lane.since) > IDLE) || self.grants - lane.grants > turns
        };
        let stuck: usize = self
            .lanes
            .values()
            .filter(is_stuck)
            .map(|lane| lane.waiting)
            .sum();
        let lease = limit.saturating_sub(held.saturating_sub(stuck.min(MOST_STUCK)));
        let mut room = LaneRoom {
            each: few + 1,
            lanes: Vec::with_capacity(if lease > 0 { self.lanes.len() } else { 0 }),
        };
        for (name, lane) in &mut self.lanes {
            let most = (lane.flying + few + 1).saturating_sub(lane.waiting);
            lane.withheld = most < limit;
            if lease > 0 {
                room.lanes.push((name.clone(), most));
            }
        }
        (lease, room)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(millis)
    }

    fn room(of: &LaneRoom, lane: &str) -> usize {
        let known = of.lanes.iter().find(|(name, _)| &**name == lane);
        known.map_or(of.each, |(_, room)| *room)
    }

    /// What a lane is given is waiting at once.
    fn give(shares: &mut Shares, held: &mut usize, lane: &str, pending: usize, now: u64) -> usize {
        let (lease, of) = shares.ask(*held, at(now));
        let given = lease.min(room(&of, lane)).min(pending);
        (0..given).for_each(|_| shares.waits(&lane.into(), at(now)));
        *held += given;
        given
    }

    #[test]
    fn a_lane_alone_grows_with_what_leaves_until_all_slots_are_used() {
        let mut shares = Shares::default();
        shares.set(32, 8);
        let (mut held, mut given) = (0, Vec::new());
        for round in 0..6 {
            let more = give(&mut shares, &mut held, "a", 1000, round);
            given.push(more);
            let free = 32 - shares.flying;
            for _ in 0..more.min(free) {
                shares.leaves(&"a".into(), at(round));
            }
        }
        assert_eq!(given, [9, 18, 13, 0, 0, 0]);
        assert_eq!((held, shares.flying), (40, 32));
    }

    #[test]
    fn a_lane_that_waits_holds_a_few_leases_and_leaves_the_rest_to_others() {
        let mut shares = Shares::default();
        shares.set(4, 8);
        let mut held = 0;
        assert_eq!(give(&mut shares, &mut held, "slow", 500, 0), 9);
        assert_eq!(
            give(&mut shares, &mut held, "slow", 500, 0),
            0,
            "nothing has left"
        );
        assert!(give(&mut shares, &mut held, "free", 500, 0) >= 3);
        // Those of the free lane come and go; those of the other stay, and stay few.
        for now in 1..500 {
            while shares
                .lanes
                .get("free")
                .is_some_and(|free| free.waiting > 0)
            {
                shares.leaves(&"free".into(), at(now));
                shares.returns(&"free".into(), at(now));
                held -= 1;
            }
            assert!(give(&mut shares, &mut held, "free", 500, now) > 0);
            give(&mut shares, &mut held, "slow", 500, now);
            assert!(shares.lanes["slow"].waiting <= 9);
        }
    }

    #[test]
    fn many_stuck_lanes_do_not_count_while_slots_are_idle() {
        let mut shares = Shares::default();
        shares.set(4, 8);
        let mut held = 0;
        for lane in 0..12 {
            let name = format!("slow{lane}");
            held += 1;
            shares.waits(&name.as_str().into(), at(0));
        }
        assert_eq!(shares.ask(held, at(100)).0, 0, "they may be about to leave");
        assert_eq!(shares.ask(held, at(300)).0, 12);
        for lane in 0..4 {
            shares.leaves(&format!("slow{lane}").as_str().into(), at(300));
        }
        assert_eq!(shares.ask(held, at(900)).0, 0, "every slot is used");
    }

    #[test]
    fn a_lane_that_is_passed_over_does_not_count() {
        let mut shares = Shares::default();
        shares.set(4, 8);
        for _ in 0..6 {
            shares.waits(&"slow".into(), at(0));
        }
        let mut asked = Vec::new();
        for now in 0..20 {
            shares.waits(&"free".into(), at(now));
            shares.leaves(&"free".into(), at(now));
            shares.returns(&"free".into(), at(now));
            asked.push(shares.ask(6, at(now)).0);
        }
        assert_eq!((asked[0], asked[5], asked[6], asked[19]), (6, 6, 12, 12));
        shares.leaves(&"slow".into(), at(20));
        assert_eq!(shares.ask(6, at(20)).0, 6, "it had its turn");
    }

    #[test]
    fn a_lane_that_was_given_less_says_when_it_could_do_with_more() {
        let mut shares = Shares::default();
        shares.set(100, 8);
        let mut held = 0;
        give(&mut shares, &mut held, "a", 1000, 0);
        shares.ask(held, at(0));
        let told: Vec<bool> = (0..9).map(|_| shares.leaves(&"a".into(), at(0))).collect();
        assert_eq!(
            told.iter().filter(|told| **told).count(),
            1,
            "once for each asking"
        );
        assert!(told[4], "when half of them have left");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Ask,
        Leaves(u8),
        Returns(u8),
        GivesUp(u8),
        Pass(u16),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let lane = 0..6u8;
        let step = prop_oneof![
            3 => Just(Step::Ask),
            4 => lane.clone().prop_map(Step::Leaves),
            4 => lane.clone().prop_map(Step::Returns),
            1 => lane.prop_map(Step::GivesUp),
            1 => (0..600u16).prop_map(Step::Pass),
        ];
        prop::collection::vec(step, 0..150)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        /// Leases stay bounded in all and by lane; a lane without any always has room; and when nothing waits, as
        /// much is asked for as there are slots.
        #[test]
        fn leases_are_bounded_and_nobody_is_shut_out(
            steps in steps(),
            cap in 1..20usize,
            prefetch in 0..12usize,
        ) {
            let name = |lane: u8| Name::from(format!("l{lane}"));
            let mut shares = Shares::default();
            shares.set(cap, prefetch);
            let mut now = 0;
            let (mut waiting, mut flying) = ([0usize; 6], [0usize; 6]);
            for step in steps {
                match step {
                    Step::Ask => {
                        let held = waiting.iter().chain(&flying).sum();
                        let (mut lease, room_of) = shares.ask(held, at(now));
                        prop_assert!(held + lease <= cap + prefetch + MOST_STUCK + 6 * (cap + prefetch));
                        if waiting.iter().all(|waiting| *waiting == 0) {
                            prop_assert_eq!(lease, (cap + prefetch).saturating_sub(held));
                        }
                        for lane in 0..6 {
                            let room = room(&room_of, &name(lane as u8));
                            prop_assert!(room > 0 || waiting[lane] > 0);
                            let given = room.min(lease);
                            lease -= given;
                            waiting[lane] += given;
                            (0..given).for_each(|_| shares.waits(&name(lane as u8), at(now)));
                            prop_assert!(waiting[lane] <= flying[lane] + prefetch.max(1) + 1 || given == 0);
                        }
                    }
                    Step::Leaves(lane) if waiting[lane as usize] > 0 && flying.iter().sum::<usize>() < cap => {
                        shares.leaves(&name(lane), at(now));
                        waiting[lane as usize] -= 1;
                        flying[lane as usize] += 1;
                    }
                    Step::Returns(lane) if flying[lane as usize] > 0 => {
                        shares.returns(&name(lane), at(now));
                        flying[lane as usize] -= 1;
                    }
                    Step::GivesUp(lane) if waiting[lane as usize] > 0 => {
                        shares.gives_up(&name(lane));
                        waiting[lane as usize] -= 1;
                    }
                    Step::Pass(millis) => now += u64::from(millis),
                    _ => {}
                }
                prop_assert_eq!(shares.flying, flying.iter().sum::<usize>());
            }
            for lane in 0..6 {
                (0..waiting[lane]).for_each(|_| shares.gives_up(&name(lane as u8)));
                (0..flying[lane]).for_each(|_| shares.returns(&name(lane as u8), at(now)));
            }
            prop_assert!(shares.lanes.is_empty());
        }
    }
}
