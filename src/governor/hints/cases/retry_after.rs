//! `Retry-After`, `retry-after-ms` and `x-ms-retry-after-ms`.

use super::*;

fn asked(value: &str) -> Option<Duration> {
    hints(&headers(&[("retry-after", value)]), UnixMillis(0)).retry_after
}

#[test]
fn t35_l21_zero_is_valid_and_not_missing() {
    assert_eq!(asked("0"), seconds(0));
    assert_eq!(asked("0.0"), seconds(0));
}

#[test]
fn t36_l18_fractions_are_rounded_up_to_a_millisecond() {
    assert_eq!(asked("1.5"), Some(Duration::from_millis(1500)));
    assert_eq!(asked("299.997"), Some(Duration::from_millis(299_997)));
    assert_eq!(asked("1.0001"), Some(Duration::from_millis(1001)));
    assert_eq!(asked(" 7 "), seconds(7));
}

#[test]
fn t37_a_past_date_is_zero() {
    let at = UnixMillis(NOV_6 + 10_000);
    let fields = headers(&[("retry-after", NOV_6_DATE)]);
    assert_eq!(hints(&fields, at).retry_after, seconds(0));
}

#[test]
fn t38_l20_a_date_in_any_form_counts_from_the_answers_own_date() {
    let two_hours_off = UnixMillis(NOV_6 + 7_200_000);
    for form in [
        "Sun, 06 Nov 1994 08:50:37 GMT",
        "Sunday, 06-Nov-94 08:50:37 GMT",
        "Sun Nov  6 08:50:37 1994",
    ] {
        let fields = headers(&[("retry-after", form), ("date", NOV_6_DATE)]);
        let wait = hints(&fields, two_hours_off).retry_after;
        assert_eq!(wait, seconds(60), "{form}");
        // An hour slow: the wait is the same.
        let wait = hints(&fields, UnixMillis(NOV_6 - 3_600_000)).retry_after;
        assert_eq!(wait, seconds(60), "{form}");
    }
    let without_date = headers(&[("retry-after", "Sun, 06 Nov 1994 08:50:37 GMT")]);
    let wait = hints(&without_date, UnixMillis(NOV_6)).retry_after;
    assert_eq!(wait, seconds(60));
}

#[test]
fn t40_l18_what_cannot_be_read_is_no_hint() {
    for value in [
        "-1", "-5", "", "abc", "NaN", "inf", "1e9", "1.", ".5", "+3", "1.2.3", "0x10", "1 2",
        "5, 10", "\u{663}",
    ] {
        assert_eq!(asked(value), None, "{value:?}");
    }
    let latin = Headers(vec![(
        "retry-after".to_owned(),
        Bytes::from_static(b"5\xa0"),
    )]);
    assert_eq!(hints(&latin, UnixMillis(0)).retry_after, None);
}

#[test]
fn t40_l19_the_huge_saturates_and_never_wraps() {
    assert_eq!(asked("99999999999999999999"), seconds(u64::MAX));
    assert_eq!(asked("9223372037"), seconds(9_223_372_037));
    assert_eq!(asked("18446744073709551615"), seconds(u64::MAX));
    assert!(asked("99999999999999999999.999999") >= seconds(u64::MAX));
}

#[test]
fn t47_t48_an_hour_stays_an_hour_and_ten_days_ten_days() {
    assert_eq!(asked("3600"), seconds(3600));
    assert_eq!(asked("864000"), seconds(864_000));
}

#[test]
fn l18_of_duplicates_the_longest_valid_one_counts() {
    let fields = [
        ("retry-after", "5"),
        ("retry-after", "nonsense"),
        ("retry-after", "30"),
        ("retry-after", "0"),
    ];
    assert_eq!(said(&fields).retry_after, seconds(30));
    assert_eq!(said(&[]).retry_after, None);
}

#[test]
fn a_number_that_is_a_time_near_the_answer_is_a_date() {
    let at = |value: &str| said(&[("retry-after", value)]).retry_after;
    assert_eq!(at("1714979349"), seconds(60), "seconds since 1970");
    assert_eq!(at("1714979349000"), seconds(60), "milliseconds since 1970");
    assert_eq!(at("1714979279"), seconds(0), "ten seconds ago");
    // The server's clock is two hours behind ours.
    let fields = [
        ("retry-after", "1714972149"),
        ("date", "Mon, 06 May 2024 05:08:09 GMT"),
    ];
    assert_eq!(said(&fields).retry_after, seconds(60));
    assert_eq!(
        at("1914979349"),
        seconds(1_914_979_349),
        "years away: no date"
    );
}

#[test]
fn milliseconds_have_fields_of_their_own() {
    for name in ["retry-after-ms", "x-ms-retry-after-ms"] {
        let wait = |value: &str| said(&[(name, value)]).retry_after;
        assert_eq!(wait("1200"), Some(Duration::from_millis(1200)), "{name}");
        assert_eq!(wait("0.5"), Some(Duration::from_millis(1)), "{name}");
        assert_eq!(wait("0"), seconds(0), "{name}");
        assert_eq!(wait("-1"), None, "{name}");
        assert_eq!(wait(MAY_6_DATE), None, "{name}");
        assert!(
            wait("99999999999999999999") > seconds(1_000_000_000),
            "{name}"
        );
    }
    let both = said(&[("retry-after-ms", "1200"), ("retry-after", "1")]);
    assert_eq!(both.retry_after, Some(Duration::from_millis(1200)));
    let both = said(&[("retry-after-ms", "200"), ("retry-after", "1")]);
    assert_eq!(both.retry_after, seconds(1), "the longest");
}

#[test]
fn a_wait_from_a_cache_is_a_wait_still() {
    let fields = [("retry-after", "5"), ("age", "3")];
    assert_eq!(said(&fields).retry_after, seconds(5));
}
