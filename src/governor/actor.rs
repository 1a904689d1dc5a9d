//! The actor around the ledger: a clock, one timer, and the parked answers.

mod batch;
mod handlers;
mod learned;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::dev::{MessageResponse, OneshotSender};
use actix::{Actor, Addr, ArbiterHandle, AsyncContext, Context, Message, Recipient, SpawnHandle};
use slog::{Drain, Level, debug};

use self::batch::Batch;
pub use self::learned::KeepLearned;
use self::learned::Memory;
use super::counter::Counter;
use super::ledger::{Action, LaneId, Ledger, LedgerConfig, Msg};
use super::messages::{Acquire, Cancel, PermitId, Refused, Target, Ticket};
use super::permit::Permit;
use super::quota_store::{PastUse, QuotaStore};
use super::registry::Registry;
use super::store_thread::{Job, StoreLink};
use crate::model::{Timestamp, UnixMillis};
use crate::settings::LimitSettings;

/// When a quota store failed, it is asked again after this.
const STORE_RETRY: Duration = Duration::from_secs(1);
/// A use is stored a little before its request leaves; read back, it counts from this much later.
const STAMP_MARGIN: Duration = Duration::from_millis(100);
/// Longest single timer; a later wake-up takes several.
const LONGEST_SLEEP: Duration = Duration::from_secs(86_400);

/// There is something on the desk of a counter.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Work(pub(crate) Arc<Counter>);

type Answer = Result<Permit, Refused>;
type Parked = Rc<RefCell<HashMap<Ticket, OneshotSender<Answer>>>>;

/// Tells that a governor has ended, so that another can be started with the same [`Registry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct GovernorGone {
    /// Whether it panicked; else it was stopped.
    pub panicked: bool,
}

/// Be told of each [`Retune`](super::Retune) that was applied. Survives the governor's restart.
#[derive(Clone, Message)]
#[rtype(result = "()")]
pub struct Subscribe(pub Recipient<LimitsChanged>);

/// Limits have changed.
#[derive(Clone, Debug, PartialEq, Message)]
#[rtype(result = "()")]
pub struct LimitsChanged {
    /// Whose.
    pub target: Target,
    /// The limits from now on.
    pub limits: LimitSettings,
}

/// Panics in the governor, for failure drills.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Crash;

/// End the actor. Who waits gets no answer; ask for [`Drain`](super::Drain) first.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Stop;

/// The governor of a node. Grants permits within all limits, and learns from what comes of them.
pub struct RateGovernor {
    ledger: Ledger,
    registry: Registry,
    tenure: u64,
    batch: Batch,
    parked: Parked,
    /// The request that is being handled: its sender is not parked yet.
    asking: Option<Ticket>,
    answer: Option<Answer>,
    store: StoreLink,
    store_error: Option<String>,
    memory: Memory,
    wake: Option<(Timestamp, SpawnHandle)>,
    actions: Vec<Action>,
    _death: DeathNotice,
}

/// Dropped with the actor, also while a panic unwinds.
struct DeathNotice {
    registry: Registry,
    tenure: u64,
    recipient: Option<Recipient<GovernorGone>>,
}

impl Drop for DeathNotice {
    fn drop(&mut self) {
        self.registry.leave(self.tenure);
        if let Some(recipient) = &self.recipient {
            recipient.do_send(GovernorGone {
                panicked: std::thread::panicking(),
            });
        }
    }
}

impl RateGovernor {
    /// Start a governor on an arbiter. With the registry of an earlier one it goes on where that stopped:
    /// permits out count, pace, pauses and changed limits hold; `config` is then used for nothing.
    ///
    /// `seed` is for the jitter of pauses. `gone` is told when the governor ends.
    pub fn start_in(
        arbiter: &ArbiterHandle,
        config: LedgerConfig,
        registry: Registry,
        quota_store: Box<dyn QuotaStore>,
        gone: Option<Recipient<GovernorGone>>,
        seed: u64,
    ) -> Addr<Self> {
        Self::start_in_arbiter(arbiter, move |ctx| {
            let tenure = registry.take_over(&ctx.address());
            let now = registry.now();
            let mut ledger = Ledger::restore(config, seed, now, &registry.carried());
            ledger.track();
            Self {
                ledger,
                _death: DeathNotice {
                    registry: registry.clone(),
                    tenure,
                    recipient: gone,
                },
                registry,
                tenure,
                batch: Batch::new(),
                parked: Rc::default(),
                asking: None,
                answer: None,
                store: StoreLink::Idle(quota_store),
                store_error: None,
                memory: Memory::default(),
                wake: None,
                actions: Vec::new(),
            }
        })
    }

    fn step(&mut self, msg: Msg, ctx: &mut Context<Self>) {
        let now = self.registry.now();
        if let Msg::Release { permit, .. } = msg {
            log_release(&self.registry, &self.ledger, permit, now);
        }
        self.ledger.handle(now, msg, &mut self.actions);
        self.ledger.sweep();
        // Remembered before it is handed out: a permit is never out and unknown.
        self.ledger.save(&mut self.registry.carried());
        self.act(now, ctx);
    }

    /// Does what the ledger wants done.
    fn act(&mut self, now: Timestamp, ctx: &mut Context<Self>) {
        let mut actions = std::mem::take(&mut self.actions);
        let mut store = Vec::new();
        let mut named = false;
        for action in actions.drain(..) {
            match action {
                Action::Grant {
                    ticket,
                    permit,
                    lane,
                    deadline,
                } => self.grant(ticket, permit, lane, deadline),
                Action::Refuse { ticket, why } => match ticket.desk() {
                    Some(desk) => self.batch.decide(desk, ticket, Err(why)),
                    None => self.reply(ticket, Err(why)),
                },
                Action::Load => store.push(Job::Load),
                Action::LoadLearned => store.push(Job::LoadLearned),
                Action::KeepLearned => named = true,
                Action::Store { permit, uses } => store.push(Job::Record(permit, uses)),
            }
        }
        self.actions = actions;
        self.batch.deliver();
        for job in store {
            self.ask_store(job, ctx);
        }
        if named {
            self.keep(true, ctx);
        }
        self.arm(now, ctx);
    }

    fn grant(&mut self, ticket: Ticket, permit: PermitId, lane: LaneId, deadline: Timestamp) {
        let log = self.registry.log();
        if log.is_enabled(Level::Debug) {
            debug!(log, "permit granted"; "lane" => %self.ledger.key(lane), "permit" => permit.0,
                "in_flight" => self.ledger.in_flight());
        }
        let deadline = self.registry.instant(deadline);
        if let Some(desk) = ticket.desk() {
            return self.batch.decide(desk, ticket, Ok((permit, deadline)));
        }
        let lane = self.ledger.key(lane).clone();
        let permit = Permit::new(self.registry.common_counter(), permit, lane, deadline);
        self.reply(ticket, Ok(permit));
    }

    fn ask_store(&mut self, job: Job, ctx: &mut Context<Self>) {
        let failed = job.failure();
        let answer = match self.store.ask(job, || ctx.address().recipient()) {
            Ok(None) => return,
            Ok(Some(answer)) => answer,
            Err(error) => failed(error),
        };
        ctx.notify(answer);
    }

    /// An answer that nobody takes is dropped; a permit in it returns itself.
    fn reply(&mut self, ticket: Ticket, answer: Answer) {
        if self.asking == Some(ticket) {
            self.answer = Some(answer);
        } else if let Some(sender) = self.parked.borrow_mut().remove(&ticket) {
            drop(sender.send(answer));
        }
    }

    /// Keeps one timer, at or before the instant at which the ledger has something to do.
    fn arm(&mut self, now: Timestamp, ctx: &mut Context<Self>) {
        let Some(at) = self.ledger.next_wake() else {
            return;
        };
        if let Some((armed, handle)) = self.wake {
            if armed <= at {
                return;
            }
            ctx.cancel_future(handle);
        }
        let sleep = at.since(now).min(LONGEST_SLEEP);
        let handle = ctx.run_later(sleep, |governor, ctx| {
            governor.wake = None;
            governor.step(Msg::Tick, ctx);
        });
        self.wake = Some((now + sleep, handle));
    }

    fn past(&self, uses: Vec<PastUse>) -> Vec<(String, Timestamp)> {
        let now = self.registry.now();
        let wall = UnixMillis::now();
        uses.into_iter()
            .map(|past| (past.scope, now - wall.since(past.at) + STAMP_MARGIN))
            .collect()
    }
}

impl Actor for RateGovernor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        // What lay on the desks, then what became due.
        for counter in self.registry.counters() {
            self.work(&counter, ctx);
        }
        self.step(Msg::Tick, ctx);
        self.keep_now_and_then(ctx);
    }
}

fn log_release(registry: &Registry, ledger: &Ledger, permit: PermitId, now: Timestamp) {
    let log = registry.log();
    if log.is_enabled(Level::Debug)
        && let Some((lane, held)) = ledger.held(permit, now)
    {
        debug!(log, "permit released"; "lane" => %lane, "permit" => permit.0,
            "held_ms" => held.as_millis(), "in_flight" => ledger.in_flight().saturating_sub(1));
    }
}

/// The answer to [`Acquire`], now or later.
pub struct AcquireResponse {
    ticket: Ticket,
    answer: Option<Answer>,
    parked: Parked,
}

impl MessageResponse<RateGovernor, Acquire> for AcquireResponse {
    fn handle(self, ctx: &mut Context<RateGovernor>, sender: Option<OneshotSender<Answer>>) {
        match (self.answer, sender) {
            (Some(answer), Some(sender)) => drop(sender.send(answer)),
            (None, Some(sender)) => {
                self.parked.borrow_mut().insert(self.ticket, sender);
            }
            (None, None) => ctx.notify(Cancel {
                ticket: self.ticket,
            }),
            (Some(_), None) => {}
        }
    }
}
