//! Saved files: where they lie, and their checksums.

use std::fmt;
use std::str::FromStr;

use super::ParseNameError;

/// Where all files of a job lie, relative to its directory.
pub const MEDIA_FOLDER: &str = "media";

/// How the checksum of a saved file is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Checksum {
    /// BLAKE3, 256 bits.
    #[default]
    Blake3,
    /// SHA-256.
    Sha256,
}

impl Checksum {
    /// The names.
    pub const NAMES: &'static [&'static str] = &["blake3", "sha256"];

    /// The name used in site definitions and before the digits of a checksum.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blake3 => "blake3",
            Self::Sha256 => "sha256",
        }
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Checksum {
    type Err = ParseNameError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "blake3" => Ok(Self::Blake3),
            "sha256" => Ok(Self::Sha256),
            _ => Err(ParseNameError::new(
                "checksum",
                name,
                Self::NAMES.iter().copied(),
            )),
        }
    }
}
