//! What goes wrong on the command line, and the exit code that goes with it.

use std::io::{self, Write};
use std::process::ExitCode;

use crate::engine::EngineError;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(super) struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    /// The user asked for something that cannot be: exit code 2.
    pub(super) fn usage(text: impl Into<String>) -> Self {
        Self {
            code: 2,
            text: text.into(),
        }
    }

    /// The engine failed: exit code 1.
    pub(super) fn internal(text: impl Into<String>) -> Self {
        Self {
            code: 1,
            text: text.into(),
        }
    }

    /// Print the text and give the code.
    pub(super) fn tell(&self) -> ExitCode {
        // Nothing is left to be done when stderr itself is gone.
        let _ = writeln!(io::stderr(), "error: {}", self.text);
        ExitCode::from(self.code)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        if error.is_usage() {
            Self::usage(error.to_string())
        } else {
            Self::internal(error.to_string())
        }
    }
}

/// The end of a command that prints: a reader that went away is no failure.
pub(super) fn printed(result: io::Result<()>) -> Result<u8, Failure> {
    match result {
        Ok(()) => Ok(0),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
        Err(error) => Err(Failure::internal(format!("stdout: {error}"))),
    }
}
