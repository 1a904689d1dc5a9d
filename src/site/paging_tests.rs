//! Tests of paging: each stop reason by example, caps and bounds by property.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn by_page() -> Rule {
    Rule {
        by: By::Page { from: 1, step: 1 },
        end: Vec::new(),
        window: None,
    }
}

fn by_cursor() -> Rule {
    Rule {
        by: By::Cursor { first: None },
        ..by_page()
    }
}

fn page(items: &[&str], more: Option<bool>, next: Option<Value>) -> Page {
    Page {
        items: items.iter().map(|item| (*item).to_owned()).collect(),
        more,
        next,
        ..Page::default()
    }
}

fn run(rule: &Rule, pages: Vec<Page>, cap: Option<u64>) -> ListState {
    let mut state = ListState::default();
    for page in pages {
        assert_eq!(state.stop, None, "a page was asked for after the end");
        state = turn(rule, &state, page, cap).state;
    }
    state
}

#[test]
fn the_last_page_is_taken_before_its_flag_is_obeyed() {
    let first = turn(
        &by_page(),
        &ListState::default(),
        page(&["a"], Some(true), None),
        None,
    );
    assert_eq!(first.state.cursor, Some(json!(2)));
    let last = turn(
        &by_page(),
        &first.state,
        page(&["b"], Some(false), None),
        None,
    );
    assert_eq!(last.fates, [Fate::New]);
    assert_eq!(
        (last.state.items, last.state.stop),
        (2, Some(StopReason::Complete))
    );
}

#[test]
fn an_empty_page_without_flags_is_the_end() {
    let state = run(
        &by_page(),
        vec![page(&["a"], None, None), page(&[], None, None)],
        None,
    );
    assert_eq!(state.stop, Some(StopReason::Complete));
}

#[test]
fn an_empty_page_that_claims_more_is_asked_once_more() {
    let pages = || {
        vec![
            page(&["a"], Some(true), Some(json!("c1"))),
            page(&[], Some(true), Some(json!("c2"))),
        ]
    };
    let state = run(&by_cursor(), pages(), None);
    assert_eq!(
        (state.stop, state.cursor.clone()),
        (None, Some(json!("c1")))
    );
    assert!(state.confirming);
    let again = turn(
        &by_cursor(),
        &state,
        page(&[], Some(true), Some(json!("c3"))),
        None,
    )
    .state;
    assert_eq!(again.stop, Some(StopReason::EmptyUnconfirmed));
    let filled = turn(
        &by_cursor(),
        &state,
        page(&["b"], Some(true), Some(json!("c2"))),
        None,
    )
    .state;
    assert_eq!(
        (filled.stop, filled.cursor, filled.confirming),
        (None, Some(json!("c2")), false)
    );
}

#[test]
fn a_repeated_cursor_stalls_with_its_page_taken() {
    let state = run(
        &by_cursor(),
        vec![
            page(&["a"], Some(true), Some(json!("c"))),
            page(&["b"], Some(true), Some(json!("c"))),
        ],
        None,
    );
    assert_eq!((state.items, state.stop), (2, Some(StopReason::Stalled)));
}

#[test]
fn alternating_cursors_stall() {
    let mut state = run(
        &by_cursor(),
        vec![page(&["a"], Some(true), Some(json!("A")))],
        None,
    );
    let mut asked = 0;
    while state.stop.is_none() {
        let next = if state.cursor == Some(json!("A")) {
            "B"
        } else {
            "A"
        };
        state = turn(
            &by_cursor(),
            &state,
            page(&["a"], Some(true), Some(json!(next))),
            None,
        )
        .state;
        asked += 1;
    }
    assert_eq!(
        (asked, state.stop),
        (MAX_STALE_PAGES, Some(StopReason::Stalled))
    );
}

#[test]
fn more_without_a_cursor_stalls_and_no_flag_without_a_cursor_ends() {
    let stalled = run(&by_cursor(), vec![page(&["a"], Some(true), None)], None);
    assert_eq!(stalled.stop, Some(StopReason::Stalled));
    let ended = run(
        &by_cursor(),
        vec![page(&["a"], None, Some(json!("")))],
        None,
    );
    assert_eq!(ended.stop, Some(StopReason::Complete));
}

#[test]
fn a_sentinel_ends_a_list_whatever_its_type() {
    for (end, next) in [
        (json!("no_more"), json!("no_more")),
        (json!(0), json!("0")),
        (json!(0), json!(0)),
    ] {
        let rule = Rule {
            end: vec![end],
            ..by_cursor()
        };
        assert_eq!(
            run(&rule, vec![page(&["a"], None, Some(next))], None).stop,
            Some(StopReason::Complete)
        );
    }
}

#[test]
fn counts_of_items_and_pages_end_a_list() {
    let total = |items: &[&str], total| Page {
        total: Some(total),
        ..page(items, None, None)
    };
    let state = run(
        &by_page(),
        vec![total(&["a", "b"], 3), total(&["c"], 3)],
        None,
    );
    assert_eq!(
        (state.stop, state.total),
        (Some(StopReason::Complete), Some(3))
    );
    let short = run(
        &by_page(),
        vec![total(&["a", "b"], 3), total(&[], 3), total(&[], 3)],
        None,
    );
    assert_eq!(short.stop, Some(StopReason::EmptyUnconfirmed));
    let pages = |items: &[&str]| Page {
        total_pages: Some(2),
        ..page(items, None, None)
    };
    assert_eq!(
        run(&by_page(), vec![pages(&["a"]), pages(&["b"])], None).stop,
        Some(StopReason::Complete)
    );
}

#[test]
fn a_declared_window_is_told_apart_from_the_end() {
    let rule = Rule {
        window: Some(2),
        ..by_page()
    };
    assert_eq!(
        run(&rule, vec![page(&["a", "b"], Some(true), None)], None).stop,
        Some(StopReason::ServerWindow)
    );
    assert_eq!(
        run(&rule, vec![page(&["a", "b"], Some(false), None)], None).stop,
        Some(StopReason::ServerWindow)
    );
    assert_eq!(
        run(&rule, vec![page(&["a"], Some(false), None)], None).stop,
        Some(StopReason::Complete)
    );
    let whole = Page {
        total: Some(2),
        ..page(&["a", "b"], Some(false), None)
    };
    assert_eq!(
        run(&rule, vec![whole], None).stop,
        Some(StopReason::Complete)
    );
}

#[test]
fn a_cap_cuts_the_page_and_stays_on_it() {
    let turned = turn(
        &by_page(),
        &ListState::default(),
        page(&["a", "b", "c"], Some(true), None),
        Some(2),
    );
    assert_eq!(turned.fates, [Fate::New, Fate::New, Fate::Cut]);
    assert_eq!(
        (turned.state.stop, turned.state.cursor.clone()),
        (Some(StopReason::Cap), None)
    );
    // A raised cap goes on from the page that was cut.
    let raised = turn(
        &by_page(),
        &turned.state,
        page(&["a", "b", "c"], Some(false), None),
        Some(9),
    );
    assert_eq!(raised.fates, [Fate::Seen, Fate::Seen, Fate::New]);
    assert_eq!(raised.state.stop, Some(StopReason::Complete));
}

#[test]
fn a_cap_met_exactly_at_the_end_is_complete() {
    let state = run(
        &by_page(),
        vec![page(&["a", "b"], Some(false), None)],
        Some(2),
    );
    assert_eq!(state.stop, Some(StopReason::Complete));
    let state = run(
        &by_page(),
        vec![page(&["a", "b"], Some(true), None)],
        Some(2),
    );
    assert_eq!(
        (state.stop, state.cursor),
        (Some(StopReason::Cap), Some(json!(2)))
    );
}

#[test]
fn offsets_grow_by_the_step_or_by_the_page() {
    let offset = |step| Rule {
        by: By::Offset { from: 0, step },
        ..by_page()
    };
    let fixed = run(
        &offset(Some(10)),
        vec![page(&["a", "b"], Some(true), None)],
        None,
    );
    assert_eq!(fixed.cursor, Some(json!(10)));
    let counted = run(
        &offset(None),
        vec![page(&["a", "b"], Some(true), None)],
        None,
    );
    assert_eq!(counted.cursor, Some(json!(2)));
}

#[test]
fn kept_values_travel_with_the_list() {
    let mut first = page(&["a"], Some(true), Some(json!("c")));
    first.keep.insert("session".to_owned(), json!("s1"));
    assert_eq!(
        run(&by_cursor(), vec![first], None).sticky["session"],
        json!("s1")
    );
}

proptest! {
    /// A server with `available` items, pages that overlap, and a cap: exactly min(n, available) distinct items.
    #[test]
    fn caps_are_exact_over_overlapping_pages(
        available in 0_usize..80, size in 1_usize..30, overlap in 0_usize..10, cap in proptest::option::of(0_u64..100),
        flags in any::<bool>(),
    ) {
        let step = size.saturating_sub(overlap).max(1);
        let rule = by_page();
        let mut state = ListState::default();
        let mut taken = BTreeSet::new();
        let mut asked = 0;
        while state.stop.is_none() {
            let number = rule.by.current(&state).and_then(|n| n.as_u64()).unwrap_or(0);
            let from = (usize::try_from(number).unwrap() - 1) * step;
            let keys: Vec<String> = (from..available.min(from + size)).map(|n| n.to_string()).collect();
            let more = flags.then_some(from + size < available);
            let turned = turn(&rule, &state, Page { items: keys.clone(), more, ..Page::default() }, cap);
            for (key, fate) in keys.iter().zip(&turned.fates) {
                match fate {
                    Fate::New => prop_assert!(taken.insert(key.clone())),
                    Fate::Seen => prop_assert!(taken.contains(key)),
                    Fate::Cut => prop_assert!(!taken.contains(key)),
                }
            }
            state = turned.state;
            asked += 1;
            prop_assert!(asked <= available + 2);
        }
        let wanted = cap.map_or(available, |cap| available.min(usize::try_from(cap).unwrap()));
        prop_assert_eq!(taken.len(), wanted);
        prop_assert_eq!(state.items, wanted as u64);
    }

    /// Whatever a server answers from a finite set of items, a list ends in bounded time.
    #[test]
    fn every_list_ends(
        answers in proptest::collection::vec(
            (proptest::collection::vec(0_u8..6, 0..4), proptest::option::of(any::<bool>()), proptest::option::of(0_u8..4)), 1..8),
        kind in 0_u8..4,
    ) {
        let rule = Rule {
            by: match kind {
                0 => By::Page { from: 1, step: 1 },
                1 => By::Offset { from: 0, step: None },
                2 => By::Cursor { first: None },
                _ => By::NextUrl,
            },
            ..by_page()
        };
        let mut state = ListState::default();
        let mut asked = 0;
        while state.stop.is_none() {
            let (items, more, next) = &answers[asked % answers.len()];
            state = turn(&rule, &state, Page {
                items: items.iter().map(u8::to_string).collect(),
                more: *more,
                next: next.map(Value::from),
                ..Page::default()
            }, None).state;
            asked += 1;
            // 6 items, each new one resets at most 3 stale pages, each confirmation adds one.
            prop_assert!(asked <= 60, "still going after {} pages", asked);
        }
    }
}

#[test]
fn a_page_that_was_cut_is_counted_when_it_is_read_again() {
    let told = |items: &[&str]| Page {
        total_pages: Some(2),
        ..page(items, None, None)
    };
    let cut = turn(
        &by_page(),
        &ListState::default(),
        told(&["a", "b"]),
        Some(1),
    );
    assert_eq!(cut.state.stop, Some(StopReason::Cap));
    let reopened = ListState {
        stop: None,
        ..cut.state
    };
    let first = turn(&by_page(), &reopened, told(&["a", "b"]), Some(9)).state;
    assert_eq!((first.pages, first.stop), (1, None));
    let last = turn(&by_page(), &first, told(&["c"]), Some(9)).state;
    assert_eq!((last.items, last.stop), (3, Some(StopReason::Complete)));
}
