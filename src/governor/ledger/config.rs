//! What a ledger is told: caps, limits per site and endpoint, and the constants of its behaviour.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::governor::messages::{LaneKey, Target};
use crate::model::Name;
use crate::settings::{BackoffSettings, LimitSettings, Settings};

use super::learner::Manner;
use super::scale::Scale;

/// Added to the longest exchange: a permit's lease covers the exchange and the way of its release.
const LEASE_MARGIN: Duration = Duration::from_secs(5);

/// The limits and constants of a [`Ledger`](super::Ledger).
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerConfig {
    /// The global cap on exchanges in flight. 1 to 10000; 0 is read as 1.
    pub max_concurrency_num: u32,
    /// Limits of a site that `sites` does not name.
    pub default_limits: LimitSettings,
    /// Per site; replaces `default_limits` as a whole, so merge before ([`LimitSettings::over`]).
    pub sites: BTreeMap<Name, SiteTable>,
    /// Back-off of a lane.
    pub backoff: BackoffSettings,
    /// From a grant to the instant at which its permit is taken back. Not below the exchange's total timeout;
    /// sites and endpoints with a `total_timeout` of their own have their own lease.
    pub permit_lease: Duration,
    /// From a release to the instant at which a report that has not come counts as unknown.
    pub report_timeout: Duration,
    /// Requests that may wait in one lane.
    pub max_waiters: usize,
    /// Whether grants under a quota or a rate slower than one per second are stored before they are
    /// handed out ([`Action::Store`](super::Action::Store)), and what earlier runs learned is asked for.
    /// Without it they hold for one ledger only.
    pub store_uses: bool,
    /// How long one second of the adaptive law lasts, in seconds: 1, except in tests. 0.001 to 1.
    pub time_scale: f64,
}

/// Limits of one site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SiteTable {
    /// The site's own; in `crawl` mode each host has them for itself.
    pub limits: LimitSettings,
    /// Of single endpoints, beside those of the site.
    pub endpoints: BTreeMap<Name, LimitSettings>,
    /// Share of the global cap's slot time, relative to other sites. 0 is read as 1.
    pub weight: u32,
}

impl Default for LedgerConfig {
    fn default() -> Self {
        Self::from_settings(&Settings::default())
    }
}

impl LedgerConfig {
    /// The configuration that `settings` describe. Limits of site definitions are told later,
    /// by [`Retune`](crate::governor::Retune).
    #[must_use]
    pub fn from_settings(settings: &Settings) -> Self {
        let scale = settings.test_time_scale;
        let mut config = Self {
            max_concurrency_num: settings.max_concurrency_num,
            default_limits: settings.limits.clone(),
            sites: BTreeMap::new(),
            backoff: BackoffSettings {
                base: settings.backoff.base.mul_f64(scale),
                max: settings.backoff.max.mul_f64(scale),
                ..settings.backoff
            },
            permit_lease: settings.exchange.total_timeout + LEASE_MARGIN,
            report_timeout: Duration::from_secs(30),
            max_waiters: 10_000,
            store_uses: true,
            time_scale: scale,
        };
        for (name, site) in &settings.sites {
            let endpoints = site
                .endpoints
                .iter()
                .map(|(name, limits)| (Name::from(name.as_str()), limits.clone()))
                .collect();
            config.sites.insert(
                Name::from(name.as_str()),
                SiteTable {
                    limits: site.limits.over(&settings.limits),
                    endpoints,
                    weight: site.weight.unwrap_or(1),
                },
            );
        }
        config
    }

    pub(crate) fn site(&self, site: &str) -> &LimitSettings {
        self.sites
            .get(site)
            .map_or(&self.default_limits, |table| &table.limits)
    }

    pub(crate) fn endpoint(&self, key: &LaneKey) -> LimitSettings {
        self.sites
            .get(&key.site)
            .and_then(|table| table.endpoints.get(&key.endpoint))
            .cloned()
            .unwrap_or_default()
    }

    /// From a grant in the lane of `key` to the instant at which its permit is taken back: the endpoint's own word
    /// goes before the site's.
    pub(crate) fn lease(&self, key: &LaneKey) -> Duration {
        let table = self.sites.get(&key.site);
        table
            .and_then(|table| table.endpoints.get(&key.endpoint)?.total_timeout)
            .or(self.site(&key.site).total_timeout)
            .map_or(self.permit_lease, |longest| longest + LEASE_MARGIN)
    }

    /// How the lane of `key` learns.
    pub(crate) fn manner(&self, key: &LaneKey) -> Manner {
        let own = self.endpoint(key);
        let limits = own.over(self.site(&key.site));
        Manner {
            mode: limits.mode.unwrap_or_default(),
            profile: limits.profile.unwrap_or_default(),
            scale: Scale::new(self.time_scale),
        }
    }

    pub(crate) fn weight(&self, site: &str) -> u32 {
        self.sites.get(site).map_or(1, |table| table.weight.max(1))
    }

    /// The global cap; at least 1.
    pub(crate) fn cap(&self) -> u32 {
        self.max_concurrency_num.max(1)
    }

    pub(crate) fn retune(&mut self, target: &Target, limits: &LimitSettings) {
        match target {
            Target::Global => {
                if let Some(cap) = limits.max_concurrency_num {
                    self.max_concurrency_num = cap;
                }
            }
            Target::Site(site) => self.table(site).limits = limits.clone(),
            Target::Endpoint(site, endpoint) => {
                let table = self.table(site);
                table.endpoints.insert(endpoint.clone(), limits.clone());
            }
        }
    }

    /// The table of a site; a new one starts from the default limits.
    fn table(&mut self, site: &Name) -> &mut SiteTable {
        let limits = &self.default_limits;
        self.sites.entry(site.clone()).or_insert_with(|| SiteTable {
            limits: limits.clone(),
            endpoints: BTreeMap::new(),
            weight: 1,
        })
    }
}
