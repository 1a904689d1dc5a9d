//! The least pace of a body: a server that drips holds a slot as surely as one that is silent.

use std::time::Duration;

use tokio::time::Instant;

use crate::settings::ExchangeSettings;

/// Watches one body, window by window. Pure: `now` is an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    window: Duration,
    /// Bytes that one window must bring.
    least: u64,
    /// When the present window ends.
    end: Instant,
    /// Bytes that had come when it began.
    from: u64,
}

impl Pace {
    /// A watch that begins at `now`; `None` where no pace is asked for.
    pub(super) fn new(settings: &ExchangeSettings, now: Instant) -> Option<Self> {
        let window = settings.min_rate_window;
        let per_second = f64::from(settings.min_bytes_per_second?);
        Some(Self {
            window,
            // At least one byte: none at all is no pace. Below 2^53, so exact.
            least: ((per_second * window.as_secs_f64()) as u64).max(1),
            end: now + window,
            from: 0,
        })
    }

    /// When the watch has to be looked at.
    pub(super) fn due(&self) -> Instant {
        self.end
    }

    /// Whether a body of which `bytes` have come by `now` is too slow. A window that was fast enough begins anew.
    pub(super) fn is_too_slow(&mut self, now: Instant, bytes: u64) -> bool {
        if now < self.end {
            return false;
        }
        if bytes.saturating_sub(self.from) < self.least {
            return true;
        }
        (self.end, self.from) = (now + self.window, bytes);
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::settings::Settings;

    fn settings(rate: Option<u32>, window: u64) -> ExchangeSettings {
        let mut settings = Settings::default().exchange;
        settings.min_bytes_per_second = rate;
        settings.min_rate_window = Duration::from_secs(window);
        settings
    }

    #[test]
    fn none_is_watched_where_none_is_asked_for() {
        assert_eq!(Pace::new(&settings(None, 1), Instant::now()), None);
    }

    #[test]
    fn each_window_has_to_bring_its_bytes() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut pace = Pace::new(&settings(Some(10), 5), start).unwrap();
        assert_eq!(pace.due(), at(5));
        assert!(!pace.is_too_slow(at(4), 0));
        assert!(!pace.is_too_slow(at(5), 50));
        assert_eq!(pace.due(), at(10));
        assert!(!pace.is_too_slow(at(9), 50));
        assert!(pace.is_too_slow(at(10), 99));
        // What came before does not help.
        let mut pace = Pace::new(&settings(Some(10), 5), start).unwrap();
        assert!(!pace.is_too_slow(at(5), 1_000_000));
        assert!(pace.is_too_slow(at(11), 1_000_049));
    }

    proptest! {
        #[test]
        fn a_body_that_keeps_the_pace_is_never_too_slow(
            rate in 1u32..10_000,
            window in 1u64..100,
            looks in prop::collection::vec(1u64..5000, 1..50),
        ) {
            let start = Instant::now();
            let mut pace = Pace::new(&settings(Some(rate), window), start).unwrap();
            let mut millis = 0;
            for look in looks {
                millis += look;
                let bytes = (millis * u64::from(rate)).div_ceil(1000);
                // Rounded up to bytes, the pace is kept between any two looks but for one byte.
                prop_assert!(!pace.is_too_slow(start + Duration::from_millis(millis), bytes + millis));
            }
        }

        #[test]
        fn half_the_pace_ends_within_two_windows(rate in 2u32..10_000, window in 1u64..100) {
            let start = Instant::now();
            let mut pace = Pace::new(&settings(Some(rate), window), start).unwrap();
            let ended = (1..=2 * window).any(|second| {
                pace.is_too_slow(start + Duration::from_secs(second), second * u64::from(rate) / 2)
            });
            prop_assert!(ended);
        }
    }
}
