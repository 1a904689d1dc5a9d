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
mod tests;
