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
mod attic;
mod backoff;
mod carry;
mod config;
mod control;
mod failures;
mod faults;
mod grant;
mod id_map;
mod intern;
mod kin;
mod known;
mod learner;
mod level;
mod message;
mod pace;
mod places;
mod queue;
mod recent;
mod report;
mod rest;
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
use self::attic::{Attic, GroupName, LaneRest};
pub use self::carry::Carried;
pub use self::config::{LedgerConfig, SiteTable};
pub(crate) use self::faults::{Fault, Faults};
use self::id_map::IdMap;
use self::kin::{Kin, Trace};
use self::known::{Earlier, News};
use self::learner::{Learner, Stamp};
use self::level::Level;
pub use self::message::{Action, Known, Msg};
use self::places::Places;
use self::queue::{Place, Queue, Waiter};
use self::recent::Recent;
use self::rest::{Round, Rules};
use self::share::{Claims, Share};
use self::snapshot::Gone;
use self::timers::Timers;
use self::waits::Waits;
use super::messages::{LaneKey, PermitId, Target, Ticket};
use crate::model::{Name, Timestamp};

/// A lane of one ledger, interned. Valid for that ledger and for those restored from it, until the lane is
/// dropped: who keeps one asks [`Ledger::is_there`] after each [`Ledger::sweep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneId {
    place: u32,
    /// Lanes are counted; a place that is used again has another lane.
    born: u32,
}

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
    born: u32,
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
    /// Stands in `Ledger::news`.
    news: bool,
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
    /// Permits that are known, from the decision to the report.
    open: u32,
    /// When a permit was asked for, or ended, last.
    used: Timestamp,
    /// What is remembered of lanes that have not been asked for since the group came back.
    resting: Vec<LaneRest>,
}

/// What changed since the last [`Ledger::save`].
#[derive(Debug, Default)]
struct Dirty {
    tracked: bool,
    config: bool,
    lanes: Vec<u32>,
    groups: Vec<u32>,
    kin: Vec<u32>,
    /// Groups that were dropped or came back.
    attic: Vec<GroupName>,
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
    lanes: Places<Lane>,
    /// Lanes so far.
    born: u32,
    groups: Places<Group>,
    /// Lanes that learn together, because they share a limit of their server.
    kin: Places<Kin>,
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
    known: Earlier,
    known_loaded: bool,
    known_asked: bool,
    draining: bool,
    news: News,
    rules: Rules,
    round: Round,
    attic: Attic,
    /// Counts of lanes that were dropped.
    gone: Gone,
    dirty: Dirty,
}

impl Ledger {
    /// A ledger of a node that starts at `now`. The same seed and messages give the same actions.
    #[must_use]
    pub fn new(config: LedgerConfig, seed: u64, now: Timestamp) -> Self {
        Self {
            loaded: !config.store_uses,
            known_loaded: !config.store_uses,
            rules: Rules::new(config.time_scale),
            config,
            faults: Faults::default(),
            rng: fastrand::Rng::with_seed(seed),
            now,
            started: now,
            in_flight: 0,
            totals: Totals::default(),
            lanes: Places::default(),
            born: 0,
            groups: Places::default(),
            kin: Places::default(),
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
            news: News::default(),
            round: Round::default(),
            attic: Attic::default(),
            gone: Gone::default(),
            dirty: Dirty::default(),
        }
    }

    /// The dense id of a lane, made when it is first asked for.
    pub fn lane(&mut self, key: &Arc<LaneKey>) -> LaneId {
        let place = match self.lane_ids.get(key) {
            Some(place) => *place,
            None => {
                let place = self.intern(key);
                if self.known_loaded {
                    self.presume(place);
                }
                place
            }
        };
        let born = self.lanes[place as usize].born;
        LaneId { place, born }
    }

    /// Whether a lane has not been dropped.
    #[must_use]
    #[inline]
    pub fn is_there(&self, lane: LaneId) -> bool {
        let there = self.lanes.get(lane.place);
        there.is_some_and(|there| there.born == lane.born)
    }

    /// The key of a lane that is there.
    #[must_use]
    pub fn key(&self, lane: LaneId) -> &Arc<LaneKey> {
        &self.lanes[lane.place as usize].key
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
                lane,
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
            Msg::Ceiling { lane, interval } => self.ceiling(lane, interval),
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

    #[inline]
    fn touch_lane(&mut self, id: u32) {
        let lane = &mut self.lanes[id as usize];
        if self.dirty.tracked && !lane.dirty {
            lane.dirty = true;
            self.dirty.lanes.push(id);
        }
    }

    fn touch_kin(&mut self, id: u32) {
        let kin = &mut self.kin[id as usize];
        if self.dirty.tracked && !kin.dirty {
            kin.dirty = true;
            self.dirty.kin.push(id);
        }
    }

    #[inline]
    fn touch_group(&mut self, id: u32) {
        let group = &mut self.groups[id as usize];
        if self.dirty.tracked && !group.dirty {
            group.dirty = true;
            self.dirty.groups.push(id);
        }
    }

    fn touch_all(&mut self) {
        for lane in self.lanes.numbers() {
            self.touch_lane(lane);
        }
        for place in self.kin.numbers() {
            self.touch_kin(place);
        }
        for group in self.groups.numbers() {
            self.touch_group(group);
        }
    }

    fn touch_permit(&mut self, id: PermitId) {
        if self.dirty.tracked {
            self.dirty.permits.push(id);
        }
    }

    /// A permit is known from here on.
    #[inline]
    fn enter(&mut self, permit: PermitId, out: OutPermit) {
        let group = self.lanes[out.lane as usize].group;
        self.groups[group as usize].open += 1;
        self.out.insert(permit, out);
    }

    /// Nothing is awaited of a permit of `lane` any more.
    #[inline]
    fn discard(&mut self, permit: PermitId, lane: u32) {
        self.out.discard(&permit);
        let group = self.lanes[lane as usize].group;
        let group = &mut self.groups[group as usize];
        group.open = group.open.saturating_sub(1);
        group.used = self.now;
    }
}

/// `site`, or `site@host`.
fn group_scope(site: &str, host: Option<&Name>) -> String {
    match host {
        Some(host) => format!("{site}@{host}"),
        None => site.to_owned(),
    }
}
