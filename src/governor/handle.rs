//! How to reach the governor of a node.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use actix::{Addr, Handler, MailboxError, Message};
use tokio::sync::watch;

use super::actor::RateGovernor;
use super::counter::Counter;
use super::desk::{Ask, Desk};
use super::messages::{
    Drain, GovernorSnapshot, LaneKey, Pause, Refused, Resume, Retune, Snapshot, Ticket,
};
use super::permit::Permit;
use super::registry::Registry;

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
        registry.reopen();
        Self {
            registry,
            current: Arc::new(watch::Sender::new(Current::Running(addr))),
        }
    }

    /// A handle to a governor that will be started with `registry` and named by [`Governor::replace`]. Who
    /// asks before that waits.
    #[must_use]
    pub fn starting(registry: Registry) -> Self {
        registry.reopen();
        Self {
            registry,
            current: Arc::new(watch::Sender::new(Current::Starting)),
        }
    }

    /// From now on `addr` is the governor. Requests that were waiting at a dead one ask it anew.
    pub fn replace(&self, addr: Addr<RateGovernor>) {
        self.registry.reopen();
        self.current.send_replace(Current::Running(addr));
    }

    /// There will be no governor any more: who waits, and who asks later, is refused with [`Refused::Gone`].
    /// This concerns all handles with the same registry.
    pub fn close(&self) {
        self.current.send_replace(Current::Closed);
        self.registry.close();
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
            self.registry.counter().at_desk(Desk::seal);
            addr.do_send(message);
        }
    }

    /// Wait for a permit in `lane`. Smaller `priority` goes first; for `patience` see
    /// [`Acquire::patience`](super::Acquire::patience).
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
        let mut asking = Asking {
            counter: self.registry.counter(),
            ticket: None,
        };
        let mut ask = Some(Ask {
            lane,
            priority,
            patience,
        });
        poll_fn(|context| match ask.take() {
            Some(ask) => asking.begin(ask, context.waker()),
            None => asking.poll(context.waker()),
        })
        .await
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
            self.registry.counter().at_desk(Desk::seal);
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

/// A request that waits; taken back when it is dropped.
struct Asking {
    counter: Arc<Counter>,
    ticket: Option<Ticket>,
}

impl Asking {
    fn begin(&mut self, ask: Ask, waker: &Waker) -> Poll<Result<Permit, Refused>> {
        let asked = self.counter.at_desk(|desk| desk.ask(ask, waker.clone()));
        match asked {
            Ok(ticket) => {
                self.ticket = Some(ticket);
                Poll::Pending
            }
            Err(refused) => Poll::Ready(Err(refused)),
        }
    }

    fn poll(&mut self, waker: &Waker) -> Poll<Result<Permit, Refused>> {
        let Some(ticket) = self.ticket else {
            return Poll::Pending;
        };
        let polled = self.counter.at_desk(|desk| desk.poll(ticket, waker));
        polled.map(|(lane, verdict)| {
            self.ticket = None;
            let (id, deadline) = verdict?;
            Ok(Permit::new(self.counter.clone(), id, lane, deadline))
        })
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.counter.at_desk(|desk| desk.withdraw(ticket));
        }
    }
}
