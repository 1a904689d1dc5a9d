//! What the server counted and logged, as snapshots.

use std::collections::BTreeMap;
use std::time::Duration;

/// A snapshot of everything that was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Per site, by name.
    pub sites: BTreeMap<String, SiteCounts>,
    /// Requests in flight now, over all sites: from the head read to the last byte written.
    pub in_flight: u32,
    /// The most that were ever in flight at once, over all sites.
    pub peak_in_flight: u32,
    /// Connections accepted, over all sites.
    pub connections: u64,
    /// Connections open now.
    pub open_connections: u32,
    /// The most that were ever open at once.
    pub peak_connections: u32,
}

impl Counts {
    /// Requests of all sites, those for robots.txt not among them.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.sites.values().map(|site| site.requests).sum()
    }

    /// Refusals of all sites.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.sites.values().map(|site| site.refused).sum()
    }

    /// Duplicates of all sites.
    #[must_use]
    pub fn duplicates(&self) -> u64 {
        self.sites.values().map(|site| site.duplicates).sum()
    }
}

/// What one site counted. All but `robots`, the flights and the connections leave requests for robots.txt out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteCounts {
    /// Requests whose head was read.
    pub requests: u64,
    /// Requests for `/robots.txt`.
    pub robots: u64,
    /// In flight now, robots.txt included.
    pub in_flight: u32,
    /// The most at once, robots.txt included.
    pub peak_in_flight: u32,
    /// Requests that a hidden limit or a ban refused.
    pub refused: u64,
    /// Those of `refused` that met a ban.
    pub banned: u64,
    /// Bans that fell.
    pub bans: u64,
    /// Requests that a fault befell.
    pub faults: u64,
    /// Requests whose client went away before the last byte.
    pub aborted: u64,
    /// What could not be read as a request.
    pub malformed: u64,
    /// Distinct resources (method, target, body) served whole with a 2xx.
    pub distinct: u64,
    /// Times that a resource was served whole with a 2xx again.
    pub duplicates: u64,
    /// Requests for a resource that was asked for before, whatever came of either.
    pub repeats: u64,
    /// Answers written whole, by status; refusals included.
    pub by_status: BTreeMap<u16, u64>,
    /// Per endpoint class; robots.txt has its own.
    pub classes: BTreeMap<String, ClassCounts>,
    /// Connections accepted.
    pub connections: u64,
    /// Connections open now.
    pub open_connections: u32,
    /// The most open at once.
    pub peak_connections: u32,
}

impl SiteCounts {
    /// The counts of an endpoint class; zeros when the site has no such class.
    #[must_use]
    pub fn class(&self, name: &str) -> ClassCounts {
        self.classes.get(name).cloned().unwrap_or_default()
    }
}

/// What one class of endpoints counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Requests whose head was read.
    pub requests: u64,
    /// Served whole with a 2xx.
    pub served: u64,
    /// Refused by a limit or a ban.
    pub refused: u64,
    /// In flight now.
    pub in_flight: u32,
    /// The most at once.
    pub peak_in_flight: u32,
    /// Answers written whole, by status; refusals included.
    pub by_status: BTreeMap<u16, u64>,
}

/// One request in the log, in the order of arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// When its head was read, from the start of the server.
    pub at: Duration,
    /// When its last byte was written or its connection ended; `None` while it is in flight.
    pub ended: Option<Duration>,
    /// The site.
    pub site: String,
    /// The endpoint class.
    pub class: &'static str,
    /// In upper case.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Number of the connection, from 1.
    pub connection: u64,
    /// The status written; `None` when no answer was written whole.
    pub status: Option<u16>,
    /// Whether a limit or a ban refused it.
    pub refused: bool,
    /// In flight over all sites when it arrived, itself included.
    pub in_flight: u32,
}
