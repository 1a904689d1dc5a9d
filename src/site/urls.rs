//! URLs: which may be asked, how they are shown, and the encoding of values into them.

use url::{Position, Url};

pub use super::canonical::{Canonical, canonical};
use crate::model::asked_url;

pub(super) const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Characters that mean the same whether they are percent-encoded or not (RFC 3986 §2.3).
pub(super) const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

pub(super) const fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Reads an absolute http or https URL without user information, as it is asked.
///
/// # Errors
/// The reason, for people.
pub fn parse_web(text: &str) -> Result<Url, String> {
    let url = Url::parse(text.trim()).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => {
            "not an absolute URL; write for example https://example.com/".to_owned()
        }
        other => other.to_string(),
    })?;
    check_web(&url)?;
    asked_url(url).ok_or_else(|| "its scheme is not http or https".to_owned())
}

/// Where a link leads, as it is asked: by the URL standard. `None`: nowhere in the web.
pub(super) fn linked(base: &Url, link: &str) -> Option<Url> {
    of_page(base.join(link).ok()?)
}

/// The URL that a page is asked by: without fragment, user name and password. `None`: it is neither http nor https.
pub(super) fn of_page(url: Url) -> Option<Url> {
    let mut url = asked_url(url)?;
    url.set_fragment(None);
    Some(url)
}

/// Whether a URL may be asked at all: http or https, with a host, without user information.
///
/// # Errors
/// The reason, for people.
pub fn check_web(url: &Url) -> Result<(), String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("scheme `{}` is not http or https", url.scheme()));
    }
    if url.host().is_none() {
        return Err("the URL has no host".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            "a URL with a user name or password is refused; allowed: the URL without them, and an `authorization` \
             header in the definition of the site"
                .to_owned(),
        );
    }
    Ok(())
}

/// `host:port`, the lane of a URL in `crawl` mode.
#[must_use]
pub fn authority(url: &Url) -> String {
    format!(
        "{}:{}",
        url.host_str().unwrap_or_default(),
        url.port_or_known_default().unwrap_or_default()
    )
}

/// A URL as it may be shown: without its query and fragment, which may carry tokens.
#[must_use]
pub fn shown(url: &Url) -> String {
    let mut text = url.origin().ascii_serialization();
    text.push_str(&url[Position::BeforePath..Position::AfterPath]);
    if url.query().is_some() {
        text.push_str("?…");
    }
    text
}

/// A text that was given for a URL, as it may be shown: a user name and a password are hidden, whether or not the text
/// is a URL.
#[must_use]
pub fn masked(text: &str) -> String {
    let slash = |c: char| matches!(c, '/' | '\\');
    let start = match text.split_once(':') {
        Some((scheme, rest)) => {
            let behind = rest.trim_start_matches(slash);
            // `http:u:p@h` is a URL as well; `u:p@h` begins with a user.
            let web = ["http", "https"].map(|web| scheme.trim().eq_ignore_ascii_case(web));
            let has_scheme = behind.len() < rest.len() || web.contains(&true);
            if has_scheme {
                text.len() - behind.len()
            } else {
                0
            }
        }
        None => return text.to_owned(),
    };
    let authority = &text[start..];
    let end = authority
        .find(|c: char| slash(c) || matches!(c, '?' | '#'))
        .unwrap_or(authority.len());
    match authority[..end].rfind('@') {
        Some(at) => format!("{}***{}", &text[..start], &authority[at..]),
        None => text.to_owned(),
    }
}

/// Appends `text`, percent-encoded for a path segment or a part of a query.
/// Commas, colons, slashes in queries and the like stay: some sites compare what was signed byte by byte.
pub(super) fn encode_into(out: &mut String, text: &str, in_query: bool) {
    for byte in text.bytes() {
        let keep = is_unreserved(byte)
            || matches!(
                byte,
                b',' | b':' | b'@' | b'!' | b'$' | b'*' | b'(' | b')' | b';'
            )
            || (in_query && matches!(byte, b'/' | b'?'));
        if keep {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_web_urls_without_users_are_taken() {
        assert!(parse_web(" https://a.b/ ").is_ok());
        for bad in [
            "a.b",
            "ftp://a.b/",
            "http://u@a.b/",
            "http://u:p@a.b/",
            "mailto:x@y",
        ] {
            assert!(parse_web(bad).is_err(), "{bad}");
        }
        assert_eq!(authority(&Url::parse("https://a.b/x").unwrap()), "a.b:443");
        assert_eq!(
            authority(&Url::parse("http://[::1]:8080/").unwrap()),
            "[::1]:8080"
        );
    }

    #[test]
    fn what_is_shown_of_a_url_holds_no_secret() {
        let url = Url::parse("http://h:81/a/b?token=x#y").unwrap();
        assert_eq!(shown(&url), "http://h:81/a/b?…");
        for (text, wanted) in [
            ("http://u:p@h/a@b", "http://***@h/a@b"),
            ("http:u:p@h", "http:***@h"),
            ("u:p@h/x", "***@h/x"),
            ("http://h/a@b?c@d", "http://h/a@b?c@d"),
            ("nonsense", "nonsense"),
            ("@somebody", "@somebody"),
            ("http://a@b:c@[::1/", "http://***@[::1/"),
        ] {
            assert_eq!(masked(text), wanted, "{text}");
        }
    }

    #[test]
    fn encoding_leaves_commas() {
        let mut out = String::new();
        encode_into(&mut out, "a,b c&d=é/", true);
        assert_eq!(out, "a,b%20c%26d%3D%C3%A9/");
    }

    proptest! {
        #[test]
        fn a_user_is_never_shown(user in "[a-z:]{0,4}", host in "[a-z.]{1,8}", tail in "(/[a-z@]{0,4})?") {
            for scheme in ["http://", "https:", "http:\\\\", "HTTP:/", "ftp://", "x:"] {
                let shown = masked(&format!("{scheme}{user}SECRET@{host}{tail}"));
                prop_assert!(!shown.contains("SECRET"), "{}", shown);
            }
        }

        #[test]
        fn any_text_as_a_link_leads_to_a_url_that_may_be_asked_or_nowhere(link in "(\\PC{0,40}|[ -~]{0,40}|(http:|//|\\\\|[@:?#%./]|[a-z0-9]){0,12})") {
            let base = Url::parse("http://h.example/a/b?c").unwrap();
            let _ = masked(&link);
            if let Some(url) = linked(&base, &link) {
                prop_assert!(check_web(&url).is_ok());
                prop_assert!(url.fragment().is_none());
                prop_assert!(!authority(&url).contains('@'));
                prop_assert_eq!(linked(&base, url.as_str()), Some(url));
            }
        }

        #[test]
        fn encoded_values_come_back(text in "\\PC{0,20}") {
            let mut out = String::new();
            encode_into(&mut out, &text, true);
            let url = Url::parse(&format!("http://h/?q={out}")).unwrap();
            let back = url.query_pairs().next().map(|(_, v)| v.into_owned()).unwrap_or_default();
            prop_assert_eq!(back, text);
        }
    }
}
