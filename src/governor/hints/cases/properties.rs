//! Whatever a server sends: no panic, and hints within their ranges.

use proptest::prelude::*;

use super::*;

/// Names that are read, and one that is not.
const NAMES: [&str; 22] = [
    "retry-after",
    "retry-after-ms",
    "x-ms-retry-after-ms",
    "ratelimit",
    "ratelimit-policy",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-ratelimit-reset-after",
    "x-ratelimit-used",
    "x-ratelimit-bucket",
    "x-ratelimit-resource",
    "x-ratelimit-global",
    "x-ratelimit-scope",
    "x-rate-limit-remaining",
    "x-rate-limit-reset",
    "date",
    "age",
    "server",
];

fn value() -> impl Strategy<Value = Vec<u8>> {
    let text = prop_oneof![
        // Near misses of every form, and what is well formed.
        3 => "[0-9]{1,20}(\\.[0-9]{1,4})?",
        2 => "\"[a-c]{0,2}\"(;(q|r|t|w|pk|qu)=[0-9]{1,16}){0,4}",
        1 => "\"[a-c]\";q=[0-9]{1,4};qu=\"(requests|content-bytes|concurrent-requests)\";w=[0-9]{1,3}",
        1 => "[0-9]{1,4}(, [0-9]{1,4}(;w=[0-9]{0,4})?){0,3}",
        1 => "(limit|remaining|reset)=[0-9]{1,4}(, (limit|remaining|reset)=[0-9]{1,4}){0,2}",
        1 => "[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-9]{2}(Z|\\+[0-9]{2}:[0-9]{2})?",
        1 => "(Sun|Mon), [0-3][0-9] (May|Nov) [0-9]{4} [0-2][0-9]:[0-5][0-9]:[0-5][0-9] GMT",
        1 => ".{0,40}",
    ];
    prop_oneof![
        9 => text.prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

fn any_headers() -> impl Strategy<Value = Headers> {
    let field = (prop::sample::select(&NAMES[..]), value())
        .prop_map(|(name, value)| (name.to_owned(), Bytes::from(value)));
    prop::collection::vec(field, 0..10).prop_map(Headers)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn no_header_panics_and_every_hint_is_in_its_range(
        headers in any_headers(),
        now in prop_oneof![any::<i64>(), 0_i64..4_000_000_000_000],
    ) {
        let hints = hints(&headers, UnixMillis(now));
        if let Some(rate) = hints.rate {
            prop_assert!((1e-6..=1e9).contains(&rate), "{rate}");
        }
        prop_assert!(hints.rate.is_some() || hints.rate_for.is_none());
        prop_assert!(hints.rate_for != Some(Duration::ZERO));
        prop_assert!(hints.cap != Some(0));
        // The same header means the same in every process.
        prop_assert_eq!(hints, super::hints(&headers, UnixMillis(now)));
    }

    /// More policies can only make the bounds stricter.
    #[test]
    fn a_further_policy_is_never_a_licence(
        policies in prop::collection::vec((1_u64..100_000, 1_u64..100_000), 1..5),
        states in prop::collection::vec((0_u64..1000, 0_u64..1000), 1..5),
    ) {
        let policy = |(q, w): &(u64, u64)| format!("\"p\";q={q};w={w}");
        let state = |(r, t): &(u64, u64)| format!("\"p\";r={r};t={t}");
        let told = |count: usize| {
            let policies: Vec<String> = policies.iter().take(count).map(policy).collect();
            let states: Vec<String> = states.iter().take(count).map(state).collect();
            said(&[
                ("ratelimit-policy", &policies.join(", ")),
                ("ratelimit", &states.join(", ")),
            ])
        };
        for count in 1..5 {
            let (fewer, more) = (told(count), told(count + 1));
            prop_assert!(more.rate <= fewer.rate);
            prop_assert!(more.exhausted >= fewer.exhausted);
        }
        for (q, w) in &policies {
            prop_assert!(told(5).rate <= Some(*q as f64 / *w as f64 + 1e-9));
        }
    }

    #[test]
    fn a_fraction_is_never_shortened(whole in 0_u64..1_000_000, fraction in "[0-9]{1,12}") {
        let exact = format!("{whole}.{fraction}").parse::<f64>().expect("a number");
        let text = format!("{whole}.{fraction}");
        let wait = said(&[("retry-after", &text)]).retry_after.expect("valid");
        prop_assert!(wait.as_secs_f64() + 1e-6 >= exact);
        prop_assert!(wait.as_secs_f64() <= exact + 0.001 + 1e-6);
    }

    /// Whatever the unit, and however wrong our clock, the wait is the one the server meant.
    #[test]
    fn a_reset_is_the_same_in_every_unit(
        at in 1_100_000_000_i64..2_000_000_000,
        wait in 0_i64..3600,
        ours in any::<i64>(),
    ) {
        let http = |seconds: i64| {
            let since = Duration::from_secs(seconds.unsigned_abs());
            httpdate::fmt_http_date(std::time::UNIX_EPOCH + since)
        };
        let then = at + wait;
        let iso = UnixMillis(then * 1000).to_string();
        let forms = [wait.to_string(), then.to_string(), format!("{then}000"), iso, http(then)];
        for form in &forms {
            let fields = [
                ("date", &*http(at)),
                ("x-ratelimit-remaining", "0"),
                ("x-ratelimit-reset", form),
            ];
            let hints = hints(&headers(&fields), UnixMillis(ours));
            prop_assert_eq!(hints.exhausted, seconds(wait.unsigned_abs()), "{}", form);
        }
    }
}
