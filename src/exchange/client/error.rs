//! Why a client cannot be made.

use std::path::PathBuf;

use thiserror::Error;

/// Why a client cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ClientError {
    /// `exchange.ca_file` cannot be read or used.
    #[error("exchange.ca_file {}: {why}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// `user_agent` cannot be sent.
    #[error("user_agent: {0:?} cannot be sent as a header; allowed: visible ASCII and spaces")]
    UserAgent(String),
    /// The TLS library refuses its own defaults.
    #[error("TLS: {0}")]
    Tls(String),
}
