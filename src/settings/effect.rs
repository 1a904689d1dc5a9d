//! Settings as they take effect: for one site, what is set for it, else what is set for all; times under the scale of tests.

use std::time::Duration;

use super::polite::{CacheMode, CrawlDelay};
use super::schema::Settings;
use crate::model::CookiePolicy;

impl Settings {
    /// A pause, delay or cool-down under the scale that is there for tests.
    #[must_use]
    pub fn scaled(&self, time: Duration) -> Duration {
        time.mul_f64(self.test_time_scale)
    }

    /// Whether a `Crawl-delay` of its hosts is kept.
    #[must_use]
    pub fn crawl_delay_of(&self, site: &str) -> CrawlDelay {
        let own = self.sites.get(site).and_then(|own| own.crawl_delay);
        own.unwrap_or(self.robots.crawl_delay)
    }

    /// Whether its answers are kept for the next run.
    #[must_use]
    pub fn cache_of(&self, site: &str) -> CacheMode {
        let own = self.sites.get(site).and_then(|own| own.cache);
        own.unwrap_or(self.cache.mode)
    }

    /// Whether its cookies are kept and sent.
    #[must_use]
    pub fn cookies_of(&self, site: &str) -> CookiePolicy {
        let own = self.sites.get(site).and_then(|own| own.cookies);
        own.unwrap_or(self.exchange.cookies)
    }

    /// The egresses of a site, by name; none: straight to the server.
    #[must_use]
    pub fn egress_of(&self, site: &str) -> &[String] {
        match self.sites.get(site) {
            Some(site) if !site.egress.is_empty() => &site.egress,
            _ => &self.exchange.egress,
        }
    }
}
