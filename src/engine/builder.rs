//! Building an engine: what it may be given, and how its actors are wired.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use actix::prelude::*;
use slog::{Discard, Logger, o};

use super::{Engine, EngineError, Inner, child};
use crate::exchange::Network;
use crate::governor::ledger::LedgerConfig;
use crate::governor::{Governor, RateGovernor, Registry};
use crate::platform::Sessions;
use crate::settings::Settings;
use crate::site::{Site, SiteDefinition};
use crate::store::{CacheStore, KillHook, StateFolder};
use crate::supervisor::{StartGovernor, Supervisor};

/// What an engine is made of. Made by [`Engine::builder`].
pub struct EngineBuilder {
    settings: Settings,
    sites: Vec<Arc<dyn Site>>,
    definitions: Vec<Arc<SiteDefinition>>,
    log: Logger,
    kill_hook: Option<MakeKillHook>,
}

/// Makes the hook of a store, for tests that end the process at a step of its work on the disk.
pub(super) type MakeKillHook = Arc<dyn Fn() -> KillHook + Send + Sync>;

impl EngineBuilder {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            sites: Vec::new(),
            definitions: Vec::new(),
            log: Logger::root(Discard, o!()),
            kill_hook: None,
        }
    }

    /// Add a site of the application's own.
    #[must_use]
    pub fn site(mut self, site: impl Site) -> Self {
        self.sites.push(Arc::new(site));
        self
    }

    /// Add a site definition. Of two with one name the later wins.
    #[must_use]
    pub fn definition(mut self, definition: SiteDefinition) -> Self {
        self.definitions.push(Arc::new(definition));
        self
    }

    /// Log to `log`; nothing is logged without one.
    #[must_use]
    pub fn logger(mut self, log: Logger) -> Self {
        self.log = log;
        self
    }

    /// For tests: what every store calls at each step of its work on the disk.
    #[doc(hidden)]
    #[must_use]
    pub fn kill_hook(mut self, make: impl Fn() -> KillHook + Send + Sync + 'static) -> Self {
        self.kill_hook = Some(Arc::new(make));
        self
    }

    /// Start the actors. Must be called inside an actix System, which the engine never stops.
    ///
    /// # Errors
    /// Outside an actix System, or when a thread cannot be started.
    pub fn start(self) -> Result<Engine, EngineError> {
        if System::try_current().is_none() {
            return Err(EngineError::NoSystem);
        }
        let settings = Arc::new(self.settings);
        let count = match settings.arbiters {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            set => set as usize,
        };
        let pool = (0..count)
            .map(|_| Arbiter::try_new())
            .collect::<Result<Vec<_>, _>>()
            .map_err(EngineError::thread)?;
        let governor_arbiter = Arbiter::try_new().map_err(EngineError::thread)?;
        let registry = Registry::with_log(child(&self.log, "governor"));
        let governor = Governor::starting(registry.clone());
        let network = Network::new(&settings);
        let start_governor = start_governor(&settings, &governor, registry, &governor_arbiter);
        let state = StateFolder::of(settings.state.clone());
        let sessions = Sessions::new(state, child(&self.log, "sessions"));
        let supervisor = Supervisor::new(
            settings.clone(),
            governor.clone(),
            network,
            start_governor,
            sessions.clone(),
            pool.iter().map(Arbiter::handle).collect(),
            child(&self.log, "supervisor"),
        );
        let supervisor = Supervisor::start_in_arbiter(&pool[0].handle(), move |_| supervisor);
        Ok(Engine {
            inner: Arc::new(Inner {
                caches: CacheStore::new(
                    StateFolder::of(settings.state.clone()),
                    settings.cache.max_bytes,
                    child(&self.log, "cache"),
                ),
                settings,
                governor,
                supervisor,
                sessions,
                pool,
                governor_arbiter,
                sites: self.sites,
                definitions: self.definitions,
                next_job: AtomicU64::new(1),
                jobs: Mutex::default(),
                streams: Mutex::default(),
                log: child(&self.log, "engine"),
                kill_hook: self.kill_hook,
            }),
        })
    }
}

/// How to start a governor that finds what its predecessor left: permits out, pauses, used quota.
fn start_governor(
    settings: &Arc<Settings>,
    governor: &Governor,
    registry: Registry,
    arbiter: &Arbiter,
) -> StartGovernor {
    let state = StateFolder::of(settings.state.clone());
    let config = LedgerConfig::from_settings(settings);
    let governor = governor.clone();
    let arbiter = arbiter.handle();
    Box::new(move |gone| {
        let addr = RateGovernor::start_in(
            &arbiter,
            config.clone(),
            registry.clone(),
            Box::new(state.quota_store()),
            Some(gone),
            fastrand::u64(..),
        );
        governor.replace(addr);
    })
}
