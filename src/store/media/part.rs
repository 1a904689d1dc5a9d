//! A file that is not whole yet.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Place;
use super::hash::Hash;
use crate::model::Checksum;
use crate::store::StoreError;
use crate::store::sinks::sync_dir;

/// Bytes read at once to make the checksum of what is there already.
const READ: usize = 256 * 1024;

/// What a part is a part of, as the first answer said it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartOf {
    /// What names this version of the file and no other: a strong entity tag, or a date of last change that is
    /// strong enough (RFC 9110 §8.8.2.2). Without one the part cannot be added to.
    pub validator: Option<String>,
    /// The length of the whole file in bytes, where it was announced.
    pub total: Option<u64>,
    /// Its media type.
    pub content_type: String,
    /// Its extension.
    pub extension: String,
}

/// Why a part cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PartError {
    /// Another writer has it: an earlier attempt of the same task that is just ending.
    #[error("{}: another writer has it", .0.display())]
    Busy(PathBuf),
    /// The disk refuses.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A file that is being written. Dropped, it stays on the disk as far as it was written.
#[derive(Debug)]
pub struct Part {
    place: Place,
    file: File,
    of: PartOf,
    hash: Hash,
    written: u64,
}

/// A file that is whole and on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Its name in its folder.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// `blake3:…` or `sha256:…`.
    pub checksum: String,
    /// Its media type.
    pub content_type: String,
}

impl Part {
    /// What an earlier attempt left, if it can be added to. What cannot is left to [`Part::create`].
    ///
    /// # Errors
    /// When the disk refuses, or the part is being written at this moment.
    pub fn resume(place: &Place, checksum: Checksum) -> Result<Option<Self>, PartError> {
        let Some(of) = read_note(place)? else {
            return Ok(None);
        };
        let path = place.part();
        let open = OpenOptions::new().read(true).write(true).open(&path);
        let mut file = match open {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::io(&path, "open it", &error).into()),
        };
        lock(&file, &path)?;
        let mut hash = Hash::new(checksum);
        let mut written = 0;
        let mut buffer = vec![0; READ];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    hash.update(&buffer[..count]);
                    written += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(StoreError::io(&path, "read it", &error).into()),
            }
        }
        let fits = of.total.is_none_or(|total| written <= total);
        Ok((written > 0 && fits).then(|| Self {
            place: place.clone(),
            file,
            of,
            hash,
            written,
        }))
    }

    /// An empty part; what was there before is gone.
    ///
    /// # Errors
    /// When the disk refuses, or the part is being written at this moment.
    pub fn create(place: &Place, of: PartOf, checksum: Checksum) -> Result<Self, PartError> {
        std::fs::create_dir_all(&place.folder)
            .map_err(|error| StoreError::io(&place.folder, "make the directory", &error))?;
        let path = place.part();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| StoreError::io(&path, "make it", &error))?;
        lock(&file, &path)?;
        // The note first goes and then comes: bytes never lie beside a note that is not theirs.
        remove(&place.note())?;
        file.set_len(0)
            .map_err(|error| StoreError::io(&path, "empty it", &error))?;
        if of.validator.is_some() {
            write_note(place, &of)?;
        }
        Ok(Self {
            place: place.clone(),
            file,
            of,
            hash: Hash::new(checksum),
            written: 0,
        })
    }

    /// Begins again at nothing, as a part of something else.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn restart(self, of: PartOf, checksum: Checksum) -> Result<Self, PartError> {
        let place = self.place.clone();
        // Its lock goes with it.
        drop(self);
        Self::create(&place, of, checksum)
    }

    /// What it is a part of.
    #[must_use]
    pub fn of(&self) -> &PartOf {
        &self.of
    }

    /// Bytes that are there.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Adds to its end.
    ///
    /// # Errors
    /// When the disk refuses, as it does when it is full.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.place.part();
        self.file
            .seek(SeekFrom::Start(self.written))
            .and_then(|_| self.file.write_all(bytes))
            .map_err(|error| StoreError::io(&path, "write it", &error))?;
        self.hash.update(bytes);
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// It is whole: on the disk for good, under its own name. A file of that name is replaced.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn finish(self) -> Result<Saved, StoreError> {
        let (part, whole) = (self.place.part(), self.place.whole(&self.of.extension));
        // A failed write may have left bytes behind those that count.
        self.file
            .set_len(self.written)
            .and_then(|()| self.file.sync_all())
            .map_err(|error| StoreError::io(&part, "sync it", &error))?;
        std::fs::rename(&part, &whole)
            .map_err(|error| StoreError::io(&whole, "put it in place", &error))?;
        remove(&self.place.note())?;
        sync_dir(&self.place.folder)?;
        let name = whole.file_name().unwrap_or_default();
        Ok(Saved {
            name: name.to_string_lossy().into_owned(),
            bytes: self.written,
            checksum: self.hash.finish(),
            content_type: self.of.content_type,
        })
    }
}

/// Whoever writes a part has it alone. The lock ends with the file, also when the process is killed.
fn lock(file: &File, path: &Path) -> Result<(), PartError> {
    match file.try_lock() {
        // A file system without locks: the lock of the job's directory has to do.
        Ok(()) | Err(TryLockError::Error(_)) if is_still(file, path) => Ok(()),
        _ => Err(PartError::Busy(path.to_owned())),
    }
}

/// Whether `path` still leads to `file`: the writer before may have put it in place meanwhile.
#[cfg(unix)]
fn is_still(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |found: std::fs::Metadata| (found.dev(), found.ino());
    let found = std::fs::metadata(path).map(place).ok();
    found.is_some() && found == file.metadata().map(place).ok()
}

#[cfg(not(unix))]
fn is_still(_: &File, path: &Path) -> bool {
    path.exists()
}

pub(super) fn remove(path: &Path) -> Result<(), StoreError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(StoreError::io(path, "remove it", &error))
        }
        _ => Ok(()),
    }
}

/// `None`: there is none, or it was cut by a crash of the system.
fn read_note(place: &Place) -> Result<Option<PartOf>, StoreError> {
    let path = place.note();
    match std::fs::read(&path) {
        Ok(text) => Ok(serde_json::from_slice(&text).ok()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io(&path, "read it", &error)),
    }
}

fn write_note(place: &Place, of: &PartOf) -> Result<(), StoreError> {
    let (new, path) = (place.note_in_making(), place.note());
    let text = serde_json::to_vec(of).unwrap_or_default();
    std::fs::write(&new, text).map_err(|error| StoreError::io(&new, "write it", &error))?;
    std::fs::rename(&new, &path).map_err(|error| StoreError::io(&path, "put it in place", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(dir: &tempfile::TempDir) -> Place {
        Place {
            folder: dir.path().join("media/s/e"),
            stem: "7".to_owned(),
        }
    }

    fn of(validator: Option<&str>) -> PartOf {
        PartOf {
            validator: validator.map(str::to_owned),
            total: Some(6),
            content_type: "image/png".to_owned(),
            extension: "png".to_owned(),
        }
    }

    fn names(place: &Place) -> Vec<String> {
        let entries = std::fs::read_dir(&place.folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_part_goes_on_where_it_was_left_and_becomes_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(&dir);
        assert!(Part::resume(&place, Checksum::Blake3).unwrap().is_none());
        let mut part = Part::create(&place, of(Some("\"a\"")), Checksum::Blake3).unwrap();
        part.append(b"abc").unwrap();
        assert_eq!(names(&place), [".7.part", ".7.part.json"]);
        drop(part);
        let mut part = Part::resume(&place, Checksum::Blake3).unwrap().unwrap();
        assert_eq!((part.written(), part.of()), (3, &of(Some("\"a\""))));
        part.append(b"def").unwrap();
        let saved = part.finish().unwrap();
        assert_eq!((&*saved.name, saved.bytes), ("7.png", 6));
        assert_eq!(
            saved.checksum,
            format!("blake3:{}", blake3::hash(b"abcdef").to_hex())
        );
        assert_eq!(names(&place), ["7.png"]);
        assert_eq!(
            std::fs::read(place.folder.join("7.png")).unwrap(),
            b"abcdef"
        );
    }

    #[test]
    fn a_part_that_nothing_names_or_that_is_too_long_is_not_added_to() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(&dir);
        let mut part = Part::create(&place, of(None), Checksum::Sha256).unwrap();
        part.append(b"abc").unwrap();
        drop(part);
        assert!(Part::resume(&place, Checksum::Sha256).unwrap().is_none());
        let mut part = Part::create(&place, of(Some("\"a\"")), Checksum::Sha256).unwrap();
        assert_eq!(part.written(), 0);
        part.append(b"more than six").unwrap();
        drop(part);
        assert!(Part::resume(&place, Checksum::Sha256).unwrap().is_none());
        std::fs::write(place.note(), "{ cut").unwrap();
        assert!(Part::resume(&place, Checksum::Sha256).unwrap().is_none());
    }

    #[test]
    fn a_part_has_one_writer() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(&dir);
        let part = Part::create(&place, of(None), Checksum::Blake3).unwrap();
        let error = Part::create(&place, of(None), Checksum::Blake3).unwrap_err();
        assert!(error.to_string().contains("another writer"), "{error}");
        drop(part);
        drop(Part::create(&place, of(None), Checksum::Blake3).unwrap());
        place.clear().unwrap();
        assert_eq!(names(&place), Vec::<String>::new());
    }

    #[test]
    fn a_disk_that_refuses_is_named_with_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(&dir);
        std::fs::write(dir.path().join("media"), "a file in the way").unwrap();
        let error = Part::create(&place, of(None), Checksum::Blake3).unwrap_err();
        assert!(error.to_string().contains("make the directory"), "{error}");
    }
}
