//! `crawler-node plan`: the cap for a rate and a latency, by Little's law.
//!
//! In a steady state the exchanges in flight are the rate times the latency. The product is formed exactly,
//! on the decimal numbers that were written: in binary floating point 100 × 0.29 falls short of 29, and
//! rounding up what was a whisker too much would give 30 elsewhere.

use std::fmt;

use thiserror::Error;

/// Rates that can be planned for, in requests per second.
const RATES: (f64, f64) = (1e-6, 1e6);
/// Latencies that can be planned for, in seconds.
const LATENCIES: (f64, f64) = (1e-6, 86_400.0);
/// The largest cap that the settings take.
const MAX_CAP: u32 = 10_000;

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Error)]
pub(super) enum PlanError {
    /// The rate is no number, not positive, or absurd.
    #[error("--rps {0} cannot be planned for; allowed: {min} to {max} requests per second", min = RATES.0, max = RATES.1)]
    Rate(f64),
    /// The latency is no number, not positive, or absurd.
    #[error("--latency {0} cannot be planned for; allowed: {min} to {max} seconds", min = LATENCIES.0, max = LATENCIES.1)]
    Latency(f64),
    /// The cap would be larger than the settings take.
    #[error(
        "{rps}/s at {latency_s} s would take {cap} exchanges in flight; a node allows at most {MAX_CAP}"
    )]
    Cap {
        /// Requests per second.
        rps: f64,
        /// Seconds.
        latency_s: f64,
        /// The cap it would take.
        cap: u128,
    },
}

/// The smallest cap that does not fall short of `rps` requests per second when each takes `latency_s` seconds:
/// their product, rounded up to a whole number.
///
/// # Errors
/// When a number is zero, negative, not finite or absurd, or when the cap would be above 10000.
pub(super) fn cap_for(rps: f64, latency_s: f64) -> Result<u32, PlanError> {
    // NaN is in no range.
    if !(RATES.0..=RATES.1).contains(&rps) {
        return Err(PlanError::Rate(rps));
    }
    if !(LATENCIES.0..=LATENCIES.1).contains(&latency_s) {
        return Err(PlanError::Latency(latency_s));
    }
    let cap = Decimal::of(rps).times_rounded_up(Decimal::of(latency_s));
    match u32::try_from(cap) {
        Ok(fits) if fits <= MAX_CAP => Ok(fits),
        _ => Err(PlanError::Cap {
            rps,
            latency_s,
            cap,
        }),
    }
}

/// A decimal number: `digits` / 10^`scale`.
#[derive(Clone, Copy, Debug)]
struct Decimal {
    digits: u128,
    scale: u32,
}

impl Decimal {
    /// The decimal that was written: the shortest one that reads back as `number`, which must be finite and
    /// positive. It has at most 17 digits that are not zero.
    fn of(number: f64) -> Self {
        let text = number.to_string();
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let digits = whole.bytes().chain(fraction.bytes());
        Self {
            digits: digits.fold(0, |sum, digit| sum * 10 + u128::from(digit - b'0')),
            scale: u32::try_from(fraction.len()).unwrap_or(u32::MAX),
        }
    }

    fn times_rounded_up(self, other: Self) -> u128 {
        // Both factors have at most 17 digits, so the product is below 10^34 and always fits.
        let product = self.digits * other.digits;
        match 10u128.checked_pow(self.scale + other.scale) {
            Some(unit) => product.div_ceil(unit),
            // The unit is above 10^38: the product is a small part of one.
            None => 1,
        }
    }
}

/// A plan, to be shown: what cap, what it gives, and what it does not.
///
/// # Errors
/// As [`cap_for`].
pub(super) fn explain(rps: f64, latency_s: f64) -> Result<String, PlanError> {
    let cap = cap_for(rps, latency_s)?;
    Ok(Plan {
        rps,
        latency_s,
        cap,
    }
    .to_string())
}

struct Plan {
    rps: f64,
    latency_s: f64,
    cap: u32,
}

/// Three significant digits, without a tail of zeros.
fn brief(number: f64) -> String {
    let whole = number.abs().log10().floor();
    // Below the range of `i32` only for numbers that no plan has.
    let places = (2.0 - whole).clamp(0.0, 12.0) as usize;
    let text = format!("{number:.places$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rps,
            latency_s,
            cap,
        } = *self;
        let at = |latency: f64| brief(f64::from(cap) / latency);
        writeln!(
            f,
            "{rps} requests/s x {latency_s} s each = {cap} in flight (Little's law, rounded up)"
        )?;
        writeln!(f)?;
        writeln!(f, "With at most {cap} in flight there can be")?;
        writeln!(f, "  {} requests/s at {latency_s} s each", at(latency_s))?;
        writeln!(
            f,
            "  {} requests/s at {} s, if answers come twice as fast",
            at(latency_s / 2.0),
            latency_s / 2.0
        )?;
        writeln!(
            f,
            "  {} requests/s at {} s, if they come half as fast",
            at(latency_s * 2.0),
            latency_s * 2.0
        )?;
        writeln!(f)?;
        writeln!(
            f,
            "A cap alone cannot hold a rate: it moves with the latency. To hold {rps}/s, set the rate as well;"
        )?;
        writeln!(f, "the cap then bounds what a slow site can pile up:")?;
        writeln!(f)?;
        writeln!(f, "  max_concurrency_num = {cap}")?;
        writeln!(f)?;
        writeln!(f, "  [limits]")?;
        write!(f, "  rate = \"{rps}/s\"")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::settings::Rate;

    #[test]
    fn the_cap_is_the_product_rounded_up() {
        for (rps, latency, cap) in [
            (10.0, 0.8, 8),
            (100.0, 0.29, 29),
            (5.0, 4.0, 20),
            (10.0, 0.02, 1),
            (3.0, 0.5, 2),
            (0.1, 3.0, 1),
            (0.7, 10.0, 7),
            (1.1, 10.0, 11),
            (100.0, 0.290_001, 30),
            (1e6, 0.01, 10_000),
            (1e-6, 1e-6, 1),
            (1.234_567_890_123_456_7e-6, 1.234_567_890_123_456_7e-6, 1),
        ] {
            assert_eq!(cap_for(rps, latency), Ok(cap), "{rps} x {latency}");
        }
    }

    #[test]
    fn senseless_numbers_are_refused() {
        for bad in [
            0.0,
            -0.0,
            -1.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1e-300,
            1e300,
        ] {
            assert!(
                matches!(cap_for(bad, 1.0), Err(PlanError::Rate(_))),
                "{bad}"
            );
            assert!(
                matches!(cap_for(1.0, bad), Err(PlanError::Latency(_))),
                "{bad}"
            );
        }
        assert_eq!(
            cap_for(0.0, 1.0).unwrap_err().to_string(),
            "--rps 0 cannot be planned for; allowed: 0.000001 to 1000000 requests per second"
        );
        assert_eq!(
            cap_for(1.0, f64::NAN).unwrap_err().to_string(),
            "--latency NaN cannot be planned for; allowed: 0.000001 to 86400 seconds"
        );
        assert_eq!(
            cap_for(1e6, 1.0).unwrap_err().to_string(),
            "1000000/s at 1 s would take 1000000 exchanges in flight; a node allows at most 10000"
        );
    }

    #[test]
    fn the_text_says_what_a_cap_gives_and_what_it_does_not() {
        let text = explain(10.0, 0.8).unwrap();
        for part in [
            "= 8 in flight",
            "10 requests/s at 0.8 s each",
            "20 requests/s at 0.4 s, if answers come twice as fast",
            "5 requests/s at 1.6 s",
            "A cap alone cannot hold a rate",
            "max_concurrency_num = 8",
            "rate = \"10/s\"",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(explain(0.0, 1.0).is_err());
    }

    #[test]
    fn the_suggested_lines_are_settings() {
        for rps in [1e-6, 0.333, 10.0, 123_456.0] {
            let text = explain(rps, 0.01).unwrap();
            let toml: toml::Table = text[text.find("  max_concurrency_num").unwrap()..]
                .parse()
                .unwrap();
            let rate = toml["limits"]["rate"].as_str().unwrap();
            assert!((rate.parse::<Rate>().unwrap().per_second() / rps - 1.0).abs() < 1e-9);
        }
    }

    proptest! {
        /// Inputs with up to six decimal places, against exact integer arithmetic.
        #[test]
        fn decimal_inputs_give_the_exact_ceiling(
            rate in 1u64..1_000_000_000_000,
            latency in 1u64..86_400_000_000,
        ) {
            let exact = (u128::from(rate) * u128::from(latency)).div_ceil(1_000_000_000_000);
            let parse = |micros: u64| -> f64 {
                format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000).parse().unwrap()
            };
            match cap_for(parse(rate), parse(latency)) {
                Ok(cap) => prop_assert_eq!(u128::from(cap), exact),
                Err(PlanError::Cap { cap, .. }) => {
                    prop_assert_eq!(cap, exact);
                    prop_assert!(cap > u128::from(MAX_CAP));
                }
                Err(other) => prop_assert!(false, "{}", other),
            }
        }

        /// As above, where most caps are small.
        #[test]
        fn small_decimal_inputs_give_the_exact_ceiling(
            rate in 1u64..1_000_000_000,
            latency in 1u64..10_000_000,
        ) {
            let exact = (u128::from(rate) * u128::from(latency)).div_ceil(1_000_000_000_000);
            let cap = cap_for(rate as f64 / 1e6, latency as f64 / 1e6);
            prop_assert_eq!(cap.map(u128::from), Ok(exact));
        }
    }
}
