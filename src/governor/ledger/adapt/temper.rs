//! How bold the law is: the constants in which the two profiles differ.

use crate::settings::Profile;

/// The constants of a profile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Temper {
    /// Refusals that one success pays for: the share of refusals in the long run.
    pub(super) earned_per_success: f64,
    /// Seconds for one credit at most, however many successes there are.
    pub(super) fastest_earning: f64,
    /// Refusals of the last five minutes that may be provoked: this share of the requests served …
    pub(super) young_share: f64,
    /// … up to this number …
    pub(super) recent_refusals: f64,
    /// … and beyond it this share.
    pub(super) recent_share: f64,
    /// Longest rest between two probes, seconds.
    pub(super) longest_hold: f64,
}

impl Temper {
    pub(super) fn of(profile: Profile) -> Self {
        match profile {
            Profile::BanSafe => Self {
                earned_per_success: 0.003,
                fastest_earning: 3.0,
                young_share: 0.01,
                recent_refusals: 17.0,
                recent_share: 0.0012,
                longest_hold: 25.0,
            },
            Profile::Responsive => Self {
                earned_per_success: 0.005,
                fastest_earning: 3.0,
                young_share: 0.02,
                recent_refusals: 60.0,
                recent_share: 0.005,
                longest_hold: 6.0,
            },
        }
    }
}
