//! What lanes have learned, from the store at the start and to it from time to time.

use std::collections::HashMap;
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

/// What is stored already, and who waits for more.
#[derive(Default)]
pub(super) struct Memory {
    kept: HashMap<String, String>,
    waiting: Vec<oneshot::Sender<()>>,
}

impl RateGovernor {
    pub(super) fn keep_now_and_then(&self, ctx: &mut Context<Self>) {
        ctx.run_interval(EVERY, |governor, ctx| {
            governor.keep(ctx);
        });
    }

    /// Stores what has changed. Whether there was anything.
    pub(super) fn keep(&mut self, ctx: &mut Context<Self>) -> bool {
        let at = UnixMillis::now();
        let mut lanes = Vec::new();
        for (scope, known) in self.ledger.known() {
            let stored = Stored {
                // A limit that was never met is looked for again: that costs little, and stores nothing.
                learned: known.learned.filter(|learned| learned.met),
                not_before: known.wait.map(|wait| at.after(wait)),
            };
            if stored.learned.is_none() && stored.not_before.is_none() {
                continue;
            }
            let Ok(learned) = serde_json::to_string(&stored) else {
                continue;
            };
            if self.memory.kept.get(&scope) != Some(&learned) {
                self.memory.kept.insert(scope.clone(), learned.clone());
                lanes.push(LearnedLane { scope, at, learned });
            }
        }
        let any = !lanes.is_empty();
        if any {
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
        let known = lanes.unwrap_or_default().into_iter().filter_map(|lane| {
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

    /// It is stored, or could not be.
    pub(super) fn learned_kept(&mut self, kept: Result<(), QuotaStoreError>) {
        if let Err(error) = kept {
            self.memory.kept.clear();
            slog::warn!(self.registry.log(), "what was learned is not stored"; "error" => %error);
        }
        for waiting in self.memory.waiting.drain(..) {
            // Who asked may be gone.
            let _ = waiting.send(());
        }
    }
}

impl Handler<KeepLearned> for RateGovernor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: KeepLearned, ctx: &mut Self::Context) -> Self::Result {
        if !self.keep(ctx) {
            return Box::pin(async {});
        }
        let (done, stored) = oneshot::channel();
        self.memory.waiting.push(done);
        Box::pin(async {
            // A governor that dies meanwhile stores nothing more.
            let _ = stored.await;
        })
    }
}
