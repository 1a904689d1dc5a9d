//! The PlatformActor: keeps its site's leases filled and hands their results to the store.
//!
//! Workers run beside the actor, one per lease, and tell it when they end; what ends while the store
//! commits is sent with the next exchange, so that commits are shared.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::time::Duration;

use actix::prelude::*;
use futures_util::FutureExt;
use slog::{debug, error, info, warn};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::context::{Assignment, Context as Shared};
use super::messages::{
    Answered, Crash, CutOff, Dismiss, Finished, Look, PlatformGone, Roomy, SiteEnd, SiteEnded, Stop,
};
use super::sessions::Held;
use super::{shares, worker};
use crate::exchange::Client;
use crate::governor::{LimitsChanged, Subscribe, Target};
use crate::model::{Completion, Mode, RobotsPolicy, Task, TaskId, UnixMillis};
use crate::observe::{SiteMeter, SiteState};
use crate::store::{Exchange, LaneRoom, Leased, StoreError};

/// Keys kept in front of the store's exact check, in `crawl` mode: 24 bytes each.
const KNOWN_PLACES: usize = 1 << 18;
/// A wait worth telling.
const LONG_WAIT: Duration = Duration::from_secs(5);
/// How often a site looks for work that the consumers of its records held back.
const CREDIT_LOOK: Duration = Duration::from_millis(20);

/// One site of one job.
pub struct PlatformActor {
    assignment: Assignment,
    owner: u64,
    ended: Recipient<SiteEnded>,
    /// Last, so that the Supervisor hears of the death after the workers are gone.
    shared: Option<Rc<Shared>>,
    stopping: watch::Sender<bool>,
    workers: Workers,
    /// Ended leases that the store has not been told yet, with the keys they will make known.
    completions: Vec<Completion>,
    /// Exchanges with the store that it has not answered.
    exchanging: usize,
    /// Leases that they ask for.
    asked: usize,
    cap: u32,
    /// Whether the store had more for lanes that had room.
    more: bool,
    meter: SiteMeter,
    look: Option<SpawnHandle>,
    last: Leased,
    end: Option<SiteEnd>,
    _guard: Guard,
}

/// Running workers. Dropping them, as a panic of the actor does, cuts them off: their permits go back.
#[derive(Default)]
struct Workers(HashMap<TaskId, AbortHandle>);

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in self.0.values() {
            worker.abort();
        }
    }
}

/// Tells the Supervisor that the actor is gone, however it went.
struct Guard {
    owner: u64,
    gone: Recipient<PlatformGone>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.gone.do_send(PlatformGone {
            owner: self.owner,
            panicked: std::thread::panicking(),
        });
    }
}

impl PlatformActor {
    /// Start on `arbiter`. `owner` numbers the actor: no other of the process has the same.
    pub fn start_in(
        arbiter: &ArbiterHandle,
        assignment: Assignment,
        owner: u64,
        ended: Recipient<SiteEnded>,
        gone: Recipient<PlatformGone>,
    ) -> Addr<Self> {
        Self::start_in_arbiter(arbiter, move |_| Self {
            cap: assignment.settings.max_concurrency_num,
            more: false,
            meter: assignment.metrics.site(assignment.site.name()),
            assignment,
            owner,
            ended,
            shared: None,
            stopping: watch::Sender::new(false),
            workers: Workers::default(),
            completions: Vec::new(),
            exchanging: 0,
            asked: 0,
            look: None,
            last: Leased::default(),
            end: None,
            _guard: Guard { owner, gone },
        })
    }

    /// The cap that applies to the site as a whole.
    fn site_cap(&self) -> usize {
        let own = self.assignment.site.limits().site.max_concurrency_num;
        // In `crawl` mode each host has the site's cap for itself.
        let cap = match own {
            Some(own) if !self.assignment.site.lanes_by_host() => own.min(self.cap),
            _ => self.cap,
        };
        cap as usize
    }

    /// How many leases to ask for, and how many of them each lane may have.
    fn wanted(&self) -> (usize, LaneRoom) {
        let Some(shared) = &self.shared else {
            return (0, LaneRoom::default());
        };
        let mut shares = shared.shares.borrow_mut();
        shares.set(self.site_cap(), self.assignment.settings.prefetch as usize);
        shares.ask(self.workers.0.len() + self.asked, shared.now())
    }

    fn start_worker(&mut self, task: Task, ctx: &mut Context<Self>) {
        let Some(shared) = self.shared.clone() else {
            return;
        };
        let id = task.id;
        let me = ctx.address();
        let running = actix_rt::spawn(async move {
            let lease = task.clone();
            let completion = match AssertUnwindSafe(worker::work(&shared, task))
                .catch_unwind()
                .await
            {
                Ok(completion) => completion,
                Err(panic) => worker::panicked(&shared, lease, panic_text(&*panic)),
            };
            me.do_send(Finished(completion));
        });
        self.workers.0.insert(id, running.abort_handle());
    }

    /// Send what has ended to the store and fill up the leases. What ends while the store is busy waits for the
    /// next exchange; but a cap of 1 promises an order, which claims of redirects take part in, so there each
    /// result is sent at once.
    fn exchange(&mut self, ctx: &mut Context<Self>) {
        if (self.exchanging > 0 && self.cap > 1) || self.end.is_some() {
            return;
        }
        let stopping = *self.stopping.borrow();
        let credit = (self.assignment.credit)();
        let over = stopping || self.errand().is_some();
        let (lease, room) = if over || !credit {
            (0, LaneRoom::default())
        } else {
            self.wanted()
        };
        if self.completions.is_empty() && lease == 0 {
            if !credit && !over {
                self.look_after(CREDIT_LOOK, ctx);
            }
            return;
        }
        let completions = std::mem::take(&mut self.completions);
        let completed = completions.len() as u64;
        let promised = match self.assignment.job.mode {
            Mode::Crawl => completions
                .iter()
                .flat_map(|done| &done.follow)
                .map(|task| (task.key, task.depth))
                .collect(),
            Mode::Search | Mode::Detail | Mode::Creator => Vec::new(),
        };
        self.exchanging += 1;
        self.asked += lease;
        let me = ctx.address();
        let asked = self.assignment.store.send(Exchange {
            site: self.assignment.site.name().clone(),
            owner: self.owner,
            completions,
            lease,
            room,
        });
        actix_rt::spawn(async move {
            let result = asked.await.unwrap_or_else(|_| Err(StoreError::Gone));
            me.do_send(Answered {
                result,
                completed,
                asked: lease,
                promised,
            });
        });
    }

    fn look_after(&mut self, wait: Duration, ctx: &mut Context<Self>) {
        if let Some(earlier) = self.look.take() {
            ctx.cancel_future(earlier);
        }
        self.look = Some(ctx.notify_later(Look, wait));
    }

    /// While workers are busy: some lanes wait for a time while others go on, and leases that get nowhere may turn
    /// out not to count.
    fn look_again(&mut self, ctx: &mut Context<Self>) {
        let due = self.last.next_due;
        let due = due.map(|due| due.since(UnixMillis::now()).max(Duration::from_millis(1)));
        let stuck = self.more.then_some(shares::IDLE);
        if let Some(wait) = due.into_iter().chain(stuck).min() {
            self.look_after(wait, ctx);
        }
    }

    /// Nothing runs and nothing could be leased: is the site done, waiting, or blocked?
    fn idle(&mut self, ctx: &mut Context<Self>) {
        if let Some(reason) = self.errand() {
            let until = None;
            return self.finish(SiteEnd::Blocked { until, reason });
        }
        if self.last.pending == 0 && self.last.leased == 0 {
            return self.finish(SiteEnd::Finished);
        }
        if *self.stopping.borrow() {
            return self.finish(SiteEnd::Interrupted);
        }
        if self.last.capped {
            return self.finish(SiteEnd::Capped);
        }
        let now = UnixMillis::now();
        let until = self.last.next_due.unwrap_or(now);
        let wait = until.since(now);
        let max_wait = self.scaled(self.assignment.settings.max_wait);
        let refused_for = self
            .shared
            .as_ref()
            .and_then(|shared| shared.trouble.get())
            .map_or(Duration::ZERO, |trouble| trouble.since.elapsed());
        if wait > max_wait || refused_for > max_wait {
            let why = self.waits_for();
            let reason = if wait > max_wait {
                format!("{why}; the next request is not due before {until}")
            } else {
                format!(
                    "{why}; nothing but refusals for {}",
                    humantime::format_duration(Duration::from_secs(refused_for.as_secs()))
                )
            };
            return self.finish(SiteEnd::Blocked {
                until: Some(until),
                reason,
            });
        }
        self.meter.state(SiteState::Waiting(until));
        let why = self.waits_for();
        if wait > LONG_WAIT {
            info!(self.assignment.log, "waiting"; "until" => %until, "why" => why);
        } else {
            debug!(self.assignment.log, "waiting"; "until" => %until, "why" => why);
        }
        self.look_after(wait.max(Duration::from_millis(1)), ctx);
    }

    /// What a person has to do before the site can go on.
    fn errand(&self) -> Option<String> {
        self.shared.as_ref().and_then(|shared| shared.errand())
    }

    fn waits_for(&self) -> String {
        let told = self
            .shared
            .as_ref()
            .map(|shared| shared.waits_for.borrow().clone())
            .filter(|told| !told.is_empty());
        told.unwrap_or_else(|| "what failed is asked again later".to_owned())
    }

    /// Begins to work, with the session of its account.
    fn begin(&mut self, session: Option<Held>, ctx: &mut Context<Self>) {
        let settings = &self.assignment.settings;
        // The client is bound to this thread, so it is made here.
        let client = match Client::within(
            &self.assignment.network,
            &settings.exchange,
            &settings.user_agent,
        ) {
            Ok(client) => client,
            Err(why) => {
                let why = format!("the HTTP client cannot be made: {why}");
                return self.finish(SiteEnd::Failed(why));
            }
        };
        let client = match &session {
            Some(held) => client.with_session(held.session()),
            None => client,
        };
        let places = match self.assignment.job.mode {
            Mode::Crawl => KNOWN_PLACES,
            _ => 1,
        };
        if self.assignment.site.robots() == RobotsPolicy::Off {
            warn!(
                self.assignment.log,
                "robots.txt is not consulted: it is switched off for this site"
            );
        }
        let me = ctx.address();
        self.shared = Some(Rc::new(Shared::new(
            self.assignment.clone(),
            client,
            session,
            places,
            self.stopping.subscribe(),
            Box::new(move || me.do_send(Roomy)),
        )));
        self.assignment
            .governor
            .tell(Subscribe(ctx.address().recipient()));
        self.exchange(ctx);
    }

    fn scaled(&self, time: Duration) -> Duration {
        time.mul_f64(self.assignment.settings.test_time_scale)
    }

    fn finish(&mut self, end: SiteEnd) {
        if self.end.is_some() {
            return;
        }
        if let Some(shared) = &self.shared {
            shared.leave_errand();
        }
        let word = match &end {
            SiteEnd::Finished => "complete",
            SiteEnd::Capped => "cap",
            SiteEnd::Blocked { .. } => "blocked",
            SiteEnd::Interrupted => "interrupted",
            SiteEnd::Failed(_) => "failed",
        };
        self.meter.state(SiteState::Finished(word));
        match &end {
            SiteEnd::Failed(why) => error!(self.assignment.log, "failed"; "why" => why),
            SiteEnd::Blocked {
                reason,
                until: None,
            } => {
                warn!(self.assignment.log, "a person is needed"; "why" => reason);
            }
            SiteEnd::Blocked { reason, .. } => {
                info!(self.assignment.log, "blocked"; "why" => reason);
            }
            _ => info!(self.assignment.log, "ended"; "how" => word),
        }
        self.end = Some(end.clone());
        self.ended.do_send(SiteEnded {
            owner: self.owner,
            end,
        });
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

impl Actor for PlatformActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let Assignment {
            sessions,
            site,
            settings,
            ..
        } = self.assignment.clone();
        // Nothing is leased or asked before it is known who asks.
        let opening = async move { sessions.of_site(site.name(), &settings).await };
        ctx.wait(
            opening
                .into_actor(self)
                .map(|opened, me, ctx| match opened {
                    Ok(session) => me.begin(session, ctx),
                    Err(why) => me.finish(SiteEnd::Failed(why.to_string())),
                }),
        );
    }
}

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
