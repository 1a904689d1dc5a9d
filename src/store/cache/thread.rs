//! The thread: takes up all jobs that wait and commits them as one.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::thread;

use slog::{Logger, warn};
use tokio::sync::oneshot;

use super::db::CacheDb;
use super::{CacheEntry, CacheKind};
use crate::model::UnixMillis;
use crate::store::folder::StateFolder;

/// Jobs of one commit.
const MOST_TOGETHER: usize = 256;

/// What the thread is asked.
pub(super) enum Job {
    Get {
        kind: CacheKind,
        key: String,
        answer: oneshot::Sender<Option<CacheEntry>>,
    },
    Put {
        kind: CacheKind,
        key: String,
        entry: CacheEntry,
    },
    Describe {
        kind: CacheKind,
        key: String,
        description: String,
    },
    Remove {
        kind: CacheKind,
        key: String,
    },
    Flush(oneshot::Sender<()>),
}

/// Starts the thread, which ends when the last sender of `jobs` is gone.
pub(super) fn start(
    folder: StateFolder,
    max_answer_bytes: u64,
    waiting: Arc<AtomicUsize>,
    log: Logger,
    jobs: Receiver<Job>,
) -> io::Result<()> {
    let mut shelf = Shelf {
        db: None,
        directory: folder.named().map(ToOwned::to_owned),
        max_answer_bytes,
        told: false,
        log,
    };
    thread::Builder::new()
        .name("caches".to_owned())
        .spawn(move || {
            while let Ok(first) = jobs.recv() {
                let more = jobs.try_iter().take(MOST_TOGETHER - 1);
                let together: Vec<Job> = std::iter::once(first).chain(more).collect();
                shelf.work(together, &waiting);
            }
        })
        .map(drop)
}

/// The file, opened when it is first asked.
struct Shelf {
    db: Option<CacheDb>,
    /// `None`: the system names no folder, or the file could not be opened.
    directory: Option<PathBuf>,
    max_answer_bytes: u64,
    /// Trouble is told once.
    told: bool,
    log: Logger,
}

impl Shelf {
    fn work(&mut self, jobs: Vec<Job>, waiting: &AtomicUsize) {
        let now = UnixMillis::now();
        self.open();
        let writes = |job: &Job| !matches!(job, Job::Get { .. } | Job::Flush(_));
        let begun = jobs.iter().any(writes) && self.on_db(CacheDb::begin).is_some();
        let mut flushed = Vec::new();
        for job in jobs {
            match job {
                Job::Get { kind, key, answer } => {
                    let found = self.on_db(|db| db.get(kind, &key, now)).flatten();
                    // Who asked may be gone.
                    let _ = answer.send(found);
                }
                Job::Put { kind, key, entry } => {
                    let bytes = entry.description.len() + entry.body.len();
                    self.on_db(|db| db.put(kind, &key, &entry, now));
                    waiting.fetch_sub(bytes, Ordering::Relaxed);
                }
                Job::Describe {
                    kind,
                    key,
                    description,
                } => {
                    self.on_db(|db| db.describe(kind, &key, &description, now));
                }
                Job::Remove { kind, key } => {
                    self.on_db(|db| db.remove(kind, &key));
                }
                Job::Flush(done) => flushed.push(done),
            }
        }
        if begun {
            self.on_db(|db| db.commit(now));
        }
        for done in flushed {
            // Who waited may be gone.
            let _ = done.send(());
        }
    }

    fn open(&mut self) {
        if self.db.is_none()
            && let Some(directory) = &self.directory
        {
            match CacheDb::open(directory, self.max_answer_bytes) {
                Ok(db) => self.db = Some(db),
                Err(why) => {
                    warn!(self.log, "the cache cannot be used: nothing is kept for the next run"; "why" => why);
                    self.directory = None;
                }
            }
        }
    }

    fn on_db<T>(&mut self, work: impl FnOnce(&mut CacheDb) -> rusqlite::Result<T>) -> Option<T> {
        match work(self.db.as_mut()?) {
            Ok(value) => Some(value),
            Err(error) => {
                if !std::mem::replace(&mut self.told, true) {
                    warn!(self.log, "the cache fails: what it should keep is asked again"; "error" => %error);
                }
                None
            }
        }
    }
}
