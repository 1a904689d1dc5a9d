//! Paths into an answer: JSONPath (RFC 9535) in JSON, CSS selectors in HTML.

use scraper::{ElementRef, Html, Selector};
use serde_json::Value;
use serde_json_path::JsonPath;

use super::SiteError;
use super::nesting;
use super::values::collapse;

/// What an endpoint answers with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Language {
    /// JSON, read by JSONPath.
    #[default]
    Json,
    /// HTML, read by CSS selectors.
    Html,
}

/// A parsed answer.
pub(super) enum Document {
    Json(Value),
    Html(Html),
}

/// A place in a document.
#[derive(Clone, Copy)]
pub(super) enum Node<'a> {
    Json(&'a Value),
    Html(ElementRef<'a>),
}

/// A compiled path.
#[derive(Clone, Debug)]
pub(super) enum Path {
    Json(JsonPath),
    Css {
        /// `None`: the item itself.
        selector: Option<Selector>,
        /// `None`: the text.
        attribute: Option<String>,
    },
}

impl Document {
    /// Parses JSON.
    pub(super) fn json(text: &str) -> Result<Self, SiteError> {
        serde_json::from_str(text)
            .map(Self::Json)
            .map_err(|error| SiteError(format!("the answer is not JSON: {error}")))
    }

    /// Builds the tree of an HTML page, unless it is nested so deeply that this could take minutes.
    pub(super) fn html(page: &str) -> Result<Self, SiteError> {
        if nesting::deeper_than(page.as_bytes(), nesting::MAX_DEPTH) {
            return Err(SiteError(format!(
                "the page is nested deeper than {} elements",
                nesting::MAX_DEPTH
            )));
        }
        Ok(Self::Html(Html::parse_document(page)))
    }

    pub(super) fn root(&self) -> Node<'_> {
        match self {
            Self::Json(value) => Node::Json(value),
            Self::Html(html) => Node::Html(html.root_element()),
        }
    }
}

impl Node<'_> {
    /// Tells the node apart from all others of its document.
    pub(super) fn address(&self) -> usize {
        match self {
            Self::Json(value) => std::ptr::from_ref(*value).addr(),
            Self::Html(element) => std::ptr::from_ref(element.value()).addr(),
        }
    }

    /// The addresses of the node and of all below it.
    pub(super) fn addresses(&self, out: &mut Vec<usize>) {
        out.push(self.address());
        match self {
            Self::Json(Value::Array(items)) => {
                items
                    .iter()
                    .for_each(|item| Node::Json(item).addresses(out));
            }
            Self::Json(Value::Object(entries)) => {
                entries
                    .values()
                    .for_each(|item| Node::Json(item).addresses(out));
            }
            Self::Json(_) => {}
            Self::Html(element) => {
                out.extend(
                    element
                        .descendent_elements()
                        .map(|e| Node::Html(e).address()),
                );
            }
        }
    }
}

impl Path {
    /// Compiles a path.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(language: Language, text: &str) -> Result<Self, String> {
        match language {
            Language::Json => JsonPath::parse(text)
                .map(Self::Json)
                .map_err(|error| format!("`{text}` is not a JSONPath: {error}")),
            Language::Html => {
                let (selector, attribute) = match text.rsplit_once('@') {
                    Some((selector, name)) if is_attribute(name) => {
                        (selector, Some(name.to_ascii_lowercase()))
                    }
                    _ => (text, None),
                };
                let selector = match selector.trim() {
                    "" => None,
                    text => Some(
                        Selector::parse(text)
                            .map_err(|error| format!("`{text}` is not a CSS selector: {error}"))?,
                    ),
                };
                Ok(Self::Css {
                    selector,
                    attribute,
                })
            }
        }
    }

    /// The nodes it leads to, in document order.
    pub(super) fn nodes<'a>(&self, from: Node<'a>) -> Vec<Node<'a>> {
        match (self, from) {
            (Self::Json(path), Node::Json(value)) => path
                .query(value)
                .all()
                .into_iter()
                .map(Node::Json)
                .collect(),
            (Self::Css { selector, .. }, Node::Html(element)) => match selector {
                None => vec![Node::Html(element)],
                Some(selector) => element.select(selector).map(Node::Html).collect(),
            },
            _ => Vec::new(),
        }
    }

    /// The values it leads to: JSON values, or texts of HTML with white space collapsed.
    pub(super) fn values(&self, from: Node<'_>) -> Vec<Value> {
        let attribute = match self {
            Self::Css { attribute, .. } => attribute.as_deref(),
            Self::Json(_) => None,
        };
        let read = |node: Node<'_>| match (node, attribute) {
            (Node::Json(value), _) => Some(value.clone()),
            (Node::Html(element), Some(name)) => element.attr(name).map(Value::from),
            (Node::Html(element), None) => {
                Some(collapse(&element.text().collect::<String>()).into())
            }
        };
        self.nodes(from).into_iter().filter_map(read).collect()
    }

    /// The first value it leads to that is not null.
    pub(super) fn first(&self, from: Node<'_>) -> Option<Value> {
        self.values(from).into_iter().find(|value| !value.is_null())
    }
}

fn is_attribute(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn css_reads_text_attributes_and_the_item_itself() {
        let page =
            Document::html("<ul><li id=1><a href='/x'>  A <b>b</b></a><li id=2></ul>").unwrap();
        let path = |text| Path::parse(Language::Html, text).unwrap();
        let items = path("li").nodes(page.root());
        assert_eq!(items.len(), 2);
        assert_eq!(path("@id").first(items[1]), Some(json!("2")));
        assert_eq!(path("a").first(items[0]), Some(json!("A b")));
        assert_eq!(path("a@href").first(items[0]), Some(json!("/x")));
        assert_eq!(path("a@href").first(items[1]), None);
    }

    #[test]
    fn bad_paths_are_explained() {
        assert!(
            Path::parse(Language::Json, "$.a[")
                .unwrap_err()
                .contains("JSONPath")
        );
        assert!(
            Path::parse(Language::Html, "a[")
                .unwrap_err()
                .contains("CSS selector")
        );
    }

    #[test]
    fn deep_nesting_is_refused_at_once() {
        let deep = "<div>".repeat(100_000);
        assert!(Document::html(&deep).is_err());
        assert!(Document::html(&"<p>x<br><li>y".repeat(10_000)).is_ok());
    }

    #[test]
    fn json_may_begin_with_a_mark() {
        assert!(Document::json("{}").is_ok());
        assert!(Document::json("<html>").is_err());
    }
}
