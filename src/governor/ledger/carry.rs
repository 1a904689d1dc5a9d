//! What outlives a ledger, so that its successor keeps every limit.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::attic::{Attic, LaneRest};
use super::kin::Kin;
use super::known::Earlier;
use super::learner::{Learner, Stamp};
use super::level::LevelMemory;
use super::places::Places;
use super::recent::Recent;
use super::snapshot::Gone;
use super::{Fault, Faults, Ledger, LedgerConfig, Stage, Totals};
use crate::governor::messages::{LaneKey, PermitId, Target};
use crate::model::{Name, Timestamp};

/// Memory of a ledger, kept up to date by [`Ledger::save`] after each message, and given to
/// [`Ledger::restore`] when the ledger died. All instants are of one clock.
#[derive(Clone, Debug, Default)]
pub struct Carried {
    pub(crate) config: Option<LedgerConfig>,
    pub(crate) started: Option<Timestamp>,
    pub(crate) lanes: Places<LaneMemory>,
    /// Lanes so far.
    pub(crate) born: u32,
    pub(crate) groups: Places<GroupMemory>,
    pub(crate) kin: Places<Kin>,
    pub(crate) permits: Recent<PermitMemory>,
    pub(crate) pauses: BTreeMap<Target, Timestamp>,
    pub(crate) next_permit: u64,
    pub(crate) totals: Totals,
    pub(crate) draining: bool,
    pub(crate) known: Option<Earlier>,
    pub(crate) gone: Gone,
    pub(crate) attic: Attic,
}

#[derive(Clone, Debug)]
pub(crate) struct LaneMemory {
    pub(crate) key: Arc<LaneKey>,
    pub(crate) born: u32,
    pub(crate) group: u32,
    pub(crate) level: LevelMemory,
    pub(crate) learner: Learner,
    pub(crate) kin: Option<u32>,
    pub(crate) granted: u64,
    pub(crate) outcomes: [u64; 19],
}

#[derive(Clone, Debug)]
pub(crate) struct GroupMemory {
    pub(crate) site: Name,
    pub(crate) host: Option<Name>,
    pub(crate) level: LevelMemory,
    pub(crate) resting: Vec<LaneRest>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PermitMemory {
    pub(crate) lane: u32,
    pub(crate) granted: Timestamp,
    /// Of the lease; once returned, of the report.
    pub(crate) deadline: Timestamp,
    pub(crate) stamp: Stamp,
    /// The holder has given it back, whether the ledger heard of it or not.
    pub(crate) returned: bool,
    /// The ledger heard of it.
    pub(crate) heard: bool,
    /// Its report has come.
    pub(crate) reported: bool,
}

impl Carried {
    /// Permits handed out and not given back.
    #[must_use]
    pub fn permits_out(&self) -> usize {
        let out = self.permits.iter();
        out.filter(|(_, permit)| !permit.returned).count()
    }

    /// Note that the holder gave a permit back. A ledger that dies before it hears of it is followed by
    /// one that knows.
    pub fn returned(&mut self, permit: PermitId) {
        if let Some(memory) = self.permits.get_mut(&permit) {
            memory.returned = true;
        }
    }
}

impl Ledger {
    /// Start to note changes for [`Ledger::save`]. Without it nothing is noted and `save` does nothing.
    pub fn track(&mut self) {
        self.dirty.tracked = true;
        self.dirty.config = true;
        self.touch_all();
        self.dirty.permits.extend(self.out.iter().map(|(id, _)| id));
    }

    /// Bring `carried` up to date with all changes since the last call.
    pub fn save(&mut self, carried: &mut Carried) {
        if !self.dirty.tracked {
            return;
        }
        if std::mem::take(&mut self.dirty.config) {
            carried.config = Some(self.config.clone());
            carried.started = Some(self.started);
            carried.pauses = self.pauses.clone();
            carried.draining = self.draining;
            carried.known = self.known_loaded.then(|| self.known.clone());
        }
        carried.next_permit = self.next_permit;
        carried.totals = self.totals;
        carried.born = self.born;
        if std::mem::take(&mut self.gone.dirty) {
            carried.gone = self.gone.clone();
        }
        for id in self.dirty.lanes.drain(..) {
            let Some(lane) = self.lanes.get_mut(id) else {
                carried.lanes.remove(id);
                continue;
            };
            lane.dirty = false;
            match carried.lanes.get_mut(id) {
                Some(place) if place.born == lane.born => {
                    place.level = lane.level.memory();
                    place.learner.clone_from(&lane.learner);
                    place.kin = lane.kin;
                    place.granted = lane.granted;
                    place.outcomes = lane.outcomes;
                }
                _ => {
                    let memory = LaneMemory {
                        key: lane.key.clone(),
                        born: lane.born,
                        group: lane.group,
                        level: lane.level.memory(),
                        learner: lane.learner.clone(),
                        kin: lane.kin,
                        granted: lane.granted,
                        outcomes: lane.outcomes,
                    };
                    carried.lanes.put(id, memory);
                }
            }
        }
        for id in self.dirty.kin.drain(..) {
            match (self.kin.get_mut(id), carried.kin.get_mut(id)) {
                (None, _) => drop(carried.kin.remove(id)),
                (Some(kin), place) => {
                    kin.dirty = false;
                    match place {
                        Some(place) => place.clone_from(kin),
                        None => carried.kin.put(id, kin.clone()),
                    }
                }
            }
        }
        for id in self.dirty.groups.drain(..) {
            let Some(group) = self.groups.get_mut(id) else {
                carried.groups.remove(id);
                continue;
            };
            group.dirty = false;
            match carried.groups.get_mut(id) {
                Some(place) if place.site == group.site && place.host == group.host => {
                    place.level = group.level.memory();
                    place.resting.clone_from(&group.resting);
                }
                _ => {
                    let memory = GroupMemory {
                        site: group.site.clone(),
                        host: group.host.clone(),
                        level: group.level.memory(),
                        resting: group.resting.clone(),
                    };
                    carried.groups.put(id, memory);
                }
            }
        }
        for name in self.dirty.attic.drain(..) {
            match self.attic.get(&name) {
                Some(rest) => carried.attic.put(name, rest.clone()),
                None => drop(carried.attic.take(&name)),
            }
        }
        for id in self.dirty.permits.drain(..) {
            match self.out.get(&id) {
                Some(out) if out.stage != Stage::Storing => {
                    let returned = out.stage == Stage::Returned
                        || carried
                            .permits
                            .get(&id)
                            .is_some_and(|memory| memory.returned);
                    let memory = PermitMemory {
                        lane: out.lane,
                        granted: out.granted,
                        deadline: out.deadline,
                        stamp: out.stamp,
                        returned,
                        heard: out.stage == Stage::Returned,
                        reported: out.reported,
                    };
                    carried.permits.insert(id, memory);
                }
                _ => {
                    carried.permits.remove(&id);
                }
            }
        }
    }

    /// A ledger that goes on where a dead one stopped: permits out count against every cap, pauses, pace
    /// and back-off are remembered. Those who waited have to ask again.
    ///
    /// `config` is used where `carried` holds none, that is when no ledger ran before.
    #[must_use]
    pub fn restore(config: LedgerConfig, seed: u64, now: Timestamp, carried: &Carried) -> Self {
        Self::restore_with(Faults::default(), config, seed, now, carried)
    }

    pub(crate) fn restore_with(
        faults: Faults,
        config: LedgerConfig,
        seed: u64,
        now: Timestamp,
        carried: &Carried,
    ) -> Self {
        let config = carried.config.clone().unwrap_or(config);
        let mut ledger = Self::new(config, seed, now);
        ledger.faults = faults;
        ledger.started = carried.started.unwrap_or(now);
        ledger.pauses = carried.pauses.clone();
        ledger.draining = carried.draining;
        if let Some(known) = &carried.known {
            ledger.known_loaded = true;
            ledger.known.clone_from(known);
        }
        ledger.next_permit = carried.next_permit;
        ledger.totals = carried.totals;
        ledger.gone = carried.gone.clone();
        ledger.attic = carried.attic.clone();
        for (id, memory) in carried.groups.iter() {
            let name = (memory.site.clone(), memory.host.clone());
            let mut group = ledger.new_group(&name, memory.level);
            group.resting.clone_from(&memory.resting);
            ledger.groups.put(id, group);
            ledger.group_ids.insert(name, id);
            ledger.round.enter(id);
        }
        for (id, memory) in carried.lanes.iter() {
            let mut lane = ledger.new_lane(memory.key.clone(), memory.group, memory.level);
            lane.born = memory.born;
            lane.learner = memory.learner.clone();
            lane.kin = memory.kin;
            lane.granted = memory.granted;
            lane.outcomes = memory.outcomes;
            ledger.lane_ids.insert(memory.key.clone(), id);
            ledger.groups[memory.group as usize].lanes.push(id);
            ledger.lanes.put(id, lane);
        }
        ledger.born = carried.born;
        ledger.kin.clone_from(&carried.kin);
        if !faults.on(Fault::RestartForgetsPermits) {
            for (id, memory) in carried.permits.iter() {
                ledger.adopt(id, *memory);
            }
        }
        // The map has no order; what ends first stands first.
        ledger.timers.leases.make_contiguous().sort_unstable();
        ledger.timers.reports.make_contiguous().sort_unstable();
        ledger.timers.all_done();
        ledger.forget_dead_probes();
        ledger
    }
}
