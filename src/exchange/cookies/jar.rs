//! The cookies of one account: what is kept, what is sent where, what has to be written down (RFC 6265 §5.3, §5.4).

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use url::Url;

use super::domain;
use super::parse::{self, Refused};
use crate::model::{Cookie, CookieKey, UnixMillis};

/// Cookies of one registrable domain; RFC 6265 §6.1 asks for 50 at least, browsers keep 180.
pub const MOST_OF_A_DOMAIN: usize = 180;
/// Cookies of one jar; RFC 6265 §6.1 asks for 3000 at least.
pub const MOST_OF_A_JAR: usize = 3000;
/// Cookies that go at once when a jar is full, so that each new one does not look through all.
const EVICTED_AT_ONCE: usize = 300;

/// A jar. It keeps at most [`MOST_OF_A_JAR`] cookies, [`MOST_OF_A_DOMAIN`] of one registrable domain; beyond that
/// those go first that were not sent for the longest time.
#[derive(Debug, Default)]
pub struct Jar {
    /// By registrable domain: the only place where the cookies of a host can be. Each in order of creation.
    domains: HashMap<String, Vec<Cookie>>,
    count: usize,
    /// What is not written down as it is.
    unsaved: HashSet<CookieKey>,
    /// So much is not written down that all is written anew.
    unsaved_whole: bool,
    version: u64,
    last_created: UnixMillis,
}

/// What has changed in a jar since it was last asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// `set` is all there is; what else was written down is gone.
    pub whole: bool,
    /// New, or changed.
    pub set: Vec<Cookie>,
    /// Gone.
    pub removed: Vec<CookieKey>,
}

impl Changes {
    /// Whether nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.whole && self.set.is_empty() && self.removed.is_empty()
    }
}

impl Jar {
    /// A jar with what was written down of it. What has ended by `now` goes, and is a change.
    #[must_use]
    pub fn restored(mut cookies: Vec<Cookie>, now: UnixMillis) -> Self {
        cookies.sort_by_key(|cookie| cookie.created);
        let mut jar = Self::default();
        for cookie in cookies {
            if cookie.is_expired(now) {
                jar.unsaved(cookie.key());
                continue;
            }
            jar.last_created = jar.last_created.max(cookie.created);
            jar.domain_of(&cookie.domain).push(cookie);
            jar.count += 1;
        }
        jar.evict(now);
        jar
    }

    /// Cookies kept, those that have ended unseen included.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether it keeps none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All that it keeps, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Cookie> {
        self.domains.values().flatten()
    }

    /// Grows with every change that must be written down.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Takes in one `Set-Cookie` line of an answer of `url`; one that has ended removes what it replaces.
    ///
    /// # Errors
    /// When the cookie must not be kept; the jar is as it was.
    pub fn set(&mut self, line: &[u8], url: &Url, now: UnixMillis) -> Result<(), Refused> {
        let cookie = parse::read(line, url, now)?;
        if url.scheme() != "https" && self.hides_a_secure_one(&cookie) {
            return Err(Refused::NotSecure);
        }
        self.put(cookie, now);
        Ok(())
    }

    /// 6265bis §5.7, "leave secure cookies alone": what came over http must not stand before a secure cookie.
    fn hides_a_secure_one(&self, new: &Cookie) -> bool {
        let known = self.domains.get(domain::registrable(&new.domain));
        known.into_iter().flatten().any(|old| {
            old.secure
                && old.name == new.name
                && (domain::domain_matches(&old.domain, &new.domain)
                    || domain::domain_matches(&new.domain, &old.domain))
                && domain::path_matches(&new.path, &old.path)
        })
    }

    fn put(&mut self, mut new: Cookie, now: UnixMillis) {
        let key = new.key();
        let ended = new.is_expired(now);
        let created = UnixMillis(self.last_created.0.saturating_add(1)).max(new.created);
        let cookies = self.domain_of(&new.domain);
        match cookies.iter().position(|cookie| cookie.is(&key)) {
            Some(at) if ended => {
                cookies.remove(at);
                self.count -= 1;
            }
            None if ended => return,
            Some(at) => {
                let old = &mut cookies[at];
                new.created = old.created;
                let same = old.says_the_same(&new);
                *old = new;
                if same {
                    return;
                }
            }
            None => {
                new.created = created;
                cookies.push(new);
                self.last_created = created;
                self.count += 1;
            }
        }
        let full = cookies_of(&self.domains, &key.domain) > MOST_OF_A_DOMAIN;
        self.unsaved(key);
        if full || self.count > MOST_OF_A_JAR {
            self.evict(now);
        }
    }

    fn domain_of(&mut self, domain: &str) -> &mut Vec<Cookie> {
        let owner = domain::registrable(domain);
        if !self.domains.contains_key(owner) {
            self.domains.insert(owner.to_owned(), Vec::new());
        }
        self.domains.entry(owner.to_owned()).or_default()
    }

    /// Within the bounds again: what has ended first, then of a domain what is not for https (6265bis §5.7), then
    /// what was not sent for the longest time.
    fn evict(&mut self, now: UnixMillis) {
        self.drop_where(|cookie| cookie.is_expired(now));
        let mut gone = HashSet::new();
        for cookies in self.domains.values() {
            let over = cookies.len().saturating_sub(MOST_OF_A_DOMAIN);
            gone.extend(oldest(cookies.iter(), over, |cookie| cookie.secure));
        }
        self.drop_where(|cookie| !gone.is_empty() && gone.contains(&cookie.key()));
        if self.count > MOST_OF_A_JAR {
            let over = self.count - MOST_OF_A_JAR + EVICTED_AT_ONCE;
            let gone: HashSet<CookieKey> = oldest(self.iter(), over, |_| false).collect();
            self.drop_where(|cookie| gone.contains(&cookie.key()));
        }
    }

    fn drop_where(&mut self, goes: impl Fn(&Cookie) -> bool) {
        let mut gone = Vec::new();
        self.domains.retain(|_, cookies| {
            gone.extend(
                cookies
                    .extract_if(.., |cookie| goes(cookie))
                    .map(|c| c.key()),
            );
            !cookies.is_empty()
        });
        self.count -= gone.len();
        for key in gone {
            self.unsaved(key);
        }
    }

    fn unsaved(&mut self, key: CookieKey) {
        self.version += 1;
        if self.unsaved_whole {
            return;
        }
        self.unsaved.insert(key);
        if self.unsaved.len() > 2 * MOST_OF_A_JAR {
            self.unsaved = HashSet::new();
            self.unsaved_whole = true;
        }
    }

    /// The pairs that go to `url` at `now`, in their order: longer paths first, then those set earlier
    /// (RFC 6265 §5.4). Names for which `said` are left out: the request has them already.
    pub fn header(
        &mut self,
        url: &Url,
        now: UnixMillis,
        said: impl Fn(&[u8]) -> bool,
    ) -> Option<Vec<u8>> {
        let host = url.host_str()?;
        let secure = url.scheme() == "https";
        let cookies = self.domains.get_mut(domain::registrable(host))?;
        let goes = |cookie: &Cookie| {
            (cookie.domain == host
                || (!cookie.host_only && domain::domain_matches(host, &cookie.domain)))
                && domain::path_matches(url.path(), &cookie.path)
                && (secure || !cookie.secure)
                && !cookie.is_expired(now)
                && !said(&cookie.name)
        };
        let mut sent: Vec<&mut Cookie> = cookies.iter_mut().filter(|cookie| goes(cookie)).collect();
        sent.sort_by_key(|cookie| (Reverse(cookie.path.len()), cookie.created));
        let mut header = Vec::new();
        for cookie in sent {
            cookie.used = now;
            if !header.is_empty() {
                header.extend_from_slice(b"; ");
            }
            if !cookie.name.is_empty() {
                header.extend_from_slice(&cookie.name);
                header.push(b'=');
            }
            header.extend_from_slice(&cookie.value);
        }
        (!header.is_empty()).then_some(header)
    }

    /// What must be written down; it counts as written from now on.
    pub fn take_changes(&mut self) -> Changes {
        if std::mem::take(&mut self.unsaved_whole) {
            self.unsaved.clear();
            return Changes {
                whole: true,
                set: self.iter().cloned().collect(),
                removed: Vec::new(),
            };
        }
        let mut changes = Changes::default();
        for key in std::mem::take(&mut self.unsaved) {
            let known = self.domains.get(domain::registrable(&key.domain));
            let mut known = known.into_iter().flatten();
            match known.find(|cookie| cookie.is(&key)) {
                Some(cookie) => changes.set.push(cookie.clone()),
                None => changes.removed.push(key),
            }
        }
        changes
    }

    /// What was taken could not be written down, and has to be taken again.
    pub fn give_back(&mut self, changes: Changes) {
        self.unsaved_whole |= changes.whole;
        let set = changes.set.iter().map(Cookie::key);
        for key in set.chain(changes.removed) {
            self.unsaved(key);
        }
    }
}

fn cookies_of(domains: &HashMap<String, Vec<Cookie>>, domain: &str) -> usize {
    domains.get(domain::registrable(domain)).map_or(0, Vec::len)
}

/// The `over` cookies that go first: those for which `stays` last, else those unused for the longest time.
fn oldest<'a>(
    cookies: impl Iterator<Item = &'a Cookie>,
    over: usize,
    stays: impl Fn(&Cookie) -> bool,
) -> impl Iterator<Item = CookieKey> {
    let mut all: Vec<&Cookie> = match over {
        0 => Vec::new(),
        _ => cookies.collect(),
    };
    all.sort_by_key(|cookie| (stays(cookie), cookie.used, cookie.created));
    all.truncate(over);
    all.into_iter().map(Cookie::key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_700_000_000_000);

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn jar(lines: &[(&str, &str)]) -> Jar {
        let mut jar = Jar::default();
        for (from, line) in lines {
            let _ = jar.set(line.as_bytes(), &url(from), NOW);
        }
        jar
    }

    fn sent_at(jar: &mut Jar, to: &str, now: UnixMillis) -> String {
        let header = jar.header(&url(to), now, |_| false).unwrap_or_default();
        String::from_utf8(header).unwrap()
    }

    fn sent(jar: &mut Jar, to: &str) -> String {
        sent_at(jar, to, NOW)
    }

    #[test]
    fn longer_paths_go_first_then_those_set_earlier() {
        let mut jar = jar(&[
            ("http://h.example/x/y/z", "root=1; Path=/"),
            ("http://h.example/x/y/z", "deep=2"),
            ("http://h.example/x/y/z", "mid=3; Path=/x"),
            ("http://h.example/x/y/z", "root2=4; Path=/"),
            ("http://h.example/x/y/z", "root=5; Path=/"),
            ("http://h.example/x/y/z", "same=6; Path=/x"),
            ("http://h.example/x/y/z", "same=7; Path=/"),
        ]);
        let all = "deep=2; mid=3; same=6; root=5; root2=4; same=7";
        assert_eq!(sent(&mut jar, "http://h.example/x/y/z?q"), all);
        assert_eq!(
            sent(&mut jar, "http://h.example/xy"),
            "root=5; root2=4; same=7"
        );
    }

    #[test]
    fn cookies_go_where_their_domain_is_and_nowhere_else() {
        let mut jar = jar(&[
            ("http://www.example.com/", "host=1"),
            ("http://www.example.com/", "wide=2; Domain=example.com"),
            ("http://www.example.com/", "evil=3; Domain=other.example"),
            ("http://www.example.com/", "public=4; Domain=com"),
        ]);
        assert_eq!(sent(&mut jar, "http://www.example.com/"), "host=1; wide=2");
        assert_eq!(sent(&mut jar, "http://api.example.com/"), "wide=2");
        assert_eq!(sent(&mut jar, "http://a.www.example.com/"), "wide=2");
        assert_eq!(sent(&mut jar, "http://example.com/"), "wide=2");
        for other in [
            "http://other.example/",
            "http://notexample.com/",
            "http://com/",
        ] {
            assert_eq!(sent(&mut jar, other), "", "{other}");
        }
    }

    #[test]
    fn a_host_only_and_a_domain_cookie_of_one_name_are_two() {
        let mut jar = jar(&[
            ("http://example.com/", "a=host"),
            ("http://example.com/", "a=wide; Domain=example.com"),
        ]);
        assert_eq!(sent(&mut jar, "http://example.com/"), "a=host; a=wide");
        assert_eq!(sent(&mut jar, "http://x.example.com/"), "a=wide");
    }

    #[test]
    fn ports_do_not_part_cookies_and_secure_ones_stay_on_https() {
        let mut jar = jar(&[
            ("https://h.example:8443/", "s=1; Secure"),
            ("http://h.example:8080/", "p=2"),
        ]);
        assert_eq!(sent(&mut jar, "https://h.example/"), "s=1; p=2");
        assert_eq!(sent(&mut jar, "http://h.example:1/"), "p=2");
    }

    #[test]
    fn http_does_not_overlay_a_secure_cookie() {
        let mut jar = jar(&[(
            "https://h.example/",
            "s=1; Secure; Domain=h.example; Path=/a",
        )]);
        let plain = url("http://www.h.example/a/b");
        assert_eq!(
            jar.set(b"s=2; Path=/a/b", &plain, NOW),
            Err(Refused::NotSecure)
        );
        assert_eq!(
            jar.set(b"s=2; Path=/a/b; Max-Age=0", &plain, NOW),
            Err(Refused::NotSecure)
        );
        assert_eq!(jar.set(b"s=2; Path=/", &plain, NOW), Ok(()), "another path");
        assert_eq!(
            jar.set(b"t=2; Path=/a", &plain, NOW),
            Ok(()),
            "another name"
        );
    }

    #[test]
    fn a_past_end_removes_and_time_does_too() {
        let mut jar = jar(&[
            ("http://h.example/", "a=1"),
            ("http://h.example/", "b=2; Max-Age=10"),
            ("http://h.example/", "c=3"),
            (
                "http://h.example/",
                "c=; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
            ),
            ("http://h.example/", "never=; Max-Age=0"),
        ]);
        assert_eq!(jar.len(), 2);
        assert_eq!(sent(&mut jar, "http://h.example/"), "a=1; b=2");
        let later = UnixMillis(NOW.0 + 10_000);
        assert_eq!(sent_at(&mut jar, "http://h.example/", later), "a=1");
    }

    #[test]
    fn one_malformed_line_among_three_costs_that_line_only() {
        let mut jar = jar(&[
            ("http://h.example/", "a=1"),
            ("http://h.example/", "bad\u{1}=2"),
            ("http://h.example/", "c=3; Expires=nonsense; Foo; =;; Path"),
        ]);
        assert_eq!(sent(&mut jar, "http://h.example/"), "a=1; c=3");
    }

    #[test]
    fn nameless_values_and_odd_values_go_back_as_they_came() {
        let mut jar = jar(&[
            ("http://h.example/", "just a value"),
            ("http://h.example/", "q=\"a b\""),
            ("http://h.example/", "k=a=b=="),
            ("http://h.example/", "empty="),
        ]);
        let all = "just a value; q=\"a b\"; k=a=b==; empty=";
        assert_eq!(sent(&mut jar, "http://h.example/"), all);
    }

    #[test]
    fn changes_are_told_once_and_what_says_the_same_is_none() {
        let home = url("http://h.example/");
        let mut jar = jar(&[("http://h.example/", "a=1"), ("http://h.example/", "b=2")]);
        let changes = jar.take_changes();
        assert_eq!((changes.set.len(), changes.removed.len()), (2, 0));
        let version = jar.version();
        jar.set(b"a=1", &home, UnixMillis(NOW.0 + 5)).unwrap();
        assert!(jar.take_changes().is_empty() && jar.version() == version);
        jar.set(b"a=2", &home, NOW).unwrap();
        jar.set(b"b=; Max-Age=0", &home, NOW).unwrap();
        assert!(jar.version() > version);
        let changes = jar.take_changes();
        assert_eq!((changes.set.len(), changes.removed.len()), (1, 1));
        jar.give_back(changes.clone());
        assert_eq!(jar.take_changes(), changes);
    }

    #[test]
    fn a_jar_comes_back_as_it_was_without_what_has_ended() {
        let mut before = jar(&[
            ("http://h.example/", "b=1"),
            ("http://h.example/", "a=2"),
            ("http://h.example/", "short=3; Max-Age=1"),
        ]);
        let written = before.take_changes().set;
        let mut after = Jar::restored(written, UnixMillis(NOW.0 + 2000));
        assert_eq!(sent(&mut after, "http://h.example/"), "b=1; a=2");
        let changes = after.take_changes();
        assert_eq!((changes.set.len(), changes.removed.len()), (0, 1));
    }

    #[test]
    fn a_domain_is_bounded_and_what_is_used_stays() {
        let mut jar = jar(&[("https://h.example/login", "login=1; Path=/login; Secure")]);
        for n in 0..MOST_OF_A_DOMAIN as i64 + 50 {
            let now = UnixMillis(NOW.0 + n);
            let host = url(&format!("https://w{n}.h.example/"));
            jar.set(format!("n{n}={n}").as_bytes(), &host, now).unwrap();
        }
        assert_eq!(jar.len(), MOST_OF_A_DOMAIN);
        assert_eq!(sent(&mut jar, "https://h.example/login"), "login=1");
        assert_eq!(
            sent(&mut jar, "https://w1.h.example/"),
            "",
            "the oldest went"
        );
    }

    #[test]
    fn a_jar_is_bounded_and_what_is_to_be_written_too() {
        let mut jar = Jar::default();
        for n in 0..4 * MOST_OF_A_JAR as i64 {
            let host = url(&format!("http://h{n}.example/"));
            jar.set(b"a=1", &host, UnixMillis(NOW.0 + n)).unwrap();
            assert!(jar.len() <= MOST_OF_A_JAR);
            assert!(jar.unsaved.len() <= 2 * MOST_OF_A_JAR);
        }
        let changes = jar.take_changes();
        assert!(changes.whole && changes.set.len() == jar.len());
        assert!(jar.take_changes().is_empty());
    }
}
