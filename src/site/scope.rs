//! Scope: which links a crawl follows.

use regex::{Regex, RegexSet};
use url::{Host, Url};

use super::document::DefinitionErrors;
use super::endpoint::same_host;
use crate::model::{CrawlRules, Scope};

/// The rules of a crawl, compiled for its start URLs.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    scope: Scope,
    starts: Vec<Start>,
    include: RegexSet,
    exclude: RegexSet,
}

#[derive(Clone, Debug)]
struct Start {
    url: Url,
    /// Registrable domain, or the host itself where there is none.
    domain: String,
    /// Path up to the last `/`.
    directory: String,
}

impl Bounds {
    /// Compiles the rules. Each start URL has a scope of its own; a link must be in one of them.
    ///
    /// # Errors
    /// Every pattern that is no regular expression.
    pub(super) fn new(rules: &CrawlRules, starts: &[Url]) -> Result<Self, DefinitionErrors> {
        let mut problems = Vec::new();
        let mut compile = |key: &str, patterns: &[String]| {
            for pattern in patterns {
                if let Err(error) = Regex::new(pattern) {
                    let text = format!("`{pattern}` is not a regular expression: {error}");
                    problems.extend(DefinitionErrors::of(&format!("crawl.{key}"), text).0);
                }
            }
            RegexSet::new(patterns).unwrap_or_default()
        };
        let include = compile("include", &rules.include);
        let exclude = compile("exclude", &rules.exclude);
        if !problems.is_empty() {
            return Err(DefinitionErrors(problems));
        }
        let starts = starts.iter().map(|url| Start {
            domain: domain_of(url),
            directory: url
                .path()
                .rsplit_once('/')
                .map_or("/".to_owned(), |(dir, _)| format!("{dir}/")),
            url: url.clone(),
        });
        Ok(Self {
            scope: rules.scope,
            starts: starts.collect(),
            include,
            exclude,
        })
    }

    /// Why a canonical URL is not followed; `None`: it is.
    pub(super) fn refuses(&self, url: &Url) -> Option<&'static str> {
        if !self
            .starts
            .iter()
            .any(|start| start.covers(self.scope, url))
        {
            return Some("out of scope");
        }
        if !self.include.is_empty() && !self.include.is_match(url.as_str()) {
            return Some("not among `include`");
        }
        if !self.exclude.is_empty() && self.exclude.is_match(url.as_str()) {
            return Some("among `exclude`");
        }
        None
    }
}

impl Start {
    fn covers(&self, scope: Scope, url: &Url) -> bool {
        match scope {
            Scope::Host => same_host(&self.url, url),
            Scope::Prefix => same_host(&self.url, url) && url.path().starts_with(&self.directory),
            Scope::Domain => {
                let host = url.host_str().unwrap_or_default();
                host == self.domain
                    || host
                        .strip_suffix(&self.domain)
                        .is_some_and(|front| front.ends_with('.'))
            }
        }
    }
}

/// The registrable domain by the public suffix list; addresses and single names stand for themselves.
fn domain_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.host() {
        Some(Host::Domain(name)) => psl::domain_str(name).unwrap_or(name).to_owned(),
        _ => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(scope: Scope, include: &[&str], exclude: &[&str], starts: &[&str]) -> Bounds {
        let rules = CrawlRules {
            scope,
            include: include.iter().map(|text| (*text).to_owned()).collect(),
            exclude: exclude.iter().map(|text| (*text).to_owned()).collect(),
            ..CrawlRules::default()
        };
        let starts: Vec<Url> = starts
            .iter()
            .map(|text| Url::parse(text).unwrap())
            .collect();
        Bounds::new(&rules, &starts).unwrap()
    }

    fn follows(bounds: &Bounds, url: &str) -> bool {
        bounds.refuses(&Url::parse(url).unwrap()).is_none()
    }

    #[test]
    fn a_host_is_host_and_port_over_http_and_https() {
        let b = bounds(Scope::Host, &[], &[], &["http://h.example/a/b"]);
        for (url, wanted) in [
            ("http://h.example/", true),
            ("https://h.example/x", true),
            ("http://h.example:8080/", false),
            ("https://h.example:80/", true),
            ("http://www.h.example/", false),
            ("http://h.example.evil/", false),
        ] {
            assert_eq!(follows(&b, url), wanted, "{url}");
        }
        let b = bounds(Scope::Host, &[], &[], &["http://127.0.0.1:8080/"]);
        assert!(follows(&b, "http://127.0.0.1:8080/x") && !follows(&b, "http://127.0.0.1/x"));
    }

    #[test]
    fn a_domain_is_the_registrable_one() {
        let b = bounds(Scope::Domain, &[], &[], &["http://www.shop.co.uk/"]);
        assert!(follows(&b, "https://a.b.shop.co.uk/") && follows(&b, "http://shop.co.uk/"));
        assert!(!follows(&b, "http://other.co.uk/") && !follows(&b, "http://myshop.co.uk/"));
        let b = bounds(
            Scope::Domain,
            &[],
            &[],
            &["http://127.0.0.1/", "http://localhost/"],
        );
        assert!(follows(&b, "http://localhost:3/") && follows(&b, "http://127.0.0.1/"));
        assert!(!follows(&b, "http://1.127.0.0.1.example/") && !follows(&b, "http://0.0.0.1/"));
    }

    #[test]
    fn a_prefix_is_the_directory_of_the_start() {
        let b = bounds(Scope::Prefix, &[], &[], &["http://h/a/b", "http://h/c/"]);
        for (url, wanted) in [
            ("http://h/a/x/y", true),
            ("http://h/a", false),
            ("http://h/c/d", true),
            ("http://h/cd", false),
            ("http://g/a/x", false),
        ] {
            assert_eq!(follows(&b, url), wanted, "{url}");
        }
    }

    #[test]
    fn patterns_narrow_the_scope() {
        let b = bounds(
            Scope::Host,
            &["/keep/", r"\.html$"],
            &["private"],
            &["http://h/"],
        );
        assert!(follows(&b, "http://h/keep/x") && follows(&b, "http://h/x.html"));
        assert!(!follows(&b, "http://h/x") && !follows(&b, "http://h/keep/private"));
        let rules = CrawlRules {
            include: vec!["(".to_owned()],
            exclude: vec!["[".to_owned()],
            ..CrawlRules::default()
        };
        assert_eq!(Bounds::new(&rules, &[]).unwrap_err().0.len(), 2);
    }
}
