//! Templates: text with placeholders such as `{id}`, `{token?}` and `{page|number}`.

use serde_json::Value;

use super::SiteError;
use super::urls::encode_into;

/// What a placeholder's value becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    AsIs,
    Text,
    Number,
}

/// One placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hole {
    /// The value's name; values of a list begin with `list.`.
    pub(super) name: String,
    /// Written with `?`: the parameter is left out when there is no value.
    pub(super) optional: bool,
    form: Form,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Hole(Hole),
}

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template(Vec<Part>);

/// How values are written into the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// As they are.
    Plain,
    /// Percent-encoded for a path segment.
    Path,
    /// Percent-encoded for a part of a query.
    Query,
}

/// Where values come from; `None`: there is none.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<Value>;

/// A value as text: ids and numbers without quotes.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

impl Template {
    /// Reads a template; `{{` and `}}` stand for braces.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            let after = &rest[at + 1..];
            if let Some(behind) = after.strip_prefix(brace) {
                literal.push_str(brace);
                rest = behind;
                continue;
            }
            let end = after.find('}').filter(|_| brace == "{");
            let Some(end) = end else {
                return Err(format!(
                    "`{text}` has a lone `{brace}`; write `{brace}{brace}` for the character itself"
                ));
            };
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(Part::Hole(Hole::parse(&after[..end])?));
            rest = &after[end + 1..];
        }
        literal.push_str(rest);
        if !literal.is_empty() || parts.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(Self(parts))
    }

    /// Its placeholders.
    pub(super) fn holes(&self) -> impl Iterator<Item = &Hole> {
        self.0.iter().filter_map(|part| match part {
            Part::Hole(hole) => Some(hole),
            Part::Literal(_) => None,
        })
    }

    /// The text with all values filled in; `None` when an optional one is missing.
    pub(super) fn render(
        &self,
        encoding: Encoding,
        lookup: Lookup<'_>,
    ) -> Result<Option<String>, SiteError> {
        let mut out = String::new();
        for part in &self.0 {
            match part {
                Part::Literal(text) => out.push_str(text),
                Part::Hole(hole) => {
                    let Some(value) = hole.value(lookup)? else {
                        return Ok(None);
                    };
                    let value = plain(&value);
                    match encoding {
                        Encoding::Plain => out.push_str(&value),
                        Encoding::Path => encode_into(&mut out, &value, false),
                        Encoding::Query => encode_into(&mut out, &value, true),
                    }
                }
            }
        }
        Ok(Some(out))
    }

    /// The value itself when the template is one placeholder and nothing else, so that numbers stay numbers.
    fn render_value(&self, lookup: Lookup<'_>) -> Result<Option<Value>, SiteError> {
        match self.0.as_slice() {
            [Part::Hole(hole)] => hole.value(lookup),
            _ => Ok(self.render(Encoding::Plain, lookup)?.map(Value::from)),
        }
    }
}

impl Hole {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, form) = match text.split_once('|') {
            None => (text, Form::AsIs),
            Some((name, "text")) => (name, Form::Text),
            Some((name, "number")) => (name, Form::Number),
            Some((_, other)) => {
                return Err(format!(
                    "`{other}` is not a form of a placeholder; allowed: text, number"
                ));
            }
        };
        let (name, optional) = match name.strip_suffix('?') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || !name.chars().all(fits) {
            return Err(format!(
                "`{{{text}}}` is not a placeholder; allowed: a name of letters, digits, `_`, `-`, then `?`, `|text` or `|number`"
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            optional,
            form,
        })
    }

    fn value(&self, lookup: Lookup<'_>) -> Result<Option<Value>, SiteError> {
        let value = lookup(&self.name).filter(|value| !value.is_null());
        let Some(value) = value else {
            return if self.optional {
                Ok(None)
            } else {
                Err(SiteError(format!("no value for `{{{}}}`", self.name)))
            };
        };
        match self.form {
            Form::AsIs => Ok(Some(value)),
            Form::Text => Ok(Some(plain(&value).into())),
            Form::Number if value.is_number() => Ok(Some(value)),
            Form::Number => {
                let text = plain(&value);
                text.trim()
                    .parse::<serde_json::Number>()
                    .map(|number| Some(number.into()))
                    .map_err(|_| {
                        SiteError(format!("`{text}` in `{{{}}}` is not a number", self.name))
                    })
            }
        }
    }
}

/// A JSON value whose texts are templates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JsonTemplate {
    Text(Template),
    Array(Vec<JsonTemplate>),
    Object(Vec<(String, JsonTemplate)>),
    Other(Value),
}

impl JsonTemplate {
    pub(super) fn parse(value: &Value) -> Result<Self, String> {
        Ok(match value {
            Value::String(text) => Self::Text(Template::parse(text)?),
            Value::Array(items) => {
                Self::Array(items.iter().map(Self::parse).collect::<Result<_, _>>()?)
            }
            Value::Object(entries) => Self::Object(
                entries
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), Self::parse(value)?)))
                    .collect::<Result<_, String>>()?,
            ),
            other => Self::Other(other.clone()),
        })
    }

    /// All placeholders in it.
    pub(super) fn holes(&self) -> Vec<&Hole> {
        match self {
            Self::Text(template) => template.holes().collect(),
            Self::Array(items) => items.iter().flat_map(Self::holes).collect(),
            Self::Object(entries) => entries
                .iter()
                .flat_map(|(_, value)| value.holes())
                .collect(),
            Self::Other(_) => Vec::new(),
        }
    }

    /// The JSON value; entries whose optional value is missing are left out.
    pub(super) fn render(&self, lookup: Lookup<'_>) -> Result<Option<Value>, SiteError> {
        Ok(match self {
            Self::Text(template) => template.render_value(lookup)?,
            Self::Array(items) => {
                let mut out = Vec::new();
                for item in items {
                    out.extend(item.render(lookup)?);
                }
                Some(out.into())
            }
            Self::Object(entries) => {
                let mut out = serde_json::Map::new();
                for (key, value) in entries {
                    if let Some(value) = value.render(lookup)? {
                        out.insert(key.clone(), value);
                    }
                }
                Some(out.into())
            }
            Self::Other(value) => Some(value.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn lookup(name: &str) -> Option<Value> {
        match name {
            "id" => Some(json!("a/b c")),
            "n" => Some(json!(7)),
            "t" => Some(json!("12")),
            "none" => Some(Value::Null),
            _ => None,
        }
    }

    fn render(text: &str, encoding: Encoding) -> Result<Option<String>, SiteError> {
        Template::parse(text).unwrap().render(encoding, &lookup)
    }

    #[test]
    fn values_are_filled_in_and_encoded() {
        let text = |t, e| render(t, e).unwrap().unwrap();
        assert_eq!(text("/x/{id}/{n}", Encoding::Path), "/x/a%2Fb%20c/7");
        assert_eq!(text("{id}", Encoding::Query), "a/b%20c");
        assert_eq!(text("{{{n}}}", Encoding::Plain), "{7}");
    }

    #[test]
    fn a_missing_value_is_an_error_unless_optional() {
        assert!(
            render("{nope}", Encoding::Plain)
                .unwrap_err()
                .0
                .contains("{nope}")
        );
        assert!(render("{none}", Encoding::Plain).is_err());
        assert_eq!(render("x{nope?}", Encoding::Plain).unwrap(), None);
    }

    #[test]
    fn json_keeps_types() {
        let body = json!({"a": "{n}", "b": "{n|text}", "c": "{t|number}", "d": ["{id}", 1, "{nope?}"], "e": "{nope?}", "f": true});
        let body = JsonTemplate::parse(&body).unwrap();
        assert_eq!(body.holes().len(), 6);
        assert_eq!(
            body.render(&lookup).unwrap().unwrap(),
            json!({"a": 7, "b": "7", "c": 12, "d": ["a/b c", 1], "f": true})
        );
        let bad = JsonTemplate::parse(&json!("{id|number}")).unwrap();
        assert!(bad.render(&lookup).is_err());
    }

    #[test]
    fn bad_templates_say_what_is_allowed() {
        for bad in ["{", "}", "{}", "{a b}", "{a|x}", "{a", "a}"] {
            assert!(Template::parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn text_without_braces_is_itself(text in "[^{}]{0,30}") {
            let template = Template::parse(&text).unwrap();
            prop_assert_eq!(template.render(Encoding::Query, &|_| None).unwrap().unwrap(), text);
        }

        #[test]
        fn parsing_never_panics(text in "[{}a|?. é]{0,12}") {
            let _ = Template::parse(&text);
        }
    }
}
