//! What becomes of a redirect: whether it is followed, and how a chain of them ends.

use slog::info;
use url::Url;

use super::answers::{Confirmed, Earlier};
use super::context::Context;
use crate::exchange::{self, ChainError, RedirectError};
use crate::model::{Answer, Name, Outcome, Request, Task, TaskEnd};
use crate::site::urls::shown;
use crate::site::{self, Redirect};

/// What becomes of a redirect.
pub(super) enum Hop {
    /// Asked for next, in a lane.
    Follow {
        next: Box<Request>,
        claim: Option<site::Target>,
        lane: Name,
    },
    /// An answer by itself.
    Answer(Outcome),
    /// Out of bounds.
    Refuse(String),
    /// It makes no sense.
    Broken(RedirectError),
    /// A 304: the page of an earlier run still holds.
    Confirmed(Box<Confirmed>),
    /// A 304 that is of no use: ask again, without conditions.
    Plainly,
}

/// The class of an answer to `request`, and where it leads to if it is a redirect.
pub(super) fn judge(
    context: &Context,
    task: &Task,
    request: &Request,
    answer: &Answer,
) -> (Outcome, Option<Hop>) {
    let Some(target) = exchange::target(answer) else {
        return (context.assignment.site.classify(task, answer), None);
    };
    let hop = follow(context, task, request, answer.status, target);
    let outcome = match &hop {
        Hop::Answer(outcome) => *outcome,
        Hop::Broken(error) if error.is_malformed() => Outcome::Malformed,
        Hop::Broken(_) => Outcome::Denied,
        _ => Outcome::Ok,
    };
    (outcome, Some(hop))
}

/// What a 304 comes to: the page that it confirms, or one more request without conditions. One to which there were none is
/// no answer.
pub(super) fn unmodified(
    request: &Request,
    earlier: Option<&Earlier>,
    plainly: bool,
    answer: &Answer,
) -> (Outcome, Option<Hop>) {
    match earlier.map(|earlier| earlier.confirmed(answer)) {
        Some(Some(page)) => (Outcome::NotModified, Some(Hop::Confirmed(Box::new(page)))),
        // The site's own conditions, so its own answer.
        None if exchange::cache::is_conditional(request) => (Outcome::NotModified, None),
        _ if plainly => (Outcome::Malformed, None),
        _ => (Outcome::NotModified, Some(Hop::Plainly)),
    }
}

fn follow(
    context: &Context,
    task: &Task,
    request: &Request,
    status: u16,
    target: Result<Url, RedirectError>,
) -> Hop {
    let target = match target {
        Ok(target) => target,
        Err(error @ RedirectError::Scheme) => return Hop::Refuse(error.to_string()),
        Err(error) => return Hop::Broken(error),
    };
    match context.assignment.site.redirect(task, &target) {
        Redirect::Follow { url, claim, lane } => match exchange::follow(request, status, url) {
            Ok(next) => Hop::Follow {
                next: Box::new(next),
                claim,
                lane,
            },
            Err(error) => Hop::Broken(error),
        },
        Redirect::Answer(outcome) => Hop::Answer(outcome),
        Redirect::Refuse(reason) => Hop::Refuse(reason),
    }
}

/// A chain of redirects without an answer. A circle is a dead end of the site, as a dead link is; a chain that was
/// cut may have had a page at its end.
pub(super) fn endless(context: &Context, error: ChainError, at: &Url) -> TaskEnd {
    let reason = format!("{error}, at {}", shown(at));
    match error {
        ChainError::Circle => {
            info!(context.assignment.log, "a dead end"; "why" => &reason);
            TaskEnd::Dropped { reason }
        }
        // Failed tasks are told of when the run ends.
        ChainError::TooLong(_) => TaskEnd::Failed {
            outcome: Outcome::Malformed,
            reason,
        },
    }
}
