//! What an answer's header says of limits.
//!
//! `Retry-After` is read by RFC 9110 §10.2.3, and as servers really write it: fractions are rounded up
//! to a millisecond, a date counts from the answer's own `Date`, for the clocks need not agree. What
//! cannot be read is no hint. Nothing is cut short, however long it is.

use std::time::{Duration, UNIX_EPOCH};

use super::messages::Hints;
use crate::model::{Headers, UnixMillis};

/// The hints of an answer that arrived at `now`. Of several `Retry-After` fields the longest counts.
#[must_use]
pub fn hints(headers: &Headers, now: UnixMillis) -> Hints {
    let base = headers.get("date").and_then(http_date).unwrap_or(now);
    Hints {
        retry_after: headers
            .all("retry-after")
            .filter_map(|value| retry_after(value, base))
            .max(),
    }
}

/// One value of `Retry-After`; a date is counted from `base`. Zero and a past date are hints of zero.
#[must_use]
pub fn retry_after(value: &str, base: UnixMillis) -> Option<Duration> {
    let value = value.trim();
    seconds(value).or_else(|| http_date(value).map(|at| at.since(base)))
}

/// Digits with at most one decimal point among them; no sign, no exponent.
fn seconds(value: &str) -> Option<Duration> {
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

fn http_date(value: &str) -> Option<UnixMillis> {
    let at = httpdate::parse_http_date(value.trim()).ok()?;
    let millis = at.duration_since(UNIX_EPOCH).ok()?.as_millis();
    i64::try_from(millis).ok().map(UnixMillis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;

    fn headers(fields: &[(&str, &str)]) -> Headers {
        let owned = |(name, value): &(&str, &str)| {
            ((*name).to_owned(), Bytes::copy_from_slice(value.as_bytes()))
        };
        Headers(fields.iter().map(owned).collect())
    }

    fn asked(value: &str) -> Option<Duration> {
        hints(&headers(&[("retry-after", value)]), UnixMillis(0)).retry_after
    }

    /// 1994-11-06T08:49:37Z, in milliseconds.
    const NOV_6: i64 = 784_111_777_000;

    #[test]
    fn t35_zero_is_valid_and_not_missing() {
        assert_eq!(asked("0"), Some(Duration::ZERO));
        assert_eq!(asked("0.0"), Some(Duration::ZERO));
    }

    #[test]
    fn t36_fractions_are_rounded_up_to_a_millisecond() {
        assert_eq!(asked("1.5"), Some(Duration::from_millis(1500)));
        assert_eq!(asked("299.997"), Some(Duration::from_millis(299_997)));
        assert_eq!(asked("1.0001"), Some(Duration::from_millis(1001)));
        assert_eq!(asked(" 7 "), Some(Duration::from_secs(7)));
    }

    #[test]
    fn t37_a_past_date_is_zero() {
        let at = UnixMillis(NOV_6 + 10_000);
        let fields = headers(&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")]);
        assert_eq!(hints(&fields, at).retry_after, Some(Duration::ZERO));
    }

    #[test]
    fn t38_a_date_counts_from_the_answers_own_date() {
        let two_hours_off = UnixMillis(NOV_6 + 7_200_000);
        for form in [
            "Sun, 06 Nov 1994 08:50:37 GMT",
            "Sunday, 06-Nov-94 08:50:37 GMT",
            "Sun Nov  6 08:50:37 1994",
        ] {
            let fields = headers(&[
                ("retry-after", form),
                ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ]);
            let wait = hints(&fields, two_hours_off).retry_after;
            assert_eq!(wait, Some(Duration::from_secs(60)), "{form}");
        }
        let without_date = headers(&[("retry-after", "Sun, 06 Nov 1994 08:50:37 GMT")]);
        let wait = hints(&without_date, UnixMillis(NOV_6)).retry_after;
        assert_eq!(wait, Some(Duration::from_secs(60)));
    }

    #[test]
    fn t40_what_cannot_be_read_is_no_hint_and_the_huge_saturates() {
        for value in [
            "-1", "", "abc", "NaN", "inf", "1e9", "1.", ".5", "+3", "1.2.3", "0x10", "1 2",
        ] {
            assert_eq!(asked(value), None, "{value:?}");
        }
        assert_eq!(
            asked("99999999999999999999"),
            Some(Duration::from_secs(u64::MAX))
        );
        assert!(asked("99999999999999999999.999999").is_some());
    }

    #[test]
    fn t47_an_hour_stays_an_hour() {
        assert_eq!(asked("3600"), Some(Duration::from_secs(3600)));
    }

    #[test]
    fn of_duplicates_the_longest_valid_one_counts() {
        let fields = headers(&[
            ("retry-after", "5"),
            ("retry-after", "nonsense"),
            ("retry-after", "30"),
            ("retry-after", "0"),
        ]);
        assert_eq!(
            hints(&fields, UnixMillis(0)).retry_after,
            Some(Duration::from_secs(30))
        );
        assert_eq!(hints(&headers(&[]), UnixMillis(0)).retry_after, None);
    }

    proptest! {
        #[test]
        fn no_text_panics(value in ".*", now in any::<i64>()) {
            let _ = retry_after(&value, UnixMillis(now));
        }

        #[test]
        fn a_fraction_is_never_shortened(whole in 0_u64..1_000_000, fraction in "[0-9]{1,12}") {
            let exact = format!("{whole}.{fraction}").parse::<f64>().expect("a number");
            let wait = retry_after(&format!("{whole}.{fraction}"), UnixMillis(0)).expect("valid");
            prop_assert!(wait.as_secs_f64() + 1e-6 >= exact);
            prop_assert!(wait.as_secs_f64() <= exact + 0.001 + 1e-6);
        }
    }
}
