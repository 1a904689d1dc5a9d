//! How sure a share of a few hundred requests is: Wilson's score interval.
//!
//! E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927). Unlike the
//! usual p ± z·√(p(1−p)/n) it is right for small counts and for a share of zero, which is the common case here.

use serde::Serialize;

use super::Share;

/// The bounds of a share, each from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The share is hardly less.
    pub low: f64,
    /// The share is hardly more.
    pub high: f64,
}

/// The two-sided interval of the share behind `bad` of `all`, for the normal quantile `z` (see [`z_of`]).
/// Nothing seen says nothing: 0 to 1.
#[must_use]
pub fn wilson(bad: u64, all: u64, z: f64) -> Interval {
    if all == 0 {
        return Interval {
            low: 0.0,
            high: 1.0,
        };
    }
    let n = all as f64;
    let p = bad.min(all) as f64 / n;
    let z2 = z * z;
    let whole = 1.0 + z2 / n;
    let centre = (p + z2 / (2.0 * n)) / whole;
    let half = z / whole * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    // At the ends the formula gives 0 and 1 but for rounding.
    Interval {
        low: if bad == 0 {
            0.0
        } else {
            (centre - half).max(0.0)
        },
        high: if bad >= all {
            1.0
        } else {
            (centre + half).min(1.0)
        },
    }
}

/// How many requests it takes until a share like that of `bad` in `all` is shown to be at most `bound`. `None`: no number
/// of requests would show it, because the share is not below the bound.
#[must_use]
pub fn needed(bad: u64, all: u64, bound: Share, z: f64) -> Option<u64> {
    let b = bound.get();
    let p = if all == 0 {
        0.0
    } else {
        bad as f64 / all as f64
    };
    // The interval is the inverted score test: its upper end is at most b when (b − p)² ≥ z²·b(1−b)/n.
    (p < b).then(|| (z * z * b * (1.0 - b) / (b - p).powi(2)).ceil() as u64)
}

/// The quantile of the normal distribution for a two-sided interval: 95 % gives 1.96.
/// Confidence below 1; at 1 it is that of the largest number below.
#[must_use]
pub fn z_of(confidence: Share) -> f64 {
    let both_tails = (1.0 - confidence.get()).max(f64::EPSILON);
    -quantile(both_tails / 2.0)
}

/// The normal quantile of `p`, 0 < p ≤ 0.5, by P. J. Acklam's rational approximation (relative error below 1.2e-9).
fn quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
        1.0,
    ];
    /// Where the tail begins.
    const TAIL: f64 = 0.024_25;
    let at = |terms: &[f64], x: f64| terms.iter().fold(0.0, |sum, term| sum * x + term);
    if p < TAIL {
        let q = (-2.0 * p.ln()).sqrt();
        at(&C, q) / at(&D, q)
    } else {
        let q = p - 0.5;
        let r = q * q;
        q * at(&A, r) / at(&B, r)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const Z95: f64 = 1.959_963_984_540_054;

    fn near(a: f64, b: f64, within: f64) {
        assert!((a - b).abs() <= within, "{a} is not {b}");
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (confidence, z) in [
            (0.5, 0.674_489_750_196_082),
            (0.8, 1.281_551_565_544_6),
            (0.9, 1.644_853_626_951_472),
            (0.95, Z95),
            (0.99, 2.575_829_303_548_901),
            (0.999, 3.290_526_731_491_925),
        ] {
            near(z_of(Share::new(confidence).unwrap()), z, 1e-7);
        }
        assert!(z_of(Share::percent(100)).is_finite());
    }

    /// Values as R's `binom.confint(…, methods = "wilson")` and published tables give them.
    #[test]
    fn intervals_are_those_of_the_tables() {
        for (bad, all, low, high) in [
            (0, 10, 0.0, 0.277_533),
            (1, 10, 0.017_876, 0.404_150),
            (5, 10, 0.236_593, 0.763_407),
            (10, 10, 0.722_467, 1.0),
            (5, 100, 0.021_543, 0.111_752),
            (0, 73, 0.0, 0.049_992),
            (50, 1000, 0.038_130, 0.065_314),
        ] {
            let got = wilson(bad, all, Z95);
            near(got.low, low, 2e-5);
            near(got.high, high, 2e-5);
        }
        assert_eq!(
            wilson(0, 0, Z95),
            Interval {
                low: 0.0,
                high: 1.0
            }
        );
    }

    #[test]
    fn ten_seconds_at_ten_a_second_show_five_percent_only_roughly() {
        assert_eq!(needed(0, 100, Share::percent(5), Z95), Some(73));
        // Two of a hundred: 203 requests with that share would be enough, a hundred are not.
        assert_eq!(needed(2, 100, Share::percent(5), Z95), Some(203));
        assert_eq!(needed(5, 100, Share::percent(5), Z95), None);
        assert!(wilson(2, 100, Z95).high > 0.05);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        #[test]
        fn the_share_lies_inside_its_interval(all in 1_u64..1_000_000, part in 0.0..=1.0_f64, c in 0.5..0.9999_f64) {
            let bad = (all as f64 * part) as u64;
            let z = z_of(Share::new(c).unwrap());
            let got = wilson(bad, all, z);
            let p = bad as f64 / all as f64;
            prop_assert!(0.0 <= got.low && got.low <= p + 1e-12);
            prop_assert!(p <= got.high + 1e-12 && got.high <= 1.0);
            // Both ends solve the equation that defines them: (p − x)² = z²·x(1−x)/n.
            for end in [got.low, got.high] {
                let left = (p - end).powi(2);
                let right = z * z * end * (1.0 - end) / all as f64;
                let edge = (bad == 0 && end == 0.0) || (bad == all && end == 1.0);
                prop_assert!(edge || (left - right).abs() < 1e-9, "{left} {right}");
            }
        }

        #[test]
        fn more_bad_answers_never_lower_it_and_more_requests_narrow_it(all in 1_u64..100_000, bad in 0_u64..100_000) {
            let bad = bad % all;
            let (one, more) = (wilson(bad, all, Z95), wilson(bad + 1, all, Z95));
            prop_assert!(one.low <= more.low && one.high <= more.high);
            let tenfold = wilson(bad * 10, all * 10, Z95);
            prop_assert!(tenfold.high - tenfold.low <= one.high - one.low + 1e-12);
        }

        #[test]
        fn the_number_needed_is_the_number_that_is_enough(all in 1_u64..10_000, part in 0.0..0.4_f64, b in 0.001..0.5_f64) {
            let bad = (all as f64 * part) as u64;
            let bound = Share::new(b).unwrap();
            if let Some(n) = needed(bad, all, bound, Z95) {
                // The same share among n requests, which need not be a whole number of bad ones.
                let p = bad as f64 / all as f64;
                let (have, want) = ((b - p).powi(2), Z95 * Z95 * b * (1.0 - b));
                prop_assert!(n as f64 * have >= want * (1.0 - 1e-9));
                prop_assert!((n as f64 - 1.0) * have <= want * (1.0 + 1e-9));
                if n <= all {
                    prop_assert!(wilson(bad, all, Z95).high <= b + 1e-9);
                } else {
                    prop_assert!(wilson(bad, all, Z95).high > b - 1e-9);
                }
            } else {
                prop_assert!(wilson(bad, all, Z95).high >= b);
            }
        }

        #[test]
        fn more_confidence_is_wider(a in 0.5..0.9999_f64, b in 0.5..0.9999_f64) {
            let (less, more) = (a.min(b), a.max(b));
            prop_assert!(z_of(Share::new(less).unwrap()) <= z_of(Share::new(more).unwrap()));
        }
    }
}
