//! The engine: wires the actors, owns their threads, takes jobs.
//!
//! ```no_run
//! # async fn example() -> Result<(), crawler_node::EngineError> {
//! use crawler_node::{Engine, Job, Settings};
//!
//! // Inside any actix System.
//! let engine = Engine::builder(Settings::default()).start()?;
//! let job = engine.submit(Job::crawl(["https://example.com/"]).out("data")).await?;
//! let report = job.wait().await?;
//! println!("{}", report.outcome.as_str());
//! engine.drain().await;
//! # Ok(())
//! # }
//! ```

mod builder;
pub mod calibrate;
mod error;
mod job;
mod records;
mod sites;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix::prelude::*;
use slog::{Logger, info, o, warn};

pub use builder::EngineBuilder;
pub use error::EngineError;
pub use job::JobHandle;
pub use records::RecordStream;

use crate::governor::{Governor, KeepLearned, Retune, Target};
use crate::model::{Job, Mode, Name, UnixMillis};
use crate::observe::Metrics;
use crate::platform::Sessions;
use crate::settings::{LimitSettings, Settings};
use crate::site::{Site, SiteDefinition};
use crate::store::{
    CacheStore, Caps, JobStore, OpenOptions, Push, RecordsCommitted, StateFolder, Store,
};
use crate::supervisor::{CrashSite, JobId, StartJob, StopJob, Supervisor};

/// A running engine. Clones are handles of the same engine; they may be used from any thread.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    settings: Arc<Settings>,
    governor: Governor,
    supervisor: Addr<Supervisor>,
    sessions: Sessions,
    /// The pool that PlatformActors are hashed onto; the first also serves the engine itself.
    pool: Vec<Arbiter>,
    governor_arbiter: Arbiter,
    sites: Vec<Arc<dyn Site>>,
    definitions: Vec<Arc<SiteDefinition>>,
    caches: CacheStore,
    next_job: AtomicU64,
    jobs: Mutex<Vec<JobHandle>>,
    streams: Mutex<Vec<records::Subscriber>>,
    log: Logger,
    kill_hook: Option<builder::MakeKillHook>,
}

impl Inner {
    fn stop_threads(&self) {
        for arbiter in &self.pool {
            arbiter.stop();
        }
        self.governor_arbiter.stop();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop_threads();
    }
}

impl Engine {
    /// An engine to be, with these settings.
    #[must_use]
    pub fn builder(settings: Settings) -> EngineBuilder {
        EngineBuilder::new(settings)
    }

    /// The RateGovernor: its messages are public API.
    #[must_use]
    pub fn governor(&self) -> &Governor {
        &self.inner.governor
    }

    /// The settings it runs with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// The records of all jobs submitted from now on, each once, after its commit.
    ///
    /// A reader that falls behind slows the crawl down: no new work is taken while it has more than
    /// a bounded number of records to read. Dropping the stream ends that.
    #[must_use]
    pub fn records(&self) -> RecordStream {
        let (subscriber, stream) = records::channel();
        self.inner
            .streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(subscriber);
        stream
    }

    /// Start a job, or go on with what its directory holds.
    ///
    /// # Errors
    /// When a site is unknown, no input can be used, the rules are wrong, or the store cannot be opened.
    pub async fn submit(&self, job: Job) -> Result<JobHandle, EngineError> {
        let subscribers = self
            .inner
            .streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        self.start(job, subscribers).await
    }

    /// Like [`Engine::submit`], with a stream of this job's records.
    ///
    /// # Errors
    /// As [`Engine::submit`].
    pub async fn submit_streaming(
        &self,
        job: Job,
    ) -> Result<(JobHandle, RecordStream), EngineError> {
        let (subscriber, stream) = records::channel();
        let handle = self.start(job, vec![subscriber]).await?;
        Ok((handle, stream))
    }

    async fn start(
        &self,
        job: Job,
        subscribers: Vec<records::Subscriber>,
    ) -> Result<JobHandle, EngineError> {
        let inner = &self.inner;
        let chosen = sites::choose(&job, &inner.sites, &inner.definitions, &inner.settings)?;
        let seeded = sites::seed(&job, &chosen)?;
        self.check_state(&chosen).await?;
        let opened = self.open_store(&job, &chosen).await?;
        let opening = opened.opened().clone();
        if opening.other_keys {
            warn!(inner.log, "pages are recognised by other rules than when this job was begun: some may be asked once \
                more"; "directory" => %job.out.display());
        }
        for site in &chosen {
            self.tell_limits(site.as_ref()).await;
        }
        let arbiter = Arbiter::try_new().map_err(EngineError::thread)?;
        let (credit, committed): (_, Vec<Recipient<RecordsCommitted>>) = if subscribers.is_empty() {
            (records::unbounded(), Vec::new())
        } else {
            let credit = records::credit(&subscribers);
            let fan = records::Fan::start_in(&inner.pool[0].handle(), subscribers);
            (credit, vec![fan.recipient()])
        };
        let store = Store::start_in(&arbiter.handle(), opened, committed, None);
        let mut rejected = std::collections::BTreeMap::new();
        for (site, seeds) in chosen.iter().zip(seeded) {
            let push = Push {
                site: site.name().clone(),
                tasks: seeds.tasks,
            };
            store
                .send(push)
                .await
                .map_err(|_| EngineError::Stopped)?
                .map_err(EngineError::Store)?;
            rejected.insert(site.name().to_string(), seeds.rejected);
        }
        let id: JobId = inner.next_job.fetch_add(1, Ordering::Relaxed);
        let metrics = Metrics::default();
        let (done, ended) = tokio::sync::oneshot::channel();
        let handle = JobHandle::new(
            id,
            &job,
            opening,
            metrics.clone(),
            inner.supervisor.clone(),
            inner.settings.shutdown_grace,
        );
        let finish = handle.finisher();
        inner.pool[0].spawn(async move {
            // A dropped sender means that the Supervisor is gone: those who wait are told so.
            finish.finish(ended.await.ok());
            arbiter.stop();
        });
        inner
            .supervisor
            .send(StartJob {
                id,
                run: handle.run().to_owned(),
                job: Arc::new(job),
                sites: chosen,
                rejected,
                store,
                caches: inner.caches.clone(),
                metrics,
                credit,
                done,
            })
            .await
            .map_err(|_| EngineError::Stopped)?;
        inner
            .jobs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(handle.clone());
        Ok(handle)
    }

    async fn open_store(
        &self,
        job: &Job,
        sites: &[Arc<dyn Site>],
    ) -> Result<JobStore, EngineError> {
        let names = sites.iter().map(|site| site.name().to_string()).collect();
        let mut options = OpenOptions::new(&job.out, names, job.mode, UnixMillis::now());
        options.formats.clone_from(&job.formats);
        options.fresh = job.fresh;
        options.page_cap = match job.mode {
            Mode::Crawl => job.crawl.max_pages,
            Mode::Search | Mode::Detail | Mode::Creator => None,
        };
        options.caps = Caps {
            max_items: job.max_items,
            max_comments: job.max_comments,
        };
        let rules = sites.iter().filter_map(|site| {
            let rules = site.key_rules()?;
            Some(format!("{}: {rules}", site.name()))
        });
        options.key_rules = rules.reduce(|all, next| format!("{all}; {next}"));
        options.settings = self.inner.settings.store;
        if let Some(make) = &self.inner.kill_hook {
            options = options.kill_hook(make());
        }
        let opened = tokio::task::spawn_blocking(move || JobStore::open(options))
            .await
            .map_err(|_| EngineError::Stopped)?
            .map_err(EngineError::Open)?;
        Ok(opened)
    }

    /// Limits that hold across runs need the state directory: say now that it cannot be used, not by silence.
    async fn check_state(&self, sites: &[Arc<dyn Site>]) -> Result<(), EngineError> {
        let stored = |limits: &LimitSettings| {
            let slow = |rate: crate::settings::Rate| rate.interval() >= Duration::from_secs(1);
            !limits.quota.is_empty() || limits.rate.is_some_and(slow)
        };
        let settings = &self.inner.settings;
        let needing = sites.iter().find(|site| {
            let set = settings.sites.get(&**site.name());
            let limits = site.limits();
            stored(&settings.limits)
                || stored(&limits.site)
                || limits.endpoints.values().any(stored)
                || set.is_some_and(|set| stored(&set.limits) || set.endpoints.values().any(stored))
        });
        let Some(site) = needing else { return Ok(()) };
        let folder = StateFolder::of(settings.state.clone());
        tokio::task::spawn_blocking(move || folder.check())
            .await
            .map_err(|_| EngineError::Stopped)?
            .map_err(|why| EngineError::State {
                site: site.name().to_string(),
                why: why.to_string(),
            })
    }

    /// Tell the governor a site's limits.
    async fn tell_limits(&self, site: &dyn Site) {
        for retune in self.limits_of(site) {
            self.inner.governor.retune(retune).await;
        }
    }

    /// A site's limits: the settings over the definition over the settings' defaults.
    fn limits_of(&self, site: &dyn Site) -> Vec<Retune> {
        let settings = &self.inner.settings;
        let name = site.name();
        let own = settings.sites.get(&**name);
        let defined = site.limits();
        let over = |set: Option<&LimitSettings>, defined: &LimitSettings| {
            set.map_or_else(|| defined.clone(), |set| set.over(defined))
        };
        let mut all = vec![Retune {
            target: Target::Site(name.clone()),
            limits: over(own.map(|own| &own.limits), &defined.site).over(&settings.limits),
        }];
        let endpoints = defined
            .endpoints
            .keys()
            .chain(own.into_iter().flat_map(|own| own.endpoints.keys()));
        all.extend(endpoints.map(|endpoint| {
            let empty = LimitSettings::default();
            let base = defined.endpoints.get(endpoint).unwrap_or(&empty);
            Retune {
                target: Target::Endpoint(name.clone(), Name::from(endpoint.as_str())),
                limits: over(own.and_then(|own| own.endpoints.get(endpoint)), base),
            }
        }));
        all
    }

    /// The jobs submitted so far.
    #[must_use]
    pub fn jobs(&self) -> Vec<JobHandle> {
        self.inner
            .jobs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Stop all jobs: no new permits, exchanges in flight end within `grace` or are cut off. What is
    /// pending stays in the stores, and the same jobs go on from there.
    pub fn stop(&self, grace: Duration) {
        info!(self.inner.log, "stopping"; "grace_s" => grace.as_secs_f64());
        for job in self.jobs() {
            self.inner.supervisor.do_send(StopJob {
                id: job.id(),
                grace,
            });
        }
    }

    /// Wait for all jobs to end, then end the engine's threads. Returns the reports in the order of submission.
    pub async fn drain(self) -> Vec<Arc<crate::supervisor::Report>> {
        let mut reports = Vec::new();
        for job in self.jobs() {
            if let Ok(report) = job.wait().await {
                reports.push(report);
            }
        }
        // What was learned of limits is the start of the next run.
        self.inner.governor.ask(KeepLearned).await;
        self.inner.caches.flush().await;
        self.inner.stop_threads();
        reports
    }

    /// A drill: the PlatformActors of `site` panic, and the Supervisor starts them again.
    #[doc(hidden)]
    pub fn crash_site(&self, site: &str) {
        self.inner.supervisor.do_send(CrashSite {
            site: site.to_owned(),
        });
    }
}

fn child(log: &Logger, part: &'static str) -> Logger {
    log.new(o!("part" => part))
}
