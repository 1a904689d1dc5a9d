//! What a lease came to: an attempt lost, a task handed back, or what an answer brought.

use super::context::Context;
use super::permit::NoPermit;
use super::retry::{self, Failure};
use super::robots;
use crate::governor::Hints;
use crate::model::{
    Completion, ListState, Name, NewTask, Outcome, Record, StopReason, Task, TaskEnd, UnixMillis,
};
use crate::settings::RetrySettings;
use crate::store::Hold;

/// What a lease came to.
pub(super) struct Ended {
    pub(super) end: TaskEnd,
    pub(super) records: Vec<Record>,
    pub(super) follow: Vec<NewTask>,
    pub(super) list: Option<ListState>,
}

impl Ended {
    /// Whether an answer was good, and is worth keeping.
    pub(super) const fn is_good(&self) -> bool {
        matches!(
            self.end,
            TaskEnd::Continue
                | TaskEnd::Done {
                    outcome: Outcome::Ok
                }
        )
    }

    pub(super) fn of(end: TaskEnd) -> Self {
        Self {
            end,
            records: Vec::new(),
            follow: Vec::new(),
            list: None,
        }
    }

    pub(super) fn completion(mut self, task: Task) -> Completion {
        // A list whose page failed for good has ended, and says why.
        if self.list.is_none() && matches!(self.end, TaskEnd::Failed { .. }) {
            self.list = task.list.map(|list| ListState {
                stop: Some(StopReason::Error),
                ..list
            });
        }
        Completion {
            task: task.id,
            lease: task.lease,
            end: self.end,
            records: self.records,
            follow: self.follow,
            list: self.list,
        }
    }
}

/// An attempt without a result, in `lane`.
pub(super) fn lost(
    context: &Context,
    task: &Task,
    lane: &Name,
    outcome: Outcome,
    reason: String,
    said: Hints,
) -> Ended {
    let settings = &context.assignment.settings;
    let scaled = RetrySettings {
        base: context.scaled(settings.retry.base),
        max: context.scaled(settings.retry.max),
        ..settings.retry
    };
    let failure = Failure {
        outcome,
        reason,
        attempts: task.attempts,
        asked: said.retry_after.unwrap_or_default(),
        lane_in_trouble: context.lane(&task.endpoint, lane).health.get().in_trouble(),
    };
    Ended::of(context.with_budget(lane, |budget| {
        retry::after(
            failure,
            &scaled,
            budget,
            context.scaled(settings.max_wait),
            UnixMillis::now(),
            fastrand::f64(),
        )
    }))
}

/// A task handed back unasked, and its lane held so that nobody asks in vain meanwhile.
pub(super) fn unused(context: &Context, lane: &Name, refused: &NoPermit) -> Ended {
    let due = match refused {
        NoPermit::Stopping => None,
        NoPermit::Later(wait) => {
            let until = UnixMillis::now().after(*wait);
            context.assignment.store.do_send(Hold {
                site: context.assignment.site.name().clone(),
                lane: lane.clone(),
                until,
            });
            Some(until)
        }
    };
    Ended::of(TaskEnd::Unused { due })
}

/// A task of a host whose robots.txt cannot be read. That is the host's trouble and no attempt of the task, which waits,
/// up to `max_wait` in a run. But a host that takes no connection would not give the page either.
pub(super) fn unruled(
    context: &Context,
    task: &Task,
    lane: &Name,
    host: robots::Unreachable,
) -> Ended {
    let outcome = Outcome::Network;
    if !host.connected {
        return lost(context, task, lane, outcome, host.why, Hints::default());
    }
    let patience = context.scaled(context.assignment.settings.max_wait);
    if host.waited >= patience {
        return Ended::of(TaskEnd::Parked {
            outcome,
            until: Some(UnixMillis::now().after(patience.max(host.wait))),
            reason: host.why,
        });
    }
    context.waits_for.replace(host.why);
    unused(context, lane, &NoPermit::Later(host.wait))
}
