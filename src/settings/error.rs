//! What is wrong with a configuration: every problem of every layer, in one list.

use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

use super::origin::Origin;

/// All problems found in one run. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsErrors(pub Vec<SettingsError>);

impl fmt::Display for SettingsErrors {
    /// One problem a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingsErrors {}

/// One problem and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    /// The layer, and the file, variable or option; `None` for the directory and the environment's name.
    pub origin: Option<Origin>,
    /// What is wrong.
    pub problem: Problem,
}

impl SettingsError {
    /// `problem` at `origin`.
    pub(super) const fn at(origin: Origin, problem: Problem) -> Self {
        Self {
            origin: Some(origin),
            problem,
        }
    }
}

impl fmt::Display for SettingsError {
    /// `local layer, config/local.toml:3: …`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = &self.origin {
            write!(f, "{}, {origin}: ", origin.layer().as_str())?;
        }
        write!(f, "{}", self.problem)
    }
}

/// What can be wrong. The texts never hold a value that could be a secret: what no key takes is not repeated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// The directory was named and is not there, or it is no directory.
    #[error("the configuration directory {} {reason}", dir.display())]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// Why it cannot be used.
        reason: String,
    },
    /// The environment's name cannot name a file, or names another layer's.
    #[error(
        "`{given}` is not a name of an environment; allowed: a-z, 0-9, `-` and `_`, except `default` and `local`"
    )]
    EnvironmentName {
        /// What was given.
        given: String,
    },
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// The file is not TOML.
    #[error("not TOML: {0}")]
    Syntax(String),
    /// No setting has this key.
    #[error("there is no setting `{key}`; the nearest is `{nearest}`")]
    Unknown {
        /// The key or variable.
        key: String,
        /// The valid key or variable that is most like it.
        nearest: String,
    },
    /// A name of a site, an endpoint or an egress has characters that it may not have.
    #[error("`{name}` is not a name of {what}; allowed: {allowed}")]
    Name {
        /// What was given.
        name: String,
        /// `a site`, `an endpoint` or `an egress`.
        what: &'static str,
        /// The characters.
        allowed: &'static str,
    },
    /// The key is a table and was given something else.
    #[error("`{key}` is a table and was given {given}; its keys: {keys}")]
    Table {
        /// The key.
        key: String,
        /// What was given.
        given: String,
        /// The keys below it.
        keys: String,
    },
    /// The value is of the wrong type or out of range.
    #[error(
        "`{key}` was given {given}{}; allowed: {allowed}",
        detail.as_ref().map(|text| format!(" ({text})")).unwrap_or_default()
    )]
    Value {
        /// The key.
        key: String,
        /// What was given.
        given: String,
        /// What exactly is wrong with it, where that is not plain.
        detail: Option<String>,
        /// What the key takes.
        allowed: String,
    },
    /// Two variables or options set one key.
    #[error("`{key}` is set twice in this layer, also by {other}; name it once")]
    Twice {
        /// The key.
        key: String,
        /// The other place.
        other: Origin,
    },
    /// Two settings, each good by itself, do not go together.
    #[error("`{key}` is {value}, and `{other}` is {other_value}; allowed: {allowed}")]
    Conflict {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// The other key.
        other: String,
        /// Its value.
        other_value: String,
        /// The rule.
        allowed: String,
    },
    /// The layers could not be merged.
    #[error("the layers cannot be merged: {0}")]
    Merge(String),
}
