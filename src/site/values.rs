//! Values: turning what a site writes ("1.2万", epoch milliseconds, RFC 2822) into one form each.

use serde_json::Value;
use url::Url;

use super::template::plain;

/// What a field's value becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
    /// As found.
    #[default]
    AsIs,
    /// Text with white space collapsed.
    Text,
    /// A number, also from text with thousands separators.
    Number,
    /// A count as people write it: `1.2万`, `3.4k`, `1,234`.
    Count,
    /// Seconds since 1970, to RFC 3339 in UTC.
    Seconds,
    /// Milliseconds since 1970, to RFC 3339 in UTC.
    Millis,
    /// A mail date with its zone, to RFC 3339 in UTC.
    Rfc2822,
    /// RFC 3339 with its zone, to RFC 3339 in UTC.
    Rfc3339,
    /// A URL, resolved against the answer's.
    Url,
    /// True or false, also from 0, 1 and text.
    Bool,
    /// JSON written inside a text.
    Json,
}

impl Form {
    /// Names in site definitions.
    pub(super) const NAMES: [(&'static str, Self); 10] = [
        ("text", Self::Text),
        ("number", Self::Number),
        ("count", Self::Count),
        ("s", Self::Seconds),
        ("ms", Self::Millis),
        ("rfc2822", Self::Rfc2822),
        ("rfc3339", Self::Rfc3339),
        ("url", Self::Url),
        ("bool", Self::Bool),
        ("json", Self::Json),
    ];

    /// The value in this form. What cannot be read stays as it was: a site's odd text is kept, not lost.
    pub(super) fn convert(self, value: Value, base: &Url) -> Value {
        if value.is_null() {
            return value;
        }
        let converted = match self {
            Self::AsIs => None,
            Self::Text => Some(collapse(&plain(&value)).into()),
            Self::Number => number(&value),
            Self::Count => count(&plain(&value)).map(Value::from),
            Self::Seconds => epoch(&value, 1000),
            Self::Millis => epoch(&value, 1),
            Self::Rfc2822 => mail_date(plain(&value).trim()),
            Self::Rfc3339 => plain(&value)
                .trim()
                .parse::<jiff::Timestamp>()
                .ok()
                .map(utc),
            Self::Url => base
                .join(plain(&value).trim())
                .ok()
                .map(|url| String::from(url).into()),
            Self::Bool => truth(&value).map(Value::from),
            Self::Json => value
                .as_str()
                .and_then(|text| serde_json::from_str(text).ok()),
        };
        converted.unwrap_or(value)
    }
}

/// White space collapsed and trimmed.
pub(super) fn collapse(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// Yes or no, as sites say it: booleans, numbers, `"0"`, `"false"`, `"no"`; null and "" say nothing.
pub(super) fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::Number(number) => Some(number.as_f64() != Some(0.0)),
        Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "" => None,
            "0" | "false" | "no" | "n" | "off" => Some(false),
            _ => Some(true),
        },
        _ => None,
    }
}

fn number(value: &Value) -> Option<Value> {
    if value.is_number() {
        return Some(value.clone());
    }
    let text = plain(value).replace([',', ' ', '_', '\u{a0}'], "");
    text.parse::<serde_json::Number>().ok().map(Value::from)
}

/// A count as people write it, rounded to a whole.
pub(super) fn count(text: &str) -> Option<u64> {
    let text = text.trim().trim_end_matches('+').trim_end();
    let lower = text.to_lowercase();
    let split = lower
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '_' | ' ')))
        .unwrap_or(lower.len());
    let (digits, unit) = lower.split_at(split);
    let scale = match unit.trim() {
        "" => 1.0,
        "k" | "千" => 1e3,
        "w" | "万" | "萬" => 1e4,
        "m" => 1e6,
        "b" => 1e9,
        "亿" | "億" => 1e8,
        _ => return None,
    };
    let digits = digits.replace([',', '_', ' '], "");
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if scale == 1.0
        && let Ok(whole) = digits.parse()
    {
        return Some(whole);
    }
    let number: f64 = digits.parse().ok()?;
    let scaled = (number * scale).round();
    (0.0..1.8e19).contains(&scaled).then_some(scaled as u64)
}

fn epoch(value: &Value, millis_per_unit: i64) -> Option<Value> {
    let text = plain(value);
    let text = text.trim();
    let millis = match text.parse::<i64>() {
        Ok(whole) => whole.checked_mul(millis_per_unit)?,
        Err(_) => {
            let units: f64 = text.parse().ok()?;
            let millis = units * millis_per_unit as f64;
            (millis.abs() < 9e15).then_some(millis.round() as i64)?
        }
    };
    jiff::Timestamp::from_millisecond(millis).ok().map(utc)
}

/// RFC 2822, and the variant with the year at the end that some sites write.
fn mail_date(text: &str) -> Option<Value> {
    const MAIL: jiff::fmt::rfc2822::DateTimeParser = jiff::fmt::rfc2822::DateTimeParser::new();
    let at = MAIL
        .parse_timestamp(text)
        .or_else(|_| jiff::Timestamp::strptime("%a %b %d %H:%M:%S %z %Y", text));
    at.ok().map(utc)
}

fn utc(at: jiff::Timestamp) -> Value {
    at.to_string().into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn convert(form: Form, value: Value) -> Value {
        form.convert(value, &Url::parse("https://h.example/a/b").unwrap())
    }

    #[test]
    fn each_form_reads_what_sites_write() {
        for (form, given, wanted) in [
            (Form::AsIs, json!(5), json!(5)),
            (
                Form::Text,
                json!(123_456_789_012_345_678_u64),
                json!("123456789012345678"),
            ),
            (Form::Text, json!(" a \n b "), json!("a b")),
            (Form::Number, json!("1,234.5"), json!(1234.5)),
            (Form::Number, json!("x"), json!("x")),
            (Form::Count, json!("1.2万"), json!(12_000)),
            (Form::Count, json!("3.4k"), json!(3_400)),
            (Form::Count, json!("1,234"), json!(1_234)),
            (Form::Count, json!("10万+"), json!(100_000)),
            (Form::Count, json!("2亿"), json!(200_000_000)),
            (Form::Count, json!(17), json!(17)),
            (Form::Count, json!("赞"), json!("赞")),
            (
                Form::Seconds,
                json!(1_700_000_000),
                json!("2023-11-14T22:13:20Z"),
            ),
            (
                Form::Millis,
                json!("1700000000123"),
                json!("2023-11-14T22:13:20.123Z"),
            ),
            (
                Form::Rfc2822,
                json!("Tue Nov 14 2023"),
                json!("Tue Nov 14 2023"),
            ),
            (
                Form::Rfc2822,
                json!("Tue, 14 Nov 2023 22:13:20 +0800"),
                json!("2023-11-14T14:13:20Z"),
            ),
            (
                Form::Rfc2822,
                json!("Tue Nov 14 22:13:20 +0800 2023"),
                json!("2023-11-14T14:13:20Z"),
            ),
            (
                Form::Rfc3339,
                json!("2023-11-14T22:13:20+08:00"),
                json!("2023-11-14T14:13:20Z"),
            ),
            (Form::Url, json!("../c"), json!("https://h.example/c")),
            (Form::Bool, json!(0), json!(false)),
            (Form::Bool, json!("true"), json!(true)),
            (Form::Json, json!("{\"a\":1}"), json!({"a": 1})),
            (Form::Count, Value::Null, Value::Null),
        ] {
            assert_eq!(convert(form, given.clone()), wanted, "{form:?} of {given}");
        }
    }

    proptest! {
        #[test]
        fn whole_counts_are_exact(n in any::<u64>()) {
            prop_assert_eq!(count(&n.to_string()), Some(n));
        }

        #[test]
        fn counting_never_panics(text in "\\PC{0,12}") {
            let _ = count(&text);
        }

        #[test]
        fn all_zones_name_one_instant(seconds in 0_i64..4_000_000_000, hours in -12_i64..=14) {
            let at = jiff::Timestamp::from_second(seconds).unwrap();
            let zone = jiff::tz::Offset::from_hours(i8::try_from(hours).unwrap()).unwrap();
            let local = zone.to_datetime(at);
            let text = format!("{}{hours:+03}:00", local);
            prop_assert_eq!(convert(Form::Rfc3339, text.into()), convert(Form::Seconds, seconds.into()));
            let mail = format!("{} {hours:+03}00", local.strftime("%a, %d %b %Y %H:%M:%S"));
            prop_assert_eq!(convert(Form::Rfc2822, mail.into()), convert(Form::Seconds, seconds.into()));
        }

        #[test]
        fn forms_are_stable(value in "[0-9.,k万a-z ]{0,8}") {
            for form in [Form::Text, Form::Number, Form::Count, Form::Bool] {
                let once = convert(form, value.clone().into());
                prop_assert_eq!(convert(form, once.clone()), once);
            }
        }
    }
}
