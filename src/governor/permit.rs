//! The right to make one HTTP exchange, and the handle that asks for it.

use std::sync::Arc;
use std::time::Duration;

use actix::{Addr, Handler, MailboxError, Message};
use tokio::sync::watch;
use tokio::time::Instant;

use super::actor::RateGovernor;
use super::messages::{
    Acquire, Cancel, Drain, GovernorSnapshot, Hints, LaneKey, Pause, PermitId, Refused, Release,
    Report, Resume, Retune, Snapshot, Ticket,
};
use super::registry::Registry;
use crate::model::Outcome;

/// How to reach the governor of a node, whichever it is just now. Cheap to clone; keeps the actor alive.
#[derive(Clone, Debug)]
pub struct Governor {
    registry: Registry,
    current: Arc<watch::Sender<Current>>,
}

#[derive(Clone, Debug)]
enum Current {
    /// The first one is not there yet: who asks waits for it.
    Starting,
    Running(Addr<RateGovernor>),
    Closed,
}

impl Governor {
    /// A handle to `addr`, which was started with `registry`.
    #[must_use]
    pub fn new(addr: Addr<RateGovernor>, registry: Registry) -> Self {
        Self {
            registry,
            current: Arc::new(watch::Sender::new(Current::Running(addr))),
        }
    }

    /// A handle to a governor that will be started with `registry` and named by [`Governor::replace`]. Who
    /// asks before that waits.
    #[must_use]
    pub fn starting(registry: Registry) -> Self {
        Self {
            registry,
            current: Arc::new(watch::Sender::new(Current::Starting)),
        }
    }

    /// From now on `addr` is the governor. Requests that were waiting at a dead one ask it anew.
    pub fn replace(&self, addr: Addr<RateGovernor>) {
        self.current.send_replace(Current::Running(addr));
    }

    /// There will be no governor any more: who waits, and who asks later, is refused with [`Refused::Gone`].
    pub fn close(&self) {
        self.current.send_replace(Current::Closed);
    }

    /// The address of the governor, to send it messages directly. `None` before there is one, and after
    /// [`Governor::close`].
    #[must_use]
    pub fn addr(&self) -> Option<Addr<RateGovernor>> {
        match &*self.current.borrow() {
            Current::Running(addr) => Some(addr.clone()),
            Current::Starting | Current::Closed => None,
        }
    }

    /// Send a message without waiting for it to be handled. One that a dying governor has not handled is lost.
    pub fn tell<M>(&self, message: M)
    where
        M: Message + Send + 'static,
        M::Result: Send,
        RateGovernor: Handler<M>,
    {
        if let Some(addr) = self.addr() {
            addr.do_send(message);
        }
    }

    /// Wait for a permit in `lane`. Smaller `priority` goes first; for `patience` see [`Acquire::patience`].
    ///
    /// Dropping the future takes the request back. When the governor dies meanwhile, its successor is asked.
    ///
    /// # Errors
    /// [`Refused`] says why there is none.
    pub async fn acquire(
        &self,
        lane: Arc<LaneKey>,
        priority: u8,
        patience: Duration,
    ) -> Result<Permit, Refused> {
        let ticket = self.registry.ticket();
        let request = Acquire {
            ticket,
            lane,
            priority,
            patience,
        };
        let mut withdrawal = Withdrawal {
            governor: self,
            ticket,
            armed: true,
        };
        let answer = self.ask(request).await.unwrap_or(Err(Refused::Gone));
        withdrawal.armed = false;
        answer
    }

    /// Send a message and wait for the answer; when the governor dies first, ask its successor.
    /// `None`: there is none.
    pub async fn ask<M>(&self, message: M) -> Option<M::Result>
    where
        M: Message + Clone + Send + 'static,
        M::Result: Send,
        RateGovernor: Handler<M>,
    {
        let mut current = self.current.subscribe();
        loop {
            let addr = match &*current.borrow_and_update() {
                Current::Running(addr) => Some(addr.clone()),
                Current::Starting => None,
                Current::Closed => return None,
            };
            let Some(addr) = addr else {
                current.changed().await.ok()?;
                continue;
            };
            match addr.send(message.clone()).await {
                Ok(answer) => return Some(answer),
                Err(MailboxError::Closed | MailboxError::Timeout) => {
                    drop(addr);
                    current.changed().await.ok()?;
                }
            }
        }
    }

    /// The state of the governor. `None` when there is none.
    pub async fn snapshot(&self) -> Option<GovernorSnapshot> {
        self.ask(Snapshot).await
    }

    /// Replace limits; returns when they hold.
    pub async fn retune(&self, retune: Retune) {
        self.ask(retune).await;
    }

    /// Grant nothing for a target; returns when it holds.
    pub async fn pause(&self, pause: Pause) {
        self.ask(pause).await;
    }

    /// End a pause.
    pub async fn resume(&self, resume: Resume) {
        self.ask(resume).await;
    }

    /// Grant nothing any more, refuse all who wait.
    pub async fn drain(&self) {
        self.ask(Drain).await;
    }
}

/// Takes a request back when its future is dropped.
struct Withdrawal<'a> {
    governor: &'a Governor,
    ticket: Ticket,
    armed: bool,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        if self.armed
            && let Some(addr) = self.governor.addr()
        {
            addr.do_send(Cancel {
                ticket: self.ticket,
            });
        }
    }
}

/// The right to make one HTTP exchange, until its deadline.
///
/// Dropped, it is returned as perhaps used, with the outcome [`Outcome::Cancelled`]: its slot is free,
/// its place in pace and quota is not.
#[derive(Debug)]
#[must_use = "a permit that is dropped at once still counts as a request"]
pub struct Permit {
    slot: Slot,
    lane: Arc<LaneKey>,
    deadline: Instant,
}

impl Permit {
    pub(crate) fn new(
        registry: Registry,
        id: PermitId,
        lane: Arc<LaneKey>,
        deadline: Instant,
    ) -> Self {
        Self {
            slot: Slot {
                registry,
                id,
                held: true,
            },
            lane,
            deadline,
        }
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> PermitId {
        self.slot.id
    }

    /// What it counts against.
    #[must_use]
    pub fn lane(&self) -> &Arc<LaneKey> {
        &self.lane
    }

    /// When it is taken back. The exchange has to end before.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Says what the answer was before the exchange has ended: from here on the lane grants nothing that
    /// the answer forbids, though its body is still being read. Said once; the [`Receipt`]'s report then
    /// adds nothing.
    pub fn refused(&self, outcome: Outcome, hints: Hints) {
        if let Some(governor) = self.slot.registry.governor() {
            governor.do_send(Report {
                permit: self.id(),
                outcome,
                hints,
                rtt: None,
            });
        }
    }

    /// The exchange has ended, the slot is free. `used`: whether a request was, or may have been, sent;
    /// an unused permit gives back its place in the pace.
    pub fn release(mut self, used: bool) -> Receipt {
        self.slot.free(used)
    }
}

/// A slot under the caps, freed once, whatever becomes of its holder.
#[derive(Debug)]
struct Slot {
    registry: Registry,
    id: PermitId,
    held: bool,
}

impl Slot {
    fn free(&mut self, used: bool) -> Receipt {
        self.held = false;
        let permit = self.id;
        if let Some(governor) = self.registry.returned(permit) {
            governor.do_send(Release { permit, used });
        }
        Receipt {
            registry: self.registry.clone(),
            id: permit,
            reported: false,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.held {
            drop(self.free(true));
        }
    }
}

/// The duty to say what the answer was. Dropped, it says [`Outcome::Cancelled`].
#[derive(Debug)]
#[must_use = "the governor learns from reports"]
pub struct Receipt {
    registry: Registry,
    id: PermitId,
    reported: bool,
}

impl Receipt {
    /// The permit it came from.
    #[must_use]
    pub fn id(&self) -> PermitId {
        self.id
    }

    /// What the answer was. `rtt`: from the request sent to the last byte.
    pub fn report(mut self, outcome: Outcome, hints: Hints, rtt: Option<Duration>) {
        self.send(outcome, hints, rtt);
    }

    fn send(&mut self, outcome: Outcome, hints: Hints, rtt: Option<Duration>) {
        self.reported = true;
        if let Some(governor) = self.registry.governor() {
            governor.do_send(Report {
                permit: self.id,
                outcome,
                hints,
                rtt,
            });
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if !self.reported {
            self.send(Outcome::Cancelled, Hints::default(), None);
        }
    }
}
