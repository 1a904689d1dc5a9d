//! Where a user's state lies: what belongs to the user and not to a job.

use std::path::{Path, PathBuf};

use super::state::{StateCookies, StateError, StateQuotaStore};
use crate::governor::{LearnedLane, PastUse, QuotaStore, QuotaStoreError, Recorded, Use};
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

    /// The directory; `None` where the system names no home folder and none was set.
    pub(super) fn named(&self) -> Option<&Path> {
        self.0.as_deref()
    }

    /// As on a system that names no folder for it.
    #[cfg(test)]
    pub(crate) fn nowhere() -> Self {
        Self(None)
    }

    /// Whether the directory can be used.
    ///
    /// # Errors
    /// When it cannot be made, opened or written; the text names the file.
    pub fn check(&self) -> Result<(), QuotaStoreError> {
        self.quota_store().load(UnixMillis::now()).map(drop)
    }

    /// The cookies in this directory; made when missing.
    ///
    /// # Errors
    /// When the directory cannot be named, made, opened or read; the text names the file.
    pub fn cookies(&self) -> Result<StateCookies, StateError> {
        StateCookies::open(self.directory()?)
    }

    /// The cookies in this directory, or `None` when there is nothing: nothing is made.
    ///
    /// # Errors
    /// As [`cookies`](Self::cookies).
    pub fn existing_cookies(&self) -> Result<Option<StateCookies>, StateError> {
        match &self.0 {
            Some(directory) => StateCookies::open_existing(directory),
            None => Ok(None),
        }
    }

    fn directory(&self) -> Result<&Path, StateError> {
        self.0.as_deref().ok_or_else(|| {
            StateError(
                "this system names no home folder: name a state directory with `state`".to_owned(),
            )
        })
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
            self.open = Some(StateQuotaStore::open(self.folder.directory()?)?);
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

    fn learned(&mut self) -> Result<Vec<LearnedLane>, QuotaStoreError> {
        if self.open.is_none() {
            self.open = StateQuotaStore::open_existing(self.folder.directory()?)?;
        }
        match &mut self.open {
            Some(open) => open.learned(),
            None => Ok(Vec::new()),
        }
    }

    fn keep_learned(&mut self, lanes: &[LearnedLane]) -> Result<(), QuotaStoreError> {
        if lanes.is_empty() {
            return Ok(());
        }
        self.opened()?.keep_learned(lanes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_what_was_learned_makes_nothing_and_keeping_does() {
        let parent = tempfile::tempdir().expect("a directory");
        let directory = parent.path().join("state");
        let folder = StateFolder::of(Some(directory.clone()));
        let mut store = folder.quota_store();
        assert_eq!(store.learned(), Ok(Vec::new()));
        assert_eq!(store.keep_learned(&[]), Ok(()));
        assert!(!directory.exists(), "nothing is needed yet");
        let lane = LearnedLane {
            scope: "s/a".to_owned(),
            at: UnixMillis(5),
            learned: "{}".to_owned(),
        };
        let lanes = std::slice::from_ref(&lane);
        store.keep_learned(lanes).expect("keeps");
        assert_eq!(folder.quota_store().learned(), Ok(vec![lane]));
    }

    #[test]
    fn a_corrupt_file_is_an_error_each_time_and_never_a_panic() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join(super::super::state::STATE_FILE);
        std::fs::write(&file, "this is no database, by any means at all").expect("writes");
        let mut store = StateFolder::of(Some(directory.path().to_owned())).quota_store();
        for _ in 0..2 {
            let error = store.learned().expect_err("not a database").to_string();
            assert!(error.contains("state.db"), "{error}");
        }
        std::fs::remove_file(&file).expect("removed");
        assert_eq!(store.learned(), Ok(Vec::new()), "asked anew");
    }
}
