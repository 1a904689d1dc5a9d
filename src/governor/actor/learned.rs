//! What lanes have learned, from the store at the start and to it from time to time.

use std::collections::VecDeque;
use std::time::Duration;

use actix::{AsyncContext, Context, Handler, Message, ResponseFuture};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::RateGovernor;
use crate::governor::ledger::{Known, Learned, Msg};
use crate::governor::quota_store::{LearnedLane, QuotaStoreError};
use crate::governor::store_thread::Job;
use crate::model::UnixMillis;

/// How often what was learned is stored: so much of it a kill may cost.
const EVERY: Duration = Duration::from_secs(30);

/// Store what lanes have learned; answered when it is stored, or cannot be.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct KeepLearned;

/// A lane as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    learned: Option<Learned>,
    not_before: Option<UnixMillis>,
}

/// What is being stored, in the order the store was asked, with those who wait for it.
#[derive(Default)]
pub(super) struct Memory {
    asked: VecDeque<Vec<oneshot::Sender<()>>>,
}

impl RateGovernor {
    pub(super) fn keep_now_and_then(&self, ctx: &mut Context<Self>) {
        ctx.run_interval(EVERY, |governor, ctx| {
            governor.keep(false, ctx);
            governor.ledger.sweep_all();
            governor.step(Msg::Tick, ctx);
        });
    }

    /// Stores what has changed; `named`: only where a server named a time. Whether there was anything.
    pub(super) fn keep(&mut self, named: bool, ctx: &mut Context<Self>) -> bool {
        let at = UnixMillis::now();
        let lanes = self.ledger.take_news(named).into_iter();
        let lanes: Vec<_> = lanes
            .filter_map(|(scope, known)| {
                let stored = Stored {
                    learned: known.learned,
                    not_before: known.wait.map(|wait| at.after(wait)),
                };
                let learned = serde_json::to_string(&stored).ok()?;
                Some(LearnedLane { scope, at, learned })
            })
            .collect();
        let any = !lanes.is_empty();
        if any {
            self.memory.asked.push_back(Vec::new());
            self.ask_store(Job::KeepLearned(lanes), ctx);
        }
        any
    }

    /// What earlier runs learned has come.
    pub(super) fn learned_came(
        &mut self,
        lanes: Result<Vec<LearnedLane>, QuotaStoreError>,
        ctx: &mut Context<Self>,
    ) {
        let now = UnixMillis::now();
        // What cannot be read is learned anew: no crawl waits for it.
        let mut lanes = lanes.unwrap_or_default();
        lanes.sort_by_key(|lane| std::cmp::Reverse(lane.at));
        let known = lanes.into_iter().filter_map(|lane| {
            let stored: Stored = serde_json::from_str(&lane.learned).ok()?;
            let known = Known {
                learned: stored.learned.map(|old| old.aged(now.since(lane.at))),
                wait: stored.not_before.map(|until| until.since(now)),
            };
            Some((lane.scope, known))
        });
        let known = known.collect();
        self.step(Msg::LearnedLoaded(known), ctx);
    }

    /// So many jobs are stored, or could not be.
    pub(super) fn learned_kept(&mut self, kept: Result<(), QuotaStoreError>, jobs: usize) {
        if let Err(error) = kept {
            self.ledger.renew_news();
            slog::warn!(self.registry.log(), "what was learned is not stored"; "error" => %error);
        }
        let jobs = jobs.min(self.memory.asked.len());
        for waiting in self.memory.asked.drain(..jobs).flatten() {
            // Who asked may be gone.
            let _ = waiting.send(());
        }
    }
}

impl Handler<KeepLearned> for RateGovernor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: KeepLearned, ctx: &mut Self::Context) -> Self::Result {
        self.keep(false, ctx);
        // What the store was asked before has to be stored too.
        let Some(last) = self.memory.asked.back_mut() else {
            return Box::pin(async {});
        };
        let (done, stored) = oneshot::channel();
        last.push(done);
        Box::pin(async {
            // A governor that dies meanwhile stores nothing more.
            let _ = stored.await;
        })
    }
}
