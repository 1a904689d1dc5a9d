//! The frontier: push, complete, claim, release. What comes next is chosen in `lease`.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, OptionalExtension, params};

use super::counts::Counts;
use super::lanes::{LaneId, Lanes};
use super::lists;
use super::names::{NameId, Names};
use super::schema::state;
use crate::model::{
    Completion, LeaseToken, Name, NewTask, Outcome, Params, TaskEnd, TaskId, TaskKey, TaskState,
    UnixMillis,
};
use crate::store::messages::{Claim, Pushed};

/// What is known in memory of a lease; their number is bounded by what was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub(super) token: LeaseToken,
    pub(super) owner: u64,
    pub(super) site: NameId,
    pub(super) lane: LaneId,
    pub(super) priority: i32,
    pub(super) attempts: u32,
}

/// The part of the frontier that belongs to one site, beside its lanes.
#[derive(Debug, Default)]
pub(super) struct SiteQueue {
    /// Tasks whose holder died, by the token they were leased with: leased again first, in that order.
    pub(super) again: BTreeMap<LeaseToken, (TaskId, LaneId)>,
    /// When the earliest delayed task is due.
    pub(super) delayed: Option<UnixMillis>,
    /// When the earliest parked task may go on.
    pub(super) parked: Option<UnixMillis>,
}

/// The frontier in memory: everything that is bounded by sites, lanes and leases. The tasks are in the file.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) names: Names,
    pub(super) lanes: Lanes,
    pub(super) counts: Counts,
    pub(super) leases: HashMap<TaskId, Lease>,
    pub(super) sites: HashMap<NameId, SiteQueue>,
    pub(super) next_task: TaskId,
    /// Token of the latest lease, in this run or an earlier one.
    pub(super) token: i64,
}

/// JSON in a column.
pub(super) fn from_json<T: serde::de::DeserializeOwned>(text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error))
    })
}

/// A value as JSON.
pub(super) fn to_json<T: serde::Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

impl Queue {
    /// Read what is kept in memory; `token` is the latest one that was handed out.
    pub(super) fn load(db: &Connection, token: i64) -> rusqlite::Result<Self> {
        let names = Names::load(db)?;
        let counts = Counts::load(db, &names)?;
        let mut queue = Self {
            names,
            lanes: Lanes::default(),
            counts,
            leases: HashMap::new(),
            sites: HashMap::new(),
            next_task: db.query_row("SELECT coalesce(max(id), 0) + 1 FROM tasks", [], |row| {
                row.get(0)
            })?,
            token,
        };
        let mut rows = db.prepare("SELECT site, name, served FROM lanes ORDER BY id")?;
        let mut rows = rows.query([])?;
        while let Some(row) = rows.next()? {
            let site: NameId = row.get(0)?;
            let name: String = row.get(1)?;
            let lane = queue.lanes.add(site, &name.into(), row.get(2)?);
            let head = ready_head(db, lane)?;
            queue.lanes.set_head(lane, head);
            queue.sites.entry(site).or_default();
        }
        let sites: Vec<NameId> = queue.sites.keys().copied().collect();
        for site in sites {
            queue.reload_due(db, site)?;
        }
        Ok(queue)
    }

    /// Read again when the earliest delayed and the earliest parked task of a site are due.
    pub(super) fn reload_due(&mut self, db: &Connection, site: NameId) -> rusqlite::Result<()> {
        let earliest = |sql: &str| -> rusqlite::Result<Option<UnixMillis>> {
            let due: Option<i64> = db
                .prepare_cached(sql)?
                .query_row([site], |row| row.get(0))?;
            Ok(due.map(UnixMillis))
        };
        let delayed = earliest(
            "SELECT min(due) FROM tasks WHERE site = ?1 AND state = 0 AND due IS NOT NULL",
        )?;
        let parked = earliest(
            "SELECT min(due) FROM tasks WHERE site = ?1 AND state = 4 AND due IS NOT NULL",
        )?;
        let queue = self.sites.entry(site).or_default();
        queue.delayed = delayed;
        queue.parked = parked;
        Ok(())
    }

    /// The lane called `name`; a new one is stored.
    fn lane(&mut self, db: &Connection, site: NameId, name: &Name) -> rusqlite::Result<LaneId> {
        if let Some(lane) = self.lanes.find(site, name) {
            return Ok(lane);
        }
        self.sites.entry(site).or_default();
        db.prepare_cached("INSERT INTO lanes(id, site, name, served) VALUES (?1, ?2, ?3, 0)")?
            .execute(params![self.lanes.len(), site, &**name])?;
        Ok(self.lanes.add(site, name, 0))
    }

    /// Add those whose keys are unknown.
    pub(super) fn push(
        &mut self,
        db: &Connection,
        site: NameId,
        tasks: &[NewTask],
    ) -> rusqlite::Result<Pushed> {
        let mut pushed = Pushed::default();
        if tasks.is_empty() {
            return Ok(pushed);
        }
        let mut see = db.prepare_cached("INSERT OR IGNORE INTO seen(key, task) VALUES (?1, ?2)")?;
        let mut add = db.prepare_cached(
            "INSERT INTO tasks(id, site, lane, endpoint, state, priority, depth, attempts, kills, list, params)
             VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6, 0, 0, ?7, ?8)",
        )?;
        for task in tasks {
            if see.execute(params![task.key.0, self.next_task])? == 0 {
                pushed.known += 1;
                self.meet_again(db, task)?;
                continue;
            }
            let lane = self.lane(db, site, &task.lane)?;
            let endpoint = self.names.intern(db, &task.endpoint)?;
            add.execute(params![
                self.next_task,
                site,
                lane,
                endpoint,
                task.priority,
                task.depth,
                task.list,
                to_json(&task.params)?,
            ])?;
            self.next_task += 1;
            self.lanes.offer(lane, task.priority);
            self.counts.site(site).add();
            pushed.added += 1;
        }
        Ok(pushed)
    }

    /// A known key came again.
    fn meet_again(&mut self, db: &Connection, task: &NewTask) -> rusqlite::Result<()> {
        let found = db
            .prepare_cached(
                "SELECT id, state, depth, priority, params, lane, due IS NULL AND token IS NULL FROM seen
                 JOIN tasks ON tasks.id = seen.task WHERE seen.key = ?1",
            )?
            .query_row([task.key.0], |row| {
                let state: i64 = row.get(1)?;
                let waits = state == state::PENDING || state == state::LEASED;
                Ok(waits.then_some((
                    row.get::<_, TaskId>(0)?,
                    state,
                    row.get::<_, u32>(2)?,
                    row.get::<_, i32>(3)?,
                    row.get_ref(4)?.as_str()?.to_owned(),
                    row.get::<_, LaneId>(5)?,
                    row.get::<_, bool>(6)?,
                )))
            })
            .optional()?
            .flatten();
        let Some((id, state, depth, priority, params, lane, ready)) = found else {
            return Ok(());
        };
        let shallower = task.depth < depth;
        let new_depth = depth.min(task.depth);
        let new_priority = if shallower {
            priority.min(task.priority)
        } else {
            priority
        };
        // A task that was taken on its way already is asked with what it was leased with.
        let latest = (state == state::PENDING)
            .then(|| to_json(&task.params))
            .transpose()?
            .filter(|latest| *latest != params);
        if !shallower && latest.is_none() {
            return Ok(());
        }
        db.prepare_cached("UPDATE tasks SET depth = ?2, priority = ?3, params = ?4 WHERE id = ?1")?
            .execute(params![
                id,
                new_depth,
                new_priority,
                latest.unwrap_or(params)
            ])?;
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.priority = new_priority;
        } else if state == state::PENDING && ready {
            self.lanes.offer(lane, new_priority);
        }
        Ok(())
    }

    /// Whether a completion's lease is the current one; if so it ends as told.
    pub(super) fn end(
        &mut self,
        db: &Connection,
        completion: &Completion,
    ) -> rusqlite::Result<Option<Lease>> {
        let current = self.leases.get(&completion.task);
        let Some(lease) = current
            .filter(|lease| lease.token == completion.lease)
            .copied()
        else {
            return Ok(None);
        };
        self.leases.remove(&completion.task);
        if let Some(list) = &completion.list {
            let (before, after) = lists::store(db, completion.task, list)?;
            self.counts.site(lease.site).list(before, after);
        }
        let mut attempts = lease.attempts;
        let (state, due, outcome, reason) = match &completion.end {
            TaskEnd::Done { outcome } => (TaskState::Done, None, Some(*outcome), None),
            TaskEnd::Continue => {
                attempts = 0;
                (TaskState::Pending, None, None, None)
            }
            TaskEnd::Retry { due, outcome } => {
                attempts = attempts.saturating_add(1);
                (TaskState::Pending, Some(*due), Some(*outcome), None)
            }
            TaskEnd::Unused { due } => (TaskState::Pending, *due, None, None),
            TaskEnd::Failed { outcome, reason } => {
                attempts = attempts.saturating_add(1);
                (TaskState::Failed, None, Some(*outcome), Some(reason))
            }
            TaskEnd::Parked {
                outcome,
                until,
                reason,
            } => (TaskState::Parked, *until, Some(*outcome), Some(reason)),
            TaskEnd::Dropped { reason } => (TaskState::Dropped, None, None, Some(reason)),
        };
        db.prepare_cached(
            "UPDATE tasks SET state = ?2, token = NULL, owner = NULL, due = ?3, attempts = ?4, kills = 0,
             outcome = ?5, reason = ?6 WHERE id = ?1",
        )?
        .execute(params![
            completion.task,
            stored(state),
            due.map(|due| due.0),
            attempts,
            outcome.map(Outcome::as_str),
            reason,
        ])?;
        let queue = self.sites.entry(lease.site).or_default();
        let earliest = |known: Option<UnixMillis>, due| Some(known.map_or(due, |k| k.min(due)));
        match (state, due) {
            (TaskState::Pending, None) => self.lanes.offer(lease.lane, lease.priority),
            (TaskState::Pending, Some(due)) => queue.delayed = earliest(queue.delayed, due),
            (TaskState::Parked, Some(due)) => queue.parked = earliest(queue.parked, due),
            _ => {}
        }
        self.counts.site(lease.site).shift(TaskState::Leased, state);
        Ok(Some(lease))
    }

    /// Claim a redirect's target.
    pub(super) fn claim(&mut self, db: &Connection, claim: &Claim) -> rusqlite::Result<bool> {
        let current = self.leases.get(&claim.task);
        if current.is_none_or(|lease| lease.token != claim.lease) {
            return Ok(false);
        }
        let mut see = db.prepare_cached("INSERT OR IGNORE INTO seen(key, task) VALUES (?1, ?2)")?;
        let new = see.execute(params![claim.key.0, claim.task])? == 1;
        if !new && owner_of(db, claim.key)? != Some(claim.task) {
            return Ok(false);
        }
        db.prepare_cached("UPDATE tasks SET params = ?2 WHERE id = ?1")?
            .execute(params![claim.task, to_json(&claim.params)?])?;
        Ok(true)
    }

    /// Write what changed in memory, as part of the caller's transaction.
    pub(super) fn save(&mut self, db: &Connection) -> rusqlite::Result<()> {
        let mut write = db.prepare_cached("UPDATE lanes SET served = ?2 WHERE id = ?1")?;
        for (lane, served) in self.lanes.take_changed() {
            write.execute(params![lane, served])?;
        }
        self.counts.save(db, &self.names)
    }
}

/// The task that a key belongs to.
fn owner_of(db: &Connection, key: TaskKey) -> rusqlite::Result<Option<TaskId>> {
    db.prepare_cached("SELECT task FROM seen WHERE key = ?1")?
        .query_row([key.0], |row| row.get(0))
        .optional()
}

/// Priority of the first ready task of a lane.
fn ready_head(db: &Connection, lane: LaneId) -> rusqlite::Result<Option<i32>> {
    db.prepare_cached(
        "SELECT priority FROM tasks WHERE lane = ?1 AND state = 0 AND due IS NULL AND token IS NULL
         ORDER BY priority, id LIMIT 1",
    )?
    .query_row([lane], |row| row.get(0))
    .optional()
}

/// A state as it is stored.
fn stored(state: TaskState) -> i64 {
    match state {
        TaskState::Pending => state::PENDING,
        TaskState::Leased => state::LEASED,
        TaskState::Done => state::DONE,
        TaskState::Failed => state::FAILED,
        TaskState::Parked => state::PARKED,
        TaskState::Dropped => state::DROPPED,
    }
}

/// Parameters as they were stored.
pub(super) fn read_params(text: &str) -> rusqlite::Result<Params> {
    from_json(text)
}
