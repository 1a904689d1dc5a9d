//! A TOML document as a schema sees it: typed access that knows lines and collects every problem.

use std::fmt;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One thing wrong with a site definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, or what stands for it.
    pub source: String,
    /// The line, from 1; `None` where the whole file is meant.
    pub line: Option<usize>,
    /// What is wrong, and what is allowed.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.source, self.text),
            None => write!(f, "{}: {}", self.source, self.text),
        }
    }
}

/// Everything wrong with one or several files, in the order of files and lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionErrors(pub Vec<Problem>);

impl DefinitionErrors {
    /// One problem that belongs to no line.
    pub(crate) fn of(source: &str, text: impl Into<String>) -> Self {
        Self(vec![Problem {
            source: source.to_owned(),
            line: None,
            text: text.into(),
        }])
    }
}

impl fmt::Display for DefinitionErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for DefinitionErrors {}

/// Collects problems while a document is read.
pub(crate) struct Problems<'a> {
    source: &'a str,
    text: &'a str,
    found: Vec<Problem>,
}

impl<'a> Problems<'a> {
    pub(crate) fn new(source: &'a str, text: &'a str) -> Self {
        Self {
            source,
            text,
            found: Vec::new(),
        }
    }

    /// Note a problem at byte `at` of the document.
    pub(crate) fn add(&mut self, at: usize, text: impl Into<String>) {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        self.found.push(Problem {
            source: self.source.to_owned(),
            line: Some(line),
            text: text.into(),
        });
    }

    /// `value`, unless something was wrong.
    pub(crate) fn finish<T>(mut self, value: Option<T>) -> Result<T, DefinitionErrors> {
        self.found.sort_by_key(|problem| problem.line);
        self.found.dedup();
        match value {
            Some(value) if self.found.is_empty() => Ok(value),
            _ if self.found.is_empty() => Err(DefinitionErrors::of(self.source, "unreadable")),
            _ => Err(DefinitionErrors(self.found)),
        }
    }
}

/// Reads a document whose tables `read` knows; all problems are found at once. `source` names the file in messages.
pub(crate) fn read<T>(
    source: &str,
    text: &str,
    read: impl FnOnce(Table<'_>, &mut Problems<'_>) -> Option<T>,
) -> Result<T, DefinitionErrors> {
    let mut problems = Problems::new(source, text);
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let at = error.span().map_or(0, |span| span.start);
        problems.add(at, error.message().to_owned());
    }
    let value = read(
        Table::new(String::new(), document.get_ref(), 0..0),
        &mut problems,
    );
    problems.finish(value)
}

/// ` did you mean …?` for the candidate nearest to `given`, or the list of what is allowed.
pub(crate) fn hint<'n>(given: &str, allowed: impl IntoIterator<Item = &'n str>) -> String {
    let allowed: Vec<&str> = allowed.into_iter().collect();
    let nearest = allowed
        .iter()
        .map(|name| (strsim::damerau_levenshtein(given, name), *name))
        .min()
        .filter(|(distance, name)| *distance <= 1 + name.len() / 3);
    match nearest {
        Some((_, name)) => format!("did you mean `{name}`?"),
        None if allowed.is_empty() => "there are none".to_owned(),
        None => format!("allowed: {}", allowed.join(", ")),
    }
}

/// Text with its place in the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) at: usize,
    pub(crate) text: String,
}

/// A value with its name and place.
#[derive(Clone)]
pub(crate) struct Item<'d> {
    pub(crate) name: String,
    pub(crate) value: &'d Spanned<DeValue<'d>>,
}

impl<'d> Item<'d> {
    pub(crate) fn at(&self) -> usize {
        self.value.span().start
    }

    fn wrong(&self, wanted: &str, problems: &mut Problems<'_>) {
        let found = self.value.get_ref().type_str();
        problems.add(
            self.at(),
            format!("`{}` must be {wanted}, not {found}", self.name),
        );
    }

    pub(crate) fn text(&self, problems: &mut Problems<'_>) -> Option<Text> {
        let text = self.value.get_ref().as_str();
        if text.is_none() {
            self.wrong("text", problems);
        }
        Some(Text {
            at: self.at(),
            text: text?.to_owned(),
        })
    }

    /// A text, or a list of them.
    pub(crate) fn texts(&self, problems: &mut Problems<'_>) -> Vec<Text> {
        self.one_or_many()
            .iter()
            .filter_map(|item| item.text(problems))
            .collect()
    }

    /// The elements of an array, or the value itself.
    pub(crate) fn one_or_many(&self) -> Vec<Item<'d>> {
        match self.value.get_ref().as_array() {
            Some(array) => array
                .iter()
                .map(|value| Item {
                    name: self.name.clone(),
                    value,
                })
                .collect(),
            None => vec![self.clone()],
        }
    }

    pub(crate) fn boolean(&self, problems: &mut Problems<'_>) -> Option<bool> {
        let value = self.value.get_ref().as_bool();
        if value.is_none() {
            self.wrong("true or false", problems);
        }
        value
    }

    pub(crate) fn integer(
        &self,
        range: std::ops::RangeInclusive<i64>,
        problems: &mut Problems<'_>,
    ) -> Option<i64> {
        let value = self.value.get_ref().as_integer().and_then(|integer| {
            i64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix()).ok()
        });
        if let Some(value) = value
            && range.contains(&value)
        {
            return Some(value);
        }
        let wanted = format!("a whole number from {} to {}", range.start(), range.end());
        self.not_in_range(value, &wanted, problems);
        None
    }

    /// A whole number or one with a fraction.
    pub(crate) fn number(
        &self,
        range: std::ops::RangeInclusive<f64>,
        problems: &mut Problems<'_>,
    ) -> Option<f64> {
        let value = self.json().as_f64();
        if let Some(value) = value
            && range.contains(&value)
        {
            return Some(value);
        }
        let wanted = format!("a number from {} to {}", range.start(), range.end());
        self.not_in_range(value, &wanted, problems);
        None
    }

    /// A number that is none, or outside what is allowed.
    fn not_in_range(
        &self,
        value: Option<impl fmt::Display>,
        wanted: &str,
        problems: &mut Problems<'_>,
    ) {
        match value {
            Some(value) => problems.add(
                self.at(),
                format!("`{}` must be {wanted}, not {value}", self.name),
            ),
            None => self.wrong(wanted, problems),
        }
    }

    pub(crate) fn table(&self, problems: &mut Problems<'_>) -> Option<Table<'d>> {
        let table = self.value.get_ref().as_table();
        if table.is_none() {
            self.wrong("a table", problems);
        }
        Some(Table::new(self.name.clone(), table?, self.value.span()))
    }

    pub(crate) fn is_table(&self) -> bool {
        self.value.get_ref().is_table()
    }

    pub(crate) fn is_text(&self) -> bool {
        self.value.get_ref().is_str()
    }

    /// The value as JSON; dates become text.
    pub(crate) fn json(&self) -> serde_json::Value {
        to_json(self.value.get_ref())
    }
}

fn to_json(value: &DeValue<'_>) -> serde_json::Value {
    use serde_json::Value;
    match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Integer(integer) => {
            i64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix())
                .map_or(Value::Null, Value::from)
        }
        DeValue::Float(float) => float
            .as_str()
            .replace('_', "")
            .parse::<f64>()
            .map_or(Value::Null, Value::from),
        DeValue::Boolean(value) => Value::from(*value),
        DeValue::Datetime(at) => Value::from(at.to_string()),
        DeValue::Array(array) => array.iter().map(|item| to_json(item.get_ref())).collect(),
        DeValue::Table(table) => table
            .iter()
            .map(|(key, item)| (key.get_ref().to_string(), to_json(item.get_ref())))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    }
}

/// A table of which each key must be asked for.
pub(crate) struct Table<'d> {
    name: String,
    table: &'d DeTable<'d>,
    span: Range<usize>,
    asked: Vec<&'static str>,
}

impl<'d> Table<'d> {
    pub(crate) fn new(name: String, table: &'d DeTable<'d>, span: Range<usize>) -> Self {
        Self {
            name,
            table,
            span,
            asked: Vec::new(),
        }
    }

    pub(crate) fn at(&self) -> usize {
        self.span.start
    }

    fn named(&self, key: &str) -> String {
        if self.name.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.name)
        }
    }

    pub(crate) fn get(&mut self, key: &'static str) -> Option<Item<'d>> {
        self.asked.push(key);
        let value = self.table.get(key)?;
        Some(Item {
            name: self.named(key),
            value,
        })
    }

    /// The value of a key that must be there.
    pub(crate) fn need(
        &mut self,
        key: &'static str,
        problems: &mut Problems<'_>,
    ) -> Option<Item<'d>> {
        let item = self.get(key);
        if item.is_none() {
            problems.add(self.at(), format!("`{}` is missing", self.named(key)));
        }
        item
    }

    pub(crate) fn text(&mut self, key: &'static str, problems: &mut Problems<'_>) -> Option<Text> {
        self.get(key)?.text(problems)
    }

    pub(crate) fn texts(&mut self, key: &'static str, problems: &mut Problems<'_>) -> Vec<Text> {
        self.get(key)
            .map(|item| item.texts(problems))
            .unwrap_or_default()
    }

    pub(crate) fn table(
        &mut self,
        key: &'static str,
        problems: &mut Problems<'_>,
    ) -> Option<Table<'d>> {
        self.get(key)?.table(problems)
    }

    /// The tables of `[[key]]`; none when the key is absent.
    pub(crate) fn tables(
        &mut self,
        key: &'static str,
        problems: &mut Problems<'_>,
    ) -> Vec<Table<'d>> {
        self.get(key)
            .map(|item| item.one_or_many())
            .unwrap_or_default()
            .iter()
            .filter_map(|item| item.table(problems))
            .collect()
    }

    /// All entries of a table whose keys are free, each with the place of its key.
    pub(crate) fn entries(&self) -> Vec<(Text, Item<'d>)> {
        self.table
            .iter()
            .map(|(key, value)| {
                let key = Text {
                    at: key.span().start,
                    text: key.get_ref().to_string(),
                };
                let name = self.named(&key.text);
                (key, Item { name, value })
            })
            .collect()
    }

    /// Keys that nobody asked for are unknown.
    pub(crate) fn finish(self, problems: &mut Problems<'_>) {
        for (key, _) in self.table {
            let name: &str = key.get_ref();
            if !self.asked.contains(&name) {
                problems.add(
                    key.span().start,
                    format!(
                        "`{}` is not a key here; {}",
                        self.named(name),
                        hint(name, self.asked.iter().copied())
                    ),
                );
            }
        }
    }
}
