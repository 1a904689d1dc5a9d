//! What a PlatformActor and its workers share: one value per actor, on one thread.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use slog::Logger;
use tokio::sync::watch;

use super::budget::RetryBudget;
use super::health::Health;
use super::known::Known;
use super::robots::{Manners, RobotsCache};
use super::sessions::{Held, Sessions};
use super::shares::Shares;
use crate::exchange::{Client, Network};
use crate::governor::{Governor, LaneKey, WaitReason};
use crate::model::{Job, Name, Outcome, Timestamp, UnixMillis};
use crate::observe::{Metrics, SiteMeter};
use crate::settings::{CacheMode, Settings};
use crate::site::Site;
use crate::store::{CacheStore, Store};

/// What a PlatformActor is given: one site of one job.
#[derive(Clone)]
pub struct Assignment {
    /// The job.
    pub job: Arc<Job>,
    /// The site.
    pub site: Arc<dyn Site>,
    /// The node's settings.
    pub settings: Arc<Settings>,
    /// Where permits come from.
    pub governor: Governor,
    /// Names and egresses, shared by the node.
    pub network: Network,
    /// Where tasks come from and results go.
    pub store: Addr<Store>,
    /// What earlier runs knew of servers.
    pub caches: CacheStore,
    /// Where the cookies of its account are.
    pub sessions: Sessions,
    /// The job's counters.
    pub metrics: Metrics,
    /// Holds back new leases while those who read the records are behind.
    pub credit: Credit,
    /// The logger of the site.
    pub log: Logger,
}

/// Whether new work may be taken: the consumers of an application's record stream bound the crawl.
pub type Credit = Arc<dyn Fn() -> bool + Send + Sync>;

/// The assignment with what only its thread may touch.
pub(super) struct Context {
    pub(super) assignment: Assignment,
    pub(super) client: Client,
    /// Its session, where cookies are kept.
    pub(super) session: Option<Held>,
    pub(super) robots: RobotsCache,
    pub(super) manners: Manners,
    /// Whether answers are kept for the next run.
    pub(super) cache: CacheMode,
    pub(super) known: RefCell<Known>,
    /// The site's counters.
    pub(super) meter: SiteMeter,
    /// Who waits for a permit, and who has one.
    pub(super) shares: RefCell<Shares>,
    /// Tells the actor that a lane could do with more leases.
    pub(super) roomy: Box<dyn Fn()>,
    /// Turns true when no new permit may be asked for.
    pub(super) stopping: watch::Receiver<bool>,
    lanes: RefCell<HashMap<(Name, Name), Rc<Lane>>>,
    /// By host in `crawl` mode, else one.
    budgets: RefCell<HashMap<Option<Name>, RetryBudget>>,
    born: tokio::time::Instant,
    /// Refusals of the site since the last answer that was none.
    pub(super) trouble: Cell<Option<Trouble>>,
    /// Why the last request that has to wait has to.
    pub(super) waits_for: RefCell<String>,
    /// Why the site cannot go on: a file could not be saved.
    pub(super) fatal: RefCell<Option<String>>,
    /// What a person has to do before the site can go on.
    pub(super) errand: RefCell<Option<String>>,
}

/// A queue's endpoint as the governor knows it, and how it fares.
pub(super) struct Lane {
    pub(super) key: Arc<LaneKey>,
    pub(super) health: Cell<Health>,
    /// How long an exchange may take, where that is not as the settings have it for all.
    pub(super) total_timeout: Option<Duration>,
}

/// Since when a site has given nothing but refusals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trouble {
    pub(super) since: tokio::time::Instant,
}

/// Lanes remembered by a PlatformActor before it starts afresh: a bound for crawls of many hosts.
const MOST_LANES: usize = 10_000;

impl Context {
    pub(super) fn new(
        assignment: Assignment,
        client: Client,
        session: Option<Held>,
        known_places: usize,
        stopping: watch::Receiver<bool>,
        roomy: Box<dyn Fn()>,
    ) -> Self {
        Self {
            meter: assignment.metrics.site(assignment.site.name()),
            shares: RefCell::default(),
            roomy,
            budgets: RefCell::default(),
            born: tokio::time::Instant::now(),
            robots: RobotsCache::default(),
            manners: Manners::of(&assignment.settings, assignment.site.name()),
            cache: assignment.settings.cache_of(assignment.site.name()),
            known: RefCell::new(Known::new(known_places)),
            lanes: RefCell::default(),
            trouble: Cell::new(None),
            waits_for: RefCell::default(),
            fatal: RefCell::default(),
            errand: RefCell::default(),
            assignment,
            client,
            session,
            stopping,
        }
    }

    /// `endpoint` in the queue `lane`.
    pub(super) fn lane(&self, endpoint: &Name, lane: &Name) -> Rc<Lane> {
        let mut lanes = self.lanes.borrow_mut();
        if let Some(known) = lanes.get(&(endpoint.clone(), lane.clone())) {
            return known.clone();
        }
        if lanes.len() >= MOST_LANES {
            lanes.clear();
        }
        let site = &self.assignment.site;
        let new = Rc::new(Lane {
            key: Arc::new(LaneKey {
                site: site.name().clone(),
                host: site.lanes_by_host().then(|| lane.clone()),
                endpoint: endpoint.clone(),
            }),
            health: Cell::default(),
            total_timeout: self.total_timeout(endpoint),
        });
        lanes.insert((endpoint.clone(), lane.clone()), new.clone());
        new
    }

    /// As the governor sees it: the endpoint before the site, the settings before the definition.
    fn total_timeout(&self, endpoint: &Name) -> Option<Duration> {
        let site = &self.assignment.site;
        let set = self.assignment.settings.sites.get(&**site.name());
        let defined = site.limits();
        let own = set.and_then(|set| set.endpoints.get(&**endpoint));
        own.and_then(|limits| limits.total_timeout)
            .or_else(|| defined.endpoints.get(&**endpoint)?.total_timeout)
            .or_else(|| set?.limits.total_timeout)
            .or(defined.site.total_timeout)
    }

    /// The retry budget that the queue `lane` draws on.
    pub(super) fn with_budget<T>(
        &self,
        lane: &Name,
        use_it: impl FnOnce(&mut RetryBudget) -> T,
    ) -> T {
        let mut budgets = self.budgets.borrow_mut();
        let whose = self.assignment.site.lanes_by_host().then(|| lane.clone());
        if budgets.len() >= MOST_LANES && !budgets.contains_key(&whose) {
            budgets.clear();
        }
        let scale = self.assignment.settings.test_time_scale;
        let new = || RetryBudget::new(UnixMillis::now(), scale);
        use_it(budgets.entry(whose).or_insert_with(new))
    }

    /// Remember how an exchange went, for the lane and for the site.
    pub(super) fn note(&self, lane: &Lane, outcome: Outcome) {
        let mut health = lane.health.get();
        health.note(outcome);
        lane.health.set(health);
        match outcome {
            Outcome::Limited | Outcome::Blocked => self.refused(),
            Outcome::ServerError | Outcome::Timeout | Outcome::Network | Outcome::Truncated => {
                if health.in_trouble() {
                    self.refused();
                }
            }
            Outcome::Captcha | Outcome::Login | Outcome::Cancelled | Outcome::Denied => {}
            _ => self.trouble.set(None),
        }
    }

    /// No egress works: nothing of the site gets anywhere.
    pub(super) fn no_way(&self, why: String) {
        self.waits_for.replace(why);
        self.refused();
    }

    fn refused(&self) {
        if self.trouble.get().is_none() {
            let since = tokio::time::Instant::now();
            self.trouble.set(Some(Trouble { since }));
        }
    }

    /// Time since the actor began to work: the clock of its shares.
    pub(super) fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.born.elapsed()
    }

    /// Longest wait for a time that is worth keeping a lease for.
    pub(super) fn patience(&self) -> Duration {
        self.scaled(Duration::from_secs(2))
    }

    /// Remember why a request of `endpoint` has to wait, for people.
    pub(super) fn waits(&self, endpoint: &Name, why: WaitReason) {
        let text = match why {
            WaitReason::Quota => format!("the quota of {endpoint} is used up"),
            WaitReason::NotBefore => format!("the server named a time for {endpoint}"),
            WaitReason::Backoff | WaitReason::Probe => {
                format!("{endpoint} backs off after refusals")
            }
            WaitReason::Paused => format!("{endpoint} is paused"),
            WaitReason::Cap | WaitReason::Rate => format!("{endpoint} waits for its turn"),
        };
        self.waits_for.replace(text);
    }

    /// A duration under the test-only scale.
    pub(super) fn scaled(&self, time: Duration) -> Duration {
        self.assignment.settings.scaled(time)
    }
}
