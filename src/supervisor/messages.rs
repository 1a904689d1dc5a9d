//! What the Supervisor is asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::{Addr, Message};
use tokio::sync::oneshot;

use super::report::Report;
use crate::model::Job;
use crate::observe::Metrics;
use crate::platform::Credit;
use crate::site::Site;
use crate::store::{CacheStore, Store};

/// Numbers a job within an engine.
pub type JobId = u64;

/// Start the PlatformActors of a job whose store is open and whose seeds are pushed.
#[derive(Message)]
#[rtype(result = "()")]
pub struct StartJob {
    /// Its number.
    pub id: JobId,
    /// The job.
    pub job: Arc<Job>,
    /// The run.
    pub run: String,
    /// Its sites.
    pub sites: Vec<Arc<dyn Site>>,
    /// Inputs that could not be used, by site.
    pub rejected: BTreeMap<String, Vec<(String, String)>>,
    /// Its store.
    pub store: Addr<Store>,
    /// What earlier runs knew of servers.
    pub caches: CacheStore,
    /// Its counters.
    pub metrics: Metrics,
    /// Whether new work may be taken.
    pub credit: Credit,
    /// Told once, when the job has ended and its store is closed.
    pub done: oneshot::Sender<Report>,
}

/// Stop a job: no new permits, what is in flight may end within `grace`.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct StopJob {
    /// The job.
    pub id: JobId,
    /// How long exchanges in flight may take.
    pub grace: Duration,
}

/// A drill: crash the PlatformActor of a site.
#[doc(hidden)]
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct CrashSite {
    /// The site.
    pub site: String,
}
