use proptest::prelude::*;

use super::*;

const MS: fn(u64) -> Duration = Duration::from_millis;

/// Runs `limit` over the gaps and returns when requests were admitted.
fn admissions(limit: Limit, gaps: &[u64]) -> Vec<Duration> {
    let mut limiter = Limiter::new(limit);
    let mut now = Duration::ZERO;
    let mut admitted = Vec::new();
    for gap in gaps {
        now += MS(*gap);
        if limiter.wait(now, 0).is_none() {
            limiter.admitted(now);
            admitted.push(now);
        } else {
            limiter.refused(now);
        }
    }
    admitted
}

/// The most admissions in any half-open window of `length`.
fn most_in(admitted: &[Duration], length: Duration) -> usize {
    admitted
        .iter()
        .map(|start| {
            admitted
                .iter()
                .filter(|at| **at >= *start && **at < *start + length)
                .count()
        })
        .max()
        .unwrap_or(0)
}

#[test]
fn concurrency_counts_what_is_at_work() {
    let limiter = Limiter::new(Limit::Concurrency { max: 2 });
    assert_eq!(limiter.wait(MS(0), 1), None);
    assert_eq!(limiter.wait(MS(0), 2), Some(Duration::ZERO));
}

#[test]
fn a_fixed_window_starts_anew_at_its_grid() {
    let mut limiter = Limiter::new(Limit::Fixed {
        max: 1,
        window: MS(100),
        phase: MS(30),
    });
    assert_eq!(limiter.wait(MS(0), 0), None);
    limiter.admitted(MS(0));
    assert_eq!(limiter.wait(MS(60), 0), Some(MS(10)));
    assert_eq!(limiter.wait(MS(70), 0), None);
}

#[test]
fn a_sliding_window_that_counts_refusals_starves_an_impatient_client() {
    let limit = |count_refused| Limit::Sliding {
        max: 2,
        window: MS(100),
        count_refused,
    };
    let gaps = [10; 40];
    assert_eq!(admissions(limit(true), &gaps), [MS(10), MS(20)]);
    assert_eq!(admissions(limit(false), &gaps).len(), 8);
}

#[test]
fn a_bucket_gives_its_burst_and_then_its_rate() {
    let bucket = Limit::Bucket {
        per_second: 10.0,
        burst: 3,
    };
    let mut gaps = vec![0; 5];
    gaps.extend([100, 99, 1]);
    assert_eq!(
        admissions(bucket, &gaps),
        [MS(0), MS(0), MS(0), MS(100), MS(200)]
    );
}

#[test]
fn the_ban_falls_on_the_kth_refusal_in_the_window_and_ends() {
    let mut state = BanState::new(Ban {
        refusals: 3,
        within: MS(100),
        lasts: MS(500),
    });
    assert!(!state.refused(MS(0)));
    assert!(!state.refused(MS(60)));
    assert!(!state.refused(MS(100)), "the first is out of the window");
    assert!(state.refused(MS(120)));
    assert_eq!(state.left(MS(619)), Some(MS(1)));
    assert_eq!(state.left(MS(620)), None);
    assert!(!state.refused(MS(620)), "counting starts anew");
}

#[test]
fn senseless_numbers_are_named() {
    let window = Duration::ZERO;
    assert!(Limit::Concurrency { max: 0 }.fault().is_some());
    let sliding = Limit::Sliding {
        max: 1,
        window,
        count_refused: false,
    };
    assert!(sliding.fault().is_some());
    for per_second in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(
            Limit::Bucket {
                per_second,
                burst: 1
            }
            .fault()
            .is_some()
        );
    }
}

proptest! {
    #[test]
    fn sliding_never_exceeds_its_window(
        max in 1_u32..8, window in 1_u64..200, count_refused: bool,
        gaps in prop::collection::vec(0_u64..60, 0..200),
    ) {
        let window = MS(window);
        let admitted = admissions(Limit::Sliding { max, window, count_refused }, &gaps);
        prop_assert!(most_in(&admitted, window) <= max as usize);
    }

    #[test]
    fn fixed_never_exceeds_a_cell_nor_twice_that_in_any_window(
        max in 1_u32..8, window in 1_u64..200, phase in 0_u64..300,
        gaps in prop::collection::vec(0_u64..60, 0..200),
    ) {
        let (window, phase) = (MS(window), MS(phase));
        let admitted = admissions(Limit::Fixed { max, window, phase }, &gaps);
        prop_assert!(most_in(&admitted, window) <= 2 * max as usize);
        let cells: Vec<u128> = admitted.iter().map(|at| cell(*at, window, phase)).collect();
        for index in &cells {
            prop_assert!(cells.iter().filter(|other| *other == index).count() <= max as usize);
        }
    }

    #[test]
    fn a_bucket_never_exceeds_rate_times_time_plus_burst(
        per_second in 1_u32..500, burst in 1_u32..10,
        gaps in prop::collection::vec(0_u64..60, 0..200), length in 1_u64..2_000,
    ) {
        let admitted = admissions(
            Limit::Bucket { per_second: f64::from(per_second), burst }, &gaps,
        );
        let allowed = f64::from(per_second) * length as f64 / 1e3 + f64::from(burst);
        prop_assert!(most_in(&admitted, MS(length)) as f64 <= allowed + 1e-6);
    }

    /// The wait is exact: a moment before it the request is refused, after it it is not.
    #[test]
    fn the_wait_that_is_told_is_exact(
        which in 0..3, max in 1_u32..6, window in 2_u64..200,
        gaps in prop::collection::vec(0_u64..30, 1..60),
    ) {
        let window = MS(window);
        let mut limiter = Limiter::new(match which {
            0 => Limit::Fixed { max, window, phase: Duration::ZERO },
            1 => Limit::Sliding { max, window, count_refused: false },
            _ => Limit::Bucket { per_second: f64::from(max), burst: max },
        });
        let mut now = Duration::ZERO;
        for gap in gaps {
            now += MS(gap);
            match limiter.wait(now, 0) {
                None => limiter.admitted(now),
                Some(wait) => {
                    prop_assert!(wait > Duration::ZERO);
                    prop_assert!(limiter.wait(now + wait - Duration::from_nanos(1), 0).is_some());
                    prop_assert_eq!(limiter.wait(now + wait, 0), None);
                }
            }
        }
    }

    /// When refusals count, a client that asks no more until the wait is over is admitted.
    #[test]
    fn the_wait_holds_when_refusals_count(
        max in 1_u32..6, window in 1_u64..200, gaps in prop::collection::vec(0_u64..30, 1..60),
    ) {
        let window = MS(window);
        let limit = Limit::Sliding { max, window, count_refused: true };
        let mut limiter = Limiter::new(limit);
        let mut now = Duration::ZERO;
        for gap in gaps {
            now += MS(gap);
            match limiter.wait(now, 0) {
                None => limiter.admitted(now),
                Some(wait) => {
                    limiter.refused(now);
                    prop_assert_eq!(limiter.wait(now + wait, 0), None);
                }
            }
        }
    }
}

#[test]
fn what_is_left_is_told_as_it_is_counted() {
    let left = |limiter: &Limiter, now, at_work| {
        let left = limiter.left(now, at_work);
        (left.of, left.remaining, left.reset)
    };
    let mut fixed = Limiter::new(Limit::Fixed {
        max: 3,
        window: MS(1000),
        phase: MS(200),
    });
    assert_eq!(left(&fixed, MS(0), 0), (3, 3, MS(800)));
    fixed.admitted(MS(100));
    assert_eq!(left(&fixed, MS(300), 0), (3, 2, MS(500)));
    assert_eq!(left(&fixed, MS(800), 0), (3, 3, MS(1000)), "a new window");

    let mut sliding = Limiter::new(Limit::Sliding {
        max: 2,
        window: MS(100),
        count_refused: false,
    });
    assert_eq!(left(&sliding, MS(0), 0), (2, 2, MS(0)));
    sliding.admitted(MS(0));
    sliding.admitted(MS(60));
    assert_eq!(left(&sliding, MS(70), 0), (2, 0, MS(30)));
    assert_eq!(left(&sliding, MS(100), 0), (2, 1, MS(60)));

    let mut bucket = Limiter::new(Limit::Bucket {
        per_second: 10.0,
        burst: 4,
    });
    bucket.admitted(MS(0));
    bucket.admitted(MS(0));
    assert_eq!(left(&bucket, MS(0), 0), (4, 2, MS(200)));
    assert_eq!(left(&bucket, MS(50), 0), (4, 2, MS(150)), "no half tokens");
    assert_eq!(left(&bucket, MS(100), 0), (4, 3, MS(100)));

    let at_once = Limiter::new(Limit::Concurrency { max: 5 });
    assert_eq!(left(&at_once, MS(0), 3), (5, 2, MS(0)));
    assert_eq!(left(&at_once, MS(0), 9), (5, 0, MS(0)));
}
