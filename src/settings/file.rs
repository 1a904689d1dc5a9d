//! Reading a TOML file into leaves that know their line.
//!
//! The text is parsed here and not by the `config` crate's own file source, because its values carry only
//! the name of the file, and it takes a date for a text.

use std::ops::Range;

use config::{Value, ValueKind};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::layer::Leaf;

/// What a file holds, with the line of each value.
pub(super) struct Parsed {
    pub(super) leaves: Vec<Leaf>,
    /// Values of a kind that no setting takes: line, key, kind.
    pub(super) strange: Vec<(usize, Vec<String>, &'static str)>,
}

/// Why a text is not TOML: line, column and reason, without the text itself.
pub(super) struct SyntaxError {
    pub(super) line: usize,
    pub(super) message: String,
}

/// Parses `text`. `origin` gives the origin text for a value that stands in a line.
pub(super) fn parse(
    text: &str,
    origin: &mut dyn FnMut(usize) -> String,
) -> Result<Parsed, SyntaxError> {
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().unwrap_or_default();
        let (line, column) = position(text, &at);
        SyntaxError {
            line,
            message: format!("{} (column {column})", error.message().replace('\n', ", ")),
        }
    })?;
    let mut parsed = Parsed {
        leaves: Vec::new(),
        strange: Vec::new(),
    };
    let mut reader = Reader {
        text,
        origin,
        parsed: &mut parsed,
    };
    reader.table(&mut Vec::new(), table.get_ref());
    Ok(parsed)
}

/// Line and column of the start of `span`, both from 1; the column in characters.
fn position(text: &str, span: &Range<usize>) -> (usize, usize) {
    let mut at = span.start.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let before = &text[..at];
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count()
        + 1;
    (line, column)
}

struct Reader<'r> {
    text: &'r str,
    origin: &'r mut dyn FnMut(usize) -> String,
    parsed: &'r mut Parsed,
}

impl Reader<'_> {
    fn table(&mut self, path: &mut Vec<String>, table: &DeTable<'_>) {
        for (key, value) in table {
            path.push(key.get_ref().to_string());
            let (line, _) = position(self.text, &key.span());
            match value.get_ref() {
                DeValue::Table(below) if !below.is_empty() => self.table(path, below),
                other => self.leaf(path, line, other),
            }
            path.pop();
        }
    }

    fn leaf(&mut self, path: &[String], line: usize, value: &DeValue<'_>) {
        let origin = (self.origin)(line);
        match kind(value, &origin) {
            Ok(kind) => self.parsed.leaves.push(Leaf {
                path: path.to_vec(),
                value: Value::new(Some(&origin), kind),
            }),
            Err(strange) => self.parsed.strange.push((line, path.to_vec(), strange)),
        }
    }
}

fn kind(value: &DeValue<'_>, origin: &String) -> Result<ValueKind, &'static str> {
    Ok(match value {
        DeValue::String(text) => ValueKind::String(text.to_string()),
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .map(ValueKind::I128)
            .map_err(|_| "a number too large")?,
        DeValue::Float(number) => number
            .as_str()
            .parse()
            .map(ValueKind::Float)
            .map_err(|_| "a number that cannot be read")?,
        DeValue::Boolean(value) => ValueKind::Boolean(*value),
        DeValue::Datetime(_) => return Err("a date or time"),
        DeValue::Array(items) => {
            let items: Result<Vec<_>, _> = items
                .iter()
                .map(Spanned::get_ref)
                .map(|item| kind(item, origin).map(|kind| Value::new(Some(origin), kind)))
                .collect();
            ValueKind::Array(items?)
        }
        // Tables that hold something are walked into; only the kind counts of those within a list.
        DeValue::Table(_) => ValueKind::Table(config::Map::new()),
    })
}
