//! What a job's requests came to, by site and endpoint, and how far each site is.
//!
//! The counters are written by the PlatformActors and read by the live view and the report.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::model::{Name, Outcome, UnixMillis};

/// The counters of one job. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    sites: Arc<Mutex<BTreeMap<Name, SiteMeter>>>,
}

/// The counters of one site, to be written. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct SiteMeter(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    counters: Mutex<SiteMetrics>,
    in_flight: AtomicU32,
}

/// Counters of one site.
#[derive(Clone, Debug, Default)]
pub struct SiteMetrics {
    /// By endpoint.
    pub endpoints: BTreeMap<Name, EndpointMetrics>,
    /// How far the site is.
    pub progress: Progress,
}

/// How far a site is, as its PlatformActor last heard from the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Tasks that ended in this run, however they ended.
    pub ended: u64,
    /// Tasks that wait.
    pub pending: u64,
    /// Tasks that are leased.
    pub leased: u64,
    /// Exchanges in flight.
    pub in_flight: u32,
    /// What the site does.
    pub state: SiteState,
}

/// What a site does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SiteState {
    /// Asking.
    #[default]
    Running,
    /// Waits until then.
    Waiting(UnixMillis),
    /// Finished, with this word.
    Finished(&'static str),
}

/// Counters of one endpoint.
#[derive(Clone, Debug)]
pub struct EndpointMetrics {
    /// Requests sent.
    pub requests: u64,
    /// Requests that were sent for a task that had been asked before.
    pub retries: u64,
    /// By class; redirects count as `ok`.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Redirects among the answers.
    pub redirects: u64,
    /// Time from asking for a permit to getting it, in microseconds.
    pub wait: Histogram<u64>,
    /// Time from the request sent to the last byte of its answer, in microseconds.
    pub latency: Histogram<u64>,
    /// Sum of the times that permits were held, in microseconds.
    pub busy: u64,
}

/// Longest time the histograms tell apart: an hour.
const LONGEST_MICROS: u64 = 3_600_000_000;

impl Default for EndpointMetrics {
    fn default() -> Self {
        let histogram = || {
            Histogram::new_with_bounds(1, LONGEST_MICROS, 2)
                .unwrap_or_else(|_| unreachable!("the bounds are constants in range"))
        };
        Self {
            requests: 0,
            retries: 0,
            outcomes: BTreeMap::new(),
            redirects: 0,
            wait: histogram(),
            latency: histogram(),
            busy: 0,
        }
    }
}

/// One exchange, as it is counted.
#[derive(Clone, Copy, Debug)]
pub struct Exchanged {
    /// Its class.
    pub outcome: Outcome,
    /// Whether the answer was a redirect.
    pub redirect: bool,
    /// Whether the task had been asked before.
    pub retry: bool,
    /// From asking for the permit to getting it.
    pub wait: Duration,
    /// How long the permit was held.
    pub held: Duration,
    /// From the request sent to the last byte, where an answer came.
    pub latency: Option<Duration>,
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros())
        .unwrap_or(LONGEST_MICROS)
        .min(LONGEST_MICROS)
}

/// An exchange in flight, as it is counted: until it is dropped.
#[derive(Debug)]
pub struct Flight(SiteMeter);

impl Drop for Flight {
    fn drop(&mut self) {
        self.0.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SiteMeter {
    fn lock(&self) -> MutexGuard<'_, SiteMetrics> {
        // A counter is a number: it stays usable whoever panicked while holding the lock.
        self.0
            .counters
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Count an exchange as in flight until the value is dropped.
    #[must_use]
    pub fn flight(&self) -> Flight {
        self.0.in_flight.fetch_add(1, Ordering::Relaxed);
        Flight(self.clone())
    }

    /// Count one exchange.
    pub fn exchanged(&self, endpoint: &Name, exchange: &Exchanged) {
        let mut site = self.lock();
        let counters = match site.endpoints.get_mut(endpoint) {
            Some(known) => known,
            None => site.endpoints.entry(endpoint.clone()).or_default(),
        };
        counters.requests += 1;
        counters.retries += u64::from(exchange.retry);
        counters.redirects += u64::from(exchange.redirect);
        *counters.outcomes.entry(exchange.outcome).or_default() += 1;
        counters.wait.saturating_record(micros(exchange.wait));
        counters.busy += micros(exchange.held);
        if let Some(latency) = exchange.latency {
            counters.latency.saturating_record(micros(latency));
        }
    }

    /// Set how far the site is; `ended` is added to what ended before.
    pub fn progress(&self, ended: u64, pending: u64, leased: u64) {
        let progress = &mut self.lock().progress;
        progress.ended += ended;
        progress.pending = pending;
        progress.leased = leased;
    }

    /// Set what the site does.
    pub fn state(&self, state: SiteState) {
        self.lock().progress.state = state;
    }

    fn progress_now(&self, site: &SiteMetrics) -> Progress {
        Progress {
            in_flight: self.0.in_flight.load(Ordering::Relaxed),
            ..site.progress.clone()
        }
    }
}

impl Metrics {
    /// The counters of a site; those who write them keep this.
    #[must_use]
    pub fn site(&self, site: &Name) -> SiteMeter {
        self.lock().entry(site.clone()).or_default().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, SiteMeter>> {
        self.sites.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counters now.
    #[must_use]
    pub fn sites(&self) -> BTreeMap<Name, SiteMetrics> {
        let read = |meter: &SiteMeter| {
            let site = meter.lock();
            SiteMetrics {
                endpoints: site.endpoints.clone(),
                progress: meter.progress_now(&site),
            }
        };
        self.lock()
            .iter()
            .map(|(name, meter)| (name.clone(), read(meter)))
            .collect()
    }

    /// How far each site is now; cheaper than [`Metrics::sites`].
    #[must_use]
    pub fn all_progress(&self) -> Vec<(Name, Progress, u64)> {
        self.lock()
            .iter()
            .map(|(name, meter)| {
                let site = meter.lock();
                let requests = site.endpoints.values().map(|e| e.requests).sum();
                (name.clone(), meter.progress_now(&site), requests)
            })
            .collect()
    }
}
