use proptest::prelude::*;

use super::*;
use crate::calibrate::{Share, wilson};

/// A level of ten seconds with `ok` good answers and `bad` bad ones.
fn level(level: u32, ok: u64, bad: u64) -> Measured {
    let requests = ok + bad;
    let interval = wilson(bad, requests, z_of(Share::percent(95)));
    Measured {
        level,
        complete: true,
        window_seconds: 10.0,
        requests,
        ok,
        refused: bad,
        ok_ended: ok,
        ok_per_second: ok as f64 / 10.0,
        bad_share: bad as f64 / (requests as f64).max(1.0),
        bad_share_low: interval.low,
        bad_share_high: interval.high,
        ..Measured::default()
    }
}

fn found(levels: &[Measured]) -> Found {
    match decide(levels, &Rules::default()) {
        Verdict::Found(found) => found,
        Verdict::NotFound(why) => panic!("{why}"),
    }
}

fn not_found(levels: &[Measured]) -> NotFound {
    match decide(levels, &Rules::default()) {
        Verdict::Found(found) => panic!("{found}"),
        Verdict::NotFound(why) => why,
    }
}

#[test]
fn the_highest_level_below_the_bound_is_picked() {
    let got = found(&[
        level(1, 100, 0),
        level(2, 200, 0),
        level(4, 400, 2),
        level(8, 400, 200),
    ]);
    assert_eq!((got.level, got.proved_by, got.above), (4, 4, Some(8)));
    assert_eq!((got.ok_per_second, got.knee), (40.0, None));
    let text = got.to_string();
    assert!(
        text.starts_with("max_concurrency_num = 4: 40.0 good answers per second; at most 1.8 %"),
        "{text}"
    );
    assert!(
        text.ends_with("Level 8 is above the bound; those between were not tried"),
        "{text}"
    );
}

#[test]
fn where_more_in_flight_brings_no_more_the_smaller_is_picked_and_the_knee_said() {
    let got = found(&[
        level(1, 500, 0),
        level(2, 1000, 0),
        level(4, 1010, 0),
        level(8, 1030, 0),
    ]);
    assert_eq!((got.level, got.proved_by), (2, 8));
    let knee = got.knee.unwrap();
    assert_eq!((knee.level, knee.ok_per_second), (8, 103.0));
    assert!((knee.least_gain_per_second - 8.83).abs() < 0.01, "{knee:?}");
    assert!(got.to_string().contains("More in flight brings no more"));
}

#[test]
fn slow_growth_over_several_levels_is_still_growth() {
    let got = found(&[
        level(8, 10_000, 0),
        level(9, 10_400, 0),
        level(10, 10_800, 0),
    ]);
    // 9 adds 4 % to 8, 10 adds 4 % to 9: neither step is worth it, both together are.
    assert_eq!((got.level, got.knee.unwrap().level), (9, 10));
}

#[test]
fn too_few_requests_are_said_with_the_number_it_takes() {
    let why = not_found(&[level(1, 10, 0), level(2, 20, 0)]);
    assert_eq!(
        why,
        NotFound::TooFew {
            level: 2,
            requests: 20,
            needed: 73
        }
    );
    assert!(
        why.to_string()
            .contains("level 2 had 20, it takes 73; give it more seconds")
    );
    // Ten a second for ten seconds show a hundred, and two bad ones are too many for them.
    let why = not_found(&[level(1, 98, 2)]);
    assert!(matches!(
        why,
        NotFound::TooFew {
            requests: 100,
            needed: 203,
            ..
        }
    ));
}

#[test]
fn a_proved_level_vouches_for_the_smaller_ones() {
    let got = found(&[level(1, 10, 0), level(2, 20, 0), level(8, 80, 0)]);
    assert_eq!((got.level, got.proved_by, got.unproved), (8, 8, None));
    let got = found(&[level(4, 100, 0), level(8, 60, 1)]);
    assert_eq!((got.level, got.unproved), (4, Some(8)));
    assert!(got.to_string().contains("Level 8 had too few requests"));
}

#[test]
fn nothing_below_the_bound_is_said() {
    assert_eq!(not_found(&[]), NotFound::NothingMeasured);
    let cut = Measured {
        complete: false,
        ..level(1, 1000, 0)
    };
    assert_eq!(not_found(&[cut]), NotFound::NothingMeasured);
    assert!(matches!(
        not_found(&[level(1, 50, 50), level(2, 1000, 0)]),
        NotFound::LowestAbove { level: 1, .. }
    ));
    assert!(matches!(
        not_found(&[level(1, 93, 7)]),
        NotFound::NotBelow { level: 1, .. }
    ));
    assert!(matches!(
        standing(&level(1, 0, 0), &Rules::default()),
        Standing::Unsure { needed: Some(73) }
    ));
}

/// Rising levels with anything in them.
fn any_levels() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((0_u64..3000, prop_oneof![Just(0_u64), 0_u64..300]), 0..7)
}

fn build(counts: &[(u64, u64)]) -> Vec<Measured> {
    counts
        .iter()
        .enumerate()
        .map(|(nth, (ok, bad))| level(1 << nth, *ok, *bad))
        .collect()
}

fn picked(levels: &[Measured], rules: &Rules) -> u32 {
    match decide(levels, rules) {
        Verdict::Found(found) => found.level,
        Verdict::NotFound(_) => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn a_stricter_bound_never_picks_a_higher_level(counts in any_levels(), a in 0.001..0.5_f64, b in 0.001..0.5_f64) {
        let levels = build(&counts);
        let rules = |bound| Rules { max_errors: Share::new(bound).unwrap(), ..Rules::default() };
        prop_assert!(picked(&levels, &rules(a.min(b))) <= picked(&levels, &rules(a.max(b))));
    }

    #[test]
    fn more_bad_answers_never_pick_a_higher_level(counts in any_levels(), at in 0_usize..7, more in 1_u64..500) {
        let mut worse = counts.clone();
        if let Some((_, bad)) = worse.get_mut(at) {
            *bad += more;
        }
        let rules = Rules::default();
        prop_assert!(picked(&build(&worse), &rules) <= picked(&build(&counts), &rules));
    }

    #[test]
    fn what_is_picked_was_measured_and_is_not_above_the_bound(counts in any_levels()) {
        let (levels, rules) = (build(&counts), Rules::default());
        if let Verdict::Found(found) = decide(&levels, &rules) {
            let own = levels.iter().find(|level| level.level == found.level).unwrap();
            prop_assert!(standing(own, &rules) != Standing::Above);
            let proof = levels.iter().find(|level| level.level == found.proved_by).unwrap();
            prop_assert_eq!(standing(proof, &rules), Standing::Below);
            prop_assert!(found.level <= found.proved_by);
            prop_assert!(found.above.is_none_or(|above| above > found.proved_by));
        }
    }

    #[test]
    fn no_verdict_panics_and_every_one_has_a_text(counts in any_levels()) {
        prop_assert!(!decide(&build(&counts), &Rules::default()).to_string().is_empty());
    }
}
