//! `X-RateLimit-*` and its relatives.

use super::*;

/// Hints of an answer that says `Date: MAY_6_DATE`, while our clock is two hours ahead.
fn dated(fields: &[(&str, &str)]) -> Hints {
    let mut all = vec![("date", MAY_6_DATE)];
    all.extend_from_slice(fields);
    hints(&headers(&all), UnixMillis(MAY_6 + 7_200_000))
}

fn exhausted(reset: &str) -> Option<Duration> {
    dated(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", reset)]).exhausted
}

#[test]
fn the_unit_of_a_reset_is_told_from_its_look() {
    for (unit, reset) in [
        ("seconds", "60"),
        ("a fraction", "60.0"),
        ("seconds since 1970", "1714979349"),
        ("seconds since 1970, with a fraction", "1714979349.000"),
        ("milliseconds since 1970", "1714979349000"),
        ("microseconds since 1970", "1714979349000000"),
        ("ISO 8601", "2024-05-06T07:09:09Z"),
        ("ISO 8601 in a zone", "2024-05-06T09:09:09.000+02:00"),
        ("ISO 8601 without a zone", "2024-05-06T07:09:09"),
        ("an HTTP-date", "Mon, 06 May 2024 07:09:09 GMT"),
    ] {
        assert_eq!(exhausted(reset), seconds(60), "{unit}");
    }
    for reset in ["", "soon", "-5", "60s", "1e3"] {
        assert_eq!(exhausted(reset), None, "{reset:?}");
    }
}

#[test]
fn t38_a_reset_counts_from_the_answers_own_date() {
    assert_eq!(exhausted("1714979284"), seconds(0), "5 s ago");
    assert_eq!(exhausted("1714979284000"), seconds(0), "5 s ago");
    let without_date = said(&[
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "1714979284"),
    ]);
    assert_eq!(without_date.exhausted, seconds(0));
    assert_eq!(without_date.rate, None);
}

#[test]
fn a_guess_asks_for_an_hour_at_most_unless_a_policy_says_longer() {
    assert_eq!(exhausted("59000"), seconds(3600), "milliseconds perhaps");
    let by_our_clock = said(&[
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "1714989289"),
    ]);
    assert_eq!(by_our_clock.exhausted, seconds(3600));
    assert_eq!(
        exhausted("1714989289"),
        seconds(10_000),
        "an instant by the server's own clock is taken at its word"
    );
    for policy in [
        ("ratelimit-policy", "\"day\";q=10;w=86400"),
        ("x-ratelimit-limit", "10;w=86400"),
    ] {
        let hints = dated(&[
            policy,
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "59000"),
        ]);
        assert_eq!(hints.exhausted, seconds(59_000), "{policy:?}");
    }
}

#[test]
fn each_family_of_names_is_read() {
    for family in ["ratelimit", "x-ratelimit", "x-rate-limit"] {
        let name = |what: &str| format!("{family}-{what}");
        let (limit, remaining, reset) = (name("limit"), name("remaining"), name("reset"));
        let left = |left: &'static str| {
            dated(&[(&limit, "5000"), (&remaining, left), (&reset, "1714979390")])
        };
        assert_eq!(left("0").exhausted, seconds(101), "{family}");
        assert_eq!(left("0").rate, None, "{family}");
        assert!(is_rate(left("200"), 2.0), "{family}: 100 s are certain");
        assert_eq!(left("200").rate_for, seconds(101), "{family}");
        assert_eq!(left("200").exhausted, None, "{family}");
        assert_eq!(left("-1"), Hints::default(), "{family}");
    }
}

#[test]
fn what_others_use_of_a_shared_quota_lowers_the_bound() {
    let rate = |left: &str| {
        let hints = dated(&[("x-ratelimit-remaining", left), ("x-ratelimit-reset", "11")]);
        hints.rate.expect("a rate")
    };
    assert!(rate("100") > rate("40") && rate("40") > rate("1"));
}

#[test]
fn a_counter_without_its_reset_or_a_reset_alone_tells_nothing() {
    assert_eq!(said(&[("x-ratelimit-remaining", "0")]), Hints::default());
    assert_eq!(said(&[("x-ratelimit-reset", "60")]), Hints::default());
    assert_eq!(said(&[("x-ratelimit-limit", "60")]), Hints::default());
}

#[test]
fn fractions_as_reddit_has_them() {
    let reddit = |remaining: &'static str| {
        said(&[
            ("x-ratelimit-used", "4.0"),
            ("x-ratelimit-remaining", remaining),
            ("x-ratelimit-reset", "101"),
        ])
    };
    assert!(is_rate(reddit("596.0"), 5.96));
    assert_eq!(reddit("0.0").exhausted, seconds(101));
    assert_eq!(
        reddit("0.5").exhausted,
        seconds(101),
        "half a request is none"
    );
    let used = said(&[
        ("x-ratelimit-limit", "600"),
        ("x-ratelimit-used", "600"),
        ("x-ratelimit-reset", "101"),
    ]);
    assert_eq!(used.exhausted, seconds(101));
}

#[test]
fn a_reset_after_is_in_seconds_and_exact_where_it_has_a_fraction() {
    let discord = |remaining: &'static str| {
        said(&[
            ("x-ratelimit-limit", "5"),
            ("x-ratelimit-remaining", remaining),
            ("x-ratelimit-reset", "1714979290.470"),
            ("x-ratelimit-reset-after", "0.5"),
            ("x-ratelimit-bucket", "abcd1234"),
        ])
    };
    assert_eq!(discord("0").exhausted, Some(Duration::from_millis(500)));
    assert!(is_rate(discord("1"), 2.0));
    assert_eq!(discord("1").retry_after, None, "it refuses nothing");
    let long = said(&[
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset-after", "7200"),
    ]);
    assert_eq!(long.exhausted, seconds(7200), "its unit is no guess");
}

#[test]
fn several_counters_count_each() {
    let hints = said(&[
        ("x-ratelimit-limit", "10, 1000"),
        ("x-ratelimit-remaining", "9, 100"),
        ("x-ratelimit-reset", "2, 1001"),
    ]);
    assert!(is_rate(hints, 0.1), "{hints:?}");
    let docker = said(&[
        ("ratelimit-limit", "100;w=21600"),
        ("ratelimit-remaining", "76;w=21600"),
    ]);
    assert!(is_rate(docker, 100.0 / 21600.0), "{docker:?}");
}

#[test]
fn of_duplicates_the_strictest_counts() {
    let remaining = said(&[
        ("x-ratelimit-remaining", "7"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-remaining", "what"),
        ("x-ratelimit-reset", "20"),
    ]);
    assert_eq!(remaining.exhausted, seconds(20));
    let reset = said(&[
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "20"),
        ("x-ratelimit-reset", "40"),
        ("x-ratelimit-reset", "30"),
    ]);
    assert_eq!(reset.exhausted, seconds(40));
}

#[test]
fn buckets_and_scopes() {
    let bucket = |name: &str, value: &str| said(&[(name, value)]).bucket;
    let known = bucket("x-ratelimit-bucket", "abcd");
    assert!(known.is_some());
    assert_eq!(known, bucket("x-ratelimit-bucket", " abcd "));
    assert_ne!(known, bucket("x-ratelimit-bucket", "abce"));
    assert_ne!(known, bucket("x-ratelimit-resource", "abcd"));
    assert_eq!(bucket("x-ratelimit-bucket", ""), None);

    let whole = |name: &str, value: &str| said(&[(name, value)]).whole_site;
    assert!(whole("x-ratelimit-global", "true"));
    assert!(whole("x-ratelimit-global", "True"));
    assert!(!whole("x-ratelimit-global", "false"));
    assert!(whole("x-ratelimit-scope", "global"));
    assert!(!whole("x-ratelimit-scope", "user"));
    assert!(!whole("x-ratelimit-scope", "shared"));
    assert!(!said(&[]).whole_site);
}
