//! Opening a job's directory: lock, identity, archive, recovery.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, params};

use super::caps::{self, Caps};
use super::frontier::{Queue, from_json, to_json};
use super::runs::Run;
use super::schema::{self, Found};
use super::{JobStore, records};
use crate::model::{Format, MEDIA_FOLDER, Mode, Name, UnixMillis};
use crate::settings::{Settings, StoreSettings};
use crate::store::StoreError;
use crate::store::kill::{CommitKind, Hook, KillHook, KillPoint, Moment};
use crate::store::lock::DirLock;
use crate::store::sinks::{JsonlSink, outputs_in, sync_dir};

/// Where the store lies within a job's directory.
pub const STORE_DIR: &str = ".crawler-node";

/// The database within [`STORE_DIR`].
pub const STORE_FILE: &str = "store.db";

const LOCK_FILE: &str = "lock";

/// How many records a sink that catches up takes before it writes them.
const CATCH_UP: u64 = 1000;

/// Which job to open, and how.
#[derive(Debug)]
pub struct OpenOptions {
    /// The job's directory; it is made when it is missing.
    pub dir: PathBuf,
    /// The sites of the job, in any order. With the mode they are its identity.
    pub sites: Vec<String>,
    /// The mode of the job.
    pub mode: Mode,
    /// The forms of output. A form that is new to the job begins with the records there are.
    pub formats: Vec<Format>,
    /// Move what the directory holds into `DIR/.archive-<time>` and start over.
    pub fresh: bool,
    /// Most records of kind `page`; nothing is leased that could bring more. `None`: no limit.
    pub page_cap: Option<u64>,
    /// Most items of a list. Raising one goes on with the lists that had ended at it.
    pub caps: Caps,
    /// By what rules the keys of tasks are made, where those can change between two runs.
    pub key_rules: Option<String>,
    /// Sizes of cache and log.
    pub settings: StoreSettings,
    /// The time now.
    pub now: UnixMillis,
    hook: Hook,
}

impl OpenOptions {
    /// The job of `sites` and `mode` in `dir`, with JSON Lines as output and default sizes.
    pub fn new(dir: impl Into<PathBuf>, sites: Vec<String>, mode: Mode, now: UnixMillis) -> Self {
        Self {
            dir: dir.into(),
            sites,
            mode,
            formats: vec![Format::Jsonl],
            fresh: false,
            page_cap: None,
            caps: Caps::default(),
            key_rules: None,
            settings: Settings::default().store,
            now,
            hook: Hook::default(),
        }
    }

    /// Call `hook` at every step that touches the disk. For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn kill_hook(mut self, hook: KillHook) -> Self {
        self.hook = Hook::new(Some(hook));
        self
    }
}

/// What opening found and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The run that works now: `r1`, `r2`, …
    pub run: Name,
    /// Whether that run had been started before and is gone on with.
    pub resumed: bool,
    /// Whether the job's last run ended complete and nothing waits: with no new inputs there is nothing to do.
    pub complete: bool,
    /// Leases of a dead process that were returned.
    pub void_leases: u64,
    /// Of these, tasks that were failed because their holder died five times in a row.
    pub poisoned: u64,
    /// Parked tasks that go on: their time has come, or they waited for a person.
    pub unparked: u64,
    /// Failed tasks that are asked again: their trouble may have passed.
    pub retried: u64,
    /// Lists that had ended at a cap and go on, because it was raised.
    pub reopened: u64,
    /// Whether the tasks of earlier runs have keys by other rules: what they stand for may be asked once more.
    pub other_keys: bool,
    /// Bytes cut from output files because they were not committed.
    pub cut_bytes: u64,
    /// Where the former content went, with `fresh`.
    pub archived: Option<PathBuf>,
}

/// Sites and mode as people read them.
fn identity(sites: &[String], mode: &str) -> String {
    let sites = if sites.is_empty() {
        "no site".to_owned()
    } else {
        sites.join(", ")
    };
    format!("{sites} in mode {mode}")
}

impl JobStore {
    /// Open the job in a directory; a new job is made where there is none. Blocks.
    ///
    /// Leases of a dead process are void: their tasks are leased again first, in the same order. Output files are cut
    /// back to what was committed.
    ///
    /// # Errors
    /// Every kind of [`StoreError`] but `Closed` and `Gone`. What was committed stays as it is.
    pub fn open(options: OpenOptions) -> Result<Self, StoreError> {
        let dir = options.dir.clone();
        let inner = dir.join(STORE_DIR);
        std::fs::create_dir_all(&inner)
            .map_err(|error| StoreError::io(&inner, "make the directory", &error))?;
        let lock = DirLock::take(&dir, &inner.join(LOCK_FILE))?;
        let archived = if options.fresh {
            archive(&dir, options.now)?
        } else {
            None
        };
        let file = inner.join(STORE_FILE);
        let failed = |error: rusqlite::Error| StoreError::database(&file, &error);
        let db = Connection::open(&file).map_err(failed)?;
        let found = schema::inspect(&db, &file)?;
        let mut sites = options.sites.clone();
        sites.sort();
        sites.dedup();
        let mut hook = options.hook;
        if found == Found::Store {
            check_identity(&db, &file, &dir, &sites, options.mode)?;
        } else if let Some(foreign) = outputs_in(&dir)?.into_iter().next() {
            return Err(StoreError::Foreign { file: foreign });
        }
        schema::configure(&db, &options.settings).map_err(failed)?;
        if found == Found::Empty {
            create(&db, &sites, options.mode, options.now, &mut hook).map_err(failed)?;
            sync_dir(&inner)?;
            sync_dir(&dir)?;
        } else {
            schema::upgrade(&db).map_err(failed)?;
        }
        let (token, seq) = db
            .query_row("SELECT token, seq FROM job", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .map_err(failed)?;
        let (run, resumed) = Run::current(&db).map_err(failed)?;
        let queue = Queue::load(&db, token).map_err(failed)?;
        let mut store = Self {
            opened: Opened {
                run: run.name.clone(),
                resumed,
                complete: false,
                void_leases: 0,
                poisoned: 0,
                unparked: 0,
                retried: 0,
                reopened: 0,
                other_keys: false,
                cut_bytes: 0,
                archived,
            },
            db,
            file,
            queue,
            run,
            seq,
            stored_marks: (token, seq),
            sinks: Vec::new(),
            formats: Vec::new(),
            page_cap: options.page_cap,
            wal_bytes: options.settings.wal_bytes,
            log_stuck: 0,
            hook,
            batch: None,
            ends: BTreeMap::new(),
            fields: Vec::new(),
            keep_committed: false,
            committed: Vec::new(),
            failed: None,
            closed: false,
            dir,
            _lock: lock,
        };
        let key_rules = options.key_rules.as_deref();
        store.recover(options.now, &options.formats, options.caps, key_rules)?;
        Ok(store)
    }

    /// Bring frontier and outputs to the state of the last commit.
    fn recover(
        &mut self,
        now: UnixMillis,
        formats: &[Format],
        caps: Caps,
        key_rules: Option<&str>,
    ) -> Result<(), StoreError> {
        let committed = self.read(|store| {
            store
                .db
                .prepare("SELECT name, bytes FROM outputs")?
                .query_map([], |row| {
                    Ok((
                        row.get::<_, String>(0)?,
                        row.get::<_, i64>(1)?.cast_unsigned(),
                    ))
                })?
                .collect::<rusqlite::Result<_>>()
        })?;
        // Cut back in any case: a format that is off now may have been on when the process died.
        let (jsonl, cut) = JsonlSink::open(&self.dir, committed, &mut self.hook)?;
        self.opened.cut_bytes = cut;
        let mut jsonl = Some(jsonl);
        for &format in formats {
            let sink = match format {
                Format::Jsonl => jsonl.take(),
            };
            if let Some(sink) = sink {
                self.sinks.push(Box::new(sink));
                self.formats.push(format);
            }
        }
        self.step(CommitKind::Open, |store| {
            let recovered = store.queue.recover(&store.db, now)?;
            store.opened.void_leases = recovered.void;
            store.opened.poisoned = recovered.poisoned;
            store.opened.unparked = recovered.unparked;
            store.opened.retried = recovered.retried;
            store.opened.reopened = caps::apply(&store.db, &mut store.queue, caps)?;
            if let Some(rules) = key_rules {
                store.opened.other_keys = note_key_rules(&store.db, rules)?;
            }
            if store.opened.resumed {
                store.run.resume(&store.db)?;
            }
            Ok(())
        })?;
        self.catch_up().map_err(|error| self.fail(error))?;
        self.finish()?;
        self.opened.complete = !self.opened.resumed && self.run.n > 1 && !self.has_work();
        Ok(())
    }

    /// Give every sink the records that were stored while its format was off.
    fn catch_up(&mut self) -> Result<(), StoreError> {
        for (format, sink) in self.formats.iter().zip(&mut self.sinks) {
            let failed = |error: rusqlite::Error| StoreError::database(&self.file, &error);
            let known: Option<i64> = self
                .db
                .query_row(
                    "SELECT seq FROM sinks WHERE format = ?1",
                    [format.as_str()],
                    |row| row.get(0),
                )
                .optional()
                .map_err(failed)?;
            let known = known.unwrap_or_default();
            if known >= self.seq {
                continue;
            }
            let (hook, ends) = (&mut self.hook, &mut self.ends);
            let mut taken = 0;
            let mut refused = Ok(());
            records::each_after(&self.db, &self.queue.names, known, |record, fields| {
                sink.append(&record, fields);
                taken += 1;
                // Not all of them in memory at once. What is written before a kill is cut off like any tail.
                if taken % CATCH_UP == 0 && refused.is_ok() {
                    refused = sink.flush(hook).map(|synced| ends.extend(synced));
                }
            })
            .map_err(failed)?;
            refused?;
        }
        Ok(())
    }
}

/// Make the tables of a new job.
fn create(
    db: &Connection,
    sites: &[String],
    mode: Mode,
    now: UnixMillis,
    hook: &mut Hook,
) -> rusqlite::Result<()> {
    let tx = db.unchecked_transaction()?;
    schema::create(&tx)?;
    tx.execute(
        "INSERT INTO job(id, mode, sites, created, token, seq) VALUES (1, ?1, ?2, ?3, 0, 0)",
        params![mode.as_str(), to_json(&sites)?, now.0],
    )?;
    hook.at(KillPoint::Commit(CommitKind::Create, Moment::Before));
    tx.commit()?;
    hook.at(KillPoint::Commit(CommitKind::Create, Moment::After));
    Ok(())
}

/// Keep by what rules keys are made from now on. Whether there are tasks whose keys were made by others.
fn note_key_rules(db: &Connection, rules: &str) -> rusqlite::Result<bool> {
    let former: Option<String> = db
        .query_row("SELECT rules FROM key_rules", [], |row| row.get(0))
        .optional()?;
    if former.as_deref() == Some(rules) {
        return Ok(false);
    }
    db.execute(
        "INSERT OR REPLACE INTO key_rules(id, rules) VALUES (1, ?1)",
        [rules],
    )?;
    db.query_row("SELECT EXISTS (SELECT 1 FROM seen)", [], |row| row.get(0))
}

/// Whether the job that is there is the one that was asked for.
fn check_identity(
    db: &Connection,
    file: &Path,
    dir: &Path,
    sites: &[String],
    mode: Mode,
) -> Result<(), StoreError> {
    let stored: rusqlite::Result<(String, Vec<String>)> =
        db.query_row("SELECT mode, sites FROM job", [], |row| {
            Ok((row.get(0)?, from_json(row.get_ref(1)?.as_str()?)?))
        });
    let (stored_mode, stored_sites) = stored.map_err(|error| StoreError::database(file, &error))?;
    if stored_mode == mode.as_str() && stored_sites == sites {
        return Ok(());
    }
    Err(StoreError::OtherJob {
        dir: dir.to_owned(),
        stored: identity(&stored_sites, &stored_mode),
        asked: identity(sites, mode.as_str()),
    })
}

/// Move store and outputs into a directory of their own; `None` when there are none.
fn archive(dir: &Path, now: UnixMillis) -> Result<Option<PathBuf>, StoreError> {
    let inner = dir.join(STORE_DIR);
    let mut moves = Vec::new();
    for suffix in ["", "-wal", "-shm"] {
        let name = format!("{STORE_FILE}{suffix}");
        moves.push((inner.join(&name), name));
    }
    for path in outputs_in(dir)? {
        if let Some(name) = path.file_name().and_then(|name| name.to_str()) {
            moves.push((path.clone(), name.to_owned()));
        }
    }
    moves.push((dir.join(MEDIA_FOLDER), MEDIA_FOLDER.to_owned()));
    moves.retain(|(path, _)| path.exists());
    if moves.is_empty() {
        return Ok(None);
    }
    let stamp: String = now
        .to_string()
        .chars()
        .filter(|c| !matches!(c, '-' | ':' | '.'))
        .collect();
    let mut target = dir.join(format!(".archive-{stamp}"));
    let mut n = 1;
    while target.exists() {
        n += 1;
        target = dir.join(format!(".archive-{stamp}-{n}"));
    }
    // The name of the database within the archive is as it was, so that the archive can be opened as a job.
    let store = target.join(STORE_DIR);
    std::fs::create_dir_all(&store)
        .map_err(|error| StoreError::io(&store, "make the directory", &error))?;
    for (path, name) in moves {
        let place = if path.starts_with(&inner) {
            store.join(name)
        } else {
            target.join(name)
        };
        std::fs::rename(&path, &place)
            .map_err(|error| StoreError::io(&path, "move it into the archive", &error))?;
    }
    sync_dir(&store)?;
    sync_dir(&target)?;
    sync_dir(&inner)?;
    sync_dir(dir)?;
    Ok(Some(target))
}
