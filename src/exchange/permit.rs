//! What an exchange needs: a permit, used up by it.

use std::sync::Arc;

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
