//! What an exchange asks about cookies: a jar that several may share, and who is told that it changed.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use awc::http::header::{COOKIE, HeaderMap, HeaderValue};
use url::Url;

use super::jar::Jar;
use super::parse::trim;
use crate::model::{Headers, UnixMillis};

/// The jar of an account, shared by all who ask in its name.
pub struct Session {
    jar: Mutex<Jar>,
    changed: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    /// A session with what `jar` holds. `changed` is called after each answer that changed the jar; it must not block.
    #[must_use]
    pub fn new(jar: Jar, changed: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            jar: Mutex::new(jar),
            changed: Box::new(changed),
        }
    }

    /// A look at the jar, which nobody else has meanwhile.
    pub fn with<T>(&self, look: impl FnOnce(&mut Jar) -> T) -> T {
        // A jar is whole after each of its steps, so a panic elsewhere does not spoil it.
        look(&mut self.jar.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts the cookies for `url` into one `Cookie` field. Pairs that the request brings itself go first, as they
    /// are, and stand for the jar's of the same name.
    pub(in crate::exchange) fn put_into(&self, url: &Url, headers: &mut HeaderMap) {
        let own: Vec<&[u8]> = headers.get_all(COOKIE).map(HeaderValue::as_bytes).collect();
        let mut all = own.join(&b"; "[..]);
        let names: Vec<&[u8]> = own
            .iter()
            .flat_map(|field| field.split(|&byte| byte == b';'))
            .filter_map(|pair| pair.splitn(2, |&byte| byte == b'=').next())
            .map(trim)
            .collect();
        let kept =
            self.with(|jar| jar.header(url, UnixMillis::now(), |name| names.contains(&name)));
        let Some(kept) = kept else { return };
        if !all.is_empty() {
            all.extend_from_slice(b"; ");
        }
        all.extend_from_slice(&kept);
        // No cookie is kept that could not be a header's value.
        if let Ok(mut value) = HeaderValue::from_bytes(&all) {
            value.set_sensitive(true);
            headers.insert(COOKIE, value);
        }
    }

    /// Takes in every `Set-Cookie` of an answer of `url`, each by itself: one that must not be kept costs no other.
    pub fn heard(&self, url: &Url, headers: &Headers) {
        let mut lines = headers
            .0
            .iter()
            .filter(|(name, _)| name == "set-cookie")
            .peekable();
        if lines.peek().is_none() {
            return;
        }
        let now = UnixMillis::now();
        let changed = self.with(|jar| {
            let before = jar.version();
            for (_, line) in lines {
                // What a server may not set is as if it had not been said.
                let _ = jar.set(line, url, now);
            }
            jar.version() != before
        });
        if changed {
            (self.changed)();
        }
    }
}
