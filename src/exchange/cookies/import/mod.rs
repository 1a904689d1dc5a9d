//! Sessions from elsewhere: what browsers and their tools write, told apart by its content.
//!
//! A text that is not understood as a whole gives nothing. No error holds a value.

mod json;
mod netscape;
mod raw;

use thiserror::Error;

use super::domain;
use super::parse::{self, LONGEST_MILLIS, Refused};
use crate::model::{Cookie, UnixMillis};

/// Problems of one text that are told; more of them help nobody.
const MOST_PROBLEMS: usize = 10;

/// The forms that are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `cookies.txt`, as curl, wget and browser extensions write it.
    Netscape,
    /// A JSON export: an array of cookies, or an object with one called `cookies`.
    Json,
    /// The value of a `Cookie` header.
    Header,
}

impl Form {
    /// What it is called in messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Netscape => "Netscape cookies.txt",
            Self::Json => "JSON export",
            Self::Header => "Cookie header",
        }
    }
}

/// Why a text cannot be imported: all problems, each with its line or its number in the list.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", self.0.join("\n"))]
pub struct ImportErrors(pub Vec<String>);

impl ImportErrors {
    fn one(text: impl Into<String>) -> Self {
        Self(vec![text.into()])
    }
}

/// Whose cookies are wanted, and what a form does not say itself.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// Registrable domains that belong to the site. No other cookie is taken.
    pub own: &'a [String],
    /// The domain of a header's cookies, which names none; they go to its subdomains too.
    pub domain: &'a str,
    /// Whether a header's cookies are for https only.
    pub secure: bool,
}

/// What a text gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The form it had.
    pub form: Form,
    /// The site's own cookies; of two of one key the later.
    pub cookies: Vec<Cookie>,
    /// Cookies of other sites, which are left out.
    pub foreign: usize,
    /// The site's own cookies that have ended, which are left out.
    pub expired: usize,
}

/// Reads an import at `now`.
///
/// # Errors
/// When the text has none of the forms, or a part of it cannot be understood.
pub fn read(text: &str, wanted: &Wanted<'_>, now: UnixMillis) -> Result<Imported, ImportErrors> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (form, found) = match form_of(text)? {
        Form::Json => (Form::Json, json::read(text)),
        Form::Netscape => (Form::Netscape, netscape::read(text)),
        Form::Header => (Form::Header, Ok(raw::read(text, wanted))),
    };
    let mut imported = Imported {
        form,
        cookies: Vec::new(),
        foreign: 0,
        expired: 0,
    };
    let mut problems = Problems::default();
    for Found { place, cookie } in found? {
        // Another site's cookies may be as odd as they like.
        if !wanted
            .own
            .iter()
            .any(|own| own == domain::registrable(&cookie.domain))
        {
            imported.foreign += 1;
            continue;
        }
        let cookie = Cookie {
            expires: cookie
                .expires
                .map(|end| end.min(UnixMillis(now.0.saturating_add(LONGEST_MILLIS)))),
            created: now,
            used: now,
            ..cookie
        };
        match checked(&cookie) {
            Err(why) => problems.add(&place, &why.to_string()),
            Ok(()) if cookie.is_expired(now) => imported.expired += 1,
            Ok(()) => {
                let key = cookie.key();
                imported.cookies.retain(|known| !known.is(&key));
                imported.cookies.push(cookie);
            }
        }
    }
    problems.none()?;
    // Those of one path go in the order of the text.
    for (nth, cookie) in (0_i64..).zip(&mut imported.cookies) {
        cookie.created = UnixMillis(now.0.saturating_add(nth));
    }
    Ok(imported)
}

fn form_of(text: &str) -> Result<Form, ImportErrors> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let Some(first) = lines.next() else {
        return Err(ImportErrors::one("it is empty"));
    };
    let start = first.trim_start();
    if start.starts_with(['[', '{']) {
        return Ok(Form::Json);
    }
    if start.starts_with('#') || first.contains('\t') || netscape::has_spaces_for_tabs(first) {
        return Ok(Form::Netscape);
    }
    if lines.next().is_none() && start.contains('=') {
        return Ok(Form::Header);
    }
    Err(ImportErrors::one(
        "it is none of the known forms; allowed: a Netscape cookies.txt, a JSON export (an array of cookies, or \
         an object with `cookies`), or one line `name=value; name=value` as in a Cookie header",
    ))
}

/// A cookie with where it was found.
struct Found {
    place: String,
    cookie: Cookie,
}

#[derive(Default)]
struct Problems {
    texts: Vec<String>,
    more: usize,
}

impl Problems {
    fn add(&mut self, place: &str, text: &str) {
        match self.texts.len() < MOST_PROBLEMS {
            true => self.texts.push(format!("{place}: {text}")),
            false => self.more += 1,
        }
    }

    fn none(mut self) -> Result<(), ImportErrors> {
        if self.more > 0 {
            self.texts.push(format!("and {} more", self.more));
        }
        match self.texts.is_empty() {
            true => Ok(()),
            false => Err(ImportErrors(self.texts)),
        }
    }
}

/// Whether a jar may hold the cookie.
fn checked(cookie: &Cookie) -> Result<(), Refused> {
    parse::check_pair(&cookie.name, &cookie.value)?;
    if !cookie.host_only && domain::is_public_suffix(&cookie.domain) {
        return Err(Refused::PublicSuffix);
    }
    parse::check_prefix(cookie, cookie.path == "/")
}

/// A domain as exports write it: in lower case, with a leading dot where subdomains are meant.
fn domain_of(text: &str) -> Option<(String, bool)> {
    let text = text.trim().to_ascii_lowercase();
    let bare = text.strip_prefix('.').unwrap_or(&text);
    let host = url::Host::parse(bare).ok()?.to_string();
    Some((host, text.starts_with('.')))
}

/// The end that a number of seconds means; zero and less mean the session's.
fn end_of(seconds: f64) -> Option<UnixMillis> {
    // Out of range saturates, and the end is cut to the longest allowed anyway.
    (seconds > 0.0).then_some(UnixMillis((seconds * 1000.0) as i64))
}

#[cfg(test)]
mod tests;
