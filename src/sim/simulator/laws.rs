//! All laws by name: the governor's and those of others.

use std::fmt;
use std::str::FromStr;

use super::control::Control;
use super::ours::LedgerControl;
use super::peers::{PEERS, Peer};
use super::scenario::Scenario;
use crate::model::ParseNameError;
use crate::settings::{LimitMode, Profile};

/// A control law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// The governor as the scenario configures it.
    Ours,
    /// The same with the profile that follows a rising limit sooner.
    OursResponsive,
    /// The same without learning: what is configured, or else 16 at once, and a pause after a refusal.
    OursFixed,
    /// Another project's.
    Peer(Peer),
}

impl Law {
    /// The governor's.
    pub const OURS: [Self; 3] = [Self::Ours, Self::OursResponsive, Self::OursFixed];

    /// All of them, ours first.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::OURS.into_iter().chain(PEERS.map(Self::Peer))
    }

    /// By which it is called.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::OursResponsive => "ours-responsive",
            Self::OursFixed => "ours-fixed",
            Self::Peer(peer) => peer.as_str(),
        }
    }

    /// One line for people.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Ours => "the governor, as the scenario configures it",
            Self::OursResponsive => "the governor with the profile `responsive`",
            Self::OursFixed => {
                "the governor without learning: configured limits or 16 at once, pauses"
            }
            Self::Peer(peer) => peer.about(),
        }
    }

    /// The control of one client under the law.
    #[must_use]
    pub fn control(self, scenario: &Scenario, seed: u64) -> Box<dyn Control> {
        let mut configured = scenario.configured.clone();
        match self {
            Self::Ours => {}
            Self::OursResponsive => configured.site.profile = Some(Profile::Responsive),
            Self::OursFixed => {
                let site = &mut configured.site;
                site.mode = Some(LimitMode::Fixed);
                // Without learning and without any limit there would be nothing to see.
                if site.rate.is_none() {
                    site.max_concurrency_num.get_or_insert(16);
                }
            }
            Self::Peer(peer) => return peer.control(seed, scenario.origin.endpoints.len()),
        }
        Box::new(LedgerControl::new(scenario, &configured, seed))
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Law {
    type Err = ParseNameError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::all()
            .find(|law| law.as_str() == name)
            .ok_or_else(|| ParseNameError::new("law", name, Self::all().map(Self::as_str)))
    }
}
