//! Where a value comes from: the layer, and the file and line, variable or option within it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// The layers, weakest first: a later one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The `config/default.toml` that is compiled in.
    BuiltIn,
    /// `DIR/default.toml`.
    Default,
    /// `DIR/{environment}.toml`.
    Environment,
    /// `DIR/local.toml`.
    Local,
    /// Environment variables.
    Variables,
    /// The command line.
    CommandLine,
}

impl Layer {
    /// How messages call the layer.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in defaults",
            Self::Default => "default layer",
            Self::Environment => "environment layer",
            Self::Local => "local layer",
            Self::Variables => "environment variables",
            Self::CommandLine => "command line",
        }
    }

    /// Whether values arrive as plain text, so that numbers and lists are read out of it.
    pub(super) const fn is_text(self) -> bool {
        matches!(self, Self::Variables | Self::CommandLine)
    }
}

/// Where one value was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "layer", rename_all = "snake_case")]
pub enum Origin {
    /// The compiled-in `config/default.toml`.
    BuiltIn {
        /// Line in that file, from 1.
        line: usize,
    },
    /// A file of the configuration directory.
    File {
        /// Which of the three.
        #[serde(rename = "file_layer")]
        layer: Layer,
        /// The file.
        path: PathBuf,
        /// Line in it, from 1; `None` when the whole file is meant.
        #[serde(skip_serializing_if = "Option::is_none")]
        line: Option<usize>,
    },
    /// An environment variable.
    Variable {
        /// Its name.
        name: String,
    },
    /// The command line.
    Option {
        /// The option as it was given, such as `--max_concurrency_num 8`.
        given: String,
    },
}

impl Origin {
    /// The layer it belongs to.
    #[must_use]
    pub const fn layer(&self) -> Layer {
        match self {
            Self::BuiltIn { .. } => Layer::BuiltIn,
            Self::File { layer, .. } => *layer,
            Self::Variable { .. } => Layer::Variables,
            Self::Option { .. } => Layer::CommandLine,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn { .. } => f.write_str("built-in default"),
            Self::File { path, line, .. } => {
                write!(f, "{}", path.display())?;
                line.map_or(Ok(()), |line| write!(f, ":{line}"))
            }
            Self::Variable { name } => write!(f, "variable {name}"),
            Self::Option { given } => write!(f, "option {given}"),
        }
    }
}

/// The origin of every value that is set, by key, and what was read to find it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The origins by full key, such as `sites.zhihu.rate`.
    pub origins: BTreeMap<String, Origin>,
    /// The environment whose file was looked for.
    pub environment: String,
    /// The files that were looked for, weakest first, and whether they were there.
    pub files: Vec<(PathBuf, bool)>,
}

impl Provenance {
    /// Where `key` was set.
    #[must_use]
    pub fn of(&self, key: &str) -> Option<&Origin> {
        self.origins.get(key)
    }
}
