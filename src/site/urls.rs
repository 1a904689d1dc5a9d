//! URLs: the canonical form that de-duplication compares, and the encoding of values into URLs.

use url::Url;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Characters that mean the same whether they are percent-encoded or not (RFC 3986 §2.3).
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

const fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Upper-case hex, and what needs no encoding decoded (RFC 3986 §6.2.2). `None`: nothing to change.
fn normal_escapes(text: &str) -> Option<String> {
    if !text.contains('%') {
        return None;
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    // Digits decoded right behind a stray `%` would make a new escape with it: those stay encoded.
    let mut stray_end = 0;
    while at < bytes.len() {
        let pair = (bytes[at] == b'%' && at + 2 < bytes.len())
            .then(|| Some((hex_value(bytes[at + 1])?, hex_value(bytes[at + 2])?)))
            .flatten();
        match pair {
            Some((high, low)) => {
                let byte = high * 16 + low;
                if is_unreserved(byte) && out.len() >= stray_end {
                    out.push(byte);
                } else {
                    out.extend([b'%', HEX[high as usize], HEX[low as usize]]);
                }
                at += 3;
            }
            None => {
                if bytes[at] == b'%' {
                    stray_end = out.len() + 3;
                }
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    let out = String::from_utf8(out).ok()?;
    (out != text).then_some(out)
}

/// The canonical form of an http or https URL: no fragment, no default port, no dot segments,
/// percent-encoding normalised. What may change the meaning, such as the order of the query, stays.
#[must_use]
pub fn canonical(url: &Url) -> Url {
    into_canonical(url.clone())
}

/// As [`canonical`], of a URL that is not needed any more: links are many.
pub(super) fn into_canonical(mut url: Url) -> Url {
    url.set_fragment(None);
    if !url.as_str().contains('%') {
        return url;
    }
    if let Some(path) = normal_escapes(url.path()) {
        url.set_path(&path);
    }
    if let Some(query) = url.query().and_then(normal_escapes) {
        url.set_query(Some(&query));
    }
    url
}

/// Reads an absolute http or https URL without user information.
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
    Ok(url)
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
        return Err("a URL with a user name or password is refused".to_owned());
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

    fn canon(text: &str) -> String {
        canonical(&Url::parse(text).unwrap()).into()
    }

    #[test]
    fn equivalent_urls_have_one_form() {
        for (given, wanted) in [
            ("HTTP://Example.COM:80", "http://example.com/"),
            (
                "https://example.com:443/a/../b/./c#x",
                "https://example.com/b/c",
            ),
            ("http://h/%7euser/%2f%e4", "http://h/~user/%2F%E4"),
            ("http://h/a?q=%41%20b&x=%2c", "http://h/a?q=A%20b&x=%2C"),
            ("http://h/?b=2&a=1", "http://h/?b=2&a=1"),
            ("http://h/a//b", "http://h/a//b"),
            ("http://h/100%", "http://h/100%"),
            ("http://h/%%34%31", "http://h/%%341"),
            ("http://h/?", "http://h/?"),
        ] {
            assert_eq!(canon(given), wanted, "{given}");
        }
    }

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
    fn encoding_leaves_commas() {
        let mut out = String::new();
        encode_into(&mut out, "a,b c&d=é/", true);
        assert_eq!(out, "a,b%20c%26d%3D%C3%A9/");
    }

    proptest! {
        #[test]
        fn canonical_is_idempotent(path in "[a-zA-Z0-9/%.~?=&;:@é+ -]{0,40}") {
            if let Ok(url) = Url::parse(&format!("http://h.example/{path}")) {
                let once = canonical(&url);
                prop_assert_eq!(canonical(&once), once);
            }
        }

        #[test]
        fn escaping_unreserved_changes_nothing(text in "[a-zA-Z0-9_~-]{1,12}", lower in any::<bool>()) {
            let escaped: String = text
                .bytes()
                .map(|b| if lower { format!("%{b:02x}") } else { format!("%{b:02X}") })
                .collect();
            prop_assert_eq!(canon(&format!("http://h/{escaped}?q={escaped}")), canon(&format!("http://h/{text}?q={text}")));
        }

        #[test]
        fn fragments_never_matter(fragment in "[ -~]{0,20}") {
            prop_assert_eq!(canon(&format!("http://h/a?b#{fragment}")), "http://h/a?b");
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
