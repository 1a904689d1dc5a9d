//! What comes next: the choice of tasks to lease.

use std::collections::HashMap;

use rusqlite::{Connection, Row, params};

use super::frontier::{Lease, Queue, read_params};
use super::lanes::LaneId;
use super::lists;
use super::names::NameId;
use crate::model::{ListState, Task, TaskId, TaskState, UnixMillis};
use crate::store::messages::LaneRoom;

/// How many delayed tasks are made ready in one go, at least: a bound on what one lease can cost.
const WAKE: usize = 256;

/// A row that is about to be leased.
struct Next {
    id: TaskId,
    lane: LaneId,
    endpoint: NameId,
    priority: i32,
    depth: u32,
    attempts: u32,
    list: bool,
    params: String,
}

impl Next {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            lane: row.get(1)?,
            endpoint: row.get(2)?,
            priority: row.get(3)?,
            depth: row.get(4)?,
            attempts: row.get(5)?,
            list: row.get(6)?,
            params: row.get(7)?,
        })
    }
}

/// How many leases each lane may still have in this step.
struct Rooms {
    each: usize,
    left: HashMap<LaneId, usize>,
}

impl Rooms {
    fn of(&self, lane: LaneId) -> usize {
        self.left.get(&lane).copied().unwrap_or(self.each)
    }

    fn take(&mut self, lane: LaneId) {
        let left = self.left.entry(lane).or_insert(self.each);
        *left = left.saturating_sub(1);
    }
}

impl Queue {
    /// Lease up to `want` tasks of a site, of each lane what it has `room` for: first those whose holder died, then
    /// lane by lane.
    ///
    /// The outcome is that of taking one task after the other, so that batches do not change the order. Also tells
    /// whether there are more.
    pub(super) fn lease(
        &mut self,
        db: &Connection,
        now: UnixMillis,
        site: NameId,
        owner: u64,
        (want, room): (usize, &LaneRoom),
    ) -> rusqlite::Result<(Vec<Task>, bool)> {
        let mut tasks = Vec::with_capacity(want.min(WAKE));
        if want == 0 {
            return Ok((tasks, false));
        }
        self.wake(db, now, site, want)?;
        self.lanes.end_holds(site, now);
        let mut rooms = Rooms {
            each: room.each,
            left: HashMap::with_capacity(room.lanes.len()),
        };
        for (name, left) in &room.lanes {
            if let Some(lane) = self.lanes.find(site, name) {
                rooms.left.insert(lane, *left);
            }
        }
        self.lease_again(db, site, owner, (want, &mut rooms), &mut tasks)?;
        let full = rooms.left.iter().filter(|(_, left)| **left == 0);
        let mut aside: Vec<LaneId> = full.map(|(&lane, _)| lane).collect();
        aside
            .iter()
            .for_each(|&lane| self.lanes.set_aside(lane, true));
        let taken = self.lease_ready(db, site, owner, (want, &mut rooms), &mut aside, &mut tasks);
        let more = self.lanes.next(site).is_some();
        aside
            .iter()
            .for_each(|&lane| self.lanes.set_aside(lane, false));
        taken.map(|()| (tasks, more))
    }

    /// Lease ready tasks lane by lane; those whose room is used up are set aside.
    fn lease_ready(
        &mut self,
        db: &Connection,
        site: NameId,
        owner: u64,
        (want, rooms): (usize, &mut Rooms),
        aside: &mut Vec<LaneId>,
        tasks: &mut Vec<Task>,
    ) -> rusqlite::Result<()> {
        while tasks.len() < want {
            let Some((lane, head, rival)) = self.lanes.next(site) else {
                break;
            };
            // An equal lane is next in turn after one task; a lane that is ahead goes on until it is not.
            let most = if rival == Some(head) {
                1
            } else {
                want - tasks.len()
            };
            let before = tasks.len();
            self.lease_lane(
                db,
                site,
                owner,
                lane,
                (rival, most.min(rooms.of(lane))),
                tasks,
            )?;
            (before..tasks.len()).for_each(|_| rooms.take(lane));
            if rooms.of(lane) == 0 {
                self.lanes.set_aside(lane, true);
                aside.push(lane);
            }
        }
        Ok(())
    }

    /// Make ready what was delayed or parked until now.
    fn wake(
        &mut self,
        db: &Connection,
        now: UnixMillis,
        site: NameId,
        want: usize,
    ) -> rusqlite::Result<()> {
        let queue = self.sites.entry(site).or_default();
        let delayed = queue.delayed.is_some_and(|due| due <= now);
        let parked = queue.parked.is_some_and(|due| due <= now);
        if !delayed && !parked {
            return Ok(());
        }
        let most = i64::try_from(want.max(WAKE)).unwrap_or(i64::MAX);
        let due = |sql: &str| -> rusqlite::Result<Vec<(TaskId, LaneId, i32)>> {
            db.prepare_cached(sql)?
                .query_map(params![site, now.0, most], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })?
                .collect()
        };
        if delayed {
            for (task, lane, priority) in due(
                "SELECT id, lane, priority FROM tasks WHERE site = ?1 AND state = 0 AND due IS NOT NULL
                 AND due <= ?2 ORDER BY due LIMIT ?3",
            )? {
                db.prepare_cached("UPDATE tasks SET due = NULL WHERE id = ?1")?
                    .execute([task])?;
                self.lanes.offer(lane, priority);
            }
        }
        if parked {
            for (task, lane, priority) in due(
                "SELECT id, lane, priority FROM tasks WHERE site = ?1 AND state = 4 AND due IS NOT NULL
                 AND due <= ?2 ORDER BY due LIMIT ?3",
            )? {
                self.unpark(db, task, site, lane, priority)?;
            }
        }
        self.reload_due(db, site)
    }

    /// Lease again what a holder that died had leased, except in lanes that are held.
    fn lease_again(
        &mut self,
        db: &Connection,
        site: NameId,
        owner: u64,
        (want, rooms): (usize, &mut Rooms),
        tasks: &mut Vec<Task>,
    ) -> rusqlite::Result<()> {
        let mut chosen = Vec::new();
        for (&token, &(task, lane)) in &self.sites.entry(site).or_default().again {
            if chosen.len() == want {
                break;
            }
            if rooms.of(lane) > 0 && !self.lanes.is_held(lane) {
                rooms.take(lane);
                chosen.push((token, task));
            }
        }
        for (token, task) in chosen {
            let next = db
                .prepare_cached(
                    "SELECT id, lane, endpoint, priority, depth, attempts, list, params FROM tasks
                     WHERE id = ?1",
                )?
                .query_row([task], Next::read)?;
            self.sites.entry(site).or_default().again.remove(&token);
            tasks.push(self.take(db, site, owner, next)?);
        }
        Ok(())
    }

    /// Lease from one lane: one task in any case, then up to `room` while it stays ahead of its rival.
    fn lease_lane(
        &mut self,
        db: &Connection,
        site: NameId,
        owner: u64,
        lane: LaneId,
        (rival, room): (Option<i32>, usize),
        tasks: &mut Vec<Task>,
    ) -> rusqlite::Result<()> {
        let mut taken = Vec::new();
        let mut head = None;
        {
            let mut select = db.prepare_cached(
                "SELECT id, lane, endpoint, priority, depth, attempts, list, params FROM tasks
                 WHERE lane = ?1 AND state = 0 AND due IS NULL AND token IS NULL
                 ORDER BY priority, attempts, id LIMIT ?2",
            )?;
            let limit = i64::try_from(room.saturating_add(1)).unwrap_or(i64::MAX);
            let mut rows = select.query(params![lane, limit])?;
            while let Some(row) = rows.next()? {
                let priority: i32 = row.get(3)?;
                let ahead = rival.is_none_or(|rival| priority < rival);
                if taken.len() == room || !(ahead || taken.is_empty()) {
                    head = Some(priority);
                    break;
                }
                taken.push(Next::read(row)?);
            }
        }
        // An empty lane would be offered for ever.
        if taken.is_empty() {
            self.lanes.set_head(lane, None);
        }
        for next in taken {
            tasks.push(self.take(db, site, owner, next)?);
            self.lanes.took(lane, self.token, head);
        }
        Ok(())
    }

    /// Lease this row.
    fn take(
        &mut self,
        db: &Connection,
        site: NameId,
        owner: u64,
        next: Next,
    ) -> rusqlite::Result<Task> {
        self.token += 1;
        db.prepare_cached("UPDATE tasks SET state = 1, token = ?2, owner = ?3 WHERE id = ?1")?
            .execute(params![next.id, self.token, owner.cast_signed()])?;
        self.counts
            .site(site)
            .shift(TaskState::Pending, TaskState::Leased);
        let token = self.token.cast_unsigned();
        self.leases.insert(
            next.id,
            Lease {
                token,
                owner,
                site,
                lane: next.lane,
                priority: next.priority,
                attempts: next.attempts,
            },
        );
        let list: Option<ListState> = if next.list {
            Some(lists::load(db, next.id)?)
        } else {
            None
        };
        Ok(Task {
            id: next.id,
            lease: token,
            site: self.names.get(site),
            endpoint: self.names.get(next.endpoint),
            params: read_params(&next.params)?,
            lane: self.lanes.name(next.lane),
            priority: next.priority,
            depth: next.depth,
            attempts: next.attempts,
            list,
        })
    }

    /// When the earliest delayed or held task of a site may be leased.
    pub(super) fn next_due(&self, site: NameId) -> Option<UnixMillis> {
        let queue = self.sites.get(&site)?;
        let again = queue
            .again
            .values()
            .filter_map(|(_, lane)| self.lanes.held_until(*lane))
            .min();
        [queue.delayed, again, self.lanes.next_hold(site)]
            .into_iter()
            .flatten()
            .min()
    }
}
