//! A share of a whole, as a person writes it.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// A share of a whole, 0 to 1. Written `5%` or `0.05`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Share(f64);

impl Share {
    /// `part` of one; `None` unless it is a number from 0 to 1.
    #[must_use]
    pub fn new(part: f64) -> Option<Self> {
        (0.0..=1.0).contains(&part).then_some(Self(part))
    }

    /// `whole` percent, at most 100.
    #[must_use]
    pub const fn percent(whole: u8) -> Self {
        let whole = if whole > 100 { 100 } else { whole };
        Self(whole as f64 / 100.0)
    }

    /// The share as a number from 0 to 1.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{}` is not a share; write for example `5%` or `0.05`, from 0% to 100%",
                text.trim()
            )
        };
        let (number, unit) = match text.trim().strip_suffix('%') {
            Some(number) => (number.trim_end(), 100.0),
            None => (text.trim(), 1.0),
        };
        let number: f64 = number.parse().map_err(|_| wrong())?;
        Self::new(number / unit).ok_or_else(wrong)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Six digits hide what dividing by a hundred does to a decimal number.
        let percent = (self.0 * 1e8).round() / 1e6;
        write!(f, "{percent} %")
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_writing_are_read() {
        for (text, share) in [
            ("5%", 0.05),
            ("5 %", 0.05),
            (" 0.05 ", 0.05),
            ("0.1%", 0.001),
            ("100%", 1.0),
            ("0", 0.0),
        ] {
            assert!((text.parse::<Share>().unwrap().get() - share).abs() < 1e-12);
        }
        for text in ["5", "101%", "-1%", "NaN", "NaN%", "", "%", "five"] {
            let why = text.parse::<Share>().unwrap_err();
            assert!(why.contains("write for example `5%`"), "{why}");
        }
    }

    #[test]
    fn a_share_is_shown_as_it_was_written() {
        for text in ["5 %", "0.1 %", "99.9 %", "95 %", "0 %", "29 %"] {
            assert_eq!(text.parse::<Share>().unwrap().to_string(), text);
        }
        assert_eq!(Share::percent(200).get(), 1.0);
    }
}
