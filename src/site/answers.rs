//! Answers: how a site says that something is wrong, as a table of which the first match wins.

use std::borrow::Cow;

use regex::Regex;
use serde_json::Value;
use url::Url;

use super::charset;
use super::document::Text;
use super::predicate::Predicate;
use super::select::{Document, Node};
use crate::model::{Answer, Outcome};

/// When a rule matches: everything that it names must hold.
#[derive(Clone, Debug, Default)]
pub(super) struct When {
    /// Status codes, as inclusive ranges.
    pub(super) status: Vec<(u16, u16)>,
    /// Headers (lower case) whose value must match.
    pub(super) headers: Vec<(String, Regex)>,
    /// The media type must be one of these; `text/*` for all of a family.
    pub(super) content_type: Vec<String>,
    /// The body must be JSON of which this holds.
    pub(super) json: Option<Predicate>,
    /// The body must contain one of these texts.
    pub(super) text: Vec<String>,
    /// The body must match.
    pub(super) matches: Option<Regex>,
    /// Whether the body is empty but for white space.
    pub(super) empty: Option<bool>,
    /// The target of a redirect must match.
    pub(super) location: Option<Regex>,
    /// Only answers of these endpoints.
    pub(super) endpoints: Vec<Text>,
}

/// One row of the table.
#[derive(Clone, Debug)]
pub(super) struct AnswerRule {
    pub(super) when: When,
    pub(super) is: Outcome,
}

/// An answer whose body is parsed once, and only if a rule looks into it.
pub(super) struct Judged<'a> {
    answer: &'a Answer,
    json: std::cell::OnceCell<Option<Value>>,
    text: std::cell::OnceCell<Cow<'a, str>>,
}

impl<'a> Judged<'a> {
    pub(super) fn new(answer: &'a Answer) -> Self {
        Self {
            answer,
            json: std::cell::OnceCell::new(),
            text: std::cell::OnceCell::new(),
        }
    }

    /// The body as JSON, if it is.
    pub(super) fn json(&self) -> Option<&Value> {
        self.json
            .get_or_init(|| {
                let json = charset::json(&self.answer.body, &self.answer.headers);
                match Document::json(&json.text) {
                    Ok(Document::Json(value)) => Some(value),
                    _ => None,
                }
            })
            .as_ref()
    }

    /// The body as text, in the encoding that its endpoint is read in.
    fn text(&self) -> &str {
        self.text.get_or_init(|| charset::any(self.answer))
    }
}

/// Whether a media type is the one, or of the family, that `pattern` names.
pub(super) fn type_fits(pattern: &str, media_type: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(family) => media_type.starts_with(family),
        None => pattern == media_type,
    }
}

impl When {
    fn fits_endpoint(&self, endpoint: &str) -> bool {
        self.endpoints.is_empty() || self.endpoints.iter().any(|name| name.text == endpoint)
    }

    /// Whether an answer fits.
    pub(super) fn holds(&self, endpoint: &str, judged: &Judged<'_>) -> bool {
        let answer = judged.answer;
        let status = answer.status;
        self.fits_endpoint(endpoint)
            && (self.status.is_empty()
                || self
                    .status
                    .iter()
                    .any(|(from, to)| (*from..=*to).contains(&status)))
            && self
                .headers
                .iter()
                .all(|(name, value)| answer.headers.all(name).any(|found| value.is_match(found)))
            && (self.content_type.is_empty()
                || self
                    .content_type
                    .iter()
                    .any(|kind| type_fits(kind, &answer.media_type())))
            && self.location.as_ref().is_none_or(|location| {
                let target = answer.location().and_then(|to| answer.url.join(&to).ok());
                target.is_some_and(|target| location.is_match(target.as_str()))
            })
            && self
                .empty
                .is_none_or(|empty| answer.body.trim_ascii().is_empty() == empty)
            && (self.text.is_empty() || {
                let body = judged.text();
                self.text
                    .iter()
                    .any(|wanted| body.contains(wanted.as_str()))
            })
            && self
                .matches
                .as_ref()
                .is_none_or(|wanted| wanted.is_match(judged.text()))
            && self.json.as_ref().is_none_or(|wanted| {
                judged
                    .json()
                    .is_some_and(|value| wanted.holds(Node::Json(value)))
            })
    }

    /// Whether a redirect to `target` fits; only rules that name a `location` speak of redirects.
    pub(super) fn holds_redirect(&self, endpoint: &str, target: &Url) -> bool {
        self.fits_endpoint(endpoint)
            && self
                .location
                .as_ref()
                .is_some_and(|location| location.is_match(target.as_str()))
            && (self.status.is_empty()
                || self
                    .status
                    .iter()
                    .any(|(from, to)| *from < 400 && *to >= 300))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::Headers;
    use crate::site::select::Language;

    fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Answer {
        Answer {
            url: Url::parse("https://h.example/a").unwrap(),
            status,
            headers: Headers(
                headers
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), value.to_string().into()))
                    .collect(),
            ),
            body: body.to_owned().into(),
            notes: Vec::new(),
            head_time: Duration::ZERO,
            total_time: Duration::ZERO,
        }
    }

    fn holds(when: &When, answer: &Answer) -> bool {
        when.holds("search", &Judged::new(answer))
    }

    #[test]
    fn every_condition_decides() {
        let regex = |text| Regex::new(text).unwrap();
        let json = Predicate::parse(Language::Json, "$.code == 1").unwrap();
        let good = answer(
            302,
            &[
                ("content-type", "text/html; charset=x"),
                ("verify", "abc"),
                ("location", "/login?x"),
            ],
            "{\"code\": 1, \"note\": \"blocked\"}",
        );
        let bad = answer(
            200,
            &[
                ("content-type", "image/png"),
                ("verify", "x"),
                ("location", "/"),
            ],
            " ",
        );
        for when in [
            When {
                status: vec![(300, 399)],
                ..When::default()
            },
            When {
                headers: vec![("verify".to_owned(), regex("^a"))],
                ..When::default()
            },
            When {
                content_type: vec!["text/*".to_owned()],
                ..When::default()
            },
            When {
                json: Some(json),
                ..When::default()
            },
            When {
                text: vec!["nope".to_owned(), "blocked".to_owned()],
                ..When::default()
            },
            When {
                matches: Some(regex("bl.cked")),
                ..When::default()
            },
            When {
                empty: Some(false),
                ..When::default()
            },
            When {
                location: Some(regex("^https://h.example/login")),
                ..When::default()
            },
        ] {
            assert!(holds(&when, &good), "{when:?}");
            assert!(!holds(&when, &bad), "{when:?}");
        }
        let other = When {
            endpoints: vec![Text {
                at: 0,
                text: "detail".to_owned(),
            }],
            ..When::default()
        };
        assert!(!holds(&other, &good));
        assert!(holds(&When::default(), &bad));
    }

    #[test]
    fn text_is_looked_for_in_the_encoding_of_the_answer() {
        let when = When {
            text: vec!["登录".to_owned()],
            ..When::default()
        };
        let json = Predicate::parse(Language::Json, "$.msg == '请先登录'").unwrap();
        let json = When {
            json: Some(json),
            ..When::default()
        };
        let (gbk, ..) = encoding_rs::GBK.encode("{\"msg\": \"请先登录\"}");
        let fields = [("content-type", "application/json; charset=gbk")];
        let mut answer = answer(200, &fields, "");
        answer.body = gbk.into_owned().into();
        assert!(holds(&when, &answer));
        assert!(holds(&json, &answer));
    }

    #[test]
    fn all_named_conditions_must_hold() {
        let when = When {
            status: vec![(200, 200)],
            empty: Some(true),
            ..When::default()
        };
        assert!(holds(&when, &answer(200, &[], " \n")));
        assert!(!holds(&when, &answer(500, &[], "")));
        assert!(!holds(&when, &answer(200, &[], "x")));
    }

    #[test]
    fn redirects_are_judged_by_rules_with_a_location() {
        let target = Url::parse("https://h.example/login").unwrap();
        let rule = |status| When {
            location: Some(Regex::new("/login").unwrap()),
            status,
            ..When::default()
        };
        assert!(rule(vec![]).holds_redirect("x", &target));
        assert!(rule(vec![(302, 302)]).holds_redirect("x", &target));
        assert!(!rule(vec![(200, 200)]).holds_redirect("x", &target));
        assert!(!When::default().holds_redirect("x", &target));
    }
}
