//! The caps on lists: when one is raised, the lists that had ended at it go on.

use rusqlite::{Connection, params};

use super::frontier::{Queue, from_json, to_json};
use super::lanes::LaneId;
use super::names::NameId;
use super::schema::state;
use crate::model::{ListState, StopReason, TaskId, TaskState};

/// Most items that one list may give; `None`: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// Of the lists of items.
    pub max_items: Option<u64>,
    /// Of the lists of comments.
    pub max_comments: Option<u64>,
}

impl Caps {
    /// Whether a list of `items` that ended at a cap of `before` may go on with `self`.
    ///
    /// Which cap a list obeys only its site knows. A list that ended at one holds at least as many items as that cap
    /// allowed, so the lists of the other kind are told apart by their size. One that is mistaken for another reads
    /// one page and ends at its cap again.
    fn reopens(self, before: Self, items: u64) -> bool {
        let pairs = [
            (before.max_items, self.max_items),
            (before.max_comments, self.max_comments),
        ];
        pairs.into_iter().any(|(before, now)| {
            before.is_some_and(|before| before <= items) && now.is_none_or(|now| items < now)
        })
    }
}

/// Keep `caps`; where one is higher than in the run before, lists that ended at it are pending again. How many.
pub(super) fn apply(db: &Connection, queue: &mut Queue, caps: Caps) -> rusqlite::Result<u64> {
    let before = db.query_row("SELECT max_items, max_comments FROM job", [], |row| {
        let cap = |column| -> rusqlite::Result<Option<u64>> {
            Ok(row.get::<_, Option<i64>>(column)?.map(i64::cast_unsigned))
        };
        Ok(Caps {
            max_items: cap(0)?,
            max_comments: cap(1)?,
        })
    })?;
    if before == caps {
        return Ok(0);
    }
    db.execute(
        "UPDATE job SET max_items = ?1, max_comments = ?2",
        params![
            caps.max_items.map(u64::cast_signed),
            caps.max_comments.map(u64::cast_signed)
        ],
    )?;
    reopen(db, queue, |items| caps.reopens(before, items))
}

/// Go on with the ended lists whose number of items says so.
fn reopen(
    db: &Connection,
    queue: &mut Queue,
    goes_on: impl Fn(u64) -> bool,
) -> rusqlite::Result<u64> {
    let mut reopened = 0;
    // Row by row: there may be as many lists as items. Only rows that were passed are written.
    let mut ended = db.prepare(
        "SELECT tasks.id, tasks.site, tasks.lane, tasks.priority, lists.state FROM lists
         JOIN tasks ON tasks.id = lists.task
         WHERE lists.task > ?1 AND lists.stop = ?2 AND tasks.state = ?3 ORDER BY lists.task LIMIT 1",
    )?;
    let mut after: TaskId = 0;
    loop {
        let mut rows = ended.query(params![after, StopReason::Cap.as_str(), state::DONE])?;
        let Some(row) = rows.next()? else {
            return Ok(reopened);
        };
        let (task, site): (TaskId, NameId) = (row.get(0)?, row.get(1)?);
        let (lane, priority): (LaneId, i32) = (row.get(2)?, row.get(3)?);
        let mut list: ListState = from_json(row.get_ref(4)?.as_str()?)?;
        drop(rows);
        after = task;
        if !goes_on(list.items) {
            continue;
        }
        list.stop = None;
        db.prepare_cached("UPDATE lists SET stop = NULL, state = ?2 WHERE task = ?1")?
            .execute(params![task, to_json(&list)?])?;
        db.prepare_cached(
            "UPDATE tasks SET state = 0, outcome = NULL, reason = NULL WHERE id = ?1",
        )?
        .execute([task])?;
        let counts = queue.counts.site(site);
        counts.shift(TaskState::Done, TaskState::Pending);
        counts.list(Some(StopReason::Cap), None);
        queue.lanes.offer(lane, priority);
        reopened += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caps(max_items: Option<u64>, max_comments: Option<u64>) -> Caps {
        Caps {
            max_items,
            max_comments,
        }
    }

    #[test]
    fn only_lists_between_the_two_caps_go_on() {
        let before = caps(Some(5), Some(2));
        assert!(caps(Some(12), Some(2)).reopens(before, 5));
        assert!(caps(None, Some(2)).reopens(before, 5));
        assert!(!caps(Some(12), Some(2)).reopens(before, 2), "of comments");
        assert!(!caps(Some(12), Some(2)).reopens(before, 12));
        assert!(caps(Some(5), Some(3)).reopens(before, 2));
        assert!(!caps(Some(3), Some(2)).reopens(before, 5), "lower");
        assert!(!caps(Some(5), Some(2)).reopens(before, 5), "the same");
        assert!(!caps(Some(9), None).reopens(caps(None, None), 5));
    }
}
