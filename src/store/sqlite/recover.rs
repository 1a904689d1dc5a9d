//! What a holder that died leaves behind, and what was parked: back to pending.

use rusqlite::{Connection, OptionalExtension, params};

use super::frontier::{Lease, Queue, from_json, to_json};
use super::lanes::LaneId;
use super::names::NameId;
use super::schema::state;
use crate::model::{ListState, Outcome, TaskId, TaskState, UnixMillis};

/// A task whose holder died this often in a row is failed: it may be what kills them.
const MOST_KILLS: i64 = 5;

/// What opening did to the frontier.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recovered {
    pub(super) void: u64,
    pub(super) poisoned: u64,
    pub(super) unparked: u64,
    pub(super) retried: u64,
}

impl Queue {
    /// Make void the leases of a dead process, let those parked for a person go on, since the person has come
    /// back, and ask again what failed in a way that may have passed.
    pub(super) fn recover(
        &mut self,
        db: &Connection,
        now: UnixMillis,
    ) -> rusqlite::Result<Recovered> {
        let mut done = Recovered::default();
        let held: Vec<(TaskId, i64, i64, i64, NameId, LaneId)> = db
            .prepare(
                "SELECT id, token, state, kills, site, lane FROM tasks WHERE token IS NOT NULL",
            )?
            .query_map([], |row| {
                Ok((
                    row.get(0)?,
                    row.get(1)?,
                    row.get(2)?,
                    row.get(3)?,
                    row.get(4)?,
                    row.get(5)?,
                ))
            })?
            .collect::<rusqlite::Result<_>>()?;
        for (task, token, state, kills, site, lane) in held {
            if state == state::LEASED {
                done.void += 1;
                if !self.void(db, task, kills + 1, site)? {
                    done.poisoned += 1;
                    continue;
                }
            }
            let again = &mut self.sites.entry(site).or_default().again;
            again.insert(token.cast_unsigned(), (task, lane));
        }
        let parked: Vec<(TaskId, NameId, LaneId, i32)> = db
            .prepare("SELECT id, site, lane, priority FROM tasks WHERE state = 4 AND (due IS NULL OR due <= ?1)")?
            .query_map([now.0], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })?
            .collect::<rusqlite::Result<_>>()?;
        for (task, site, lane, priority) in parked {
            self.unpark(db, task, site, lane, priority)?;
            done.unparked += 1;
        }
        done.retried = self.retry_failed(db)?;
        let sites: Vec<NameId> = self.sites.keys().copied().collect();
        for site in sites {
            self.reload_due(db, site)?;
        }
        Ok(done)
    }

    /// Failed tasks whose trouble was the server's or the network's go on, with a fresh budget of attempts.
    fn retry_failed(&mut self, db: &Connection) -> rusqlite::Result<u64> {
        let failed: Vec<(TaskId, NameId, LaneId, i32)> = db
            .prepare(
                "SELECT id, site, lane, priority FROM tasks WHERE state = 3 AND outcome IN
                 ('network', 'timeout', 'server_error', 'truncated', 'limited', 'blocked')",
            )?
            .query_map([], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })?
            .collect::<rusqlite::Result<_>>()?;
        for (task, site, lane, priority) in &failed {
            self.go_on(db, *task, *site)?;
            db.prepare_cached(
                "UPDATE tasks SET state = 0, due = NULL, attempts = 0, outcome = NULL, reason = NULL WHERE id = ?1",
            )?
            .execute([task])?;
            self.lanes.offer(*lane, *priority);
            self.counts
                .site(*site)
                .shift(TaskState::Failed, TaskState::Pending);
        }
        Ok(failed.len() as u64)
    }

    /// The list of a task, if it stands for one, has not ended after all.
    fn go_on(&mut self, db: &Connection, task: TaskId, site: NameId) -> rusqlite::Result<()> {
        let state: Option<String> = db
            .prepare_cached("SELECT state FROM lists WHERE task = ?1 AND stop IS NOT NULL")?
            .query_row([task], |row| row.get(0))
            .optional()?;
        let Some(state) = state else { return Ok(()) };
        let mut list: ListState = from_json(&state)?;
        let stop = list.stop.take();
        db.prepare_cached("UPDATE lists SET stop = NULL, state = ?2 WHERE task = ?1")?
            .execute(params![task, to_json(&list)?])?;
        self.counts.site(site).list(stop, None);
        Ok(())
    }

    /// A parked task goes on, with a fresh budget of attempts.
    pub(super) fn unpark(
        &mut self,
        db: &Connection,
        task: TaskId,
        site: NameId,
        lane: LaneId,
        priority: i32,
    ) -> rusqlite::Result<()> {
        db.prepare_cached("UPDATE tasks SET state = 0, due = NULL, attempts = 0 WHERE id = ?1")?
            .execute([task])?;
        self.lanes.offer(lane, priority);
        let counts = self.counts.site(site);
        counts.shift(TaskState::Parked, TaskState::Pending);
        Ok(())
    }

    /// Take back the lease of a holder that died; false when the task has outlived too many holders and is failed.
    fn void(
        &mut self,
        db: &Connection,
        task: TaskId,
        kills: i64,
        site: NameId,
    ) -> rusqlite::Result<bool> {
        let counts = self.counts.site(site);
        if kills >= MOST_KILLS {
            counts.shift(TaskState::Leased, TaskState::Failed);
            db.prepare_cached(
                "UPDATE tasks SET state = 3, token = NULL, owner = NULL, kills = ?2, outcome = ?3,
                 reason = 'its holder died ' || ?2 || ' times in a row' WHERE id = ?1",
            )?
            .execute(params![task, kills, Outcome::Cancelled.as_str()])?;
            return Ok(false);
        }
        counts.shift(TaskState::Leased, TaskState::Pending);
        db.prepare_cached("UPDATE tasks SET state = 0, owner = NULL, kills = ?2 WHERE id = ?1")?
            .execute(params![task, kills])?;
        Ok(true)
    }

    /// Return the leases for which `mine` holds, in the order in which they were taken. `died`: whether that counts
    /// against them.
    pub(super) fn release(
        &mut self,
        db: &Connection,
        died: bool,
        mine: impl Fn(&Lease) -> bool,
    ) -> rusqlite::Result<u64> {
        let held: Vec<(TaskId, Lease)> = self
            .leases
            .iter()
            .filter(|(_, lease)| mine(lease))
            .map(|(&task, &lease)| (task, lease))
            .collect();
        for &(task, lease) in &held {
            self.leases.remove(&task);
            let kills: i64 = db
                .prepare_cached("SELECT kills FROM tasks WHERE id = ?1")?
                .query_row([task], |row| row.get(0))?;
            if self.void(db, task, kills + i64::from(died), lease.site)? {
                let again = &mut self.sites.entry(lease.site).or_default().again;
                again.insert(lease.token, (task, lease.lane));
            }
        }
        Ok(held.len() as u64)
    }
}
