//! The Supervisor: starts one PlatformActor per site of a job, starts the dead ones again, and ends jobs.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use slog::{Logger, error, o, warn};
use tokio::time::Instant;

use super::messages::{CrashSite, JobId, StartJob, StopJob};
use super::report::{Facts, Report, report};
use super::restart::Restarts;
use crate::exchange::Network;
use crate::governor::{Governor, GovernorGone};
use crate::model::{Job, Timestamp, UnixMillis};
use crate::observe::Metrics;
use crate::platform::{
    Assignment, Crash, Dismiss, PlatformActor, PlatformGone, Sessions, SiteEnd, SiteEnded, Stop,
};
use crate::settings::Settings;
use crate::store::{Close, ReleaseOwner, Stats, Store};

/// How the governor is started; asked again each time one has died.
pub type StartGovernor = Box<dyn Fn(Recipient<GovernorGone>) + Send>;

/// Lifecycle of everything that can die.
pub struct Supervisor {
    settings: Arc<Settings>,
    governor: Governor,
    network: Network,
    start_governor: StartGovernor,
    governor_restarts: Restarts,
    sessions: Sessions,
    arbiters: Vec<ArbiterHandle>,
    jobs: HashMap<JobId, JobRun>,
    owners: HashMap<u64, (JobId, usize)>,
    next_owner: u64,
    clock: Instant,
    log: Logger,
}

struct JobRun {
    job: Arc<Job>,
    run: String,
    store: Addr<Store>,
    metrics: Metrics,
    started: UnixMillis,
    rejected: BTreeMap<String, Vec<(String, String)>>,
    sites: Vec<SiteRun>,
    stopping: Option<Duration>,
    done: Option<tokio::sync::oneshot::Sender<Report>>,
}

struct SiteRun {
    assignment: Assignment,
    actor: Option<Addr<PlatformActor>>,
    restarts: Restarts,
    end: Option<SiteEnd>,
}

impl Supervisor {
    /// A Supervisor over `arbiters` (at least one). The first governor is started with the actor.
    #[must_use]
    pub fn new(
        settings: Arc<Settings>,
        governor: Governor,
        network: Network,
        start_governor: StartGovernor,
        sessions: Sessions,
        arbiters: Vec<ArbiterHandle>,
        log: Logger,
    ) -> Self {
        Self {
            settings,
            governor,
            network,
            start_governor,
            governor_restarts: Restarts::default(),
            sessions,
            arbiters,
            jobs: HashMap::new(),
            owners: HashMap::new(),
            next_owner: 1,
            clock: Instant::now(),
            log,
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.clock.elapsed()
    }

    /// The arbiter of a site: always the same, so that a restart finds its neighbours unchanged.
    fn arbiter(&self, site: &str) -> &ArbiterHandle {
        let mut hasher = DefaultHasher::new();
        site.hash(&mut hasher);
        // The remainder is below a `usize`, so the cast keeps its value.
        &self.arbiters[(hasher.finish() % self.arbiters.len() as u64) as usize]
    }

    fn start_site(&mut self, id: JobId, index: usize, ctx: &mut Context<Self>) {
        let owner = self.next_owner;
        self.next_owner += 1;
        let Some(assignment) = self
            .jobs
            .get(&id)
            .map(|job| job.sites[index].assignment.clone())
        else {
            return;
        };
        let arbiter = self.arbiter(assignment.site.name()).clone();
        let actor = PlatformActor::start_in(
            &arbiter,
            assignment,
            owner,
            ctx.address().recipient(),
            ctx.address().recipient(),
        );
        self.owners.insert(owner, (id, index));
        if let Some(job) = self.jobs.get_mut(&id) {
            if let Some(grace) = job.stopping {
                actor.do_send(Stop { grace });
            }
            job.sites[index].actor = Some(actor);
        }
    }

    /// Record how a site ended; the last one ends the job.
    fn site_ended(&mut self, id: JobId, index: usize, end: SiteEnd, ctx: &mut Context<Self>) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        job.sites[index].end.get_or_insert(end);
        if job.sites.iter().all(|site| site.end.is_some()) {
            self.end_job(id, ctx);
        }
    }

    /// Count, report, close the store, which returns what is still leased, and tell the one who waits.
    fn end_job(&mut self, id: JobId, ctx: &mut Context<Self>) {
        let Some(mut job) = self.jobs.remove(&id) else {
            return;
        };
        self.owners.retain(|_, (of, _)| *of != id);
        let (governor, network) = (self.governor.clone(), self.network.clone());
        let sessions = self.sessions.clone();
        let log = self.log.clone();
        ctx.spawn(
            async move {
                for site in &job.sites {
                    if let Some(actor) = &site.actor {
                        actor.do_send(Dismiss);
                    }
                }
                let mut ends: BTreeMap<String, SiteEnd> = job
                    .sites
                    .iter()
                    .map(|site| {
                        let end = site.end.clone().unwrap_or(SiteEnd::Interrupted);
                        (site.assignment.site.name().to_string(), end)
                    })
                    .collect();
                let stats = match job.store.send(Stats).await {
                    Ok(Ok(stats)) => stats,
                    Ok(Err(why)) => {
                        store_failed(&mut ends, &why.to_string());
                        Default::default()
                    }
                    Err(_) => {
                        store_failed(&mut ends, "the store is gone");
                        Default::default()
                    }
                };
                let snapshot = governor.snapshot().await.unwrap_or_default();
                let made = report(&Facts {
                    job: &job.job,
                    run: &job.run,
                    started: job.started,
                    ended: UnixMillis::now(),
                    ends: &ends,
                    rejected: &job.rejected,
                    metrics: &job.metrics,
                    stats: &stats,
                    governor: &snapshot,
                    egress: network.egresses(),
                });
                let close = Close {
                    outcome: made.outcome.as_str().to_owned(),
                    report: serde_json::to_string(&made).ok(),
                };
                match job.store.send(close).await {
                    Ok(Ok(())) => {}
                    Ok(Err(why)) => error!(log, "the store did not close"; "why" => %why),
                    Err(_) => error!(log, "the store did not close: it is gone"),
                }
                // Those who wait for the job may end the process.
                sessions.flush().await;
                if let Some(done) = job.done.take() {
                    // Nobody waits for it any more: the report is in the store.
                    let _ = done.send(made);
                }
            }
            .into_actor(self),
        );
    }
}

fn store_failed(ends: &mut BTreeMap<String, SiteEnd>, why: &str) {
    for end in ends.values_mut() {
        if !matches!(end, SiteEnd::Failed(_)) {
            *end = SiteEnd::Failed(why.to_owned());
        }
    }
}

impl Actor for Supervisor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        (self.start_governor)(ctx.address().recipient());
    }
}

impl Handler<StartJob> for Supervisor {
    type Result = ();

    fn handle(&mut self, start: StartJob, ctx: &mut Self::Context) {
        let sites: Vec<SiteRun> = start
            .sites
            .iter()
            .map(|site| SiteRun {
                assignment: Assignment {
                    job: start.job.clone(),
                    site: site.clone(),
                    settings: self.settings.clone(),
                    governor: self.governor.clone(),
                    network: self.network.clone(),
                    store: start.store.clone(),
                    caches: start.caches.clone(),
                    sessions: self.sessions.clone(),
                    metrics: start.metrics.clone(),
                    credit: start.credit.clone(),
                    log: self.log.new(o!("site" => site.name().to_string())),
                },
                actor: None,
                restarts: Restarts::default(),
                end: None,
            })
            .collect();
        for egress in self.network.unverified() {
            slog::warn!(self.log, "TLS CERTIFICATES ARE NOT CHECKED through this egress: tls_verify = false";
                "egress" => &*egress);
        }
        let count = sites.len();
        self.jobs.insert(
            start.id,
            JobRun {
                job: start.job,
                run: start.run,
                store: start.store,
                metrics: start.metrics,
                started: UnixMillis::now(),
                rejected: start.rejected,
                sites,
                stopping: None,
                done: Some(start.done),
            },
        );
        for index in 0..count {
            self.start_site(start.id, index, ctx);
        }
    }
}

impl Handler<StopJob> for Supervisor {
    type Result = ();

    fn handle(&mut self, stop: StopJob, _: &mut Self::Context) {
        if let Some(job) = self.jobs.get_mut(&stop.id) {
            job.stopping = Some(stop.grace);
            for actor in job.sites.iter().filter_map(|site| site.actor.as_ref()) {
                actor.do_send(Stop { grace: stop.grace });
            }
        }
    }
}

impl Handler<SiteEnded> for Supervisor {
    type Result = ();

    fn handle(&mut self, ended: SiteEnded, ctx: &mut Self::Context) {
        if let Some((id, index)) = self.owners.get(&ended.owner).copied() {
            self.site_ended(id, index, ended.end, ctx);
        }
    }
}

impl Handler<PlatformGone> for Supervisor {
    type Result = ();

    fn handle(&mut self, gone: PlatformGone, ctx: &mut Self::Context) {
        // A dismissed actor is no longer registered.
        let Some((id, index)) = self.owners.remove(&gone.owner) else {
            return;
        };
        let now = self.now();
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let site = &mut job.sites[index];
        site.actor = None;
        if site.end.is_some() {
            return;
        }
        let name = site.assignment.site.name().clone();
        let Some(delay) = site.restarts.died(now) else {
            error!(self.log, "a site is given up: its actor died too often"; "site" => %name);
            let end = SiteEnd::Failed("its actor died too often".to_owned());
            return self.site_ended(id, index, end, ctx);
        };
        warn!(self.log, "an actor died and is started again"; "site" => %name,
            "panicked" => gone.panicked, "delay_ms" => delay.as_millis() as u64);
        let store = job.store.clone();
        let released = async move {
            // Fails only with the store itself; the next actor hears of it.
            let _ = store
                .send(ReleaseOwner {
                    site: name,
                    owner: gone.owner,
                })
                .await;
            tokio::time::sleep(delay).await;
        };
        ctx.spawn(
            released
                .into_actor(self)
                .map(move |(), supervisor, ctx| supervisor.start_site(id, index, ctx)),
        );
    }
}

impl Handler<GovernorGone> for Supervisor {
    type Result = ();

    fn handle(&mut self, gone: GovernorGone, ctx: &mut Self::Context) {
        if !gone.panicked {
            return;
        }
        let now = self.now();
        match self.governor_restarts.died(now) {
            Some(delay) => {
                warn!(self.log, "the governor died and is started again";
                    "delay_ms" => delay.as_millis() as u64);
                ctx.run_later(delay, |supervisor, ctx| {
                    (supervisor.start_governor)(ctx.address().recipient());
                });
            }
            None => {
                error!(self.log, "the governor died too often: every job ends");
                self.governor.close();
                let jobs: Vec<JobId> = self.jobs.keys().copied().collect();
                for id in jobs {
                    if let Some(job) = self.jobs.get_mut(&id) {
                        for site in &mut job.sites {
                            site.end.get_or_insert(SiteEnd::Failed(
                                "the governor died too often".into(),
                            ));
                        }
                    }
                    self.end_job(id, ctx);
                }
            }
        }
    }
}

impl Handler<CrashSite> for Supervisor {
    type Result = ();

    fn handle(&mut self, crash: CrashSite, _: &mut Self::Context) {
        for site in self.jobs.values().flat_map(|job| &job.sites) {
            if **site.assignment.site.name() == *crash.site
                && let Some(actor) = &site.actor
            {
                actor.do_send(Crash);
            }
        }
    }
}
