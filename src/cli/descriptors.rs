//! How many files and connections the process may have open.

use std::fmt;

use slog::{Logger, warn};

/// Descriptors that a process needs beside its connections: the store, sinks, files that are saved, logs, wake-ups.
const OTHERS: u64 = 200;

/// What a process needs for so many exchanges in flight: a connection for each, idle ones, and the files that answers are
/// saved to.
fn needed(max_concurrency_num: u32) -> u64 {
    2 * u64::from(max_concurrency_num) + OTHERS
}

/// Raises the limit to what a run with this cap needs; where it cannot be, that is said, and the run goes on.
pub(super) fn provide(max_concurrency_num: u32, log: &Logger) {
    if let Err(why) = allow_open_files(needed(max_concurrency_num)) {
        warn!(log, "few open files are allowed"; "why" => %why);
    }
}

/// The system allows fewer open files than are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFew {
    /// What is needed.
    pub needed: u64,
    /// What is allowed.
    pub allowed: u64,
}

impl fmt::Display for TooFew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "this process may have {} files and connections open and could need {}: raise the limit (`ulimit -n`, \
             LimitNOFILE=) or lower max_concurrency_num",
            self.allowed, self.needed
        )
    }
}

impl std::error::Error for TooFew {}

/// Sees to it that the process may have `needed` files and connections open: the soft limit is raised as far as the
/// hard one lets it. It is never lowered. For programs: a library leaves the limits of its host alone.
///
/// # Errors
/// [`TooFew`] when the hard limit is below; then as many as it lets are allowed.
#[cfg(unix)]
pub fn allow_open_files(needed: u64) -> Result<(), TooFew> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    // A system that does not tell has nothing to raise.
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return Ok(());
    };
    if soft >= needed {
        return Ok(());
    }
    let wanted = needed.min(hard);
    let allowed = match setrlimit(Resource::RLIMIT_NOFILE, wanted, hard) {
        Ok(()) => wanted,
        Err(_) => soft,
    };
    match allowed >= needed {
        true => Ok(()),
        false => Err(TooFew { needed, allowed }),
    }
}

/// Elsewhere there is no such limit.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub fn allow_open_files(_: u64) -> Result<(), TooFew> {
    Ok(())
}
