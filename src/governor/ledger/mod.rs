//! The governor's bookkeeping, without clock, socket or disk: `now` and a message in, actions out.
//!
//! Four kinds of gate stand before a request: caps (global, group, lane), pace (group, lane), quotas
//! (group, lane), and the lane's own times (not-before, back-off, the half-open probe). A *group* is a
//! site, in `crawl` mode one host of it; a *lane* is one endpoint of a group. Slots and tokens are
//! taken when all gates are open, never one by one.
//!
//! Waiting costs nothing: a lane whose gate is closed is looked at again when its time has come or when
//! something happened to it, so that no message is handled in time that grows with lanes or waiters.

mod adapt;
mod backoff;
mod carry;
mod config;
mod control;
mod failures;
mod faults;
mod grant;
mod id_map;
mod kin;
mod known;
mod learner;
mod level;
mod message;
mod pace;
mod queue;
mod recent;
mod report;
mod scale;
mod share;
mod snapshot;
mod stored;
mod timers;
mod waits;

#[cfg(test)]
mod cases;
#[cfg(test)]
mod properties;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub use self::adapt::Learned;
pub use self::carry::Carried;
pub use self::config::{LedgerConfig, SiteTable};
pub(crate) use self::faults::{Fault, Faults};
use self::id_map::IdMap;
use self::kin::{Kin, Trace};
use self::learner::{Learner, Stamp};
use self::level::{Level, LevelMemory};
pub use self::message::{Action, Known, Msg};
use self::queue::{Place, Queue, Waiter};
use self::recent::Recent;
use self::share::{Claims, Share};
use self::timers::Timers;
use self::waits::Waits;
use super::messages::{LaneKey, PermitId, Target, Ticket};
use crate::model::{Name, Timestamp};
use crate::settings::LimitSettings;

/// A lane of one ledger, interned. Valid for that ledger and for those restored from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneId(u32);

/// Counts over the life of all ledgers of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    granted: u64,
    released: u64,
    reaped: u64,
    peak: u32,
}

/// Where a permit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Decided; its use is being stored.
    Storing,
    /// Handed out.
    Out,
    /// Given back; its report is awaited.
    Returned,
}

#[derive(Clone, Copy, Debug)]
struct OutPermit {
    lane: u32,
    granted: Timestamp,
    /// Of the lease; once returned, of the report.
    deadline: Timestamp,
    stamp: Stamp,
    /// How long it was held; known once it is returned.
    held: Option<Duration>,
    stage: Stage,
    /// Its report has come; no other is heard.
    reported: bool,
    /// Whether its use is stored for its lane, and for its group.
    stored: (bool, bool),
    lane_sequence: u64,
    group_sequence: u64,
}

#[derive(Debug)]
struct Lane {
    key: Arc<LaneKey>,
    group: u32,
    level: Level,
    learner: Learner,
    /// Learns together with others: place in `Ledger::kin`. Its own learner rests meanwhile.
    kin: Option<u32>,
    trace: Trace,
    queue: Queue,
    /// Whether the lane stands in its group's ring.
    in_ring: bool,
    wake: Timestamp,
    dirty: bool,
    granted: u64,
    refused: u64,
    outcomes: [u64; 19],
    waits: Waits,
    /// Sum of the times that its permits were held.
    busy: Duration,
    /// When it was asked first.
    since: Option<Timestamp>,
    /// From a grant to the instant at which its permit is taken back.
    lease: Duration,
}

#[derive(Debug)]
struct Group {
    site: Name,
    host: Option<Name>,
    level: Level,
    share: Share,
    lanes: Vec<u32>,
    /// Lanes with a waiter and open gates, in the order they became so; each is served in turn.
    ring: VecDeque<u32>,
    wake: Timestamp,
    dirty: bool,
}

/// What changed since the last [`Ledger::save`].
#[derive(Debug, Default)]
struct Dirty {
    tracked: bool,
    config: bool,
    lanes: Vec<usize>,
    groups: Vec<usize>,
    kin: Vec<usize>,
    permits: Vec<PermitId>,
}

/// The bookkeeping of all limits. See the [module](self).
#[derive(Debug)]
pub struct Ledger {
    config: LedgerConfig,
    faults: Faults,
    rng: fastrand::Rng,
    now: Timestamp,
    started: Timestamp,
    in_flight: u32,
    totals: Totals,
    lanes: Vec<Lane>,
    groups: Vec<Group>,
    /// Lanes that learn together, because they share a limit of their server.
    kin: Vec<Kin>,
    /// Places in `kin` that nobody learns by any more.
    free_kin: Vec<u32>,
    lane_ids: HashMap<Arc<LaneKey>, u32>,
    group_ids: HashMap<(Name, Option<Name>), u32>,
    out: Recent<OutPermit>,
    next_permit: u64,
    tickets: IdMap<Ticket, (u32, Place)>,
    arrivals: u64,
    /// Who waits for the quota store.
    storing: IdMap<PermitId, (Place, Waiter)>,
    claims: Claims,
    timers: Timers,
    pauses: BTreeMap<Target, Timestamp>,
    /// Uses of earlier processes whose level has not been met yet.
    history: HashMap<String, Vec<Timestamp>>,
    loaded: bool,
    load_asked: bool,
    /// What earlier runs learned, by scope, of lanes not met yet.
    known: HashMap<String, Known>,
    known_loaded: bool,
    known_asked: bool,
    draining: bool,
    group_memory: Vec<LevelMemory>,
    dirty: Dirty,
}

impl Ledger {
    /// A ledger of a node that starts at `now`. The same seed and messages give the same actions.
    #[must_use]
    pub fn new(config: LedgerConfig, seed: u64, now: Timestamp) -> Self {
        Self {
            loaded: !config.store_uses,
            known_loaded: !config.store_uses,
            config,
            faults: Faults::default(),
            rng: fastrand::Rng::with_seed(seed),
            now,
            started: now,
            in_flight: 0,
            totals: Totals::default(),
            lanes: Vec::new(),
            groups: Vec::new(),
            kin: Vec::new(),
            free_kin: Vec::new(),
            lane_ids: HashMap::new(),
            group_ids: HashMap::new(),
            out: Recent::default(),
            next_permit: 1,
            tickets: IdMap::default(),
            arrivals: 0,
            storing: IdMap::default(),
            claims: Claims::default(),
            timers: Timers::default(),
            pauses: BTreeMap::new(),
            history: HashMap::new(),
            load_asked: false,
            known: HashMap::new(),
            known_asked: false,
            draining: false,
            group_memory: Vec::new(),
            dirty: Dirty::default(),
        }
    }

    /// The dense id of a lane, made when it is first asked for.
    pub fn lane(&mut self, key: &Arc<LaneKey>) -> LaneId {
        match self.lane_ids.get(key) {
            Some(id) => LaneId(*id),
            None => {
                let id = self.intern(key, LevelMemory::default());
                let number = u32::try_from(id).unwrap_or(u32::MAX);
                if self.known_loaded {
                    self.presume(number);
                }
                LaneId(number)
            }
        }
    }

    /// The key of a lane.
    #[must_use]
    pub fn key(&self, lane: LaneId) -> &Arc<LaneKey> {
        &self.lanes[lane.0 as usize].key
    }

    /// Permits out, those included whose use is being stored.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Handle one message at `now`; what is to be done is added to `actions`. An instant before an
    /// earlier one is read as that one.
    #[inline]
    pub fn handle(&mut self, now: Timestamp, msg: Msg, actions: &mut Vec<Action>) {
        self.now = self.now.max(now);
        if self.timers.may_be_due(self.now) {
            self.pass_time(actions);
        }
        match msg {
            Msg::Acquire {
                ticket,
                lane,
                priority,
                patience,
            } => self.acquire(
                ticket,
                lane.0,
                priority,
                Waiter {
                    ticket,
                    patience,
                    asked: self.now,
                },
                actions,
            ),
            Msg::Release { permit, used } => self.release(permit, used, actions),
            Msg::Report {
                permit,
                outcome,
                hints,
            } => self.report(permit, outcome, hints, actions),
            Msg::Cancel { ticket } => self.cancel(ticket, actions),
            Msg::Retune { target, limits } => self.retune(&target, &limits, actions),
            Msg::Pause { target, length } => {
                let until = length.map_or(Timestamp::MAX, |length| self.now + length);
                self.pause(&target, until, actions);
            }
            Msg::Resume { target } => self.resume(&target, actions),
            Msg::Drain => self.drain(actions),
            Msg::Tick => {}
            Msg::LearnedLoaded(known) => self.learned_loaded(known, actions),
            Msg::UsesLoaded(uses) => self.uses_loaded(uses, actions),
            Msg::UseStored(permit) => self.use_stored(permit, actions),
            Msg::UseBehind(permit, uses) => self.use_behind(permit, uses, actions),
            Msg::UseFailed(permit, wait) => self.use_failed(permit, wait, actions),
        }
        if !self.claims.is_empty() {
            self.pump(actions);
        }
    }

    fn intern(&mut self, key: &Arc<LaneKey>, memory: LevelMemory) -> usize {
        let group = self.intern_group(key);
        let limits = self.config.endpoint(key);
        let scope = key.to_string();
        let level = self.new_level(&limits, memory, &scope);
        let known = self.known.remove(&scope);
        let learner = self.new_learner(key, known);
        let id = self.lanes.len();
        let number = u32::try_from(id).unwrap_or(u32::MAX);
        let mut lane = Lane {
            lease: self.config.lease(key),
            key: key.clone(),
            group,
            level,
            learner,
            kin: None,
            trace: Trace::default(),
            queue: Queue::default(),
            in_ring: false,
            wake: Timestamp::MAX,
            dirty: false,
            granted: 0,
            refused: 0,
            outcomes: [0; 19],
            waits: Waits::default(),
            busy: Duration::ZERO,
            since: None,
        };
        let target = Target::Endpoint(key.site.clone(), key.endpoint.clone());
        lane.level.paused = self.pauses.get(&target).copied().unwrap_or_default();
        self.lanes.push(lane);
        self.groups[group as usize].lanes.push(number);
        self.lane_ids.insert(key.clone(), number);
        self.touch_lane(id);
        id
    }

    fn intern_group(&mut self, key: &LaneKey) -> u32 {
        let name = (key.site.clone(), key.host.clone());
        if let Some(id) = self.group_ids.get(&name) {
            return *id;
        }
        let id = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        let limits = self.config.site(&key.site).clone();
        let memory = self
            .group_memory
            .get(id as usize)
            .copied()
            .unwrap_or_default();
        let mut level = self.new_level(&limits, memory, &group_scope(&key.site, key.host.as_ref()));
        let target = Target::Site(key.site.clone());
        level.paused = self.pauses.get(&target).copied().unwrap_or_default();
        self.groups.push(Group {
            site: key.site.clone(),
            host: key.host.clone(),
            level,
            share: Share::new(self.config.weight(&key.site)),
            lanes: Vec::new(),
            ring: VecDeque::new(),
            wake: Timestamp::MAX,
            dirty: false,
        });
        self.group_ids.insert(name, id);
        self.touch_group(id as usize);
        id
    }

    fn new_level(&mut self, limits: &LimitSettings, memory: LevelMemory, scope: &str) -> Level {
        // What an earlier process sent just before this one started is unknown where it is not stored:
        // the first request waits until a whole interval has passed since the start.
        let interval = limits.rate.map(|rate| rate.interval()).unwrap_or_default();
        let start = self.now.max(self.started + interval);
        let mut level = Level::new(limits, start, memory);
        if self.loaded {
            level.recall(self.history.remove(scope).unwrap_or_default());
        }
        level
    }

    fn touch_lane(&mut self, id: usize) {
        let lane = &mut self.lanes[id];
        if self.dirty.tracked && !lane.dirty {
            lane.dirty = true;
            self.dirty.lanes.push(id);
        }
    }

    fn touch_kin(&mut self, place: u32) {
        let id = place as usize;
        let kin = &mut self.kin[id];
        if self.dirty.tracked && !kin.dirty {
            kin.dirty = true;
            self.dirty.kin.push(id);
        }
    }

    fn touch_group(&mut self, id: usize) {
        let group = &mut self.groups[id];
        if self.dirty.tracked && !group.dirty {
            group.dirty = true;
            self.dirty.groups.push(id);
        }
    }

    fn touch_all(&mut self) {
        for lane in 0..self.lanes.len() {
            self.touch_lane(lane);
        }
        for place in 0..u32::try_from(self.kin.len()).unwrap_or(u32::MAX) {
            self.touch_kin(place);
        }
        for group in 0..self.groups.len() {
            self.touch_group(group);
        }
    }

    fn touch_permit(&mut self, id: PermitId) {
        if self.dirty.tracked {
            self.dirty.permits.push(id);
        }
    }
}

/// `site`, or `site@host`.
fn group_scope(site: &str, host: Option<&Name>) -> String {
    match host {
        Some(host) => format!("{site}@{host}"),
        None => site.to_owned(),
    }
}
