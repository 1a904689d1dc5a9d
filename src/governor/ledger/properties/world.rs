//! A ledger, and a model of its outside: who asked, who holds, what was sent, what is stored.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::Property;
use super::coverage::{Coverage, Kind};
use super::model::{Held, LaneModel, LevelModel, Out};
use crate::governor::ledger::rest::Rules;
use crate::governor::ledger::{
    Action, Carried, Fault, Faults, Lane, Ledger, LedgerConfig, Msg, SiteTable,
};
use crate::governor::messages::{LaneKey, PermitId, Target, Ticket};
use crate::model::{Name, Timestamp};
use crate::settings::{LimitMode, LimitSettings};

pub(super) type Checked = Result<(), String>;

/// Fewest messages of a history, told to the ledger before its end is played.
const MESSAGES: usize = 200;
/// Fewest lanes in which a history asks for permits.
const LANES: usize = 8;

pub(super) struct World {
    pub(super) ledger: Ledger,
    pub(super) carried: Carried,
    pub(super) config: LedgerConfig,
    pub(super) rng: fastrand::Rng,
    pub(super) faults: Faults,
    pub(super) only: Property,
    pub(super) now: Timestamp,
    pub(super) cap: u32,
    pub(super) keys: Vec<Arc<LaneKey>>,
    pub(super) lanes: Vec<LaneModel>,
    pub(super) groups: Vec<LevelModel>,
    pub(super) held: BTreeMap<PermitId, Held>,
    pub(super) out: Out,
    /// No permit ends by itself before this.
    pub(super) next_end: Timestamp,
    pub(super) ended: Vec<PermitId>,
    /// By a permit's number, whether it was ever handed out.
    pub(super) seen: Vec<bool>,
    pub(super) waiting: BTreeMap<Ticket, (usize, (Timestamp, u64))>,
    pub(super) asked: u64,
    pub(super) pauses: BTreeMap<Target, Timestamp>,
    /// Uses to be stored, oldest first.
    pub(super) storing: VecDeque<(PermitId, Vec<String>)>,
    pub(super) stored: Vec<(String, Timestamp)>,
    pub(super) loading: bool,
    /// Histories with kills have no retunes: a killed process forgets what it was told.
    pub(super) kills: bool,
    /// Groups that rest are dropped at once.
    pub(super) forgetful: bool,
    /// No quota and no slow rate, so that nothing is stored.
    pub(super) plain: bool,
    pub(super) granted: u64,
    pub(super) released: u64,
    pub(super) reaped: u64,
    actions: Vec<Action>,
    messages: usize,
    /// What was said, for a person who looks for what went wrong. Kept only when asked for: to write it
    /// takes longer than to play it.
    log: Option<Vec<String>>,
    pub(super) coverage: Coverage,
}

/// Random limits; `plain` ones need no store.
pub(super) fn limits(rng: &mut fastrand::Rng, plain: bool) -> LimitSettings {
    let rates: &[&str] = if plain {
        &["20/s", "5/s"]
    } else {
        &["20/s", "5/s", "1/s", "30/min"]
    };
    let quotas = ["4/min", "20/min"];
    LimitSettings {
        mode: Some(LimitMode::Fixed),
        profile: None,
        max_concurrency_num: rng.bool().then(|| rng.u32(1..4)),
        rate: rng
            .bool()
            .then(|| rates[rng.usize(..rates.len())].parse().expect("a rate")),
        burst: rng.bool().then(|| rng.u32(1..4)),
        quota: if !plain && rng.u8(..4) == 0 {
            vec![quotas[rng.usize(..2)].parse().expect("a quota")]
        } else {
            Vec::new()
        },
        total_timeout: None,
    }
}

fn random_config(rng: &mut fastrand::Rng, plain: bool) -> LedgerConfig {
    let mut config = LedgerConfig {
        max_concurrency_num: rng.u32(1..8),
        permit_lease: Duration::from_secs(60),
        report_timeout: Duration::from_secs(20),
        max_waiters: 30,
        store_uses: !plain,
        ..LedgerConfig::default()
    };
    config.default_limits.mode = Some(LimitMode::Fixed);
    for name in ["a", "b"] {
        let limits_of_site = limits(rng, plain);
        let endpoints = ["0", "1"].map(|name| (Name::from(name), limits(rng, plain)));
        let site = SiteTable {
            limits: limits_of_site,
            endpoints: endpoints.into(),
            weight: rng.u32(1..4),
        };
        config.sites.insert(name.into(), site);
    }
    config
}

/// All lanes learn by themselves.
fn learn(config: &mut LedgerConfig) {
    config.default_limits.mode = Some(LimitMode::Adaptive);
    for table in config.sites.values_mut() {
        table.limits.mode = Some(LimitMode::Adaptive);
        for limits in table.endpoints.values_mut() {
            limits.mode = Some(LimitMode::Adaptive);
        }
    }
}

impl World {
    pub(super) fn new(seed: u64, fault: Option<Fault>, only: Property, log: bool) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let plain = rng.bool();
        let mut config = random_config(&mut rng, plain);
        if only == Property::Adaptive {
            learn(&mut config);
        }
        let now = Timestamp::from_nanos(10_u64.pow(18));
        let mut keys = Vec::new();
        let mut lanes = Vec::new();
        let mut groups = Vec::new();
        let names = [
            ("a", None),
            ("b", Some("h1")),
            ("b", Some("h2")),
            ("c", None),
        ];
        for (group, (name, host)) in names.into_iter().enumerate() {
            groups.push(LevelModel::new(config.site(name).clone(), now));
            for endpoint in ["0", "1", "2"] {
                let key = LaneKey {
                    site: name.into(),
                    host: host.map(Name::from),
                    endpoint: endpoint.into(),
                };
                lanes.push(LaneModel::new(group, config.endpoint(&key), now));
                keys.push(Arc::new(key));
            }
        }
        let faults = Faults { fault };
        let mut world = Self {
            ledger: Ledger::new(config.clone(), seed, now),
            carried: Carried::default(),
            cap: config.cap(),
            kills: rng.bool(),
            forgetful: rng.bool(),
            config,
            rng,
            faults,
            only,
            now,
            keys,
            lanes,
            groups,
            held: BTreeMap::new(),
            out: Out::default(),
            next_end: Timestamp::MAX,
            ended: Vec::new(),
            seen: Vec::new(),
            waiting: BTreeMap::new(),
            asked: 0,
            pauses: BTreeMap::new(),
            storing: VecDeque::new(),
            stored: Vec::new(),
            loading: !plain,
            plain,
            granted: 0,
            released: 0,
            reaped: 0,
            actions: Vec::new(),
            messages: 0,
            log: log.then(Vec::new),
            coverage: Coverage::default(),
        };
        world.begin();
        world
    }

    /// A new ledger has taken over.
    pub(super) fn begin(&mut self) {
        self.ledger.faults = self.faults;
        if self.forgetful {
            self.ledger.rules = Rules {
                room: 0,
                crowd: 0,
                long: Duration::ZERO,
            };
        }
        self.ledger.track();
        // Nothing was learned earlier: these histories are about limits that are told.
        let none = Msg::LearnedLoaded(Vec::new());
        self.ledger.handle(self.now, none, &mut self.actions);
        for key in &self.keys {
            self.ledger.lane(key);
        }
    }

    pub(super) fn adaptive(&self) -> bool {
        self.only == Property::Adaptive
    }

    /// The ledger's own lane; it comes back where it was dropped.
    pub(super) fn state_of(&mut self, lane: usize) -> &Lane {
        let id = self.ledger.lane(&self.keys[lane]);
        &self.ledger.lanes[id.place as usize]
    }

    pub(super) fn write(&mut self, line: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(line());
        }
    }

    /// The last messages.
    pub(super) fn tail(&self) -> String {
        let log = self.log.as_deref().unwrap_or_default();
        log[log.len().saturating_sub(400)..].join("\n")
    }

    pub(super) fn check(
        &self,
        property: Property,
        holds: bool,
        what: impl FnOnce() -> String,
    ) -> Checked {
        let asked = match self.only {
            Property::Adaptive => property != Property::Backoff,
            only => property == only,
        };
        if holds || !asked {
            return Ok(());
        }
        Err(format!("{property:?} at {:?}: {}", self.now, what()))
    }

    /// Whether the history was long and wide enough to mean anything.
    pub(super) fn check_size(&self) -> Checked {
        let lanes = self.lanes.iter().filter(|lane| lane.asked).count();
        if self.messages >= MESSAGES && lanes >= LANES {
            return Ok(());
        }
        Err(format!("{} messages over {lanes} lanes", self.messages))
    }

    pub(super) fn note(&mut self, kind: Kind, lane: Option<usize>) {
        let lanes = lane.map_or(0..self.lanes.len(), |lane| lane..lane + 1);
        for lane in lanes {
            let state = if self.lanes[lane].paused > self.now {
                "paused"
            } else {
                // One that was dropped is at rest.
                let there = self.ledger.lane_ids.get(&self.keys[lane]);
                there.map_or("open", |lane| {
                    self.ledger.lanes[*lane as usize].learner.state(self.now)
                })
            };
            self.coverage.meet(kind, state);
        }
    }

    /// The pauses have changed.
    pub(super) fn spread_pauses(&mut self) {
        for (key, lane) in self.keys.iter().zip(&mut self.lanes) {
            let concerned = self.pauses.iter().filter(|(target, _)| match target {
                Target::Global => true,
                Target::Site(site) => *site == key.site,
                Target::Endpoint(site, endpoint) => *site == key.site && *endpoint == key.endpoint,
            });
            lane.paused = concerned.map(|(_, until)| *until).max().unwrap_or_default();
        }
    }

    /// What ends by itself, by now.
    pub(super) fn expire(&mut self) {
        if self.next_end > self.now {
            return;
        }
        let (now, timeout) = (self.now, self.config.report_timeout);
        let (lanes, ended, reaped) = (&mut self.lanes, &mut self.ended, &mut self.reaped);
        let (out, next_end) = (&mut self.out, &mut self.next_end);
        *next_end = Timestamp::MAX;
        self.held.retain(|permit, held| {
            let end = held.released.map_or(held.deadline, |at| at + timeout);
            if end > now {
                *next_end = end.min(*next_end);
                return true;
            }
            lanes[held.lane].lost(*permit);
            if held.released.is_none() {
                *reaped += 1;
                out.remove(held.lane, lanes[held.lane].group);
                ended.push(*permit);
            }
            false
        });
    }

    pub(super) fn handle(&mut self, msg: Msg) -> Checked {
        self.expire();
        self.messages += 1;
        let now = self.now;
        self.write(|| format!("{now:?} {msg:?}"));
        let mut actions = std::mem::take(&mut self.actions);
        self.ledger.handle(now, msg, &mut actions);
        if self.forgetful {
            self.ledger.sweep();
        }
        self.ledger.save(&mut self.carried);
        for action in actions.drain(..) {
            self.write(|| format!("    {action:?}"));
            self.see(action)?;
        }
        self.actions = actions;
        let (out, storing) = (self.out.all, self.storing.len());
        let counted = self.ledger.in_flight() as usize;
        self.check(Property::Conservation, counted == out + storing, || {
            format!("{counted} in flight, {out} held and {storing} being stored")
        })
    }
}
