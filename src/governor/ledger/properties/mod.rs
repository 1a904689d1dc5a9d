//! What must always hold, over random histories, and what a broken ledger looks like to these tests.

mod coverage;
mod history;
mod judge;
mod lives;
mod model;
mod twins;
mod world;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};

use self::coverage::Coverage;
use self::world::World;
use super::Fault;

/// Histories per property.
const HISTORIES: u32 = 10_000;

/// One step of a history, in the raw: the world reads a message out of its bytes. One number, for drawing
/// numbers is the larger part of the work.
pub(super) type Op = u64;

/// Runs `check` on `cases` random histories of at least 200 messages over at least 8 lanes.
fn run(
    cases: u32,
    seed: u64,
    fault: Option<Fault>,
    only: Property,
    coverage: &mut Coverage,
) -> Result<(), String> {
    let config = Config {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        // A fault has only to be seen; a real failure is worth shrinking.
        max_shrink_iters: if fault.is_some() { 0 } else { 4000 },
        ..Config::default()
    };
    let coverage = std::cell::RefCell::new(coverage);
    TestRunner::new(config)
        .run(
            &(any::<u64>(), vec(any::<Op>(), 210..230)),
            |(seed, ops)| {
                let mut world = World::new(seed, fault, only, false);
                if world.run(&ops).is_ok() {
                    coverage.borrow_mut().add(&world.coverage);
                    return Ok(());
                }
                // Once more, with a log.
                let mut world = World::new(seed, fault, only, true);
                let what = world.run(&ops).err().unwrap_or_default();
                Err(TestCaseError::fail(format!("{what}\n{}", world.tail())))
            },
        )
        .map_err(|error| match error {
            TestError::Fail(reason, _) | TestError::Abort(reason) => reason.to_string(),
        })
}

/// The invariants of the design that a ledger answers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Property {
    /// 1: in flight ≤ every cap.
    Caps,
    /// 2: rates, quotas and not-before instants in all windows.
    Windows,
    /// 3: no permit is lost or counted twice.
    Conservation,
    /// 4 (as far as permits go): every permit is one request's, and every request has one answer.
    OneAnswer,
    /// 5: one decision per event, one probe.
    Backoff,
    /// 6: order, and nobody starves.
    Order,
    /// All of them but what is particular to the back-off of fixed lanes: for lanes that learn.
    Adaptive,
}

fn holds(property: Property, seed: u64) {
    let mut coverage = Coverage::default();
    if let Err(error) = run(HISTORIES, seed, None, property, &mut coverage) {
        panic!("{error}");
    }
    if property == Property::Adaptive {
        coverage.assert_every_kind();
    } else {
        coverage.assert_complete();
    }
}

#[test]
fn invariant_1_in_flight_stays_within_every_cap() {
    holds(Property::Caps, 1);
}

#[test]
fn invariant_2_no_window_holds_more_than_its_limit() {
    holds(Property::Windows, 2);
}

#[test]
fn invariant_3_no_permit_is_lost_or_counted_twice() {
    holds(Property::Conservation, 3);
}

#[test]
fn invariant_4_every_request_has_one_answer() {
    holds(Property::OneAnswer, 4);
}

#[test]
fn invariant_5_one_decision_per_event_and_one_probe() {
    holds(Property::Backoff, 5);
}

#[test]
fn invariant_6_order_is_kept_and_nobody_starves() {
    holds(Property::Order, 6);
}

/// The same histories where all lanes learn by themselves, are told buckets and so merge and part.
#[test]
fn lanes_that_learn_keep_caps_windows_permits_and_order() {
    holds(Property::Adaptive, 8);
}

/// The property of each fault turns red.
#[test]
fn every_seeded_fault_is_seen() {
    for (fault, property) in [
        (Fault::CapOffByOne, Property::Caps),
        (Fault::RestartForgetsPermits, Property::Caps),
        (Fault::FreshBurst, Property::Windows),
        (Fault::QuotaForgotten, Property::Windows),
        (Fault::NotBeforeIgnored, Property::Windows),
        (Fault::ReleaseForgotten, Property::Conservation),
        (Fault::ReleaseTwice, Property::Conservation),
        (Fault::CancelLosesSlot, Property::Conservation),
        (Fault::TwoProbes, Property::Backoff),
        (Fault::CutPerAnswer, Property::Backoff),
        (Fault::LastComeFirstServed, Property::Order),
        (Fault::ReleaseForgotten, Property::Order),
        (Fault::CapOffByOne, Property::Adaptive),
        (Fault::FreshBurst, Property::Adaptive),
        (Fault::QuotaForgotten, Property::Adaptive),
        (Fault::ReleaseTwice, Property::Adaptive),
        (Fault::CancelLosesSlot, Property::Adaptive),
        (Fault::LastComeFirstServed, Property::Adaptive),
    ] {
        let seen = run(2000, 7, Some(fault), property, &mut Coverage::default());
        assert!(seen.is_err(), "{fault:?} passes {property:?}");
    }
}
