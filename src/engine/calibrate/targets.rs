//! What is asked for again and again: the first requests of a job, each looked at once before the climb.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::messages::{End, Seen};
use super::probe::{NoExchange, Probe, Probed};
use crate::engine::EngineError;
use crate::exchange;
use crate::governor::LaneKey;
use crate::model::{ListState, Name, NewTask, Outcome, Request, Task};
use crate::site::urls::{authority, shown};

/// Follow-ups of the first requests are added up to this number of targets.
const MOST_TARGETS: usize = 20;
/// A first look that fails in a way that may pass is tried so many times in all.
const ATTEMPTS: usize = 3;

/// One request that is made again and again.
pub(super) struct Target {
    pub(super) lane: Arc<LaneKey>,
    pub(super) task: Task,
    pub(super) request: Request,
}

/// What the first look came to.
pub(super) enum Looked {
    /// The targets; at least one.
    Ready(Vec<Target>),
    /// There is nothing to climb for.
    End(End),
}

/// What became of one target.
enum Look {
    /// It can be used; these are the tasks that its answer leads to.
    Good(Box<Target>, Vec<NewTask>),
    /// It cannot: the request is wrong for this purpose.
    Useless(String),
    /// It gave no answer that would tell.
    Silent(String),
    End(End),
}

/// Looks at the first requests of a job, and takes those that are good to be asked again and again.
///
/// # Errors
/// When none is, because of what was asked for: robots.txt forbids it, or there is no such thing.
pub(super) async fn first_look(
    probe: &Probe,
    seeds: &[NewTask],
    max_redirects: u32,
    patience: Duration,
    seen: &dyn Fn(Seen<'_>),
) -> Result<Looked, EngineError> {
    let mut targets = Vec::new();
    let mut useless = Vec::new();
    let mut silent = None;
    let mut next = Vec::new();
    for (nth, seed) in seeds.iter().enumerate() {
        let task = task(probe, nth, seed);
        match look(probe, task, max_redirects, patience).await? {
            Look::Good(target, follow) => {
                targets.push(*target);
                next.extend(follow);
            }
            Look::Useless(why) => {
                seen(Seen::Left(&what(seed), &why));
                useless.push(why);
            }
            Look::Silent(why) => {
                seen(Seen::Left(&what(seed), &why));
                silent.get_or_insert(why);
            }
            Look::End(end) => return Ok(Looked::End(end)),
        }
    }
    if targets.is_empty() {
        return match silent {
            Some(why) => Ok(Looked::End(End::NoAnswer { why })),
            None => Err(EngineError::Calibration(format!(
                "nothing can be measured: {}",
                useless.join("; ")
            ))),
        };
    }
    let mut known: HashSet<_> = seeds.iter().map(|seed| seed.key).collect();
    for follow in next {
        if targets.len() >= MOST_TARGETS {
            break;
        }
        if known.insert(follow.key)
            && let Some(target) = unseen(probe, targets.len(), &follow, patience).await?
        {
            targets.push(target);
        }
    }
    Ok(Looked::Ready(targets))
}

/// A follow-up as a target, without a look at it.
async fn unseen(
    probe: &Probe,
    nth: usize,
    new: &NewTask,
    patience: Duration,
) -> Result<Option<Target>, EngineError> {
    let task = task(probe, nth, new);
    let Ok(request) = probe.site.request(&task) else {
        return Ok(None);
    };
    match probe.allowed(&request.url, patience).await {
        Ok(Ok(true)) => {}
        Err(NoExchange::Gone) => return Err(EngineError::Stopped),
        _ => return Ok(None),
    }
    Ok(Some(Target {
        lane: probe.lane(&task.endpoint, &task.lane),
        task,
        request,
    }))
}

fn task(probe: &Probe, nth: usize, new: &NewTask) -> Task {
    Task {
        id: i64::try_from(nth).unwrap_or(i64::MAX),
        lease: 0,
        site: probe.site.name().clone(),
        endpoint: new.endpoint.clone(),
        params: new.params.clone(),
        lane: new.lane.clone(),
        priority: 0,
        depth: new.depth,
        attempts: 0,
        list: new.list.then(ListState::default),
    }
}

/// What a task asks for, for people.
fn what(new: &NewTask) -> String {
    let params = serde_json::to_string(&new.params).unwrap_or_default();
    format!("{} {params}", new.endpoint)
}

async fn look(
    probe: &Probe,
    task: Task,
    max_redirects: u32,
    patience: Duration,
) -> Result<Look, EngineError> {
    let request = match probe.site.request(&task) {
        Ok(request) => request,
        Err(error) => return Ok(Look::Useless(error.to_string())),
    };
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        let way = walk(probe, &task, request.clone(), max_redirects, patience).await;
        let (probed, request, lane) = match way {
            Ok(Walked::Answer(probed, request, lane)) => (probed, request, lane),
            Ok(Walked::Useless(why)) => return Ok(Look::Useless(why)),
            Ok(Walked::Silent(why)) => {
                last = why;
                continue;
            }
            Err(NoExchange::Stopped) => return Ok(Look::End(End::Interrupted)),
            Err(NoExchange::Later(wait)) => {
                return Ok(Look::End(End::Paused {
                    wait_ms: millis(wait),
                }));
            }
            Err(NoExchange::Gone) => return Err(EngineError::Stopped),
        };
        let status = probed.answer.as_ref().map_or(0, |answer| answer.status);
        let host = authority(&request.url);
        last = match &probed.answer {
            Ok(_) => format!("{host} answered {status}: {}", probed.outcome),
            Err(why) => why.clone(),
        };
        match probed.outcome {
            Outcome::Ok | Outcome::NotModified | Outcome::Empty => {
                let follow = probed.reading.map(|reading| reading.follow);
                let target = Target {
                    lane: probe.lane(&task.endpoint, &lane),
                    task: Task { lane, ..task },
                    request,
                };
                return Ok(Look::Good(Box::new(target), follow.unwrap_or_default()));
            }
            Outcome::Blocked | Outcome::Captcha | Outcome::Login => {
                return Ok(Look::End(End::Blocked {
                    outcome: probed.outcome,
                    status,
                    wait_ms: probed.said.retry_after.map(millis),
                }));
            }
            // The pause that it asks for is kept by the next permit.
            Outcome::Limited
            | Outcome::ServerError
            | Outcome::Timeout
            | Outcome::Network
            | Outcome::Truncated
            | Outcome::Cancelled => {}
            Outcome::Gone
            | Outcome::Signature
            | Outcome::Withheld
            | Outcome::ClientError
            | Outcome::Malformed
            | Outcome::Oversize
            | Outcome::Denied => return Ok(Look::Useless(last)),
        }
    }
    Ok(Look::Silent(last))
}

/// Where a request leads when redirects are followed.
enum Walked {
    Answer(Box<Probed>, Request, Name),
    Useless(String),
    Silent(String),
}

async fn walk(
    probe: &Probe,
    task: &Task,
    mut request: Request,
    max_redirects: u32,
    patience: Duration,
) -> Result<Walked, NoExchange> {
    let mut lane = task.lane.clone();
    for _ in 0..=max_redirects {
        match probe.allowed(&request.url, patience).await? {
            Ok(true) => {}
            Ok(false) => {
                let shown = shown(&request.url);
                return Ok(Walked::Useless(format!("robots.txt disallows {shown}")));
            }
            Err(why) => return Ok(Walked::Silent(why)),
        }
        let key = probe.lane(&task.endpoint, &lane);
        let permit = probe.permit(&key, patience).await?;
        let probed = probe.exchange(permit, task, &request).await;
        let (Some((url, to)), Ok(answer)) = (&probed.moved, &probed.answer) else {
            return Ok(Walked::Answer(Box::new(probed), request, lane));
        };
        request = match exchange::follow(&request, answer.status, url.clone()) {
            Ok(next) => next,
            Err(why) => return Ok(Walked::Useless(why.to_string())),
        };
        lane = to.clone();
    }
    let shown = shown(&request.url);
    Ok(Walked::Useless(format!(
        "{shown} redirects more than {max_redirects} times"
    )))
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
