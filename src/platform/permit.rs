//! How a worker comes to a permit, and what is remembered of it while it waits and while it has one.

use std::time::Duration;

use tokio::time::Instant;

use super::context::Context;
use crate::governor::{LaneKey, Permit, Refused};
use crate::model::{Answer, Name, Outcome};
use crate::observe::{Exchanged, Flight};

/// Why a worker goes on without a permit: its task is handed back unasked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoPermit {
    /// Not before this has passed.
    Later(Duration),
    /// The run is stopping, or a person has to act first.
    Stopping,
}

/// A permit with what is measured around it.
pub(super) struct Granted<'a> {
    pub(super) permit: Permit,
    pub(super) meter: Meter<'a>,
}

/// A task that waits in a lane, until this is dropped.
pub(super) struct Waiting<'a> {
    context: &'a Context,
    lane: Name,
    granted: bool,
}

impl<'a> Waiting<'a> {
    pub(super) fn new(context: &'a Context, lane: &Name) -> Self {
        context.shares.borrow_mut().waits(lane, context.now());
        Self {
            context,
            lane: lane.clone(),
            granted: false,
        }
    }

    fn leaves(mut self) -> Leased<'a> {
        let context = self.context;
        self.granted = true;
        let wants = context
            .shares
            .borrow_mut()
            .leaves(&self.lane, context.now());
        if wants {
            (context.roomy)();
        }
        Leased {
            context,
            lane: self.lane.clone(),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.granted {
            self.context.shares.borrow_mut().gives_up(&self.lane);
        }
    }
}

/// A task that is in an exchange, until this is dropped.
struct Leased<'a> {
    context: &'a Context,
    lane: Name,
}

impl Drop for Leased<'_> {
    fn drop(&mut self) {
        let now = self.context.now();
        self.context.shares.borrow_mut().returns(&self.lane, now);
    }
}

/// Times of one exchange, which is in flight while this lives.
pub(super) struct Meter<'a> {
    wait: Duration,
    granted: Instant,
    _flight: Flight,
    leased: Leased<'a>,
}

impl Meter<'_> {
    /// The exchange came to `outcome`.
    pub(super) fn count(
        self,
        endpoint: &Name,
        outcome: Outcome,
        answer: Option<&Answer>,
        retry: bool,
    ) {
        self.leased.context.meter.exchanged(
            endpoint,
            &Exchanged {
                outcome,
                redirect: answer.is_some_and(|answer| answer.location().is_some()),
                retry,
                wait: self.wait,
                held: answer.map_or_else(|| self.granted.elapsed(), |answer| answer.total_time),
                latency: answer.map(|answer| answer.total_time),
            },
        );
    }
}

/// Wait for a permit, unless the run stops.
pub(super) async fn acquire<'a>(
    key: &std::sync::Arc<LaneKey>,
    waiting: Waiting<'a>,
    priority: u8,
) -> Result<Granted<'a>, NoPermit> {
    let context = waiting.context;
    if context.errand().is_some() {
        return Err(NoPermit::Stopping);
    }
    let asked = Instant::now();
    let mut stopping = context.stopping.clone();
    let granted = tokio::select! {
        biased;
        _ = stopping.wait_for(|stop| *stop) => return Err(NoPermit::Stopping),
        granted = context.assignment.governor.acquire(key.clone(), priority, context.patience()) => granted,
    };
    match granted {
        Ok(permit) => Ok(Granted {
            permit,
            meter: Meter {
                wait: asked.elapsed(),
                granted: Instant::now(),
                _flight: context.meter.flight(),
                leased: waiting.leaves(),
            },
        }),
        Err(Refused::Later { wait, why }) => {
            context.waits(&key.endpoint, why);
            Err(NoPermit::Later(wait))
        }
        Err(Refused::Paused) if context.errand().is_some() => Err(NoPermit::Stopping),
        // A person's pause has no end: look again from time to time.
        Err(Refused::Paused | Refused::QueueFull) => Err(NoPermit::Later(context.patience())),
        Err(Refused::Stopping | Refused::Cancelled | Refused::Gone) => Err(NoPermit::Stopping),
    }
}
