//! What must outlive a governor: permits out, what lanes have learned, and where the governor is.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix::{Addr, Recipient, WeakAddr};
use tokio::time::Instant;

use super::actor::{LimitsChanged, RateGovernor};
use super::ledger::Carried;
use super::messages::{PermitId, Ticket};
use crate::model::Timestamp;

/// How far the clock's origin lies before the registry's birth: uses of earlier processes have instants too.
const BEFORE_BIRTH: Duration = Duration::from_secs(2 * 366 * 86_400);

/// Shared by the governors of one node, one after another, and by all permits. Cheap to clone.
#[derive(Clone)]
pub struct Registry {
    shared: Arc<Shared>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}

struct Shared {
    birth: Instant,
    tickets: AtomicU64,
    carried: Mutex<Carried>,
    governor: Mutex<Option<WeakAddr<RateGovernor>>>,
    subscribers: Mutex<Vec<Recipient<LimitsChanged>>>,
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl Registry {
    /// A registry of a new node. Its clock starts now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                birth: Instant::now(),
                tickets: AtomicU64::new(1),
                carried: Mutex::default(),
                governor: Mutex::new(None),
                subscribers: Mutex::default(),
            }),
        }
    }

    /// A ticket that no other request of this node has.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        Ticket(self.shared.tickets.fetch_add(1, Ordering::Relaxed))
    }

    /// Permits handed out and not given back or taken back.
    #[must_use]
    pub fn permits_out(&self) -> usize {
        self.carried().permits_out()
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::ZERO + BEFORE_BIRTH + self.shared.birth.elapsed()
    }

    pub(crate) fn instant(&self, at: Timestamp) -> Instant {
        let since_birth = at.since(Timestamp::ZERO + BEFORE_BIRTH);
        let far = Duration::from_secs(10 * 366 * 86_400);
        self.shared.birth + since_birth.min(far)
    }

    /// The memory. A holder that panicked left it whole: each change is one assignment.
    pub(crate) fn carried(&self) -> MutexGuard<'_, Carried> {
        self.shared
            .carried
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A new governor takes over. From here on permits report to it.
    pub(crate) fn take_over(&self, governor: &Addr<RateGovernor>) {
        *self.link() = Some(governor.downgrade());
    }

    /// A permit was given back: noted here first, so that it is not lost if the governor dies before it
    /// hears of it. Its successor takes over the address before it reads the notes.
    pub(crate) fn returned(&self, permit: PermitId) -> Option<Addr<RateGovernor>> {
        self.carried().returned(permit);
        self.governor()
    }

    pub(crate) fn governor(&self) -> Option<Addr<RateGovernor>> {
        self.link().as_ref().and_then(WeakAddr::upgrade)
    }

    pub(crate) fn subscribe(&self, subscriber: Recipient<LimitsChanged>) {
        self.subscribers().push(subscriber);
    }

    /// Tells all subscribers that still live.
    pub(crate) fn tell(&self, change: &LimitsChanged) {
        self.subscribers().retain(|subscriber| {
            subscriber.do_send(change.clone());
            subscriber.connected()
        });
    }

    fn subscribers(&self) -> MutexGuard<'_, Vec<Recipient<LimitsChanged>>> {
        self.shared
            .subscribers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn link(&self) -> MutexGuard<'_, Option<WeakAddr<RateGovernor>>> {
        self.shared
            .governor
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
