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
mod tests;
