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
