//! Numbers and instants as servers write them.

use std::time::{Duration, UNIX_EPOCH};

use crate::model::{Headers, UnixMillis};

/// From here on a number of seconds is an instant since 1970: it was passed in 2001, and as a wait it is 31 years.
const EPOCH_SECONDS: u64 = 1_000_000_000;
/// From here on it counts milliseconds since 1970.
const EPOCH_MILLIS: u64 = 1_000_000_000_000;
/// From here on microseconds.
const EPOCH_MICROS: u64 = 1_000_000_000_000_000;
/// From here on nanoseconds.
const EPOCH_NANOS: u64 = 1_000_000_000_000_000_000;

/// The server's clock at the moment of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    /// The answer's `Date`; without one, our own clock.
    pub(super) now: UnixMillis,
    /// Whether `now` is the server's, not ours.
    pub(super) servers: bool,
}

impl Clock {
    pub(super) fn of(headers: &Headers, now: UnixMillis) -> Self {
        let date = headers.get("date").and_then(http_date);
        Self {
            now: date.unwrap_or(now),
            servers: date.is_some(),
        }
    }
}

/// An instant or a wait that a server named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// From the answer on.
    In(Duration),
    /// By the server's clock.
    At(UnixMillis),
}

impl Moment {
    /// Seconds to wait, seconds or smaller units since 1970, an HTTP-date, or a date by ISO 8601 (without a zone: UTC).
    pub(super) fn parse(value: &str) -> Option<Self> {
        let value = value.trim();
        match number(value) {
            Some(number) => Some(Self::of_number(number)),
            None => http_date(value).or_else(|| iso_date(value)).map(Self::At),
        }
    }

    fn of_number(number: Duration) -> Self {
        let whole = number.as_secs();
        let millis = match whole {
            EPOCH_NANOS.. => whole.div_ceil(1_000_000),
            EPOCH_MICROS.. => whole.div_ceil(1_000),
            EPOCH_MILLIS.. => whole,
            EPOCH_SECONDS.. => u64::try_from(number.as_millis()).unwrap_or(u64::MAX),
            _ => return Self::In(number),
        };
        Self::At(UnixMillis(i64::try_from(millis).unwrap_or(i64::MAX)))
    }

    /// From the answer to this moment; zero when it has passed.
    pub(super) fn wait(self, clock: Clock) -> Duration {
        match self {
            Self::In(wait) => wait,
            Self::At(at) => at.since(clock.now),
        }
    }

    /// Whether it is told in whole seconds only: what is left may then be a second less than it says.
    pub(super) fn is_coarse(self, clock: Clock) -> bool {
        match self {
            Self::In(wait) => wait.subsec_nanos() == 0,
            // `Date` has no fraction.
            Self::At(at) => clock.servers || at.0 % 1_000 == 0,
        }
    }
}

/// Digits with at most one decimal point among them; no sign, no exponent. Rounded up to thousandths; what is
/// too large for 64 bits becomes the largest number.
pub(super) fn number(value: &str) -> Option<Duration> {
    let value = value.trim();
    let (whole, fraction) = value.split_once('.').unwrap_or((value, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    // Only a number too long for u64 fails to parse now.
    let whole = whole.parse().unwrap_or(u64::MAX);
    let mut millis = fraction
        .bytes()
        .take(3)
        .fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    for _ in fraction.len()..3 {
        millis *= 10;
    }
    let rest = fraction.bytes().skip(3).any(|digit| digit != b'0');
    let millis = Duration::from_millis(millis + u64::from(rest));
    Some(Duration::from_secs(whole).saturating_add(millis))
}

/// The three forms of RFC 9110 §5.6.7.
pub(super) fn http_date(value: &str) -> Option<UnixMillis> {
    let at = httpdate::parse_http_date(value.trim()).ok()?;
    let millis = at.duration_since(UNIX_EPOCH).ok()?.as_millis();
    i64::try_from(millis).ok().map(UnixMillis)
}

fn iso_date(value: &str) -> Option<UnixMillis> {
    let at = value.parse::<jiff::Timestamp>().ok().or_else(|| {
        let civil = value.parse::<jiff::civil::DateTime>().ok()?;
        jiff::tz::TimeZone::UTC.to_timestamp(civil).ok()
    })?;
    Some(UnixMillis(at.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2024-05-06T07:08:09Z.
    const MAY_6: i64 = 1_714_979_289_000;

    #[test]
    fn each_form_of_a_moment_is_told_from_the_others() {
        let at = |millis: i64| Some(Moment::At(UnixMillis(millis)));
        let after = |millis: u64| Some(Moment::In(Duration::from_millis(millis)));
        for (value, moment) in [
            ("0", after(0)),
            ("60", after(60_000)),
            ("383.5", after(383_500)),
            ("999999999", after(999_999_999_000)),
            ("1714979289", at(MAY_6)),
            ("1714979289.25", at(MAY_6 + 250)),
            ("1714979289000", at(MAY_6)),
            ("1714979289000000", at(MAY_6)),
            ("1714979289000000000", at(MAY_6)),
            ("2024-05-06T07:08:09Z", at(MAY_6)),
            ("2024-05-06T09:08:09.5+02:00", at(MAY_6 + 500)),
            ("2024-05-06 07:08:09", at(MAY_6)),
            ("Mon, 06 May 2024 07:08:09 GMT", at(MAY_6)),
            ("-5", None),
            ("", None),
            ("1e9", None),
            ("soon", None),
            ("2024-13-06T07:08:09Z", None),
        ] {
            assert_eq!(Moment::parse(value), moment, "{value:?}");
        }
    }

    #[test]
    fn only_a_fraction_makes_a_moment_fine() {
        let own = Clock {
            now: UnixMillis(MAY_6),
            servers: false,
        };
        let servers = Clock {
            servers: true,
            ..own
        };
        let coarse = |value, clock| Moment::parse(value).map(|moment| moment.is_coarse(clock));
        assert_eq!(coarse("5", own), Some(true));
        assert_eq!(coarse("5.5", own), Some(false));
        assert_eq!(coarse("1714979289", own), Some(true));
        assert_eq!(coarse("1714979289250", own), Some(false));
        assert_eq!(coarse("1714979289250", servers), Some(true));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        #[test]
        fn no_text_panics(value in ".*", now in any::<i64>(), servers in any::<bool>()) {
            let clock = Clock { now: UnixMillis(now), servers };
            if let Some(moment) = Moment::parse(&value) {
                let _ = (moment.wait(clock), moment.is_coarse(clock));
            }
        }

        #[test]
        fn no_number_panics(value in "[0-9]{1,25}(\\.[0-9]{0,6})?", now in any::<i64>()) {
            let clock = Clock { now: UnixMillis(now), servers: true };
            if let Some(moment) = Moment::parse(&value) {
                let _ = (moment.wait(clock), moment.is_coarse(clock));
            }
        }
    }
}
