//! What the clients of a node share on their way out: host names, egresses, the guard of private addresses.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::futures::Notified;

use super::dial::{Lifetimes, Lookup, Names, SystemLookup};
use super::egress::{EgressCounts, Offer, Slot, Wanted, Ways};
use crate::settings::{ExchangeSettings, Settings};

/// The network of a node. Clones share it, on all threads.
#[derive(Clone)]
pub struct Network(Arc<Inner>);

struct Inner {
    names: Names,
    ways: Arc<Ways>,
    deny_private: bool,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}

impl Network {
    /// The network of `settings`, which asks the system for names.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self::with_lookup(settings, SystemLookup)
    }

    /// As [`new`](Self::new), with another resolver.
    #[must_use]
    pub fn with_lookup(settings: &Settings, lookup: impl Lookup) -> Self {
        let lifetimes = Lifetimes {
            found: settings.exchange.dns_ttl,
            failed: settings.scaled(settings.exchange.dns_failure_ttl),
        };
        Self(Arc::new(Inner {
            names: Names::new(lookup, lifetimes),
            ways: Arc::new(Ways::new(settings)),
            deny_private: settings.exchange.deny_private_addresses,
        }))
    }

    /// A network without proxies, for a client that shares nothing.
    pub(super) fn direct(exchange: &ExchangeSettings) -> Self {
        Self::new(&Settings {
            exchange: exchange.clone(),
            ..Settings::default()
        })
    }

    pub(super) fn names(&self) -> &Names {
        &self.0.names
    }

    pub(super) fn denies_private(&self) -> bool {
        self.0.deny_private
    }

    /// The egresses that check no certificates: a danger worth telling at every start.
    #[must_use]
    pub fn unverified(&self) -> Vec<Arc<str>> {
        self.0.ways.unverified()
    }

    /// Which egress an exchange may take now.
    #[must_use]
    pub fn offer(&self, wanted: Wanted<'_>) -> Offer {
        self.0.ways.offer(wanted)
    }

    /// Takes a place in an egress. `None`: it has no room, or does not work, any more.
    #[must_use]
    pub fn take(&self, egress: &str) -> Option<Slot> {
        self.0.ways.take(egress)
    }

    /// Ends when a place was freed after this was called: then another [`offer`](Self::offer) may say more.
    pub fn freed(&self) -> Notified<'_> {
        self.0.ways.freed().notified()
    }

    /// An exchange with `host` through the egress brought an answer.
    pub fn worked(&self, egress: &str, host: &str) {
        self.0.ways.worked(egress, host);
    }

    /// The proxy of the egress says that it cannot reach `host`. Whether that is put down to the proxy: another egress
    /// reaches that host, or works while this one reaches none of several.
    #[must_use]
    pub fn unreached(&self, egress: &str, host: &str) -> bool {
        self.0.ways.unreached(egress, host)
    }

    /// Whether a connection that breaks in the middle is put down to the egress: it has failed since its last success.
    #[must_use]
    pub fn is_doubtful(&self, egress: &str) -> bool {
        self.0.ways.is_doubtful(egress)
    }

    /// The egress failed an exchange. How long it is left alone, where this failure is what decides it.
    pub fn failed(&self, egress: &str, why: &str) -> Option<Duration> {
        self.0.ways.failed(egress, why)
    }

    /// Those of `among` that have expired and have not been told yet.
    #[must_use]
    pub fn newly_expired(&self, among: &[String]) -> Vec<Arc<str>> {
        self.0.ways.newly_expired(among)
    }

    /// The counters of every proxy, by name.
    #[must_use]
    pub fn egresses(&self) -> BTreeMap<String, EgressCounts> {
        self.0.ways.counts()
    }
}
