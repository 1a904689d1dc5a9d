//! The ways out of a node, shared by all its clients: the books behind a lock, and who waits for room.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::book::{Book, Limits, Now, Standing};
use super::choice::{Choice, choose};
use super::{DIRECT, Egress};
use crate::model::{Timestamp, UnixMillis};
use crate::settings::Settings;

/// An exchange that is to find its way out.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Its site.
    pub site: &'a str,
    /// Its account: all exchanges of one go through one egress, as long as it works.
    pub account: Option<&'a str>,
    /// The egresses of the site, by name.
    pub among: &'a [String],
    /// Those that have failed for this exchange.
    pub tried: &'a [Arc<str>],
}

/// Which way an exchange may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// This egress has room; it is taken with [`Network::take`](crate::exchange::Network::take).
    Go(Arc<str>),
    /// No egress has room before this has passed; `None`: before an exchange has ended.
    Wait(Option<Duration>),
    /// No egress works; the next probe is due when this has passed; `None`: all have expired or were tried.
    Down(Option<Duration>),
}

/// What an egress has done since the node started, and how it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EgressCounts {
    /// Exchanges that went through it.
    pub exchanges: u64,
    /// Exchanges that it failed, and that went through another or were tried again.
    pub failures: u64,
    /// `up`, `down` or `expired`.
    pub state: String,
    /// Its latest failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
    /// Whether certificates of servers are checked.
    pub tls_verify: bool,
}

struct Kept {
    egress: Arc<Egress>,
    book: Book,
    counts: EgressCounts,
    /// Whether its expiry has been told.
    told: bool,
}

/// All egresses.
pub(in crate::exchange) struct Ways {
    kept: Mutex<BTreeMap<Arc<str>, Kept>>,
    freed: Notify,
    turn: AtomicUsize,
    born: Instant,
}

impl Ways {
    pub(in crate::exchange) fn new(settings: &Settings) -> Self {
        let direct = (Egress::direct(), Limits::default());
        let proxies = settings.egress.iter().filter_map(|(name, settings)| {
            let limits = Limits {
                cap: settings.max_concurrency_num,
                interval: settings.rate.map(crate::settings::Rate::interval),
                expires: settings.expires,
            };
            Some((Egress::of(name, settings)?, limits))
        });
        let kept = proxies.chain([direct]).map(|(egress, limits)| {
            let kept = Kept {
                counts: EgressCounts {
                    tls_verify: egress.tls_verify,
                    ..EgressCounts::default()
                },
                book: Book::new(limits, settings.test_time_scale),
                told: false,
                egress: Arc::new(egress),
            };
            (Arc::clone(&kept.egress.name), kept)
        });
        Self {
            kept: Mutex::new(kept.collect()),
            freed: Notify::new(),
            turn: AtomicUsize::new(0),
            born: Instant::now(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Kept>> {
        // Whoever panicked: each change of a book is whole.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Now {
        Now {
            steady: Timestamp::ZERO + self.born.elapsed(),
            wall: UnixMillis::now(),
        }
    }

    pub(in crate::exchange) fn unverified(&self) -> Vec<Arc<str>> {
        let kept = self.lock();
        let loose = kept.values().filter(|kept| !kept.egress.tls_verify);
        loose.map(|kept| Arc::clone(&kept.egress.name)).collect()
    }

    /// Who waits for room is told when there may be some.
    pub(in crate::exchange) const fn freed(&self) -> &Notify {
        &self.freed
    }

    pub(in crate::exchange) fn offer(&self, wanted: Wanted<'_>) -> Offer {
        let now = self.now();
        let kept = self.lock();
        let (names, standings): (Vec<_>, Vec<_>) = wanted
            .among
            .iter()
            .filter(|name| !wanted.tried.iter().any(|tried| **tried == ***name))
            .filter_map(|name| kept.get(name.as_str()))
            .map(|kept| (Arc::clone(&kept.egress.name), kept.book.standing(now)))
            .unzip();
        drop(kept);
        let pin = wanted
            .account
            .map(|account| format!("{}\0{account}", wanted.site));
        let turn = self.turn.load(Ordering::Relaxed);
        let until = |time: Timestamp| time.since(now.steady);
        match choose(&names, &standings, pin.as_deref(), turn) {
            Choice::Go(index) => Offer::Go(Arc::clone(&names[index])),
            Choice::Wait(time) => Offer::Wait(time.map(until)),
            Choice::Down(time) => Offer::Down(time.map(until)),
        }
    }

    /// Those whose expiry nobody has been told of yet.
    pub(in crate::exchange) fn newly_expired(&self, among: &[String]) -> Vec<Arc<str>> {
        let now = self.now();
        let mut found = Vec::new();
        let mut kept = self.lock();
        for name in among {
            if let Some(kept) = kept.get_mut(name.as_str())
                && !kept.told
                && kept.book.standing(now) == Standing::Expired
            {
                kept.told = true;
                found.push(Arc::clone(&kept.egress.name));
            }
        }
        found
    }

    pub(in crate::exchange) fn take(self: &Arc<Self>, name: &str) -> Option<Slot> {
        let now = self.now();
        let mut kept = self.lock();
        let kept = kept.get_mut(name)?;
        if !kept.book.take(now) {
            return None;
        }
        self.turn.fetch_add(1, Ordering::Relaxed);
        Some(Slot {
            egress: Arc::clone(&kept.egress),
            ways: Arc::clone(self),
        })
    }

    pub(in crate::exchange) fn worked(&self, name: &str, host: &str) {
        for (other, kept) in self.lock().iter_mut() {
            if **other == *name {
                kept.counts.exchanges += 1;
                kept.book.worked();
            } else {
                kept.book.another_reached(host);
            }
        }
        self.freed.notify_waiters();
    }

    pub(in crate::exchange) fn unreached(&self, name: &str, host: &str) -> bool {
        let mut kept = self.lock();
        let proxy = kept
            .get_mut(name)
            .filter(|kept| kept.egress.proxy.is_some());
        proxy.is_some_and(|kept| kept.book.unreached(&host.into()))
    }

    pub(in crate::exchange) fn is_doubtful(&self, name: &str) -> bool {
        let kept = self.lock();
        kept.get(name).is_some_and(|kept| kept.book.is_doubtful())
    }

    pub(in crate::exchange) fn failed(&self, name: &str, why: &str) -> Option<Duration> {
        let now = self.now().steady;
        let mut kept = self.lock();
        let kept = kept.get_mut(name)?;
        kept.counts.failures += 1;
        kept.counts.last_failure = Some(why.to_owned());
        kept.book.failed(now)
    }

    pub(in crate::exchange) fn counts(&self) -> BTreeMap<String, EgressCounts> {
        let now = self.now();
        let kept = self.lock();
        let proxies = kept.iter().filter(|(name, _)| ***name != *DIRECT);
        let read = |(name, kept): (&Arc<str>, &Kept)| {
            let state = match kept.book.standing(now) {
                Standing::Ready | Standing::Busy(_) => "up",
                Standing::Down(_) => "down",
                Standing::Expired => "expired",
            };
            let counts = EgressCounts {
                state: state.to_owned(),
                ..kept.counts.clone()
            };
            (name.to_string(), counts)
        };
        proxies.map(read).collect()
    }
}

/// A place in an egress, for one exchange; given back when dropped.
pub struct Slot {
    egress: Arc<Egress>,
    ways: Arc<Ways>,
}

impl Slot {
    /// The egress.
    #[must_use]
    pub const fn egress(&self) -> &Arc<Egress> {
        &self.egress
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(kept) = self.ways.lock().get_mut(&self.egress.name) {
            kept.book.give_back();
        }
        self.ways.freed.notify_waiters();
    }
}
