//! How a worker comes to a permit, and how the exchange made under it is counted.

use std::time::Duration;

use tokio::time::Instant;

use super::context::Context;
use crate::governor::{Permit, Refused};
use crate::model::{Answer, Name, Outcome};
use crate::observe::{Exchanged, Flight};

/// Why a worker goes on without a permit: its task is handed back unasked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoPermit {
    /// Not before this has passed.
    Later(Duration),
    /// The run is stopping.
    Stopping,
}

/// A permit with what is measured around it.
pub(super) struct Granted {
    pub(super) permit: Permit,
    pub(super) meter: Meter,
}

/// Times of one exchange.
pub(super) struct Meter {
    wait: Duration,
    granted: Instant,
    _flight: Flight,
}

impl Meter {
    /// Count the exchange that came to `outcome`.
    pub(super) fn count(
        &self,
        context: &Context,
        endpoint: &Name,
        outcome: Outcome,
        answer: Option<&Answer>,
        retry: bool,
    ) {
        let assignment = &context.assignment;
        assignment.metrics.exchanged(
            assignment.site.name(),
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
pub(super) async fn acquire(
    context: &Context,
    endpoint: &Name,
    lane: &Name,
    priority: u8,
) -> Result<Granted, NoPermit> {
    let asked = Instant::now();
    let key = context.lane(endpoint, lane);
    let mut stopping = context.stopping.clone();
    let granted = tokio::select! {
        biased;
        _ = stopping.wait_for(|stop| *stop) => return Err(NoPermit::Stopping),
        granted = context.assignment.governor.acquire(key, priority, context.patience()) => granted,
    };
    match granted {
        Ok(permit) => {
            let assignment = &context.assignment;
            Ok(Granted {
                permit,
                meter: Meter {
                    wait: asked.elapsed(),
                    granted: Instant::now(),
                    _flight: assignment.metrics.flight(assignment.site.name()),
                },
            })
        }
        Err(Refused::Later { wait, why }) => {
            context.waits(endpoint, why);
            Err(NoPermit::Later(wait))
        }
        // A person's pause has no end: look again from time to time.
        Err(Refused::Paused | Refused::QueueFull) => Err(NoPermit::Later(context.patience())),
        Err(Refused::Stopping | Refused::Cancelled | Refused::Gone) => Err(NoPermit::Stopping),
    }
}
