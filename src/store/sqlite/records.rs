//! Records: the current revision of each, its fields stored once as JSON text.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::frontier::from_json;
use super::names::{NameId, Names};
use super::runs::run_name;
use crate::model::{Change, Params, Record, StoredRecord, UnixMillis};

/// What storing a record did.
pub(super) struct Stored {
    pub(super) change: Change,
    pub(super) revision: u32,
    pub(super) kind: NameId,
}

/// When and by which run a revision is stored, and its place among all revisions of the job.
#[derive(Clone, Copy)]
pub(super) struct Stamp {
    pub(super) run: i64,
    pub(super) at: UnixMillis,
    pub(super) seq: i64,
}

/// Store `record`, whose fields as JSON are `fields`.
pub(super) fn store(
    db: &Connection,
    names: &mut Names,
    stamp: Stamp,
    record: &Record,
    fields: &str,
) -> rusqlite::Result<(NameId, Stored)> {
    let site = names.intern(db, &record.site)?;
    let kind = names.intern(db, &record.kind)?;
    let new = db
        .prepare_cached(
            "INSERT OR IGNORE INTO records(site, kind, key, revision, seq, run, at, fields)
             VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            site, kind, record.key, stamp.seq, stamp.run, stamp.at.0, fields
        ])?;
    let stored = |change, revision| {
        Ok((
            site,
            Stored {
                change,
                revision,
                kind,
            },
        ))
    };
    if new == 1 {
        return stored(Change::New, 1);
    }
    let (id, revision, equal) = db
        .prepare_cached(
            "SELECT id, revision, fields FROM records WHERE key = ?1 AND kind = ?2 AND site = ?3",
        )?
        .query_row(params![record.key, kind, site], |row| {
            let known = row.get_ref(2)?.as_str()?;
            // The order of fields is the definition's: another order is not another content.
            let equal = known == fields || from_json::<Params>(known)? == record.fields;
            Ok((row.get::<_, i64>(0)?, row.get::<_, u32>(1)?, equal))
        })?;
    if equal {
        return stored(Change::Unchanged, revision);
    }
    let revision = revision.saturating_add(1);
    db.prepare_cached(
        "UPDATE records SET revision = ?2, seq = ?3, run = ?4, at = ?5, fields = ?6 WHERE id = ?1",
    )?
    .execute(params![
        id, revision, stamp.seq, stamp.run, stamp.at.0, fields
    ])?;
    stored(Change::Updated, revision)
}

const COLUMNS: &str = "site, kind, key, revision, run, at, fields";

fn read(names: &Names, row: &Row<'_>) -> rusqlite::Result<(StoredRecord, String)> {
    let fields: String = row.get(6)?;
    let revision: u32 = row.get(3)?;
    let stored = StoredRecord {
        record: Record {
            site: names.get(row.get(0)?),
            kind: names.get(row.get(1)?),
            key: row.get(2)?,
            fields: from_json(&fields)?,
        },
        revision,
        run: run_name(row.get(4)?),
        at: UnixMillis(row.get(5)?),
        change: if revision == 1 {
            Change::New
        } else {
            Change::Updated
        },
    };
    Ok((stored, fields))
}

/// The record (site, kind, key).
pub(super) fn find(
    db: &Connection,
    names: &Names,
    (site, kind, key): (&str, &str, &str),
) -> rusqlite::Result<Option<StoredRecord>> {
    let (Some(site), Some(kind)) = (names.find(site), names.find(kind)) else {
        return Ok(None);
    };
    db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM records WHERE key = ?1 AND kind = ?2 AND site = ?3"
    ))?
    .query_row(params![key, kind, site], |row| Ok(read(names, row)?.0))
    .optional()
}

/// Every record whose current revision was stored after `seq`, oldest first, with its fields as JSON.
pub(super) fn each_after(
    db: &Connection,
    names: &Names,
    seq: i64,
    mut each: impl FnMut(StoredRecord, &str),
) -> rusqlite::Result<()> {
    let mut select = db.prepare(&format!(
        "SELECT {COLUMNS} FROM records WHERE seq > ?1 ORDER BY seq"
    ))?;
    let mut rows = select.query([seq])?;
    while let Some(row) = rows.next()? {
        let (stored, fields) = read(names, row)?;
        each(stored, &fields);
    }
    Ok(())
}
