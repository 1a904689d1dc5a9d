//! One `Set-Cookie` line (RFC 6265 §5.2, §5.3; 6265bis §5.6, §5.7), from octets to a cookie or the reason why not.

use bytes::Bytes;
use thiserror::Error;
use url::Url;

use super::{date, domain};
use crate::model::{Cookie, SameSite, UnixMillis};

/// Octets of a name and its value together (6265bis §5.6).
pub(super) const MOST_OCTETS: usize = 4096;
/// Octets of one attribute's value; a longer one is passed over (6265bis §5.6).
const MOST_ATTRIBUTE: usize = 1024;
/// A cookie ends after 400 days at the latest (6265bis §5.5).
pub(super) const LONGEST_MILLIS: i64 = 400 * 86_400_000;

/// Why a cookie is not kept. No text holds a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// It has neither a name nor a value.
    #[error("it has neither name nor value")]
    Empty,
    /// It has an octet that no cookie may have.
    #[error("it has a control character, or a `;`, or a `=` in its name")]
    Octets,
    /// Name and value are too long.
    #[error("name and value are longer than {MOST_OCTETS} octets")]
    TooLong,
    /// Its domain is not that of the host that set it.
    #[error("its domain is not one of the host that set it")]
    ForeignDomain,
    /// Its domain belongs to nobody.
    #[error("its domain is a public suffix, which belongs to nobody")]
    PublicSuffix,
    /// It is for https only, or would replace one that is, and came over http.
    #[error("it is for https, or hides one that is, and was set over http")]
    NotSecure,
    /// It does not keep what its name promises.
    #[error("its name begins with __Host- or __Secure-, but it is not what that promises")]
    Prefix,
}

/// The cookie that `line` sets when `url` answers at `now`. One that is to be removed has ended already.
///
/// # Errors
/// When it must not be kept.
pub fn read(line: &[u8], url: &Url, now: UnixMillis) -> Result<Cookie, Refused> {
    if line.iter().any(|&byte| is_control(byte)) {
        return Err(Refused::Octets);
    }
    let mut parts = line.split(|&byte| byte == b';');
    let (name, value) = match split(parts.next().unwrap_or_default()) {
        (name, Some(value)) => (name, value),
        // 6265bis: what has no `=` is a value without a name.
        (value, None) => (&b""[..], value),
    };
    check_pair(name, value)?;
    let said = Attributes::of(parts, now);

    let host = url.host_str().ok_or(Refused::ForeignDomain)?;
    let secure_url = url.scheme() == "https";
    if said.secure && !secure_url {
        return Err(Refused::NotSecure);
    }
    let (domain, host_only) = domain_of(said.domain, host)?;
    let rooted = said.path.is_some_and(|path| path == b"/");
    let cookie = Cookie {
        name: Bytes::copy_from_slice(name),
        value: Bytes::copy_from_slice(value),
        domain,
        host_only,
        path: said.path.map_or_else(
            || domain::default_path(url).to_owned(),
            |path| String::from_utf8_lossy(path).into_owned(),
        ),
        secure: said.secure,
        http_only: said.http_only,
        same_site: said.same_site,
        expires: said.max_age.or(said.expires),
        created: now,
        used: now,
    };
    check_prefix(&cookie, rooted)?;
    Ok(cookie)
}

/// Whether a name and a value can be those of a cookie.
pub(super) fn check_pair(name: &[u8], value: &[u8]) -> Result<(), Refused> {
    if name.is_empty() && value.is_empty() {
        return Err(Refused::Empty);
    }
    if name.len() + value.len() > MOST_OCTETS {
        return Err(Refused::TooLong);
    }
    let wrong = |&byte: &u8| is_control(byte) || byte == b';';
    if name.iter().any(|byte| wrong(byte) || *byte == b'=') || value.iter().any(wrong) {
        return Err(Refused::Octets);
    }
    Ok(())
}

/// Whether a cookie keeps what its name promises (6265bis §4.1.3, names compared in any case).
pub(super) fn check_prefix(cookie: &Cookie, rooted: bool) -> Result<(), Refused> {
    let starts = |text: &[u8], prefix: &[u8]| {
        text.get(..prefix.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(prefix))
    };
    let (host, secure) = (&b"__Host-"[..], &b"__Secure-"[..]);
    // Without a name, the value stands where a server looks for the name.
    let nameless = cookie.name.is_empty();
    let kept = match () {
        () if nameless => !starts(&cookie.value, host) && !starts(&cookie.value, secure),
        () if starts(&cookie.name, secure) => cookie.secure,
        () if starts(&cookie.name, host) => cookie.secure && cookie.host_only && rooted,
        () => true,
    };
    kept.then_some(()).ok_or(Refused::Prefix)
}

const fn is_control(byte: u8) -> bool {
    (byte < 0x20 && byte != b'\t') || byte == 0x7f
}

/// The domain of a cookie and whether it is for the host alone (RFC 6265 §5.3, steps 4 to 6).
fn domain_of(said: &[u8], host: &str) -> Result<(String, bool), Refused> {
    let said = std::str::from_utf8(said).map_err(|_| Refused::ForeignDomain)?;
    if said.is_empty() {
        return Ok((host.to_owned(), true));
    }
    let said = said.to_ascii_lowercase();
    if said == host && domain::is_public_suffix(&said) {
        return Ok((said, true));
    }
    if !domain::domain_matches(host, &said) {
        return Err(Refused::ForeignDomain);
    }
    if domain::is_public_suffix(&said) {
        return Err(Refused::PublicSuffix);
    }
    Ok((said, false))
}

/// What a line says beside name and value; of several attributes of a name the last one counts.
#[derive(Default)]
struct Attributes<'a> {
    domain: &'a [u8],
    path: Option<&'a [u8]>,
    expires: Option<UnixMillis>,
    max_age: Option<UnixMillis>,
    secure: bool,
    http_only: bool,
    same_site: Option<SameSite>,
}

impl<'a> Attributes<'a> {
    fn of(parts: impl Iterator<Item = &'a [u8]>, now: UnixMillis) -> Self {
        let mut said = Self::default();
        let last = UnixMillis(now.0.saturating_add(LONGEST_MILLIS));
        for (name, value) in parts.map(split) {
            let value = value.unwrap_or_default();
            if value.len() > MOST_ATTRIBUTE {
                continue;
            }
            match name.to_ascii_lowercase().as_slice() {
                b"expires" => {
                    if let Some(at) = date::parse(value) {
                        said.expires = Some(at.min(last));
                    }
                }
                b"max-age" => {
                    if let Some(at) = max_age(value, now) {
                        said.max_age = Some(at.min(last));
                    }
                }
                b"domain" => said.domain = value.strip_prefix(b".").unwrap_or(value),
                b"path" => said.path = value.starts_with(b"/").then_some(value),
                b"secure" => said.secure = true,
                b"httponly" => said.http_only = true,
                b"samesite" => {
                    said.same_site = std::str::from_utf8(value).ok().and_then(SameSite::of);
                }
                _ => {}
            }
        }
        said
    }
}

/// When a cookie of this age ends; zero and less: long ago (RFC 6265 §5.2.2).
fn max_age(value: &[u8], now: UnixMillis) -> Option<UnixMillis> {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    if digits.len() < value.len() {
        return Some(UnixMillis(i64::MIN));
    }
    let seconds = digits.iter().fold(0_i64, |sum, digit| {
        sum.saturating_mul(10)
            .saturating_add(i64::from(digit - b'0'))
    });
    Some(match seconds {
        0 => UnixMillis(i64::MIN),
        _ => UnixMillis(now.0.saturating_add(seconds.saturating_mul(1000))),
    })
}

/// Around the first `=`, without the spaces and tabs around each side.
fn split(part: &[u8]) -> (&[u8], Option<&[u8]>) {
    match part.iter().position(|&byte| byte == b'=') {
        Some(at) => (trim(&part[..at]), Some(trim(&part[at + 1..]))),
        None => (trim(part), None),
    }
}

/// Without spaces and tabs at both ends; other white space is part of the text.
pub(super) fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_700_000_000_000);

    fn from(url: &str, line: impl AsRef<[u8]>) -> Result<Cookie, Refused> {
        read(line.as_ref(), &Url::parse(url).unwrap(), NOW)
    }

    fn https(line: impl AsRef<[u8]>) -> Result<Cookie, Refused> {
        from("https://www.example.com/a/b", line)
    }

    fn pair(line: impl AsRef<[u8]>) -> (Vec<u8>, Vec<u8>) {
        let cookie = https(line).unwrap();
        (cookie.name.to_vec(), cookie.value.to_vec())
    }

    #[test]
    fn names_and_values_are_kept_as_they_came() {
        for (line, name, value) in [
            ("a=b", "a", "b"),
            ("a=b=c==; Path=/", "a", "b=c=="),
            ("a=", "a", ""),
            ("=b", "", "b"),
            ("b", "", "b"),
            ("  a  =  b  ", "a", "b"),
            ("\ta\t=\tb\t;", "a", "b"),
            ("a=\"b c\"", "a", "\"b c\""),
            ("a=\"b", "a", "\"b"),
            ("a=\"b;c\"", "a", "\"b"),
            ("a b=c d", "a b", "c d"),
            ("a=b,c=d", "a", "b,c=d"),
            ("a={\"x\":[1,2]}", "a", "{\"x\":[1,2]}"),
            ("a=中文", "a", "中文"),
            ("Expires=Max-Age", "Expires", "Max-Age"),
        ] {
            assert_eq!(pair(line), (name.into(), value.into()), "{line:?}");
        }
        assert_eq!(pair(b"\xff=\x80\xfe"), (vec![0xff], vec![0x80, 0xfe]));
    }

    #[test]
    fn what_has_nothing_or_a_control_character_is_refused() {
        for line in ["", "=", ";", " = ; Path=/", "; a=b"] {
            assert_eq!(https(line), Err(Refused::Empty), "{line:?}");
        }
        for line in [
            "a=\0",
            "a\u{1}=b",
            "a=b\r\n",
            "a=b; Path=/\u{7f}",
            "a=b\nc=d",
        ] {
            assert_eq!(https(line), Err(Refused::Octets), "{line:?}");
        }
    }

    #[test]
    fn sizes_are_bounded() {
        let fits = format!("a={}", "b".repeat(MOST_OCTETS - 1));
        assert!(https(&fits).is_ok());
        assert_eq!(https(fits + "b"), Err(Refused::TooLong));
        let path = format!("a=b; Path=/{}", "p".repeat(MOST_ATTRIBUTE - 1));
        assert_eq!(https(&path).unwrap().path.len(), MOST_ATTRIBUTE);
        assert_eq!(https(path + "p").unwrap().path, "/a", "passed over");
    }

    #[test]
    fn domains_of_the_host_only() {
        for (url, domain, kept) in [
            (
                "http://www.example.com",
                "example.com",
                Ok(("example.com", false)),
            ),
            (
                "http://www.example.com",
                ".example.com",
                Ok(("example.com", false)),
            ),
            (
                "http://www.example.com",
                "WWW.Example.COM",
                Ok(("www.example.com", false)),
            ),
            ("http://www.example.com", "", Ok(("www.example.com", true))),
            ("http://www.example.com", ".", Ok(("www.example.com", true))),
            (
                "http://www.example.com",
                "..example.com",
                Err(Refused::ForeignDomain),
            ),
            (
                "http://www.example.com",
                "other.com",
                Err(Refused::ForeignDomain),
            ),
            (
                "http://www.example.com",
                "api.example.com",
                Err(Refused::ForeignDomain),
            ),
            (
                "http://www.example.com",
                "ample.com",
                Err(Refused::ForeignDomain),
            ),
            ("http://www.example.com", "com", Err(Refused::PublicSuffix)),
            (
                "http://www.example.co.uk",
                "co.uk",
                Err(Refused::PublicSuffix),
            ),
            (
                "http://me.github.io",
                "github.io",
                Err(Refused::PublicSuffix),
            ),
            ("http://github.io", "github.io", Ok(("github.io", true))),
            ("http://localhost", "localhost", Ok(("localhost", true))),
            ("http://127.0.0.1", "127.0.0.1", Ok(("127.0.0.1", false))),
            ("http://127.0.0.1", "0.0.1", Err(Refused::ForeignDomain)),
            ("http://[::1]", "", Ok(("[::1]", true))),
            (
                "http://xn--bcher-kva.example",
                "bücher.example",
                Err(Refused::ForeignDomain),
            ),
        ] {
            let cookie = from(url, format!("a=b; Domain={domain}"));
            let found = cookie.as_ref().map(|c| (c.domain.as_str(), c.host_only));
            assert_eq!(found, kept.as_ref().map(|kept| *kept), "{url} {domain}");
        }
        let twice = https("a=b; Domain=other.com; domain=example.com").unwrap();
        assert_eq!(twice.domain, "example.com", "the last one counts");
    }

    #[test]
    fn paths_said_and_not_said() {
        for (attribute, path) in [
            ("Path=/", "/"),
            ("Path=/x/y", "/x/y"),
            ("path = /x ", "/x"),
            ("Path=", "/a"),
            ("Path", "/a"),
            ("Path=x", "/a"),
            ("Path=/x; Path=", "/a"),
            ("Other=/x", "/a"),
        ] {
            assert_eq!(
                https(format!("a=b; {attribute}")).unwrap().path,
                path,
                "{attribute}"
            );
        }
    }

    #[test]
    fn ends_by_age_then_by_date() {
        let end = |attributes: &str| {
            let cookie = https(format!("a=b; {attributes}")).unwrap();
            cookie.expires.map(|end| end.0.saturating_sub(NOW.0))
        };
        let ended = |attributes: &str| https(format!("a=b; {attributes}")).unwrap().is_expired(NOW);
        assert_eq!(end("Secure"), None);
        assert_eq!(end("Max-Age=60"), Some(60_000));
        assert_eq!(
            end("max-age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT"),
            Some(60_000)
        );
        assert_eq!(
            end("Max-Age=60; Max-Age=x; Max-Age=+5; Max-Age="),
            Some(60_000)
        );
        assert_eq!(
            end("Max-Age=99999999999999999999999999"),
            Some(LONGEST_MILLIS)
        );
        assert_eq!(
            end("Expires=Fri, 31 Dec 9999 23:59:59 GMT"),
            Some(LONGEST_MILLIS)
        );
        assert_eq!(end("Expires=soon"), None);
        assert_eq!(end("Expires=Tue, 14 Nov 2023 22:13:21 GMT"), Some(1000));
        for gone in [
            "Max-Age=0",
            "Max-Age=-1",
            "Max-Age=-99999999999999999999",
            "Expires=Thu, 01 Jan 1970 00:00:00 GMT",
            "Expires=Thu, 01-Jan-70 00:00:01 GMT",
        ] {
            assert!(ended(gone), "{gone}");
        }
    }

    #[test]
    fn secure_cookies_come_over_https_only() {
        let cookie = https("a=b; secure=anything; HTTPONLY; SameSite=lax").unwrap();
        assert!(cookie.secure && cookie.http_only);
        assert_eq!(cookie.same_site, Some(SameSite::Lax));
        let plain = from("http://www.example.com/", "a=b; Secure");
        assert_eq!(plain, Err(Refused::NotSecure));
    }

    #[test]
    fn prefixes_promise() {
        for (line, kept) in [
            ("__Secure-a=b; Secure", true),
            ("__Secure-a=b", false),
            ("__secure-a=b", false),
            ("__Host-a=b; Secure; Path=/", true),
            ("__Host-a=b; Secure", false),
            ("__Host-a=b; Path=/", false),
            ("__Host-a=b; Secure; Path=/; Domain=www.example.com", false),
            ("__HOST-a=b", false),
            ("=__Host-a=b; Secure; Path=/", false),
            ("__Secure-a", false),
            ("__Hosta=b", true),
        ] {
            let found = https(line);
            assert_eq!(found.is_ok(), kept, "{line}");
            assert!(kept || found == Err(Refused::Prefix), "{line}");
        }
    }

    #[test]
    fn a_refusal_or_a_debug_never_shows_the_value() {
        let cookie = https("name=s3cret").unwrap();
        assert!(!format!("{cookie:?}").contains("s3cret"));
    }
}
