//! Which hosts and paths a cookie belongs to (RFC 6265 §5.1.3, §5.1.4), and where one site ends (public suffixes).

use std::net::{Ipv4Addr, Ipv6Addr};

use url::Url;

/// Whether `host` is an address and has no subdomains. IPv6 is written in brackets, as URLs have it.
pub(super) fn is_address(host: &str) -> bool {
    let bare = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    bare.unwrap_or(host).parse::<Ipv6Addr>().is_ok() || host.parse::<Ipv4Addr>().is_ok()
}

/// Whether `host` is `domain` or lies below it (RFC 6265 §5.1.3). Both in lower case.
#[must_use]
pub fn domain_matches(host: &str, domain: &str) -> bool {
    if host == domain {
        return true;
    }
    host.strip_suffix(domain)
        .is_some_and(|rest| rest.ends_with('.'))
        && !domain.is_empty()
        && !is_address(host)
}

/// Whether nobody owns all of `domain`: cookies for it would be seen by strangers.
pub(super) fn is_public_suffix(domain: &str) -> bool {
    !is_address(domain) && psl::domain_str(domain).is_none()
}

/// The domain that somebody registered and `host` belongs to; the host itself where there is none.
#[must_use]
pub fn registrable(host: &str) -> &str {
    if is_address(host) {
        return host;
    }
    psl::domain_str(host).unwrap_or(host)
}

/// Whether a request for `path` takes cookies of `cookie_path` along (RFC 6265 §5.1.4).
pub(super) fn path_matches(path: &str, cookie_path: &str) -> bool {
    path.strip_prefix(cookie_path)
        .is_some_and(|rest| rest.is_empty() || cookie_path.ends_with('/') || rest.starts_with('/'))
}

/// The path of a cookie that names none: the directory of the URL that set it (RFC 6265 §5.1.4).
pub(super) fn default_path(url: &Url) -> &str {
    match url.path().rfind('/') {
        None | Some(0) => "/",
        Some(end) => &url.path()[..end],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_matches_itself_and_what_lies_below_but_never_an_address() {
        for (host, domain, matches) in [
            ("example.com", "example.com", true),
            ("www.example.com", "example.com", true),
            ("a.b.example.com", "example.com", true),
            ("example.com", "www.example.com", false),
            ("badexample.com", "example.com", false),
            ("example.com.evil.org", "example.com", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "0.0.1", false),
            ("[::1]", "[::1]", true),
            ("example.com", "", false),
            ("example.com.", "", false),
        ] {
            assert_eq!(domain_matches(host, domain), matches, "{host} {domain}");
        }
    }

    #[test]
    fn public_suffixes_belong_to_nobody() {
        for (domain, public) in [
            ("com", true),
            ("co.uk", true),
            ("github.io", true),
            ("localhost", true),
            ("example.co.uk", false),
            ("a.github.io", false),
            ("127.0.0.1", false),
        ] {
            assert_eq!(is_public_suffix(domain), public, "{domain}");
        }
        assert_eq!(registrable("www.example.co.uk"), "example.co.uk");
        assert_eq!(registrable("localhost"), "localhost");
        assert_eq!(registrable("10.0.0.1"), "10.0.0.1");
    }

    #[test]
    fn paths_match_whole_segments() {
        for (path, cookie_path, matches) in [
            ("/", "/", true),
            ("/a", "/", true),
            ("/a", "/a", true),
            ("/a/", "/a", true),
            ("/a/b", "/a", true),
            ("/a/b", "/a/", true),
            ("/ab", "/a", false),
            ("/a", "/a/", false),
            ("/", "/a", false),
        ] {
            assert_eq!(
                path_matches(path, cookie_path),
                matches,
                "{path} {cookie_path}"
            );
        }
        for (url, path) in [
            ("http://h.example", "/"),
            ("http://h.example/a", "/"),
            ("http://h.example/a/", "/a"),
            ("http://h.example/a/b?c=/d/", "/a"),
        ] {
            assert_eq!(default_path(&Url::parse(url).unwrap()), path, "{url}");
        }
    }
}
