//! Where a user's state lies: what belongs to the user and not to a job.

use std::path::PathBuf;

use super::state::StateQuotaStore;
use crate::governor::{PastUse, QuotaStore, QuotaStoreError, Recorded, Use};
use crate::model::UnixMillis;

/// The state directory of a user. Nothing is made on disk before it is needed.
#[derive(Clone, Debug)]
pub struct StateFolder(Option<PathBuf>);

impl StateFolder {
    /// The directory `set`, or the platform's folder for program state.
    #[must_use]
    pub fn of(set: Option<PathBuf>) -> Self {
        Self(set.or_else(|| {
            let dirs = directories::ProjectDirs::from("", "", "crawler-node")?;
            Some(
                dirs.state_dir()
                    .unwrap_or_else(|| dirs.data_local_dir())
                    .to_owned(),
            )
        }))
    }

    /// Whether the directory can be used.
    ///
    /// # Errors
    /// When it cannot be made, opened or written; the text names the file.
    pub fn check(&self) -> Result<(), QuotaStoreError> {
        self.quota_store().load(UnixMillis::now()).map(drop)
    }

    /// The log of used quota in this directory, opened when it is first asked.
    #[must_use]
    pub fn quota_store(&self) -> LazyQuotaStore {
        LazyQuotaStore {
            folder: self.clone(),
            open: None,
        }
    }
}

/// A quota log that is opened when it is first asked, and again after it could not be.
#[derive(Debug)]
pub struct LazyQuotaStore {
    folder: StateFolder,
    open: Option<StateQuotaStore>,
}

impl LazyQuotaStore {
    fn opened(&mut self) -> Result<&mut StateQuotaStore, QuotaStoreError> {
        if self.open.is_none() {
            let folder = self.folder.0.as_deref().ok_or_else(|| {
                QuotaStoreError(
                    "this system names no home folder: name a state directory with `state`"
                        .to_owned(),
                )
            })?;
            self.open = Some(StateQuotaStore::open(folder)?);
        }
        self.open
            .as_mut()
            .ok_or_else(|| QuotaStoreError("the state directory is not open".to_owned()))
    }
}

impl QuotaStore for LazyQuotaStore {
    fn load(&mut self, now: UnixMillis) -> Result<Vec<PastUse>, QuotaStoreError> {
        self.opened()?.load(now)
    }

    fn record(
        &mut self,
        now: UnixMillis,
        permits: &[Vec<Use>],
    ) -> Result<Vec<Recorded>, QuotaStoreError> {
        self.opened()?.record(now, permits)
    }
}
