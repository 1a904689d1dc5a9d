//! Which clock runs before the head of an answer has come.

use tokio::time::Instant;

use super::error::Fault;
use crate::settings::ExchangeSettings;

/// When the answer is overdue, and what that is called, for a request that was `sent` and an answer whose first byte
/// came at `first_byte`. Until the request is on its way the connect clock runs.
pub(super) fn of_head(
    settings: &ExchangeSettings,
    sent: Option<Instant>,
    first_byte: Option<Instant>,
) -> (Option<Instant>, Fault) {
    let Some(sent) = sent else {
        return (None, Fault::ConnectTimeout);
    };
    if first_byte.is_none() && settings.first_byte_timeout <= settings.head_timeout {
        let due = sent + settings.first_byte_timeout;
        return (Some(due), Fault::FirstByteTimeout);
    }
    (Some(sent + settings.head_timeout), Fault::HeadTimeout)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::settings::Settings;

    #[test]
    fn the_first_byte_has_a_clock_of_its_own_within_that_of_the_head() {
        let sent = Instant::now();
        let second = Duration::from_secs(1);
        let mut settings = Settings::default().exchange;
        settings.head_timeout = 5 * second;
        for (first_byte, due, fault) in [
            (2 * second, 2 * second, Fault::FirstByteTimeout),
            (5 * second, 5 * second, Fault::FirstByteTimeout),
            (6 * second, 5 * second, Fault::HeadTimeout),
        ] {
            settings.first_byte_timeout = first_byte;
            assert_eq!(of_head(&settings, None, None).0, None);
            assert_eq!(
                of_head(&settings, Some(sent), None),
                (Some(sent + due), fault)
            );
            assert_eq!(
                of_head(&settings, Some(sent), Some(sent + second)),
                (Some(sent + 5 * second), Fault::HeadTimeout)
            );
        }
    }
}
