//! The PlatformActor: keeps its site's leases filled and hands their results to the store.
//!
//! Workers run beside the actor, one per lease, and tell it when they end; what ends while the store
//! commits is sent with the next exchange, so that commits are shared.

mod end;
mod handlers;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::time::Duration;

use actix::prelude::*;
use futures_util::FutureExt;
use slog::warn;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::context::{Assignment, Context as Shared};
use super::messages::{Answered, Finished, Look, PlatformGone, Roomy, SiteEnd, SiteEnded};
use super::sessions::Held;
use super::{shares, worker};
use crate::exchange::Client;
use crate::governor::Subscribe;
use crate::model::{Completion, Mode, RobotsPolicy, Task, TaskId, UnixMillis};
use crate::observe::SiteMeter;
use crate::store::{Exchange, LaneRoom, Leased, StoreError};

/// Keys kept in front of the store's exact check, in `crawl` mode: 24 bytes each.
const KNOWN_PLACES: usize = 1 << 18;
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
        self.assignment.settings.scaled(time)
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
