//! One process at a time per directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use super::StoreError;

/// A lock on a job's directory, held while this value lives. The system frees it when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct DirLock {
    _file: File,
}

impl DirLock {
    /// Take the lock `file` of the job in `dir`, and write this process's id into it.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another holds it, [`StoreError::Io`] when the file cannot be made.
    pub(crate) fn take(dir: &Path, file: &Path) -> Result<Self, StoreError> {
        let mut handle = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(file)
            .map_err(|error| StoreError::io(file, "open the lock", &error))?;
        match handle.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // The pid only serves the message: the lock itself is what counts.
                let _ = handle.read_to_string(&mut text);
                return Err(StoreError::Locked {
                    dir: dir.to_owned(),
                    pid: text.trim().parse().ok(),
                });
            }
            Err(TryLockError::Error(error)) => {
                return Err(StoreError::io(file, "lock it", &error));
            }
        }
        let write = |handle: &mut File| {
            handle.set_len(0)?;
            handle.rewind()?;
            writeln!(handle, "{}", std::process::id())
        };
        write(&mut handle).map_err(|error| StoreError::io(file, "write the lock", &error))?;
        Ok(Self { _file: handle })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_holder_is_told_the_pid_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("lock");
        let held = DirLock::take(dir.path(), &file).unwrap();
        let refused = DirLock::take(dir.path(), &file).unwrap_err();
        assert_eq!(
            refused,
            StoreError::Locked {
                dir: dir.path().to_owned(),
                pid: Some(std::process::id())
            }
        );
        assert!(
            refused
                .to_string()
                .contains(&std::process::id().to_string())
        );
        drop(held);
        DirLock::take(dir.path(), &file).unwrap();
    }
}
