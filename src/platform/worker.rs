//! The life of one leased task: render, ask robots.txt, take a permit, exchange, classify, read.

use slog::{info, warn};

use super::answers;
use super::ask::{self, Ask, Heard, Kind};
use super::context::Context;
use super::ended::{Ended, lost, unruled, unused};
use super::hops::{Hop, endless, judge, unmodified};
use super::permit::Waiting;
use super::reading::answered;
use super::robots;
use super::saving::{not_saved, open_file, save};
use crate::exchange;
use crate::governor::Hints;
use crate::model::{Answer, Completion, Name, Outcome, Request, RobotsPolicy, Task, TaskEnd};
use crate::site;
use crate::site::urls::{authority, shown};
use crate::store::Claim;

/// Work on a task until its lease ends.
pub(super) async fn work(context: &Context, task: Task) -> Completion {
    let ended = match context.assignment.site.request(&task) {
        Ok(request) => ask(context, &task, request).await,
        Err(error) => Ended::of(TaskEnd::Failed {
            outcome: Outcome::Malformed,
            reason: error.to_string(),
        }),
    };
    if task.depth == 0 {
        tell_empty_start(context, &task, &ended);
    }
    if let Some(session) = &context.session {
        session.written().await;
    }
    ended.completion(task)
}

/// A start that brings nothing explains an empty run.
fn tell_empty_start(context: &Context, task: &Task, ended: &Ended) {
    let why = match &ended.end {
        TaskEnd::Dropped { reason } => reason.clone(),
        TaskEnd::Done { outcome } if !outcome.is_success() => outcome.to_string(),
        TaskEnd::Done { .. } if ended.records.is_empty() && ended.follow.is_empty() => {
            "the answer holds no record and no link".to_owned()
        }
        _ => return,
    };
    let what = serde_json::to_string(&task.params).unwrap_or_default();
    warn!(context.assignment.log, "a start brings nothing"; "endpoint" => &*task.endpoint,
        "what" => what, "why" => why);
}

/// A task whose worker panicked: the attempt counts, the task is asked again within its budget.
pub(super) fn panicked(context: &Context, task: Task, what: &str) -> Completion {
    let reason = format!("the code of site {} panicked: {what}", task.site);
    let lane = task.lane.clone();
    lost(
        context,
        &task,
        &lane,
        Outcome::Malformed,
        reason,
        Hints::default(),
    )
    .completion(task)
}

async fn ask(context: &Context, task: &Task, mut request: Request) -> Ended {
    let assignment = &context.assignment;
    // A task that was redirected to another host before a kill waits in the queue of the first.
    let mut lane = match assignment.site.lanes_by_host() {
        true => Name::from(authority(&request.url)),
        false => task.lane.clone(),
    };
    // Whether the next request must not speak of what an earlier run knew.
    let mut plainly = false;
    let mut chain = exchange::Chain::new(assignment.settings.exchange.max_redirects);
    let mut file = match open_file(context, task).await {
        Ok(file) => file,
        Err(ended) => return ended,
    };
    let mut kind = match task.attempts {
        0 => Kind::First,
        _ => Kind::Again,
    };
    let priority = u8::try_from(task.priority.clamp(0, 255)).unwrap_or(u8::MAX);
    loop {
        let waiting = Waiting::new(context, &lane);
        if assignment.site.robots() == RobotsPolicy::Obey {
            match robots::verdict(context, &request.url, &lane).await {
                robots::Verdict::Allowed => {}
                robots::Verdict::Denied => {
                    return Ended::of(TaskEnd::Dropped {
                        reason: format!("robots.txt disallows {}", shown(&request.url)),
                    });
                }
                robots::Verdict::Unreachable(host) => {
                    return unruled(context, task, &lane, host);
                }
                robots::Verdict::NoPermit(refused) => return unused(context, &lane, &refused),
            }
        }
        let earlier = match plainly || file.is_some() {
            true => None,
            false => answers::look_up(context, &request).await,
        };
        let of_rest = file.as_ref().map(|file| file.request(&request));
        let question = earlier.as_ref().map(|earlier| &earlier.question);
        let wanted = Ask {
            request: of_rest.as_ref().or(question).unwrap_or(&request),
            endpoint: &task.endpoint,
            lane: &lane,
            priority,
            kind,
        };
        let judged = |answer: &Answer| match answer.status {
            304 => unmodified(&request, earlier.as_ref(), plainly, answer),
            _ => judge(context, task, &request, answer),
        };
        let heard = match ask::ask_into(context, &wanted, waiting, file.as_mut(), judged).await {
            Ok(Ok(heard)) => heard,
            Ok(Err(error)) => {
                let partial = error.partial.as_ref();
                info!(assignment.log, "no answer"; "url" => shown(&request.url), "error" => %error,
                    "attempt" => task.attempts + 1,
                    "decoded" => partial.map(|partial| partial.answer().body.len()));
                if context.trouble.get().is_some() {
                    context.waits_for.replace(error.to_string());
                }
                if let Some(file) = file
                    && let Some(why) = file.give_up(&error.fault).await
                {
                    return not_saved(context, &why);
                }
                let said = Hints::default();
                return lost(
                    context,
                    task,
                    &lane,
                    error.outcome(),
                    error.to_string(),
                    said,
                );
            }
            Err(refused) => return unused(context, &lane, &refused),
        };
        if kind == Kind::First {
            kind = Kind::Further;
        }
        match &heard.verdict {
            None | Some(Hop::Answer(_)) => {
                let Some(saving) = file else {
                    let ended = answered(context, task, &lane, &heard);
                    if ended.is_good() {
                        answers::keep(context, &request, &heard.answer);
                    }
                    return ended;
                };
                match save(context, task, &lane, &heard, saving).await {
                    Ok(ended) => return ended,
                    Err(anew) => file = Some(anew),
                }
            }
            Some(Hop::Confirmed(page)) => {
                let known = Heard {
                    outcome: assignment.site.classify(task, &page.answer),
                    answer: page.answer.clone(),
                    hints: heard.hints,
                    verdict: None,
                };
                let mut ended = answered(context, task, &lane, &known);
                if ended.is_good() {
                    page.keep(context);
                }
                if let TaskEnd::Done { outcome } = &mut ended.end
                    && *outcome == Outcome::Ok
                {
                    *outcome = heard.outcome;
                }
                return ended;
            }
            Some(Hop::Plainly) => plainly = true,
            Some(Hop::Refuse(reason)) => {
                let reason = reason.clone();
                return Ended::of(TaskEnd::Dropped { reason });
            }
            Some(Hop::Broken(why)) => {
                let reason = format!("{}: {why}", shown(&request.url));
                info!(assignment.log, "a redirect that leads nowhere"; "url" => shown(&request.url), "why" => %why,
                    "attempt" => task.attempts + 1);
                if !why.is_malformed() {
                    let outcome = heard.outcome;
                    return Ended::of(TaskEnd::Failed { outcome, reason });
                }
                return lost(context, task, &lane, heard.outcome, reason, heard.hints);
            }
            Some(Hop::Follow {
                next,
                claim,
                lane: to,
            }) => {
                if let Err(error) = chain.go_on(&request, &heard.answer, next) {
                    return Ended::of(endless(context, error, &next.url));
                }
                if let Some(target) = claim {
                    match claimed(context, task, target.clone()).await {
                        Ok(true) => {}
                        Ok(false) => {
                            return Ended::of(TaskEnd::Dropped {
                                reason: format!(
                                    "redirects to {}, which is known",
                                    shown(&next.url)
                                ),
                            });
                        }
                        // The store is gone: the actor hears it too. The lease stays as it is.
                        Err(_) => return Ended::of(TaskEnd::Unused { due: None }),
                    }
                }
                lane = to.clone();
                request = next.as_ref().clone();
            }
        }
    }
}

async fn claimed(context: &Context, task: &Task, target: site::Target) -> Result<bool, ()> {
    let claim = Claim {
        task: task.id,
        lease: task.lease,
        key: target.key,
        params: target.params,
    };
    match context.assignment.store.send(claim).await {
        Ok(Ok(new)) => Ok(new),
        Ok(Err(_)) | Err(_) => Err(()),
    }
}
