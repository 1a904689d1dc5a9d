//! What a PlatformActor does with each message.

use actix::prelude::*;
use slog::info;

use super::{PlatformActor, Workers};
use crate::governor::{LimitsChanged, Target};
use crate::observe::SiteState;
use crate::platform::messages::{
    Answered, Crash, CutOff, Dismiss, Finished, Look, Roomy, SiteEnd, Stop,
};

impl Handler<Finished> for PlatformActor {
    type Result = ();

    fn handle(&mut self, Finished(completion): Finished, ctx: &mut Self::Context) {
        self.workers.0.remove(&completion.task);
        self.completions.push(completion);
        if let Some(why) = self.shared.as_ref().and_then(|shared| shared.fatal.take()) {
            return self.finish(SiteEnd::Failed(why));
        }
        self.exchange(ctx);
    }
}

impl Handler<Answered> for PlatformActor {
    type Result = ();

    fn handle(&mut self, answered: Answered, ctx: &mut Self::Context) {
        self.exchanging -= 1;
        self.asked -= answered.asked;
        let mut leased = match answered.result {
            Ok(leased) => leased,
            Err(why) => return self.finish(SiteEnd::Failed(why.to_string())),
        };
        self.meter
            .progress(answered.completed, leased.pending, leased.leased);
        if answered.asked > 0 {
            self.more = leased.more;
        }
        // A stale lease brought nothing in, so what it found is not known.
        if leased.stale == 0
            && let Some(shared) = &self.shared
        {
            let mut known = shared.known.borrow_mut();
            for (key, depth) in answered.promised {
                known.insert(key, depth);
            }
        }
        let tasks = std::mem::take(&mut leased.tasks);
        self.last = leased;
        if !tasks.is_empty() {
            self.meter.state(SiteState::Running);
        }
        for task in tasks {
            self.start_worker(task, ctx);
        }
        if !self.completions.is_empty() {
            self.exchange(ctx);
        } else if self.exchanging > 0 {
            // What the store says next is newer.
        } else if self.workers.0.is_empty() {
            self.idle(ctx);
        } else {
            self.look_again(ctx);
        }
    }
}

impl Handler<Look> for PlatformActor {
    type Result = ();

    fn handle(&mut self, _: Look, ctx: &mut Self::Context) {
        self.look = None;
        self.exchange(ctx);
        if self.exchanging == 0 && self.look.is_none() && !self.workers.0.is_empty() {
            self.look_again(ctx);
        }
    }
}

impl Handler<Roomy> for PlatformActor {
    type Result = ();

    fn handle(&mut self, _: Roomy, ctx: &mut Self::Context) {
        self.exchange(ctx);
    }
}

impl Handler<LimitsChanged> for PlatformActor {
    type Result = ();

    fn handle(&mut self, changed: LimitsChanged, ctx: &mut Self::Context) {
        if changed.target == Target::Global
            && let Some(cap) = changed.limits.max_concurrency_num
        {
            self.cap = cap;
            self.exchange(ctx);
        }
    }
}

impl Handler<Stop> for PlatformActor {
    type Result = ();

    fn handle(&mut self, stop: Stop, ctx: &mut Self::Context) {
        if self.stopping.send_replace(true) {
            return;
        }
        ctx.notify_later(CutOff, stop.grace);
        self.exchange(ctx);
        if self.exchanging == 0 && self.workers.0.is_empty() && self.completions.is_empty() {
            self.finish(SiteEnd::Interrupted);
        }
    }
}

impl Handler<CutOff> for PlatformActor {
    type Result = ();

    fn handle(&mut self, _: CutOff, _: &mut Self::Context) {
        if self.end.is_none() && !self.workers.0.is_empty() {
            info!(self.assignment.log, "exchanges cut off at the end of the grace";
                "count" => self.workers.0.len());
            // Their leases go back to pending when the job closes.
            self.workers = Workers::default();
            if self.exchanging == 0 {
                self.finish(SiteEnd::Interrupted);
            }
        }
    }
}

impl Handler<Dismiss> for PlatformActor {
    type Result = ();

    fn handle(&mut self, _: Dismiss, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

impl Handler<Crash> for PlatformActor {
    type Result = ();

    fn handle(&mut self, _: Crash, _: &mut Self::Context) {
        panic!("a drill");
    }
}
