//! The file: entries by kind and key, the longest unused removed first.

use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use rusqlite::{Connection, OptionalExtension, params};

use super::{CACHE_FILE, CacheEntry, CacheKind, ROBOTS_BYTES};
use crate::model::UnixMillis;

/// How long a process waits for another one's commit.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The version of the tables. A file of another one is emptied: it is a cache.
const VERSION: i64 = 1;
/// An entry that was not used for so long is removed, whatever room there is: 180 days.
const KEEP: Duration = Duration::from_secs(180 * 86_400);
/// No single entry takes more than this share of the room.
const LARGEST_SHARE: u64 = 8;
/// What an entry takes beside its texts and its body, roughly.
const OVERHEAD: u64 = 200;
/// Uses within this time are not written down one by one.
const USED_STEP: Duration = Duration::from_secs(3600);
/// Largest body that is unpacked; what claims more is damaged.
const MOST_BODY: u64 = 1 << 30;

/// The open file.
pub(super) struct CacheDb {
    connection: Connection,
    max_answer_bytes: u64,
    /// Bytes written since the sizes were last looked at.
    written: u64,
    /// Whether they were looked at at all.
    looked: bool,
}

impl CacheDb {
    /// Opens or makes the file in `directory`. A file that is no cache of this version is made anew.
    pub(super) fn open(directory: &Path, max_answer_bytes: u64) -> Result<Self, String> {
        std::fs::create_dir_all(directory)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        let path = directory.join(CACHE_FILE);
        let connection = connect(&path).or_else(|first| {
            if !is_damaged(&first) {
                return Err(first);
            }
            // What the file held can be asked for again.
            for end in ["", "-wal", "-shm"] {
                let _ = std::fs::remove_file(directory.join(format!("{CACHE_FILE}{end}")));
            }
            connect(&path)
        });
        Ok(Self {
            connection: connection.map_err(|error| format!("{}: {error}", path.display()))?,
            max_answer_bytes,
            written: 0,
            looked: false,
        })
    }

    pub(super) fn begin(&mut self) -> rusqlite::Result<()> {
        self.connection.execute_batch("BEGIN IMMEDIATE")
    }

    /// Ends a commit, and removes what is too much.
    pub(super) fn commit(&mut self, now: UnixMillis) -> rusqlite::Result<()> {
        if !self.looked || self.written > self.max_answer_bytes / 32 {
            let evicted = self
                .evict(CacheKind::Answer, self.max_answer_bytes, now)
                .and_then(|()| self.evict(CacheKind::Robots, ROBOTS_BYTES, now));
            if let Err(error) = evicted {
                self.connection.execute_batch("ROLLBACK")?;
                return Err(error);
            }
            self.looked = true;
            self.written = 0;
        }
        self.connection.execute_batch("COMMIT")
    }

    pub(super) fn get(
        &mut self,
        kind: CacheKind,
        key: &str,
        now: UnixMillis,
    ) -> rusqlite::Result<Option<CacheEntry>> {
        let mut find = self.connection.prepare_cached(
            "SELECT description, body, length, used FROM entry WHERE kind = ?1 AND key = ?2",
        )?;
        let found = find
            .query_row(params![kind.as_str(), key], |row| {
                let (description, packed): (String, Vec<u8>) = (row.get(0)?, row.get(1)?);
                let (length, used): (i64, i64) = (row.get(2)?, row.get(3)?);
                Ok((description, packed, length, used))
            })
            .optional()?;
        drop(find);
        let Some((description, packed, length, used)) = found else {
            return Ok(None);
        };
        let Some(body) = unpack(&packed, length) else {
            self.remove(kind, key)?;
            return Ok(None);
        };
        if now.since(UnixMillis(used)) >= USED_STEP {
            self.connection
                .prepare_cached("UPDATE entry SET used = ?3 WHERE kind = ?1 AND key = ?2")?
                .execute(params![kind.as_str(), key, now.0])?;
        }
        Ok(Some(CacheEntry { description, body }))
    }

    pub(super) fn put(
        &mut self,
        kind: CacheKind,
        key: &str,
        entry: &CacheEntry,
        now: UnixMillis,
    ) -> rusqlite::Result<()> {
        let packed = pack(&entry.body);
        let texts = key.len() + entry.description.len() + packed.len();
        let size = OVERHEAD + texts as u64;
        let room = match kind {
            CacheKind::Answer => self.max_answer_bytes,
            CacheKind::Robots => ROBOTS_BYTES,
        };
        if size > room / LARGEST_SHARE {
            return self.remove(kind, key);
        }
        self.written += size;
        self.connection
            .prepare_cached(
                "INSERT INTO entry (kind, key, description, body, length, size, used)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                 ON CONFLICT (kind, key) DO UPDATE SET description = excluded.description,
                 body = excluded.body, length = excluded.length, size = excluded.size, used = excluded.used",
            )?
            .execute(params![
                kind.as_str(),
                key,
                entry.description,
                packed,
                signed(entry.body.len() as u64),
                signed(size),
                now.0
            ])?;
        Ok(())
    }

    /// A new description of an entry that is there.
    pub(super) fn describe(
        &mut self,
        kind: CacheKind,
        key: &str,
        description: &str,
        now: UnixMillis,
    ) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached(
                "UPDATE entry SET size = size - length(CAST(description AS BLOB)) + ?4,
                 description = ?3, used = ?5 WHERE kind = ?1 AND key = ?2",
            )?
            .execute(params![
                kind.as_str(),
                key,
                description,
                signed(description.len() as u64),
                now.0
            ])?;
        Ok(())
    }

    pub(super) fn remove(&mut self, kind: CacheKind, key: &str) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached("DELETE FROM entry WHERE kind = ?1 AND key = ?2")?
            .execute(params![kind.as_str(), key])?;
        Ok(())
    }

    /// Removes what is old, and then what was not used for longest until a tenth of `room` is free, if it is over full.
    fn evict(&mut self, kind: CacheKind, room: u64, now: UnixMillis) -> rusqlite::Result<()> {
        let oldest = now.0.saturating_sub(signed(KEEP.as_millis() as u64));
        self.connection
            .prepare_cached("DELETE FROM entry WHERE kind = ?1 AND used < ?2")?
            .execute(params![kind.as_str(), oldest])?;
        let taken = self.taken(kind)?;
        if taken <= room {
            return Ok(());
        }
        let too_much = taken - room / 10 * 9;
        self.connection
            .prepare_cached(
                "DELETE FROM entry WHERE rowid IN (
                     SELECT rowid FROM (
                         SELECT rowid, sum(size) OVER (ORDER BY used, rowid) - size AS before
                         FROM entry WHERE kind = ?1)
                     WHERE before < ?2)",
            )?
            .execute(params![kind.as_str(), signed(too_much)])?;
        Ok(())
    }

    /// Bytes that a kind takes.
    pub(super) fn taken(&self, kind: CacheKind) -> rusqlite::Result<u64> {
        let taken: i64 = self
            .connection
            .prepare_cached("SELECT coalesce(sum(size), 0) FROM entry WHERE kind = ?1")?
            .query_row([kind.as_str()], |row| row.get(0))?;
        Ok(u64::try_from(taken).unwrap_or(0))
    }
}

/// Makes the file for its user alone: pages may be personal.
fn make(path: &Path) {
    let mut options = std::fs::OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // Where it cannot be made, opening it says why.
    let _ = options.open(path);
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    make(path);
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // A kill loses the last entries at most; they are asked for again.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version != VERSION {
        connection.execute_batch("DROP TABLE IF EXISTS entry")?;
    }
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS entry (
             kind TEXT NOT NULL,
             key TEXT NOT NULL,
             description TEXT NOT NULL,
             body BLOB NOT NULL,
             length INTEGER NOT NULL,
             size INTEGER NOT NULL,
             used INTEGER NOT NULL,
             UNIQUE (kind, key)
         ) STRICT;
         CREATE INDEX IF NOT EXISTS entry_used ON entry (kind, used, size);",
    )?;
    connection.pragma_update(None, "user_version", VERSION)?;
    Ok(connection)
}

fn is_damaged(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(
        error.sqlite_error_code(),
        Some(DatabaseCorrupt | NotADatabase)
    )
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn pack(body: &[u8]) -> Vec<u8> {
    let mut packer = ZlibEncoder::new(Vec::new(), Compression::fast());
    // Writing to a Vec does not fail.
    let _ = packer.write_all(body);
    packer.finish().unwrap_or_default()
}

/// A body of `length` bytes; `None` where it is damaged.
fn unpack(packed: &[u8], length: i64) -> Option<Bytes> {
    let length = u64::try_from(length)
        .ok()
        .filter(|length| *length <= MOST_BODY)?;
    let mut body = Vec::new();
    let mut unpacker = ZlibDecoder::new(packed).take(length + 1);
    unpacker.read_to_end(&mut body).ok()?;
    (body.len() as u64 == length).then(|| Bytes::from(body))
}
