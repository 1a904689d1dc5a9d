//! The one way out: a permit, an exchange, and what governor and counters are told of it.

use slog::debug;

use super::context::Context;
use super::media::Download;
use super::permit::{self, NoPermit, Waiting};
use super::way::{self, Blame, Routed};
use crate::exchange::{FetchError, RetryClass, Timed};
use crate::governor::Hints;
use crate::governor::hints::hints;
use crate::model::{Answer, Name, Outcome, Request, UnixMillis};

/// A request that is to be made.
pub(super) struct Ask<'a> {
    pub(super) request: &'a Request,
    pub(super) endpoint: &'a Name,
    /// The queue it is limited in.
    pub(super) lane: &'a Name,
    /// Smaller goes first.
    pub(super) priority: u8,
    /// How it is counted.
    pub(super) kind: Kind,
}

/// What a request is for the retry budget and the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The first for its task.
    First,
    /// Its task was asked before.
    Again,
    /// A further hop of a redirect, or robots.txt: neither earns nor spends.
    Further,
}

/// An answer with what was made of it.
pub(super) struct Heard<V> {
    pub(super) answer: Answer,
    pub(super) outcome: Outcome,
    pub(super) hints: Hints,
    pub(super) verdict: V,
}

/// Makes one request, and a second one on a fresh connection where a kept one was closed before a byte of the answer
/// had come: that costs a permit as any other, but is no attempt of the task and says nothing of the server.
///
/// An egress that fails is replaced by another one of the site, as long as the budget of retries pays for it: that is no
/// attempt of the task either, and the governor hears nothing of it.
///
/// `judge` gives an answer's class and what follows from it. A small answer is judged while the permit is held, so that
/// nobody slips out between a refusal and its report.
pub(super) async fn ask<V>(
    context: &Context,
    ask: &Ask<'_>,
    waiting: Waiting<'_>,
    judge: impl Fn(&Answer) -> (Outcome, V),
) -> Result<Result<Heard<V>, FetchError>, NoPermit> {
    ask_into(context, ask, waiting, None, judge).await
}

/// As [`ask`]; with `file`, a large body goes there, and `judge` sees its first bytes.
pub(super) async fn ask_into<V>(
    context: &Context,
    ask: &Ask<'_>,
    mut waiting: Waiting<'_>,
    mut file: Option<&mut Download>,
    judge: impl Fn(&Answer) -> (Outcome, V),
) -> Result<Result<Heard<V>, FetchError>, NoPermit> {
    let lane = context.lane(ask.endpoint, ask.lane);
    let mut fresh = false;
    let mut tried = Vec::new();
    loop {
        let egress = way::choose(context, &tried).await?;
        let granted = permit::acquire(&lane.key, waiting, ask.priority).await?;
        let slot = match &egress {
            None => None,
            Some(egress) => match context.assignment.network.take(egress) {
                Some(slot) => Some(slot),
                // Its room went to another while this waited for its permit.
                None => {
                    let receipt = granted.permit.release(false);
                    receipt.report(Outcome::Cancelled, Hints::default());
                    waiting = Waiting::new(context, ask.lane);
                    continue;
                }
            },
        };
        let permit = Timed {
            permit: Routed {
                permit: granted.permit,
                slot,
            },
            total_timeout: lane.total_timeout,
        };
        let again = fresh || !tried.is_empty() || ask.kind == Kind::Again;
        if ask.kind == Kind::First && !fresh && tried.is_empty() {
            let ratio = context.assignment.settings.retry.ratio;
            context.with_budget(ask.lane, |budget| budget.earn(ratio));
        }
        let weigh = |answer: &Answer| {
            let said = hints(&answer.headers, UnixMillis::now());
            let (outcome, verdict) = judge(answer);
            context.look_for_errand(outcome, &answer.url);
            (outcome, said, verdict)
        };
        let mut weighed = None;
        let refusal = |answer: &Answer| {
            let (outcome, said, _) = weighed.insert(weigh(answer));
            (!outcome.is_success()).then_some((*outcome, *said))
        };
        let (client, request) = (&context.client, ask.request);
        let exchanged = match file.as_deref_mut() {
            None => {
                client
                    .exchange_judged(permit, request, fresh, refusal)
                    .await
            }
            Some(file) => client.download(permit, request, fresh, file, refusal).await,
        };
        let host = ask.request.url.host_str().unwrap_or_default();
        let blame = way::heard(context, egress.as_ref(), host, &exchanged.result);
        if blame != Blame::No
            && let Err(error) = exchanged.result
        {
            // Not the site's doing: neither its pace nor its counters hear of it.
            exchanged
                .receipt
                .report(Outcome::Cancelled, Hints::default());
            tried.extend(egress);
            let spent = || context.with_budget(ask.lane, |budget| budget.spend(UnixMillis::now()));
            // What the server may have been asked, and begun to answer, is for the task to ask again.
            let again = blame == Blame::Unasked && way::is_another(context, &tried);
            if !again || !spent().is_zero() {
                return Ok(Err(error));
            }
            waiting = Waiting::new(context, ask.lane);
            continue;
        }
        if exchanged.surplus {
            debug!(context.assignment.log, "bytes came after the end of an answer: its length may be wrong";
                "host" => host);
        }
        match exchanged.result {
            Ok(answer) => {
                for note in &answer.notes {
                    debug!(context.assignment.log, "an untrue label was put up with";
                        "host" => answer.url.host_str(), "what" => %note);
                }
                let (outcome, hints, verdict) = weighed.unwrap_or_else(|| weigh(&answer));
                granted
                    .meter
                    .count(ask.endpoint, outcome, Some(&answer), again);
                exchanged.receipt.report(outcome, hints);
                context.note(&lane, outcome);
                return Ok(Ok(Heard {
                    answer,
                    outcome,
                    hints,
                    verdict,
                }));
            }
            Err(error) => {
                let outcome = error.outcome();
                granted.meter.count(ask.endpoint, outcome, None, again);
                if fresh || error.retry() != RetryClass::Once {
                    exchanged.receipt.report(outcome, Hints::default());
                    context.note(&lane, outcome);
                    return Ok(Err(error));
                }
                exchanged
                    .receipt
                    .report(Outcome::Cancelled, Hints::default());
                debug!(context.assignment.log, "a kept connection was closed; asking on a new one";
                    "error" => %error);
                fresh = true;
                waiting = Waiting::new(context, ask.lane);
            }
        }
    }
}
