//! Saved files of a job: written under a hidden name beside their own, and renamed when they are whole.
//!
//! Everything here blocks: it belongs on the blocking pool, never on an arbiter that serves others.
//!
//! | file | holds |
//! |---|---|
//! | `.STEM.part` | what has arrived so far |
//! | `.STEM.part.json` | what it is a part of: without it the bytes are worth nothing |
//! | `STEM.EXT` | the whole file |

mod hash;
mod part;

use std::path::PathBuf;

use super::StoreError;

pub use part::{Part, PartError, PartOf, Saved};

/// Where the file of one task lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The folder; it is made when it is needed.
    pub folder: PathBuf,
    /// The file's name without its extension.
    pub stem: String,
}

impl Place {
    fn part(&self) -> PathBuf {
        self.folder.join(format!(".{}.part", self.stem))
    }

    fn note(&self) -> PathBuf {
        self.folder.join(format!(".{}.part.json", self.stem))
    }

    fn note_in_making(&self) -> PathBuf {
        self.folder.join(format!(".{}.part.json.new", self.stem))
    }

    /// Removes what is there of a file that is not whole.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn clear(&self) -> Result<(), StoreError> {
        // The note first: bytes without it are worth nothing, a note without its bytes could be taken for another's.
        part::remove(&self.note())?;
        part::remove(&self.part())
    }

    fn whole(&self, extension: &str) -> PathBuf {
        self.folder.join(format!("{}.{extension}", self.stem))
    }
}
