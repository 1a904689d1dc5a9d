//! What an exchange needs: a permit, used up by it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::egress::Egress;
use crate::governor::Hints;
use crate::model::Outcome;

/// The right to make one exchange, used up by it.
pub trait ExchangePermit {
    /// What the permit turns into when it is given back.
    type Receipt;

    /// The way out that the exchange takes; `None`: straight to the server.
    fn egress(&self) -> Option<&Arc<Egress>> {
        None
    }

    /// The exchange is over, whatever has come, at this instant.
    fn deadline(&self) -> Instant;

    /// How long the exchange may take, where that is not as the settings have it (`exchange.total_timeout`).
    fn total_timeout(&self) -> Option<Duration> {
        None
    }

    /// The head of an answer, before the permit is given back, refuses us: nothing that waits for the freed slot
    /// may leave before this is known.
    fn refused(&self, outcome: Outcome, hints: Hints) {
        let _ = (outcome, hints);
    }

    /// Gives the permit back. `used` tells whether a connection was begun or a request sent under it.
    fn release(self, used: bool) -> Self::Receipt;
}

impl ExchangePermit for crate::governor::Permit {
    type Receipt = crate::governor::Receipt;

    fn deadline(&self) -> Instant {
        Self::deadline(self)
    }

    fn refused(&self, outcome: Outcome, hints: Hints) {
        Self::refused(self, outcome, hints);
    }

    fn release(self, used: bool) -> Self::Receipt {
        Self::release(self, used)
    }
}

/// A permit for an exchange with a `total_timeout` of its own.
#[derive(Debug)]
pub struct Timed<P> {
    /// The permit.
    pub permit: P,
    /// How long the exchange may take; `None`: as the settings have it.
    pub total_timeout: Option<Duration>,
}

impl<P: ExchangePermit> ExchangePermit for Timed<P> {
    type Receipt = P::Receipt;

    fn egress(&self) -> Option<&Arc<Egress>> {
        self.permit.egress()
    }

    fn deadline(&self) -> Instant {
        self.permit.deadline()
    }

    fn total_timeout(&self) -> Option<Duration> {
        self.total_timeout
    }

    fn refused(&self, outcome: Outcome, hints: Hints) {
        self.permit.refused(outcome, hints);
    }

    fn release(self, used: bool) -> Self::Receipt {
        self.permit.release(used)
    }
}
