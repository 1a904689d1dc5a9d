//! Why the engine did not do what it was asked.

use std::io;

use thiserror::Error;

use crate::site::DefinitionErrors;
use crate::store::StoreError;

/// Why the engine did not do what it was asked.
#[derive(Clone, Debug, Error)]
pub enum EngineError {
    /// Started outside an actix System.
    #[error(
        "no actix System is running on this thread: start the engine inside `#[actix_rt::main]` or `#[actix_web::main]`"
    )]
    NoSystem,
    /// A thread could not be started.
    #[error("a thread could not be started: {0}")]
    Thread(String),
    /// The job's directory cannot be used.
    #[error("{0}")]
    Open(StoreError),
    /// The state directory cannot be used, and limits need it.
    #[error(
        "state: the directory cannot be used, but the limits of site {site} need it to hold across runs: {why}"
    )]
    State {
        /// The site.
        site: String,
        /// What is wrong; names the file.
        why: String,
    },
    /// The job's store failed.
    #[error("{0}")]
    Store(StoreError),
    /// The job names a site that is not known.
    #[error("unknown site `{name}`; known: {known}")]
    UnknownSite {
        /// The name given.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A job needs at least one site in this mode.
    #[error("mode {0} needs a site: name one with --site")]
    NoSite(crate::model::Mode),
    /// The site's definition has no such mode.
    #[error("site {site} has no mode {mode}; it has: {modes}")]
    NoMode {
        /// The site.
        site: String,
        /// The mode of the job.
        mode: crate::model::Mode,
        /// The modes there are.
        modes: String,
    },
    /// The job has nothing to start from.
    #[error("nothing to start from: {0}")]
    NoInput(String),
    /// The rules of the crawl are wrong.
    #[error("{0}")]
    Definition(DefinitionErrors),
    /// A calibration that cannot be made; the text says what is wrong and what is allowed.
    #[error("{0}")]
    Calibration(String),
    /// The engine has been stopped.
    #[error("the engine has been stopped")]
    Stopped,
}

impl EngineError {
    pub(super) fn thread(error: io::Error) -> Self {
        Self::Thread(error.to_string())
    }

    /// Whether the caller asked for something impossible, rather than the engine failing.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            Self::UnknownSite { .. }
            | Self::NoSite(_)
            | Self::NoMode { .. }
            | Self::NoInput(_)
            | Self::Definition(_)
            | Self::Open(_)
            | Self::Calibration(_)
            | Self::State { .. } => true,
            Self::Store(_) | Self::NoSystem | Self::Thread(_) | Self::Stopped => false,
        }
    }
}
