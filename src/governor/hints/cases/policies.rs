//! `RateLimit-Policy` and `RateLimit`.

use super::*;

fn fields(policy: &str, state: &str) -> Hints {
    said(&[("ratelimit-policy", policy), ("ratelimit", state)])
}

#[test]
fn t46_a_burst_of_the_state_is_no_licence_to_break_the_policy() {
    let hints = fields("\"p\";q=10000;w=1000", "\"p\";r=10000;t=10");
    assert!(is_rate(hints, 10.0), "{hints:?}");
    assert_eq!(hints.rate_for, None, "a policy stands");
    assert_eq!(hints.exhausted, None);
}

#[test]
fn what_is_left_bounds_the_pace_until_the_reset() {
    let hints = fields("\"p\";q=100;w=1", "\"p\";r=29;t=30");
    // Whole seconds: 29 of the 30 are certain.
    assert!(is_rate(hints, 1.0), "{hints:?}");
    assert_eq!(hints.rate_for, seconds(30));
}

#[test]
fn a_second_that_may_be_over_bounds_no_pace() {
    let hints = fields("\"p\";q=50;w=1", "\"p\";r=1;t=1");
    assert!(is_rate(hints, 50.0), "{hints:?}");
    assert_eq!(said(&[("ratelimit", "\"p\";r=1;t=0")]).rate, None);
}

#[test]
fn none_left_is_a_time() {
    let hints = fields("\"p\";q=100;w=60", "\"p\";r=0;t=30");
    assert_eq!(hints.exhausted, seconds(30));
    assert!(is_rate(hints, 100.0 / 60.0), "{hints:?}");
    assert_eq!(hints.retry_after, None);
    let without_time = fields("\"p\";q=100;w=60", "\"p\";r=0");
    assert_eq!(without_time.exhausted, None);
}

#[test]
fn of_several_policies_the_strictest_counts() {
    let hints = fields(
        "\"burst\";q=10;w=1, \"hour\";q=3600;w=3600, \"at once\";q=8;qu=\"concurrent-requests\", \"c\";q=3;qu=concurrent-requests",
        "\"burst\";r=0;t=1, \"hour\";r=0;t=1200, \"at once\";r=0;t=7777",
    );
    assert!(is_rate(hints, 1.0), "{hints:?}");
    assert_eq!(
        hints.exhausted,
        seconds(1200),
        "a slot is free when a request ends, not at a time"
    );
    assert_eq!(hints.cap, Some(3));
    assert_eq!(
        fields("\"c\";q=0;qu=\"concurrent-requests\"", "").cap,
        Some(1)
    );
    assert_eq!(
        fields("\"c\";q=999999999999;qu=\"concurrent-requests\"", "").cap,
        Some(u32::MAX)
    );
}

#[test]
fn several_lines_are_one_field() {
    let hints = said(&[
        ("ratelimit-policy", "\"a\";q=10;w=1"),
        ("ratelimit-policy", "\"b\";q=60;w=60"),
    ]);
    assert!(is_rate(hints, 1.0), "{hints:?}");
}

#[test]
fn bytes_and_what_is_unknown_bound_nothing() {
    let hints = fields(
        "\"b\";q=1000;w=1000;qu=\"content-bytes\", \"m\";q=1;w=60;qu=\"moons\"",
        "\"b\";r=0;t=60, \"m\";r=1;t=600",
    );
    assert_eq!(hints, Hints::default());
    let beside = fields(
        "\"b\";q=1;w=60;qu=\"content-bytes\", \"p\";q=5;w=1;x=?1",
        "",
    );
    assert!(is_rate(beside, 5.0), "{beside:?}");
}

#[test]
fn what_is_malformed_is_ignored_as_a_whole() {
    for policy in [
        "\"p\";q=10;w=1,",
        "\"p\";q=10;w=1, \"x\"",
        "\"p\";q=10;w=1, \"x\";q=-1",
        "\"p\";q=10;w=1, \"x\";q=1.5",
        "\"p\";q=10;w=1, \"x\";q=\"1\"",
        "\"p\";q=10;w=1, \"x\";q=1;w=0",
        "\"p\";q=10;w=1, \"x\";q=1;w=1.0",
        "\"p\";q=10;w=1, \"x\";q=1;qu=7",
        "\"p\";q=10;w=1, :cGs=:;q=1",
        "\"p;q=10;w=1",
        "q=10;w=1",
    ] {
        let hints = fields(policy, "\"s\";r=0;t=9");
        assert_eq!(hints.rate, None, "{policy}");
        assert_eq!(hints.exhausted, seconds(9), "the other field counts");
    }
    for state in [
        "\"p\";r=0;t=9, \"x\"",
        "\"p\";r=0;t=9, \"x\";r=-1",
        "\"p\";r=0;t=9, \"x\";r=1;t=-1",
        "\"p\";r=0;t=9, 5",
        "\"p\";r=0;t=9.5",
        "\"p\";r=0 t=9",
        "remaining=-1, reset=9",
        "limit=5, reset=9",
    ] {
        let hints = fields("\"p\";q=10;w=1", state);
        assert_eq!(hints.exhausted, None, "{state}");
        assert!(is_rate(hints, 10.0), "the other field counts");
    }
    let not_text = Headers(vec![
        ("ratelimit".to_owned(), Bytes::from_static(b"\"p\";r=0;t=9")),
        ("ratelimit".to_owned(), Bytes::from_static(b"\"\xff\";r=1")),
    ]);
    assert_eq!(hints(&not_text, UnixMillis(0)), Hints::default());
}

#[test]
fn an_answer_from_a_cache_tells_nothing() {
    let cached = |age: &str| {
        said(&[
            ("ratelimit-policy", "\"p\";q=10;w=1"),
            ("ratelimit", "\"p\";r=0;t=9"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "9"),
            ("age", age),
        ])
    };
    assert_eq!(cached("1"), Hints::default());
    assert_eq!(cached("0").exhausted, seconds(9));
    assert_eq!(cached("young").exhausted, seconds(9), "no age at all");
}

#[test]
fn older_forms_of_the_fields_are_read() {
    let draft_7 = said(&[
        ("ratelimit-policy", "100;w=60, 1000;w=3600"),
        ("ratelimit", "limit=100, remaining=0, reset=20"),
    ]);
    assert!(is_rate(draft_7, 1000.0 / 3600.0), "{draft_7:?}");
    assert_eq!(draft_7.exhausted, seconds(20));
    assert_eq!(draft_7.bucket, None);
    let draft_3 = said(&[
        ("ratelimit-limit", "100, 100;w=60"),
        ("ratelimit-remaining", "0"),
        ("ratelimit-reset", "50"),
    ]);
    assert!(is_rate(draft_3, 100.0 / 60.0), "{draft_3:?}");
    assert_eq!(draft_3.exhausted, seconds(50));
}

#[test]
fn nothing_allowed_at_all_or_no_window_is_no_pace() {
    assert_eq!(fields("\"p\";q=0;w=60", "").rate, None);
    assert_eq!(fields("\"p\";q=5", "").rate, None);
}

#[test]
fn the_policy_and_its_partition_name_the_bucket() {
    let bucket = |policy: &str, state: &str| fields(policy, state).bucket;
    let plain = bucket("\"p\";q=1;w=1", "\"p\";r=1;t=1");
    assert!(plain.is_some());
    assert_eq!(plain, bucket("", "\"p\";r=7;t=5"), "whatever is left");
    assert_eq!(plain, bucket("\"p\";q=9", ""), "the policy alone");
    assert_ne!(plain, bucket("", "\"q\";r=1;t=1"));
    let ours = bucket("", "\"p\";r=1;t=1;pk=:dXM=:");
    assert!(ours.is_some() && ours != plain);
    assert_ne!(ours, bucket("", "\"p\";r=1;t=1;pk=:dGhlbQ==:"));
    let at_once = bucket("\"p\";q=1;qu=\"concurrent-requests\"", "\"p\";r=1");
    assert_eq!(at_once, None);
}
