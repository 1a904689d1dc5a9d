//! Where a redirect leads and what of the request goes there. Pure; the caller checks scope, robots and limits.

use bytes::Bytes;
use thiserror::Error;
use url::Url;

use crate::model::{Method, Request};

/// Why a redirect leads nowhere. Texts do not repeat the target: it may carry tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RedirectError {
    /// The target is not a URL, relative to the one asked.
    #[error("the redirect's Location is not a URL")]
    NotAUrl,
    /// The target is neither http nor https.
    #[error("the redirect leads to a scheme other than http and https")]
    Scheme,
    /// The target carries a user name or a password.
    #[error("the redirect's target carries credentials")]
    Credentials,
}

/// The target of a redirect of `base`: relative, protocol-relative and non-ASCII targets by the URL standard.
/// A target without a fragment keeps that of `base` (RFC 9110 §10.2.2).
///
/// # Errors
/// When the target is no URL, not http(s), or carries credentials.
pub fn resolve(base: &Url, location: &str) -> Result<Url, RedirectError> {
    let mut target = base.join(location).map_err(|_| RedirectError::NotAUrl)?;
    if !matches!(target.scheme(), "http" | "https") {
        return Err(RedirectError::Scheme);
    }
    if !target.username().is_empty() || target.password().is_some() {
        return Err(RedirectError::Credentials);
    }
    if target.fragment().is_none() {
        target.set_fragment(base.fragment());
    }
    Ok(target)
}

/// Headers that mean something to any server, and so may go to another origin.
const CROSS_ORIGIN: [&str; 4] = ["accept", "accept-language", "content-type", "user-agent"];

/// The request that follows `request` to `target` after a redirect with `status`.
///
/// 303, and 301 or 302 after a POST, make it a GET without a body (RFC 9110 §15.4); 307 and 308 keep both.
/// On another origin only headers that carry no credential stay, whatever a site calls its own.
#[must_use]
pub fn follow(request: &Request, status: u16, target: Url) -> Request {
    let becomes_get =
        status == 303 || (matches!(status, 301 | 302) && request.method == Method::Post);
    let same_origin = request.url.origin() == target.origin();
    let keeps = |name: &str| {
        let known = || {
            CROSS_ORIGIN
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known))
        };
        (same_origin || known())
            && !(becomes_get && name.to_ascii_lowercase().starts_with("content-"))
    };
    Request {
        method: if becomes_get {
            Method::Get
        } else {
            request.method
        },
        headers: request
            .headers
            .iter()
            .filter(|(name, _)| keeps(name))
            .cloned()
            .collect(),
        body: if becomes_get {
            Bytes::new()
        } else {
            request.body.clone()
        },
        url: target,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn targets_by_the_url_standard() {
        let base = url("http://a.example/dir/rel?x=1#frag");
        for (location, target) in [
            ("sib", "http://a.example/dir/sib#frag"),
            ("?page=2", "http://a.example/dir/rel?page=2#frag"),
            ("../x", "http://a.example/x#frag"),
            ("/abs", "http://a.example/abs#frag"),
            ("//b.example/p", "http://b.example/p#frag"),
            ("https://b.example", "https://b.example/#frag"),
            ("/new#own", "http://a.example/new#own"),
            ("", "http://a.example/dir/rel?x=1#frag"),
            (" /spaced path ", "http://a.example/spaced%20path#frag"),
            ("/中文", "http://a.example/%E4%B8%AD%E6%96%87#frag"),
            (
                "http://bücher.example/",
                "http://xn--bcher-kva.example/#frag",
            ),
            ("http:\\\\b.example\\p", "http://b.example/p#frag"),
            ("HTTP://B.EXAMPLE:80/", "http://b.example/#frag"),
        ] {
            assert_eq!(
                resolve(&base, location).unwrap().as_str(),
                target,
                "{location:?}"
            );
        }
    }

    #[test]
    fn targets_that_are_refused() {
        let base = url("http://a.example/");
        for (location, error) in [
            ("http://", RedirectError::NotAUrl),
            ("http://[::1", RedirectError::NotAUrl),
            ("javascript:alert(1)", RedirectError::Scheme),
            ("file:///etc/passwd", RedirectError::Scheme),
            ("ftp://a.example/", RedirectError::Scheme),
            ("http://user@b.example/", RedirectError::Credentials),
            ("http://:secret@b.example/", RedirectError::Credentials),
        ] {
            assert_eq!(resolve(&base, location), Err(error), "{location:?}");
        }
    }

    fn post() -> Request {
        let header = |name: &str| (name.to_owned(), "v".to_owned());
        Request {
            method: Method::Post,
            url: url("https://a.example/form"),
            headers: [
                "Accept",
                "Content-Type",
                "Cookie",
                "Authorization",
                "X-Api-Key",
            ]
            .map(header)
            .to_vec(),
            body: Bytes::from("a=1"),
        }
    }

    fn names(request: &Request) -> Vec<&str> {
        request
            .headers
            .iter()
            .map(|(name, _)| name.as_str())
            .collect()
    }

    #[test]
    fn method_and_body_survive_as_the_status_says() {
        for (status, method) in [
            (301, Method::Get),
            (302, Method::Get),
            (303, Method::Get),
            (307, Method::Post),
            (308, Method::Post),
        ] {
            let next = follow(&post(), status, url("https://a.example/next"));
            assert_eq!(next.method, method, "{status}");
            assert_eq!(next.body.is_empty(), method == Method::Get, "{status}");
            assert_eq!(
                names(&next).contains(&"Content-Type"),
                method == Method::Post
            );
            assert!(names(&next).contains(&"Cookie"), "{status}");
        }
        let get = Request::get(url("https://a.example/"));
        assert_eq!(
            follow(&get, 301, url("https://a.example/x")).method,
            Method::Get
        );
    }

    #[test]
    fn credentials_stay_with_their_origin() {
        for other in [
            "https://b.example/",
            "http://a.example/",
            "https://a.example:444/",
        ] {
            let next = follow(&post(), 307, url(other));
            assert_eq!(names(&next), ["Accept", "Content-Type"], "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_location_gives_a_url_that_may_be_asked_or_an_error(location in ".{0,80}") {
            if let Ok(target) = resolve(&url("http://a.example/b"), &location) {
                prop_assert!(target.has_host());
                prop_assert!(matches!(target.scheme(), "http" | "https"));
                prop_assert!(target.username().is_empty() && target.password().is_none());
            }
        }
    }
}
