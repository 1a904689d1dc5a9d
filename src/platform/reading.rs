//! From an answer to what it brings: records, further tasks, the list's state; or the attempt is lost.

use slog::{debug, info};

use super::ask::Heard;
use super::context::Context;
use super::ended::{Ended, lost};
use super::hops::Hop;
use crate::governor::Hints;
use crate::model::{Name, Outcome, Task, TaskEnd, TaskKey};
use crate::site::Reader;
use crate::site::urls::shown;

/// What an answer of a class comes to.
pub(super) fn answered(
    context: &Context,
    task: &Task,
    lane: &Name,
    heard: &Heard<Option<Hop>>,
) -> Ended {
    let assignment = &context.assignment;
    let Heard {
        answer,
        outcome,
        hints,
        ..
    } = heard;
    let outcome = *outcome;
    if !matches!(outcome, Outcome::Ok | Outcome::Empty) {
        let reason = format!(
            "{} answered {}: {outcome}",
            shown(&answer.url),
            answer.status
        );
        if context.trouble.get().is_some() {
            context.waits_for.replace(reason.clone());
        }
        if outcome != Outcome::Gone {
            info!(assignment.log, "not served"; "url" => shown(&answer.url),
                "status" => answer.status, "class" => %outcome, "attempt" => task.attempts + 1);
        }
        return lost(context, task, lane, outcome, reason, *hints);
    }
    let known = |key: &TaskKey, depth: u32| context.known.borrow().contains(key, depth);
    let reader = Reader {
        job: &assignment.job,
        known: &known,
    };
    match assignment.site.read(task, answer, &reader) {
        Err(error) => {
            let reason = format!("{}: {error}", shown(&answer.url));
            info!(assignment.log, "unreadable"; "url" => shown(&answer.url), "error" => %error);
            lost(
                context,
                task,
                lane,
                Outcome::Malformed,
                reason,
                Hints::default(),
            )
        }
        Ok(reading) => {
            debug!(assignment.log, "read"; "url" => shown(&answer.url), "status" => answer.status,
                "class" => %outcome, "records" => reading.records.len(), "follow" => reading.follow.len(),
                "replaced" => reading.replaced);
            let goes_on = reading
                .list
                .as_ref()
                .is_some_and(|list| list.stop.is_none());
            Ended {
                end: if goes_on {
                    TaskEnd::Continue
                } else {
                    TaskEnd::Done { outcome }
                },
                records: reading.records,
                follow: reading.follow,
                list: reading.list,
            }
        }
    }
}
