//! What can go wrong in the store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

/// Why the store could not do what was asked. The texts name the file and the cure; they hold no secrets.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process works in the directory.
    #[error("{}: another process{} works in this directory; stop it or choose another --out",
        dir.display(), pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default())]
    Locked {
        /// The job's directory.
        dir: PathBuf,
        /// The holder, where it could be read.
        pid: Option<u32>,
    },
    /// The directory holds no job.
    #[error("{}: no job was ever run in this directory", dir.display())]
    NoJob {
        /// The directory.
        dir: PathBuf,
    },
    /// The file is a database, but not a job's.
    #[error("{}: not a store of crawler-node (application id {found:#010x}); --fresh moves it aside", file.display())]
    NotAStore {
        /// The file.
        file: PathBuf,
        /// Its application id.
        found: i32,
    },
    /// A later release wrote the file.
    #[error("{}: written by a newer release (store version {found}, this one knows up to {known}); use that release, or --fresh", file.display())]
    Newer {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: i32,
        /// The latest version known here.
        known: i32,
    },
    /// The directory holds another job.
    #[error("{}: this directory holds another job: it is {stored}, asked for is {asked}; choose another --out, or --fresh to archive it", dir.display())]
    OtherJob {
        /// The directory.
        dir: PathBuf,
        /// Sites and mode of the job that is there.
        stored: String,
        /// Sites and mode of the job that was asked for.
        asked: String,
    },
    /// A new job would write into a file that is there already.
    #[error("{}: the file is there already and no job in this directory wrote it; move it, choose another --out, or --fresh to archive it", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
    },
    /// An output file lost bytes that were committed.
    #[error("{}: {have} bytes, but {committed} bytes were committed: the file was cut or replaced; restore it, or --fresh to start over", file.display())]
    Shorter {
        /// The file.
        file: PathBuf,
        /// Its length, in bytes; 0 when it is missing.
        have: u64,
        /// The length at the last commit, in bytes.
        committed: u64,
    },
    /// The file system refused.
    #[error("{}: cannot {doing}: {cause}", file.display())]
    Io {
        /// The file or directory.
        file: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        cause: String,
    },
    /// SQLite refused.
    #[error("{}: {cause}", file.display())]
    Database {
        /// The database file.
        file: PathBuf,
        /// What SQLite said.
        cause: String,
    },
    /// A commit failed earlier; the store has refused everything since, and a new open goes on from the last commit.
    #[error("the store takes no more work since a commit failed: {0}")]
    Failed(Arc<StoreError>),
    /// The run was closed.
    #[error("the store is closed")]
    Closed,
    /// The store's actor does not answer: it panicked or was stopped.
    #[error("the store is gone")]
    Gone,
}

impl StoreError {
    /// An error of the file system.
    pub(crate) fn io(file: &Path, doing: &'static str, cause: &std::io::Error) -> Self {
        Self::Io {
            file: file.to_owned(),
            doing,
            cause: cause.to_string(),
        }
    }

    /// An error of SQLite.
    pub(crate) fn database(file: &Path, cause: &rusqlite::Error) -> Self {
        Self::Database {
            file: file.to_owned(),
            cause: cause.to_string(),
        }
    }
}

impl From<actix::MailboxError> for StoreError {
    fn from(_: actix::MailboxError) -> Self {
        Self::Gone
    }
}
