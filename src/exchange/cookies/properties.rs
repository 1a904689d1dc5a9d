//! What holds whatever is set and asked.

use proptest::prelude::*;
use url::Url;

use super::*;
use crate::model::UnixMillis;

const NOW: i64 = 1_700_000_000_000;

/// Hosts that are near to each other, and to what must not match.
fn host() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "example.com",
        "www.example.com",
        "a.b.example.com",
        "badexample.com",
        "com",
        "co.uk",
        "shop.co.uk",
        "github.io",
        "me.github.io",
        "localhost",
        "127.0.0.1",
        "1.127.0.0.1.example.com",
        "[::1]",
    ])
}

fn url() -> impl Strategy<Value = Url> {
    let path = prop::sample::select(vec!["/", "/a", "/a/", "/a/b", "/ab", "/a/b/c?x=/y"]);
    (any::<bool>(), host(), path).prop_map(|(tls, host, path)| {
        let scheme = if tls { "https" } else { "http" };
        Url::parse(&format!("{scheme}://{host}{path}")).unwrap()
    })
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    let domain = host().prop_map(|host| format!("; Domain=.{host}"));
    let path = prop::sample::select(vec!["; Path=/", "; Path=/a", "; Path=/a/b", "; path"]);
    let more = prop::sample::select(vec!["", "; Secure", "; Max-Age=5", "; Max-Age=0", ";;=;"]);
    prop_oneof![
        2 => prop::collection::vec(any::<u8>(), 0..120),
        1 => "[ -~]{0,80}".prop_map(String::into_bytes),
        6 => ("[a-d]", "[ -:<-~]{0,9}", prop::option::of(domain), path, more).prop_map(
            |(name, value, domain, path, more)| {
                let domain = domain.unwrap_or_default();
                format!("{name}={value}{domain}{path}{more}").into_bytes()
            }
        ),
    ]
}

/// The rule in other words than the jar's.
fn may_see(url: &Url, cookie: &crate::model::Cookie, now: UnixMillis) -> bool {
    let host = url.host_str().unwrap();
    let of_host = host == cookie.domain
        || (!cookie.host_only
            && url.domain().is_some()
            && host.ends_with(&format!(".{}", cookie.domain)));
    let base = cookie.path.trim_end_matches('/');
    let of_path = url.path() == cookie.path || url.path().starts_with(&format!("{base}/"));
    of_host
        && of_path
        && (url.scheme() == "https" || !cookie.secure)
        && cookie.expires.is_none_or(|end| end > now)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn no_octets_make_a_line_panic_and_none_that_is_kept_could_split_a_header(
        line in line(),
        url in url(),
    ) {
        if let Ok(cookie) = read(&line, &url, UnixMillis(NOW)) {
            let octets = cookie.name.iter().chain(&cookie.value);
            prop_assert!(octets.clone().all(|byte| !matches!(byte, b';' | b'\r' | b'\n' | 0)));
            prop_assert!(cookie.name.len() + cookie.value.len() <= 4096);
            prop_assert!(cookie.path.starts_with('/'));
        }
        let _ = super::date::parse(&line);
    }

    #[test]
    fn a_cookie_goes_to_those_who_may_see_it_and_to_all_of_them(
        sets in prop::collection::vec((line(), url(), 0..4000_i64), 1..24),
        asked in url(),
    ) {
        let mut jar = Jar::default();
        let mut now = NOW;
        for (line, url, later) in &sets {
            now += later;
            let _ = jar.set(line, url, UnixMillis(now));
        }
        let now = UnixMillis(now);
        let count = jar.iter().filter(|cookie| may_see(&asked, cookie, now)).count();
        let mut before = jar.iter().filter(|cookie| may_see(&asked, cookie, now)).map(|cookie| {
            let mut pair = cookie.name.to_vec();
            if !pair.is_empty() {
                pair.push(b'=');
            }
            pair.extend_from_slice(&cookie.value);
            pair
        }).collect::<Vec<_>>();
        before.sort();
        let header = jar.header(&asked, now, |_| false).unwrap_or_default();
        let text = header.split(|&byte| byte == b';');
        let mut sent: Vec<Vec<u8>> = text
            .enumerate()
            .map(|(nth, pair)| if nth == 0 { pair.to_vec() } else { pair[1..].to_vec() })
            .filter(|pair| count > 0 || !pair.is_empty())
            .collect();
        sent.sort();
        prop_assert_eq!(sent, before);
        // What belongs to nobody is never shared with a neighbour.
        for cookie in jar.iter().filter(|cookie| !cookie.host_only) {
            prop_assert!(!super::domain::is_public_suffix(&cookie.domain));
        }
    }

    #[test]
    fn a_jar_that_is_written_down_comes_back(
        sets in prop::collection::vec((line(), url()), 1..16),
        asked in url(),
        written_after in 0..16_usize,
    ) {
        let now = UnixMillis(NOW);
        let mut jar = Jar::default();
        let mut disk = std::collections::HashMap::new();
        for (nth, (line, url)) in sets.iter().enumerate() {
            let _ = jar.set(line, url, now);
            if nth == written_after || nth + 1 == sets.len() {
                let changes = jar.take_changes();
                for key in changes.removed {
                    disk.remove(&key);
                }
                disk.extend(changes.set.into_iter().map(|cookie| (cookie.key(), cookie)));
            }
        }
        prop_assert_eq!(jar.len(), disk.len());
        let mut back = Jar::restored(disk.into_values().collect(), now);
        prop_assert_eq!(back.header(&asked, now, |_| false), jar.header(&asked, now, |_| false));
    }
}
