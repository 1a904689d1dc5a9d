//! Value types of the settings: each parses from the text a person writes and refuses what makes no sense.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Requests per time: `2/s`, `30/min`, `0.5/s`, `1/10s`. Sent evenly, with a burst set apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    count: f64,
    per: Duration,
}

impl Rate {
    /// Time between two requests at this rate. At least 1 ns.
    #[must_use]
    pub fn interval(self) -> Duration {
        Duration::from_secs_f64((self.per.as_secs_f64() / self.count).clamp(1e-9, 1e9))
    }

    /// One request per `interval`.
    #[must_use]
    pub const fn one_per(interval: Duration) -> Self {
        Self {
            count: 1.0,
            per: interval,
        }
    }

    /// Requests per second.
    #[must_use]
    pub fn per_second(self) -> f64 {
        self.count / self.per.as_secs_f64()
    }
}

/// At most `count` requests in any window of length `window`: `180/h`, `50/10s`, `1000/d`, `180/h per account`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    /// Requests allowed in any window.
    pub count: u32,
    /// Length of the sliding window.
    pub window: Duration,
    /// Counted for each account apart.
    pub per_account: bool,
}

/// Splits `N/unit` into the count's text and the window.
fn split_per(text: &str) -> Result<(&str, Duration), String> {
    let (count, per) = text.split_once('/').ok_or_else(|| {
        format!("`{text}` has no `/`; write for example `2/s`, `30/min`, `180/h`")
    })?;
    let per = per.trim();
    let digits = per
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(per.len());
    let (number, unit) = per.split_at(digits);
    let unit = match unit.trim() {
        "ms" => 1e-3,
        "s" | "sec" | "second" => 1.0,
        "m" | "min" | "minute" => 60.0,
        "h" | "hour" => 3600.0,
        "d" | "day" => 86400.0,
        other => {
            return Err(format!(
                "`{other}` is not a unit of time; allowed: ms, s, min, h, d"
            ));
        }
    };
    let number: f64 = if number.is_empty() {
        1.0
    } else {
        number
            .parse()
            .map_err(|_| format!("`{number}` is not a number"))?
    };
    let seconds = number * unit;
    if !(0.001..=31_536_000.0).contains(&seconds) {
        return Err(format!("`{per}` is out of range; allowed: 1 ms to 365 d"));
    }
    Ok((count.trim(), Duration::from_secs_f64(seconds)))
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (count, per) = split_per(text.trim())?;
        let count: f64 = count
            .parse()
            .map_err(|_| format!("`{count}` is not a number of requests"))?;
        if !(count.is_finite() && count > 0.0 && count <= 1e6) {
            return Err(format!(
                "a rate of {count} requests is not allowed; allowed: more than 0, at most 1000000"
            ));
        }
        Ok(Self { count, per })
    }
}

impl FromStr for Quota {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (text, per_account) = match text.strip_suffix("per account") {
            Some(rest) => (rest.trim_end(), true),
            None => (text, false),
        };
        let (count, window) = split_per(text)?;
        let count: u32 = count
            .parse()
            .map_err(|_| format!("`{count}` is not a whole number of requests"))?;
        if count == 0 || count > 1_000_000 {
            return Err(format!(
                "a quota of {count} requests is not allowed; allowed: 1 to 1000000"
            ));
        }
        Ok(Self {
            count,
            window,
            per_account,
        })
    }
}

/// `1h`, `10s`, `2500ms`: the window in the largest unit that gives a whole number.
fn write_window(f: &mut fmt::Formatter<'_>, window: Duration) -> fmt::Result {
    let millis = window.as_millis();
    for (unit, size) in [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("min", 60_000),
        ("s", 1000),
    ] {
        if millis.is_multiple_of(size) && millis > 0 {
            return match millis / size {
                1 => write!(f, "/{unit}"),
                n => write!(f, "/{n}{unit}"),
            };
        }
    }
    write!(f, "/{millis}ms")
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.count)?;
        write_window(f, self.per)
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.count)?;
        write_window(f, self.window)?;
        if self.per_account {
            f.write_str(" per account")?;
        }
        Ok(())
    }
}

macro_rules! text_serde {
    ($type:ty, $expecting:literal) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl serde::de::Visitor<'_> for Text {
                    type Value = $type;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

text_serde!(Rate, "a rate such as \"2/s\" or \"30/min\"");
text_serde!(Quota, "a quota such as \"180/h\"");

/// The units of sizes, largest first.
const SIZE_UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1000),
    ("B", 1),
];

/// Bytes from `16 MiB`, `512 KiB`, `1 MB` or `65536`. Whole numbers only; units in any case.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number
        .parse()
        .map_err(|_| "a size starts with a whole number".to_owned())?;
    let unit = match unit.trim() {
        "" => "B",
        unit => unit,
    };
    let (_, size) = SIZE_UNITS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))
        .ok_or_else(|| {
            format!("`{unit}` is not a unit of size; allowed: B, kB, KiB, MB, MiB, GB, GiB")
        })?;
    number
        .checked_mul(*size)
        .ok_or_else(|| "larger than any size".to_owned())
}

/// A size in binary units where they give a whole number, else in bytes.
pub(super) fn write_bytes(bytes: u64) -> String {
    let whole = |&&(name, size): &&(&str, u64)| {
        name.contains('i') && bytes > 0 && bytes.is_multiple_of(size)
    };
    let (name, size) = SIZE_UNITS.iter().find(whole).unwrap_or(&("B", 1));
    format!("{} {name}", bytes / size)
}

/// A text that is never shown: passwords and tokens. Debug and Display print `***`.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that sends it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}
