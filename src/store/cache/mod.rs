//! What a user's crawls remember of servers between runs: robots.txt of hosts, and answers that can be asked about
//! again. One SQLite file in the state directory, `cache.db`, used from a thread of its own.
//!
//! It is a cache: what cannot be read or written is as if it were not there, and nothing waits for the disk. Several
//! processes may share the file.

mod db;
mod thread;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use slog::Logger;
use tokio::sync::oneshot;

use self::thread::Job;
use super::folder::StateFolder;

/// Name of the file in the state directory.
pub(super) const CACHE_FILE: &str = "cache.db";

/// Jobs that wait for the thread; what comes on top is not looked up, and not kept.
const MOST_JOBS: usize = 1024;
/// Bytes of entries that wait to be written; what comes on top is not kept.
const MOST_WAITING_BYTES: usize = 32 * 1024 * 1024;
/// Bytes on disk of all robots.txt. They are not bounded by the setting, so that pages do not push them out.
const ROBOTS_BYTES: u64 = 64 * 1024 * 1024;

/// Kinds of entries. Each has its own bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheKind {
    /// What is known of an origin's robots.txt.
    Robots,
    /// An answer.
    Answer,
}

impl CacheKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Robots => "robots",
            Self::Answer => "answer",
        }
    }
}

/// One entry: its owner's description of it, and a body, which is compressed on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheEntry {
    /// Whatever the owner writes down.
    pub description: String,
    /// The body.
    pub body: Bytes,
}

/// The caches of a user. Clones are handles of one thread, which starts when the first is used, and ends, with all
/// written, when the last is gone.
#[derive(Clone)]
pub struct CacheStore {
    inner: Arc<Inner>,
}

struct Inner {
    folder: StateFolder,
    max_answer_bytes: u64,
    log: Logger,
    /// `None`: there is no thread.
    jobs: OnceLock<Option<SyncSender<Job>>>,
    waiting: Arc<AtomicUsize>,
}

impl CacheStore {
    /// The caches in `folder`. Answers take at most `max_answer_bytes` on disk. Nothing is made before it is needed.
    #[must_use]
    pub fn new(folder: StateFolder, max_answer_bytes: u64, log: Logger) -> Self {
        Self {
            inner: Arc::new(Inner {
                folder,
                max_answer_bytes,
                log,
                jobs: OnceLock::new(),
                waiting: Arc::default(),
            }),
        }
    }

    /// Caches that keep nothing.
    #[must_use]
    pub fn none() -> Self {
        let log = Logger::root(slog::Discard, slog::o!());
        let store = Self::new(StateFolder::of(None), 0, log);
        // Set before anybody else knows of it.
        let _ = store.inner.jobs.set(None);
        store
    }

    fn jobs(&self) -> Option<&SyncSender<Job>> {
        let inner = &self.inner;
        let start = || {
            let (sender, jobs) = sync_channel(MOST_JOBS);
            let started = thread::start(
                inner.folder.clone(),
                inner.max_answer_bytes,
                inner.waiting.clone(),
                inner.log.clone(),
                jobs,
            );
            match started {
                Ok(()) => Some(sender),
                Err(error) => {
                    slog::warn!(inner.log, "there is no thread for the caches: nothing is kept"; "error" => %error);
                    None
                }
            }
        };
        inner.jobs.get_or_init(start).as_ref()
    }

    /// What is kept under `key`.
    pub async fn get(&self, kind: CacheKind, key: &str) -> Option<CacheEntry> {
        let (answer, answered) = oneshot::channel();
        let key = key.to_owned();
        let job = Job::Get { kind, key, answer };
        self.jobs()?.try_send(job).ok()?;
        answered.await.ok().flatten()
    }

    /// Keep `entry` under `key`, in place of what was there. Soon, and only if there is room.
    pub fn put(&self, kind: CacheKind, key: &str, entry: CacheEntry) {
        let Some(jobs) = self.jobs() else { return };
        let bytes = entry.description.len() + entry.body.len();
        let waiting = &self.inner.waiting;
        if waiting.fetch_add(bytes, Ordering::Relaxed) + bytes > MOST_WAITING_BYTES {
            waiting.fetch_sub(bytes, Ordering::Relaxed);
            return;
        }
        let key = key.to_owned();
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            jobs.try_send(Job::Put { kind, key, entry })
        {
            waiting.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Keep a new description of what is kept under `key`.
    pub fn describe(&self, kind: CacheKind, key: &str, description: String) {
        if let Some(jobs) = self.jobs() {
            let key = key.to_owned();
            // What is not written down is told again the next time.
            let _ = jobs.try_send(Job::Describe {
                kind,
                key,
                description,
            });
        }
    }

    /// Forget what is kept under `key`.
    pub fn remove(&self, kind: CacheKind, key: &str) {
        if let Some(jobs) = self.jobs() {
            let key = key.to_owned();
            // What stays is found to be of no use again.
            let _ = jobs.try_send(Job::Remove { kind, key });
        }
    }

    /// Wait until all that was said before is on disk. Starts nothing.
    pub async fn flush(&self) {
        let Some(Some(jobs)) = self.inner.jobs.get() else {
            return;
        };
        let (done, written) = oneshot::channel();
        let jobs = jobs.clone();
        let asked = tokio::task::spawn_blocking(move || jobs.send(Job::Flush(done)));
        if asked.await.is_ok_and(|sent| sent.is_ok()) {
            // An error means that the thread is gone, and with it what it would have written.
            let _ = written.await;
        }
    }
}

impl std::fmt::Debug for CacheStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacheStore")
            .field("folder", &self.inner.folder)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
