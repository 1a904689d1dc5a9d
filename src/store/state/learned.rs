//! What lanes have learned, in the state of the user.

use std::time::Duration;

use rusqlite::{Connection, params};

use super::immediate;
use crate::governor::LearnedLane;
use crate::model::UnixMillis;

pub(super) const TABLES: &str = "CREATE TABLE IF NOT EXISTS learned (
         scope TEXT PRIMARY KEY,
         at INTEGER NOT NULL,
         learned TEXT NOT NULL
     ) STRICT, WITHOUT ROWID;";

/// What was learned this long ago says nothing any more: 90 days. It bounds the file, too.
const LEARNED_KEEP: Duration = Duration::from_secs(90 * 86_400);

/// Store what `lanes` have learned, in place of what was stored of them.
pub(super) fn keep(connection: &mut Connection, lanes: &[LearnedLane]) -> rusqlite::Result<()> {
    let Some(newest) = lanes.iter().map(|lane| lane.at).max() else {
        return Ok(());
    };
    let transaction = immediate(connection)?;
    {
        // Of two processes that crawl one site, the one that knew it last is right.
        let mut upsert = transaction.prepare_cached(
            "INSERT INTO learned (scope, at, learned) VALUES (?1, ?2, ?3)
             ON CONFLICT (scope) DO UPDATE SET at = excluded.at, learned = excluded.learned
             WHERE excluded.at >= at",
        )?;
        for lane in lanes {
            upsert.execute(params![lane.scope, lane.at.0, lane.learned])?;
        }
        let keep = i64::try_from(LEARNED_KEEP.as_millis()).unwrap_or(i64::MAX);
        transaction
            .prepare_cached("DELETE FROM learned WHERE at < ?1")?
            .execute([newest.0.saturating_sub(keep)])?;
    }
    transaction.commit()
}

/// All that is stored.
pub(super) fn read(connection: &Connection) -> rusqlite::Result<Vec<LearnedLane>> {
    connection
        .prepare_cached("SELECT scope, at, learned FROM learned ORDER BY scope")?
        .query_map([], |row| {
            Ok(LearnedLane {
                scope: row.get(0)?,
                at: UnixMillis(row.get(1)?),
                learned: row.get(2)?,
            })
        })?
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::StateQuotaStore;
    use super::*;
    use crate::governor::QuotaStore;

    fn lane(scope: &str, at: i64, learned: &str) -> LearnedLane {
        LearnedLane {
            scope: scope.to_owned(),
            at: UnixMillis(at),
            learned: learned.to_owned(),
        }
    }

    #[test]
    fn what_lanes_learned_survives_and_the_latest_word_counts() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut store = StateQuotaStore::open(directory.path()).expect("opens");
        assert_eq!(store.learned(), Ok(Vec::new()));
        let lanes = [lane("s/b", 10, "1"), lane("s/a", 10, "2")];
        store.keep_learned(&lanes).expect("keeps");
        drop(store);
        let mut one = StateQuotaStore::open(directory.path()).expect("opens again");
        let mut two = StateQuotaStore::open(directory.path()).expect("opens beside it");
        let [b, a] = lanes;
        assert_eq!(one.learned(), Ok(vec![a, b.clone()]));
        two.keep_learned(&[lane("s/a", 12, "4")]).expect("keeps");
        one.keep_learned(&[lane("s/a", 11, "3")]).expect("keeps");
        assert_eq!(one.learned(), Ok(vec![lane("s/a", 12, "4"), b]));
    }

    #[test]
    fn what_was_learned_long_ago_is_forgotten() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut store = StateQuotaStore::open(directory.path()).expect("opens");
        let day = 86_400_000;
        store
            .keep_learned(&[lane("old", 0, "1"), lane("known", 1, "1")])
            .expect("keeps");
        let new = lane("new", 90 * day, "1");
        store
            .keep_learned(std::slice::from_ref(&new))
            .expect("keeps");
        let kept = store.learned().expect("reads");
        assert_eq!(kept.len(), 3, "90 days old is kept: {kept:?}");
        let later = lane("known", 90 * day + 1, "2");
        store
            .keep_learned(std::slice::from_ref(&later))
            .expect("keeps");
        assert_eq!(store.learned(), Ok(vec![later, new]));
    }
}
