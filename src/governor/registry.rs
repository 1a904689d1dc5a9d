//! What must outlive a governor: permits out, what lanes have learned, the counters, and where the governor is.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::ThreadId;
use std::time::Duration;

use actix::{Addr, Arbiter, Recipient, WeakAddr};
use tokio::time::Instant;

use super::actor::{LimitsChanged, RateGovernor};
use super::counter::Counter;
use super::desk::{DESKS, Desk};
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
    log: slog::Logger,
    birth: Instant,
    tickets: AtomicU64,
    carried: Mutex<Carried>,
    front: RwLock<Front>,
    subscribers: Mutex<Vec<Recipient<LimitsChanged>>>,
}

/// The counters, and who sits behind them.
struct Front {
    /// The first is for all threads without an arbiter.
    counters: Vec<Arc<Counter>>,
    governor: Option<WeakAddr<RateGovernor>>,
    /// Counts the governors.
    tenure: u64,
    closed: bool,
}

impl Default for Front {
    fn default() -> Self {
        Self {
            counters: vec![Arc::new(Counter::new(0, None))],
            governor: None,
            tenure: 0,
            closed: false,
        }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        for counter in &self.counters {
            counter.end();
        }
    }
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
        Self::with_log(slog::Logger::root(slog::Discard, slog::o!()))
    }

    /// The same, for a governor that tells each grant and each release at level debug.
    #[must_use]
    pub fn with_log(log: slog::Logger) -> Self {
        Self {
            shared: Arc::new(Shared {
                log,
                birth: Instant::now(),
                tickets: AtomicU64::new(1),
                carried: Mutex::default(),
                front: RwLock::default(),
                subscribers: Mutex::default(),
            }),
        }
    }

    pub(crate) fn log(&self) -> &slog::Logger {
        &self.shared.log
    }

    /// A ticket that no other request of this node has.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        Ticket(self.shared.tickets.fetch_add(1, Ordering::Relaxed))
    }

    /// Permits handed out and not given back or taken back. What a governor is just taking up may still count.
    #[must_use]
    pub fn permits_out(&self) -> usize {
        let returned: HashSet<PermitId> = self.returned().into_iter().collect();
        let carried = self.carried();
        let out = carried.permits.iter();
        out.filter(|(permit, memory)| !memory.returned && !returned.contains(permit))
            .count()
    }

    /// The permits that came back and that no governor has taken up.
    fn returned(&self) -> Vec<PermitId> {
        let counters = self.counters();
        let returned = counters
            .iter()
            .map(|counter| counter.at_desk(|desk| desk.returned().collect::<Vec<_>>()));
        returned.flatten().collect()
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

    /// A new governor takes over: from here on it is called. Returns its tenure. Permits that came back while
    /// there was none are noted, so that its ledger begins without them.
    pub(crate) fn take_over(&self, governor: &Addr<RateGovernor>) -> u64 {
        let mut front = self.front_mut();
        front.tenure += 1;
        front.governor = Some(governor.downgrade());
        for counter in &front.counters {
            counter.sit_down(front.tenure, governor);
        }
        let tenure = front.tenure;
        drop(front);
        let returned = self.returned();
        let mut carried = self.carried();
        for permit in returned {
            carried.returned(permit);
        }
        tenure
    }

    /// The governor of `tenure` has ended.
    pub(crate) fn leave(&self, tenure: u64) {
        for counter in self.counters() {
            counter.at_desk(|desk| desk.leave(tenure));
        }
    }

    /// The counter of this thread.
    pub(crate) fn counter(&self) -> Arc<Counter> {
        let thread = std::thread::current().id();
        let front = self.front();
        let own = front
            .counters
            .iter()
            .find(|counter| counter.thread() == Some(thread));
        if let Some(own) = own {
            return own.clone();
        }
        drop(front);
        self.open_counter(thread)
    }

    /// The counter of all threads without an arbiter.
    pub(crate) fn common_counter(&self) -> Arc<Counter> {
        self.front().counters[0].clone()
    }

    /// A new counter for a thread; the common one where it has no arbiter, or where there are too many.
    fn open_counter(&self, thread: ThreadId) -> Arc<Counter> {
        let Some(arbiter) = Arbiter::try_current() else {
            return self.common_counter();
        };
        let mut front = self.front_mut();
        // The place of a thread that has ended, or a new one.
        let left = front.counters.iter().position(|c| c.is_left());
        let place = left.unwrap_or(front.counters.len());
        let Some(number) = u16::try_from(place).ok().filter(|_| place < DESKS) else {
            return front.counters[0].clone();
        };
        let counter = Arc::new(Counter::new(number, Some(thread)));
        if let Some(governor) = front.governor.as_ref().and_then(WeakAddr::upgrade) {
            counter.sit_down(front.tenure, &governor);
        }
        if front.closed {
            counter.tell_at_desk(Desk::close);
        }
        match front.counters.get_mut(place) {
            Some(left) => *left = counter.clone(),
            None => front.counters.push(counter.clone()),
        }
        drop(front);
        arbiter.spawn(counter.clone().postman());
        counter
    }

    /// All counters there are.
    pub(crate) fn counters(&self) -> Vec<Arc<Counter>> {
        self.front().counters.clone()
    }

    /// There will be no governor any more.
    pub(crate) fn close(&self) {
        self.front_mut().closed = true;
        for counter in self.counters() {
            counter.tell_at_desk(Desk::close);
        }
    }

    /// There is, or will be, a governor.
    pub(crate) fn reopen(&self) {
        self.front_mut().closed = false;
        for counter in self.counters() {
            counter.at_desk(Desk::reopen);
        }
    }

    fn front(&self) -> RwLockReadGuard<'_, Front> {
        self.shared
            .front
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn front_mut(&self) -> RwLockWriteGuard<'_, Front> {
        self.shared
            .front
            .write()
            .unwrap_or_else(PoisonError::into_inner)
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
}
