//! Predicates over JSON: `$.code == 300013`, `$.type != 'ad' && $.id`, `!$.data`.

use std::cmp::Ordering;

use serde_json::Value;

use super::select::{Language, Node, Path};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Longer signs first, so that `<=` is not taken for `<`.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

#[derive(Clone, Debug)]
struct Term {
    negated: bool,
    path: Path,
    compare: Option<(Comparison, Value)>,
}

/// Alternatives (`||`) of conjunctions (`&&`) of terms.
#[derive(Clone, Debug)]
pub(super) struct Predicate(Vec<Vec<Term>>);

impl Predicate {
    /// Compiles a predicate. In HTML a term is a selector that must be found.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(language: Language, text: &str) -> Result<Self, String> {
        split(text, "||")
            .into_iter()
            .map(|all| {
                split(all, "&&")
                    .into_iter()
                    .map(|term| Term::parse(language, term))
                    .collect()
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether it holds at `node`.
    pub(super) fn holds(&self, node: Node<'_>) -> bool {
        self.0
            .iter()
            .any(|all| all.iter().all(|term| term.holds(node)))
    }
}

impl Term {
    fn parse(language: Language, text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (negated, text) = match text.strip_prefix('!') {
            Some(rest) => (true, rest.trim_start()),
            None => (false, text),
        };
        let found = (language == Language::Json)
            .then(|| find_comparison(text))
            .flatten();
        let (path, compare) = match found {
            None => (text, None),
            Some((at, sign, comparison)) => {
                let literal = text[at + sign.len()..].trim();
                (
                    text[..at].trim(),
                    Some((comparison, parse_literal(literal)?)),
                )
            }
        };
        Ok(Self {
            negated,
            path: Path::parse(language, path)?,
            compare,
        })
    }

    fn holds(&self, node: Node<'_>) -> bool {
        let holds = match &self.compare {
            None => self.path.nodes(node).iter().any(|node| match node {
                Node::Json(value) => !value.is_null(),
                Node::Html(_) => true,
            }),
            // Missing is like null: `$.a != 1` holds where there is no `a`, `$.a == null` too.
            Some((comparison, literal)) => {
                let found = self.path.values(node).into_iter().next();
                comparison.holds(&found.unwrap_or(Value::Null), literal)
            }
        };
        holds != self.negated
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> bool {
        let order = match (left, right) {
            (Value::Number(a), Value::Number(b)) if a != b => a
                .as_f64()
                .zip(b.as_f64())
                .and_then(|(a, b)| a.partial_cmp(&b)),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (a, b) if a == b => Some(Ordering::Equal),
            _ => None,
        };
        match self {
            Self::Equal => order == Some(Ordering::Equal),
            Self::NotEqual => order != Some(Ordering::Equal),
            Self::Less => order == Some(Ordering::Less),
            Self::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Self::Greater => order == Some(Ordering::Greater),
            Self::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

/// A JSON literal, or a text in single quotes.
fn parse_literal(text: &str) -> Result<Value, String> {
    if let Some(inner) = text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')) {
        return Ok(inner.into());
    }
    match serde_json::from_str(text) {
        Ok(value @ (Value::Array(_) | Value::Object(_))) => Err(format!(
            "`{value}` cannot be compared; allowed: a number, a text in quotes, true, false, null"
        )),
        Ok(value) => Ok(value),
        Err(_) => Err(format!(
            "`{text}` is not a value; allowed: a number, a text in quotes, true, false, null"
        )),
    }
}

/// The places of a text that are outside quotes and brackets.
fn outside(text: &str) -> impl Iterator<Item = usize> {
    let mut quote = None;
    let mut depth = 0_usize;
    let mut escaped = false;
    text.char_indices().filter_map(move |(at, c)| {
        let free = quote.is_none() && depth == 0;
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[' | '(') => depth += 1,
            (None, ']' | ')') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
        free.then_some(at)
    })
}

fn split<'t>(text: &'t str, sign: &str) -> Vec<&'t str> {
    let mut parts = Vec::new();
    let mut from = 0;
    for at in outside(text) {
        if at >= from && text[at..].starts_with(sign) {
            parts.push(&text[from..at]);
            from = at + sign.len();
        }
    }
    parts.push(&text[from..]);
    parts
}

fn find_comparison(text: &str) -> Option<(usize, &'static str, Comparison)> {
    outside(text).find_map(|at| {
        COMPARISONS
            .into_iter()
            .find(|(sign, _)| text[at..].starts_with(sign))
            .map(|(sign, comparison)| (at, sign, comparison))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn holds(text: &str, value: &Value) -> bool {
        Predicate::parse(Language::Json, text)
            .unwrap()
            .holds(Node::Json(value))
    }

    #[test]
    fn terms_compare_and_combine() {
        let value = json!({"code": 300013, "type": "a && b", "n": 1.5, "null": null, "list": [{"x": 1}, {"x": 2}], "ok": false});
        for (text, wanted) in [
            ("$.code == 300013", true),
            ("$.code==300014", false),
            ("$.code != 1", true),
            ("$.absent != 1", true),
            ("$.absent == null", true),
            ("$.absent == 1", false),
            ("$.type == 'a && b'", true),
            ("$.type == \"a && b\" && $.n > 1", true),
            ("$.n >= 1.5 && $.n <= 1.5 && $.n < 2", true),
            ("$.code == 1 || $.ok == false", true),
            ("$.null", false),
            ("!$.null", true),
            ("$.list[?@.x == 2]", true),
            ("$.list[?@.x == 3]", false),
            ("$['code'] == 300013", true),
            ("$.type > 3", false),
            ("$.ok", true),
        ] {
            assert_eq!(holds(text, &value), wanted, "{text}");
        }
    }

    #[test]
    fn bad_predicates_are_explained() {
        for bad in [
            "",
            "code == 1",
            "$.a ==",
            "$.a == x",
            "$.a == [1]",
            "$.a &&",
        ] {
            assert!(Predicate::parse(Language::Json, bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn numbers_compare_as_numbers(a in -1000_i64..1000, b in -1000_i64..1000) {
            let value = json!({ "a": a });
            prop_assert_eq!(holds(&format!("$.a < {b}"), &value), a < b);
            prop_assert_eq!(holds(&format!("$.a >= {b}"), &value), a >= b);
            prop_assert_eq!(holds(&format!("$.a == {b}"), &value), a == b);
        }

        #[test]
        fn parsing_never_panics(text in "[$.a=!<>&|'\"\\[\\]() é1]{0,16}") {
            let _ = Predicate::parse(Language::Json, &text);
        }
    }
}
