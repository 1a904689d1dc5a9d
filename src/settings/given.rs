//! What a layer gives for a key, and how values are shown to people.

use std::fmt;

use config::{Value, ValueKind};

/// What a layer gives for a key.
pub(super) struct Given<'a> {
    pub(super) value: &'a Value,
    /// From a layer of plain text: numbers and lists are read out of it. In a file they have types of
    /// their own, and nothing is converted: `2.7` is no whole number there, and neither is `"3"`.
    pub(super) text: bool,
}

impl<'a> Given<'a> {
    pub(super) fn str(&self) -> Option<&'a str> {
        match &self.value.kind {
            ValueKind::String(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn whole(&self) -> Option<i128> {
        match &self.value.kind {
            ValueKind::I64(number) => Some((*number).into()),
            ValueKind::I128(number) => Some(*number),
            ValueKind::U64(number) => Some((*number).into()),
            ValueKind::String(text) if self.text => text.trim().parse().ok(),
            _ => None,
        }
    }

    pub(super) fn real(&self) -> Option<f64> {
        match &self.value.kind {
            ValueKind::Float(number) => Some(*number),
            ValueKind::String(text) if self.text => text.trim().parse().ok(),
            // A whole number loses nothing below 2^53.
            _ => self
                .whole()
                .and_then(|n| i32::try_from(n).ok())
                .map(f64::from),
        }
    }

    /// Yes or no.
    pub(super) fn truth(&self) -> Option<bool> {
        match &self.value.kind {
            ValueKind::Boolean(value) => Some(*value),
            ValueKind::String(text) if self.text => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// A list of texts. In plain text the items are split at commas, unless it is a TOML array: patterns
    /// may hold commas.
    pub(super) fn list(&self) -> Option<Vec<String>> {
        match &self.value.kind {
            ValueKind::Array(items) => items
                .iter()
                .map(|item| match &item.kind {
                    ValueKind::String(text) => Some(text.clone()),
                    _ => None,
                })
                .collect(),
            ValueKind::String(text) if self.text => {
                if text.trim_start().starts_with('[') {
                    let table: toml::Table = format!("list = {text}").parse().ok()?;
                    return table.get("list")?.clone().try_into().ok();
                }
                let items = text.split(',').map(str::trim);
                Some(
                    items
                        .filter(|item| !item.is_empty())
                        .map(ToOwned::to_owned)
                        .collect(),
                )
            }
            _ => None,
        }
    }

    /// The value for messages: as it was written, or its kind where that says more. Credentials in a
    /// URL are masked.
    pub(super) fn describe(&self) -> String {
        match &self.value.kind {
            ValueKind::Nil => "nothing".to_owned(),
            ValueKind::Boolean(value) => value.to_string(),
            ValueKind::I64(value) => value.to_string(),
            ValueKind::I128(value) => value.to_string(),
            ValueKind::U64(value) => value.to_string(),
            ValueKind::U128(value) => value.to_string(),
            ValueKind::Float(value) => format!("{value:?}"),
            ValueKind::String(text) => quote(&mask_userinfo(text)),
            ValueKind::Table(_) => "a table".to_owned(),
            ValueKind::Array(_) => match self.list() {
                Some(items) => Shown::List(items).to_string(),
                None => "a list that does not hold texts only".to_owned(),
            },
        }
    }
}

/// Hides what stands between `//` and `@`: user name and password of a URL.
fn mask_userinfo(text: &str) -> String {
    let Some((head, rest)) = text.split_once("//") else {
        return text.to_owned();
    };
    let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..authority].rfind('@') {
        Some(at) => format!("{head}//***{}", &rest[at..]),
        None => text.to_owned(),
    }
}

/// A TOML basic string on one line.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A value as it is shown. Displays as TOML, so that what `config` prints can be written to a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shown {
    Whole(u64),
    Real(f64),
    Truth(bool),
    Text(String),
    List(Vec<String>),
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => write!(f, "{number}"),
            Self::Real(number) => write!(f, "{number:?}"),
            Self::Truth(truth) => write!(f, "{truth}"),
            Self::Text(text) => f.write_str(&quote(text)),
            Self::List(items) => {
                let items: Vec<_> = items.iter().map(|item| quote(item)).collect();
                write!(f, "[{}]", items.join(", "))
            }
        }
    }
}

impl From<Shown> for serde_json::Value {
    fn from(shown: Shown) -> Self {
        match shown {
            Shown::Whole(number) => number.into(),
            Shown::Real(number) => number.into(),
            Shown::Truth(truth) => truth.into(),
            Shown::Text(text) => text.into(),
            Shown::List(items) => items.into(),
        }
    }
}
