//! Lists: where the chain of pages of a task stands.

use rusqlite::{Connection, OptionalExtension, params};

use super::counts::stop_reason;
use super::frontier::{from_json, to_json};
use crate::model::{ListState, StopReason, TaskId};

/// The state of the list that `task` stands for; a list that was never stored is at its start.
pub(super) fn load(db: &Connection, task: TaskId) -> rusqlite::Result<ListState> {
    let state: Option<String> = db
        .prepare_cached("SELECT state FROM lists WHERE task = ?1")?
        .query_row([task], |row| row.get(0))
        .optional()?;
    state.map_or_else(|| Ok(ListState::default()), |state| from_json(&state))
}

/// Store it; the stop reasons before and after.
pub(super) fn store(
    db: &Connection,
    task: TaskId,
    list: &ListState,
) -> rusqlite::Result<(Option<StopReason>, Option<StopReason>)> {
    let before: Option<String> = db
        .prepare_cached("SELECT stop FROM lists WHERE task = ?1")?
        .query_row([task], |row| row.get(0))
        .optional()?
        .flatten();
    db.prepare_cached(
        "INSERT INTO lists(task, stop, state) VALUES (?1, ?2, ?3)
         ON CONFLICT(task) DO UPDATE SET stop = ?2, state = ?3",
    )?
    .execute(params![
        task,
        list.stop.map(StopReason::as_str),
        to_json(list)?
    ])?;
    Ok((before.as_deref().and_then(stop_reason), list.stop))
}
