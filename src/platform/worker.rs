//! The life of one leased task: render, ask robots.txt, take a permit, exchange, classify, read.

use slog::{debug, info, warn};

use super::answers;
use super::ask::{self, Ask, Heard, Kind};
use super::context::Context;
use super::hops::{Hop, endless, judge, unmodified};
use super::media::{self, Download, Rest, Trouble};
use super::permit::{NoPermit, Waiting};
use super::retry::Failure;
use super::{retry, robots};
use crate::exchange;
use crate::governor::Hints;
use crate::model::{
    Answer, Completion, ListState, Name, NewTask, Outcome, Record, Request, RobotsPolicy,
    StopReason, Task, TaskEnd, TaskKey, UnixMillis,
};
use crate::site::urls::{authority, shown};
use crate::site::{self, Reader};
use crate::store::media::PartError;
use crate::store::{Claim, Hold};

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

/// What a lease came to.
struct Ended {
    end: TaskEnd,
    records: Vec<Record>,
    follow: Vec<NewTask>,
    list: Option<ListState>,
}

impl Ended {
    /// Whether an answer was good, and is worth keeping.
    const fn is_good(&self) -> bool {
        matches!(
            self.end,
            TaskEnd::Continue
                | TaskEnd::Done {
                    outcome: Outcome::Ok
                }
        )
    }

    fn of(end: TaskEnd) -> Self {
        Self {
            end,
            records: Vec::new(),
            follow: Vec::new(),
            list: None,
        }
    }

    fn completion(mut self, task: Task) -> Completion {
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
fn lost(
    context: &Context,
    task: &Task,
    lane: &Name,
    outcome: Outcome,
    reason: String,
    said: Hints,
) -> Ended {
    let settings = &context.assignment.settings;
    let scaled = crate::settings::RetrySettings {
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
fn unused(context: &Context, lane: &Name, refused: &NoPermit) -> Ended {
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
fn unruled(context: &Context, task: &Task, lane: &Name, host: robots::Unreachable) -> Ended {
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

/// The file that the answer of a task is saved to, for tasks that have one.
async fn open_file(context: &Context, task: &Task) -> Result<Option<Download>, Ended> {
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
fn not_saved(context: &Context, why: &PartError) -> Ended {
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
async fn save(
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

/// What an answer of a class comes to.
fn answered(context: &Context, task: &Task, lane: &Name, heard: &Heard<Option<Hop>>) -> Ended {
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
