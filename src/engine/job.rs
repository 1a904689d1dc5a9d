//! A submitted job, seen from outside.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use tokio::sync::watch;

use super::EngineError;
use crate::model::Job;
use crate::observe::Metrics;
use crate::store::Opened;
use crate::supervisor::{JobId, Report, StopJob, Supervisor};

/// A submitted job. Clones are handles of the same job.
#[derive(Clone)]
pub struct JobHandle {
    id: JobId,
    out: PathBuf,
    opening: Opened,
    metrics: Metrics,
    supervisor: Addr<Supervisor>,
    grace: Duration,
    ended: watch::Receiver<State>,
    ending: Arc<watch::Sender<State>>,
}

#[derive(Clone, Debug)]
enum State {
    Running,
    Ended(Arc<Report>),
    /// The engine is gone.
    Lost,
}

impl JobHandle {
    pub(super) fn new(
        id: JobId,
        job: &Job,
        opening: Opened,
        metrics: Metrics,
        supervisor: Addr<Supervisor>,
        grace: Duration,
    ) -> Self {
        let (ending, ended) = watch::channel(State::Running);
        Self {
            id,
            out: job.out.clone(),
            opening,
            metrics,
            supervisor,
            grace,
            ended,
            ending: Arc::new(ending),
        }
    }

    pub(super) fn finisher(&self) -> Finisher {
        Finisher(self.ending.clone())
    }

    /// Its number within the engine.
    #[must_use]
    pub const fn id(&self) -> JobId {
        self.id
    }

    /// Its directory.
    #[must_use]
    pub fn out(&self) -> &Path {
        &self.out
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> &str {
        &self.opening.run
    }

    /// What its directory held when it was opened.
    #[must_use]
    pub const fn opening(&self) -> &Opened {
        &self.opening
    }

    /// Its counters.
    #[must_use]
    pub const fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Stop it: no new permits, exchanges in flight end within the settings' `shutdown_grace`.
    pub fn stop(&self) {
        self.supervisor.do_send(StopJob {
            id: self.id,
            grace: self.grace,
        });
    }

    /// Wait for its end.
    ///
    /// # Errors
    /// When the engine is stopped before the job has ended.
    pub async fn wait(&self) -> Result<Arc<Report>, EngineError> {
        let mut ended = self.ended.clone();
        let state = ended
            .wait_for(|state| !matches!(state, State::Running))
            .await
            .map_err(|_| EngineError::Stopped)?;
        match &*state {
            State::Ended(report) => Ok(report.clone()),
            State::Running | State::Lost => Err(EngineError::Stopped),
        }
    }
}

/// Tells those who wait.
pub(super) struct Finisher(Arc<watch::Sender<State>>);

impl Finisher {
    pub(super) fn finish(&self, report: Option<Report>) {
        self.0.send_replace(match report {
            Some(report) => State::Ended(Arc::new(report)),
            None => State::Lost,
        });
    }
}
