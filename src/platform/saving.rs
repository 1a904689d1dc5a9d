//! Tasks whose answers are files: from the place on the disk to the record.

use slog::{debug, info};

use super::ask::Heard;
use super::context::Context;
use super::ended::{Ended, lost};
use super::hops::Hop;
use super::media::{self, Download, Rest, Trouble};
use super::reading::answered;
use crate::governor::Hints;
use crate::model::{Name, Outcome, Task, TaskEnd, UnixMillis};
use crate::site::urls::shown;
use crate::store::media::PartError;

/// The file that the answer of a task is saved to, for tasks that have one.
pub(super) async fn open_file(context: &Context, task: &Task) -> Result<Option<Download>, Ended> {
    let assignment = &context.assignment;
    match assignment.site.save(task) {
        Ok(None) => Ok(None),
        Ok(Some(save)) => match Download::open(
            save,
            assignment.job.out.clone(),
            assignment.settings.exchange.max_expansion,
        )
        .await
        {
            Ok(file) => Ok(Some(file)),
            Err(Trouble::Part(why)) => Err(not_saved(context, &why)),
            Err(Trouble::Fault(_)) => Err(Ended::of(TaskEnd::Unused { due: None })),
        },
        Err(error) => Err(Ended::of(TaskEnd::Failed {
            outcome: Outcome::Malformed,
            reason: error.to_string(),
        })),
    }
}

/// The disk refuses: so it will for the next file, and the run ends as it does when the store fails. The task is not
/// to blame.
pub(super) fn not_saved(context: &Context, why: &PartError) -> Ended {
    let due = match why {
        PartError::Busy(_) => Some(UnixMillis::now().after(context.patience())),
        PartError::Store(why) => {
            context.fatal.replace(Some(why.to_string()));
            None
        }
    };
    Ended::of(TaskEnd::Unused { due })
}

/// What an answer comes to that is a file. The file is given back where it has to be asked for anew.
pub(super) async fn save(
    context: &Context,
    task: &Task,
    lane: &Name,
    heard: &Heard<Option<Hop>>,
    mut file: Download,
) -> Result<Ended, Download> {
    let answer = &heard.answer;
    match file.rest(answer) {
        Rest::Anew => {
            info!(context.assignment.log, "the rest cannot be had; asking for the whole file";
                "url" => shown(&answer.url), "status" => answer.status);
            return match file.forget().await {
                Ok(()) => Err(file),
                Err(why) => Ok(not_saved(context, &why)),
            };
        }
        Rest::Whole => {}
        Rest::Plain if heard.outcome == Outcome::Ok => {}
        Rest::Plain => return Ok(answered(context, task, lane, heard)),
    }
    let what = file.save().clone();
    let saved = match file.finish(answer).await {
        Ok(saved) => saved,
        Err(Trouble::Part(why)) => return Ok(not_saved(context, &why)),
        Err(Trouble::Fault(fault)) => {
            let (outcome, reason) = (fault.outcome(), format!("{}: {fault}", shown(&answer.url)));
            info!(context.assignment.log, "not saved"; "url" => shown(&answer.url), "error" => %fault);
            let said = Hints::default();
            return Ok(lost(context, task, lane, outcome, reason, said));
        }
    };
    debug!(context.assignment.log, "saved"; "file" => &saved.name, "bytes" => saved.bytes);
    let name = context.assignment.site.name();
    let record = media::record(name, &answer.url, what, saved);
    Ok(Ended {
        records: vec![record],
        ..Ended::of(TaskEnd::Done {
            outcome: Outcome::Ok,
        })
    })
}
