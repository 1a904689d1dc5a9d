//! One handler per message; each is a step of the ledger.

use actix::{ActorContext, AsyncContext, Handler, MessageResult};

use super::{AcquireResponse, Crash, LimitsChanged, RateGovernor, STORE_RETRY, Stop, Subscribe};
use crate::governor::ledger::Msg;
use crate::governor::messages::{
    Acquire, Cancel, Ceiling, Drain, Pause, Refused, Release, Report, Resume, Retune, Snapshot,
};
use crate::governor::quota_store::Recorded;
use crate::governor::store_thread::{Job, StoreAnswer};

impl Handler<Acquire> for RateGovernor {
    type Result = AcquireResponse;

    fn handle(&mut self, msg: Acquire, ctx: &mut Self::Context) -> Self::Result {
        let ticket = msg.ticket;
        if ticket.desk().is_some() || self.parked.borrow().contains_key(&ticket) {
            // A ticket names one request; the first keeps it.
            self.answer = Some(Err(Refused::Cancelled));
        } else {
            self.asking = Some(ticket);
            let lane = self.ledger.lane(&msg.lane);
            let msg = Msg::Acquire {
                ticket,
                lane,
                priority: msg.priority,
                patience: msg.patience,
            };
            self.step(msg, ctx);
            self.asking = None;
        }
        AcquireResponse {
            ticket,
            answer: self.answer.take(),
            parked: self.parked.clone(),
        }
    }
}

impl Handler<Release> for RateGovernor {
    type Result = ();

    fn handle(&mut self, msg: Release, ctx: &mut Self::Context) {
        let Release { permit, used } = msg;
        self.step(Msg::Release { permit, used }, ctx);
    }
}

impl Handler<Report> for RateGovernor {
    type Result = ();

    fn handle(&mut self, msg: Report, ctx: &mut Self::Context) {
        let msg = Msg::Report {
            permit: msg.permit,
            outcome: msg.outcome,
            hints: msg.hints,
        };
        self.step(msg, ctx);
    }
}

impl Handler<Cancel> for RateGovernor {
    type Result = ();

    fn handle(&mut self, msg: Cancel, ctx: &mut Self::Context) {
        self.step(Msg::Cancel { ticket: msg.ticket }, ctx);
    }
}

impl Handler<Retune> for RateGovernor {
    type Result = ();

    fn handle(&mut self, msg: Retune, ctx: &mut Self::Context) {
        let Retune { target, limits } = msg;
        let change = LimitsChanged {
            target: target.clone(),
            limits: limits.clone(),
        };
        self.step(Msg::Retune { target, limits }, ctx);
        self.registry.tell(&change);
    }
}

impl Handler<Ceiling> for RateGovernor {
    type Result = ();

    fn handle(&mut self, msg: Ceiling, ctx: &mut Self::Context) {
        let lane = self.ledger.lane(&msg.lane);
        let interval = msg.interval;
        self.step(Msg::Ceiling { lane, interval }, ctx);
    }
}

impl Handler<Pause> for RateGovernor {
    type Result = ();

    fn handle(&mut self, msg: Pause, ctx: &mut Self::Context) {
        let Pause { target, length } = msg;
        self.step(Msg::Pause { target, length }, ctx);
    }
}

impl Handler<Resume> for RateGovernor {
    type Result = ();

    fn handle(&mut self, msg: Resume, ctx: &mut Self::Context) {
        self.step(Msg::Resume { target: msg.target }, ctx);
    }
}

impl Handler<Drain> for RateGovernor {
    type Result = ();

    fn handle(&mut self, _: Drain, ctx: &mut Self::Context) {
        self.step(Msg::Drain, ctx);
    }
}

impl Handler<Snapshot> for RateGovernor {
    type Result = MessageResult<Snapshot>;

    fn handle(&mut self, _: Snapshot, ctx: &mut Self::Context) -> Self::Result {
        // A tick first, so that what is due by now is seen.
        self.step(Msg::Tick, ctx);
        let mut snapshot = self.ledger.snapshot(self.registry.now());
        snapshot.store_error = self.store_error.clone();
        MessageResult(snapshot)
    }
}

impl Handler<Subscribe> for RateGovernor {
    type Result = ();

    fn handle(&mut self, msg: Subscribe, _: &mut Self::Context) {
        self.registry.subscribe(msg.0);
    }
}

impl Handler<StoreAnswer> for RateGovernor {
    type Result = ();

    fn handle(&mut self, msg: StoreAnswer, ctx: &mut Self::Context) {
        let msg = match msg {
            StoreAnswer::Learned(lanes) => return self.learned_came(lanes, ctx),
            StoreAnswer::Kept(kept, jobs) => return self.learned_kept(kept, jobs),
            StoreAnswer::Loaded(Ok(uses)) => {
                self.store_error = None;
                Msg::UsesLoaded(self.past(uses))
            }
            StoreAnswer::Loaded(Err(error)) => {
                self.store_error = Some(error.to_string());
                ctx.run_later(STORE_RETRY, |governor, ctx| {
                    governor.ask_store(Job::Load, ctx)
                });
                return;
            }
            StoreAnswer::Recorded(permit, Ok(recorded)) => {
                self.store_error = None;
                match recorded {
                    Recorded::Done => Msg::UseStored(permit),
                    Recorded::Behind(uses) => Msg::UseBehind(permit, self.past(uses)),
                }
            }
            StoreAnswer::Recorded(permit, Err(error)) => {
                self.store_error = Some(error.to_string());
                Msg::UseFailed(permit, STORE_RETRY)
            }
        };
        self.step(msg, ctx);
    }
}

impl Handler<Crash> for RateGovernor {
    type Result = ();

    fn handle(&mut self, _: Crash, _: &mut Self::Context) {
        panic!("crash drill");
    }
}

impl Handler<Stop> for RateGovernor {
    type Result = ();

    fn handle(&mut self, _: Stop, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
