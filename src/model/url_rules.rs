//! By what a crawl tells one page from another, as it is configured: which parts of a query do not count.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::job::{ParseNameError, named};

named! {
    /// What the order of a query counts for when a page is recognised.
    QueryRule ("query rule") {
        /// Everything: `?a=1&b=2` and `?b=2&a=1` are two pages.
        Exact = "exact",
        /// Nothing between options of different names. Those of one name keep their order.
        Sort = "sort",
        /// As `sort`, and an option that is there twice with one value counts once.
        SortUnique = "sort_unique",
    }
}

/// Rules of mode `crawl` that a page is recognised by. What is sent stays as it was linked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UrlRules {
    /// Whether the order of the query counts.
    pub query: QueryRule,
    /// Options that do not count: of the query, and of the path (`;name=value`).
    pub drop_params: Vec<ParamPattern>,
}

impl Default for UrlRules {
    fn default() -> Self {
        Self {
            query: QueryRule::Exact,
            drop_params: Vec::new(),
        }
    }
}

impl UrlRules {
    /// The rules in one line, for a comparison with those of an earlier run.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut drop: Vec<String> = self.drop_params.iter().map(ToString::to_string).collect();
        drop.sort();
        drop.dedup();
        format!("query={} drop={}", self.query, drop.join(","))
    }
}

/// Names of options, in any case: `gclid`, `utm_*`, or a set that has a name of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ParamPattern {
    /// One name, in lower case.
    Name(String),
    /// All names that begin so, in lower case; not empty.
    Prefix(String),
    /// What advertisers and mailers add to follow a visitor.
    Tracking,
    /// What servers add to know a visitor again.
    Session,
}

/// The names of [`ParamPattern::Tracking`].
const TRACKING: &[&str] = &[
    "_ga",
    "_gl",
    "_hsenc",
    "_hsmi",
    "dclid",
    "fbclid",
    "gbraid",
    "gclid",
    "gclsrc",
    "igshid",
    "li_fat_id",
    "mc_cid",
    "mc_eid",
    "mkt_tok",
    "msclkid",
    "ttclid",
    "twclid",
    "wbraid",
    "yclid",
    "ysclid",
];

/// The names of [`ParamPattern::Session`].
const SESSION: &[&str] = &[
    "cfid",
    "cftoken",
    "jsessionid",
    "oscsid",
    "phpsessid",
    "session_id",
    "sessionid",
    "zenid",
];

/// Longest name of an option in a rule, in bytes.
const MAX_NAME: usize = 100;

impl ParamPattern {
    /// Whether an option of this name is meant. ASCII case does not count.
    #[must_use]
    pub fn fits(&self, name: &str) -> bool {
        let begins = |prefix: &str| {
            name.len() >= prefix.len()
                && name.as_bytes()[..prefix.len()].eq_ignore_ascii_case(prefix.as_bytes())
        };
        let among = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        match self {
            Self::Name(known) => known.eq_ignore_ascii_case(name),
            Self::Prefix(prefix) => begins(prefix),
            Self::Tracking => begins("utm_") || among(TRACKING),
            Self::Session => begins("aspsessionid") || among(SESSION),
        }
    }
}

impl fmt::Display for ParamPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
            Self::Tracking => f.write_str("@tracking"),
            Self::Session => f.write_str("@session"),
        }
    }
}

impl FromStr for ParamPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text {
            "@tracking" => return Ok(Self::Tracking),
            "@session" => return Ok(Self::Session),
            _ if text.starts_with('@') => {
                return Err(format!(
                    "`{text}` is not a set of names; allowed: @tracking, @session"
                ));
            }
            _ => {}
        }
        let (name, open) = match text.strip_suffix('*') {
            Some(prefix) => (prefix, true),
            None => (text, false),
        };
        let good = (1..=MAX_NAME).contains(&name.len())
            && name.bytes().all(|byte| {
                byte.is_ascii_graphic() && !matches!(byte, b'&' | b'=' | b'#' | b';' | b'*' | b'?')
            });
        if !good {
            return Err(format!(
                "`{text}` is not the name of an option; allowed: a name such as `gclid`, a beginning such as \
                 `utm_*`, or one of the sets @tracking and @session"
            ));
        }
        let name = name.to_ascii_lowercase();
        Ok(if open {
            Self::Prefix(name)
        } else {
            Self::Name(name)
        })
    }
}

impl Serialize for ParamPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ParamPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pattern(text: &str) -> ParamPattern {
        text.parse().unwrap()
    }

    #[test]
    fn names_beginnings_and_sets_are_told_apart() {
        for (text, fits, fits_not) in [
            (
                "gclid",
                &["gclid", "GCLID"][..],
                &["gclid2", "gcli", ""][..],
            ),
            ("utm_*", &["utm_", "utm_source", "UTM_x"], &["utm", "xutm_"]),
            (
                "@tracking",
                &["utm_id", "fbclid", "_GA"],
                &["id", "sid", "spm"],
            ),
            (
                "@session",
                &["PHPSESSID", "jsessionid", "ASPSESSIONIDQQ"],
                &["sid", "s", "session"],
            ),
        ] {
            let pattern = pattern(text);
            assert_eq!(pattern.to_string(), text);
            for name in fits {
                assert!(pattern.fits(name), "{text} {name}");
            }
            for name in fits_not {
                assert!(!pattern.fits(name), "{text} {name}");
            }
        }
    }

    #[test]
    fn what_is_no_name_is_refused_with_what_is_allowed() {
        for text in ["", " ", "*", "a b", "a=1", "a&b", "u*m", "@all", "é", "#x"] {
            let error = text.parse::<ParamPattern>().unwrap_err();
            assert!(error.contains("allowed"), "{text}: {error}");
        }
    }

    #[test]
    fn rules_of_a_job_come_back_and_old_jobs_have_the_default() {
        let rules = UrlRules {
            query: QueryRule::SortUnique,
            drop_params: vec![pattern("utm_*"), pattern("@session")],
        };
        let text = serde_json::to_string(&rules).unwrap();
        assert_eq!(
            text,
            r#"{"query":"sort_unique","drop_params":["utm_*","@session"]}"#
        );
        assert_eq!(serde_json::from_str::<UrlRules>(&text).unwrap(), rules);
        assert_eq!(
            serde_json::from_str::<UrlRules>("{}").unwrap(),
            UrlRules::default()
        );
        assert_eq!(rules.fingerprint(), "query=sort_unique drop=@session,utm_*");
    }

    proptest! {
        #[test]
        fn any_text_is_a_pattern_or_an_error(text in "\\PC{0,20}", name in "\\PC{0,20}") {
            if let Ok(pattern) = text.parse::<ParamPattern>() {
                let _ = pattern.fits(&name);
                prop_assert_eq!(pattern.to_string().parse::<ParamPattern>(), Ok(pattern));
            }
        }
    }
}
