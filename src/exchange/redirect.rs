//! Where a redirect leads and what of the request goes there. Pure; the caller checks scope, robots and limits.

use std::collections::HashSet;

use bytes::Bytes;
use thiserror::Error;
use url::Url;

use super::head::Head;
use crate::model::{Answer, Method, Request, asked_url};

/// Why a redirect leads nowhere. Texts do not repeat the target: it may carry tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RedirectError {
    /// The target is not a URL, relative to the one asked.
    #[error("the redirect's Location is not a URL")]
    NotAUrl,
    /// Several fields name targets that differ.
    #[error("the redirect has several Locations that differ")]
    Several,
    /// The target is neither http nor https.
    #[error("the redirect leads to a scheme other than http and https")]
    Scheme,
    /// What was sent encrypted would be sent again for all to read.
    #[error("the redirect from https to http would send the request's body unencrypted")]
    Downgrade,
}

impl RedirectError {
    /// Whether the answer makes no sense; else it does, and must not or cannot be followed.
    #[must_use]
    pub const fn is_malformed(self) -> bool {
        matches!(self, Self::NotAUrl | Self::Several)
    }
}

/// Where an answer leads; `None`: it is no redirect. 300 is none: its choices are for people (RFC 9110 §15.4.1).
///
/// # Errors
/// As [`resolve`], and when several `Location` fields differ: one of them may be what somebody smuggled in.
#[must_use]
pub fn target(answer: &Answer) -> Option<Result<Url, RedirectError>> {
    let location = answer.location()?;
    Some(match answer.has_several_locations() {
        true => Err(RedirectError::Several),
        false => resolve(&answer.url, &location),
    })
}

/// Most of a redirect's body that is read: enough to keep the connection of any that a server writes by itself.
const MOST_BODY: u64 = 64 * 1024;

/// Whether a head alone says where to go on.
pub(super) fn leads_on(head: &Head) -> bool {
    let fields = &head.headers.0;
    matches!(head.status, 301 | 302 | 303 | 307 | 308)
        && fields
            .iter()
            .any(|(name, value)| name == "location" && !value.trim_ascii().is_empty())
}

/// Most of the body of an answer with `head` that is read, in bytes, where other answers may have `max`.
pub(super) fn most_body(head: &Head, max: u64) -> u64 {
    if leads_on(head) {
        max.min(MOST_BODY)
    } else {
        max
    }
}

/// The target of a redirect of `base`: relative, protocol-relative and non-ASCII targets by the URL standard.
/// A target without a fragment keeps that of `base` (RFC 9110 §10.2.2). User name and password of a target are dropped.
///
/// # Errors
/// When the target is no URL or not http(s).
pub fn resolve(base: &Url, location: &str) -> Result<Url, RedirectError> {
    let target = base.join(location).map_err(|_| RedirectError::NotAUrl)?;
    let mut target = asked_url(target).ok_or(RedirectError::Scheme)?;
    if target.fragment().is_none() {
        target.set_fragment(base.fragment());
    }
    Ok(target)
}

/// Headers that mean something to any server, and so may go to another origin. `Referer` is not among them: it tells
/// one site of another.
const CROSS_ORIGIN: [&str; 4] = ["accept", "accept-language", "content-type", "user-agent"];

/// The request that follows `request` to `target` after a redirect with `status`.
///
/// 303, and 301 or 302 after a POST, make it a GET without a body (RFC 9110 §15.4); 307 and 308 keep both.
/// On another origin only headers that carry no credential stay, whatever a site calls its own. `Referer` stays as it
/// is on the same origin; none is made.
///
/// # Errors
/// When a body that was sent over https would go over http. A request without one may: it carries nothing by then.
pub fn follow(request: &Request, status: u16, target: Url) -> Result<Request, RedirectError> {
    let becomes_get =
        status == 303 || (matches!(status, 301 | 302) && request.method == Method::Post);
    let body = match becomes_get {
        true => Bytes::new(),
        false => request.body.clone(),
    };
    if !body.is_empty() && request.url.scheme() == "https" && target.scheme() == "http" {
        return Err(RedirectError::Downgrade);
    }
    let same_origin = request.url.origin() == target.origin();
    let keeps = |name: &str| {
        let known = || {
            CROSS_ORIGIN
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known))
        };
        (same_origin || known())
            && !(becomes_get && name.to_ascii_lowercase().starts_with("content-"))
    };
    Ok(Request {
        method: if becomes_get {
            Method::Get
        } else {
            request.method
        },
        headers: request
            .headers
            .iter()
            .filter(|(name, _)| keeps(name))
            .cloned()
            .collect(),
        body,
        url: target,
    })
}

/// The way of one task through redirects: it ends where it is too long, or in a circle.
#[derive(Debug)]
pub struct Chain {
    most: u32,
    hops: u32,
    /// What was asked since a server last gave a cookie.
    asked: HashSet<(Method, Url)>,
}

/// Why a chain of redirects ends without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ChainError {
    /// It is longer than `exchange.max_redirects`.
    #[error("more than {0} redirects")]
    TooLong(u32),
    /// It leads to what was asked before, and nothing has changed since: it would go on for ever.
    #[error("redirects in a circle")]
    Circle,
}

impl Chain {
    /// A chain of at most `most` redirects.
    #[must_use]
    pub fn new(most: u32) -> Self {
        Self {
            most,
            hops: 0,
            asked: HashSet::new(),
        }
    }

    /// Goes on from `request`, which `answer` redirects, to `next`.
    ///
    /// A page that leads to itself and sets a cookie is asked again: with the cookie it may answer. So a circle is one
    /// only if no answer in it set a cookie.
    ///
    /// # Errors
    /// When `next` must not be asked.
    pub fn go_on(
        &mut self,
        request: &Request,
        answer: &Answer,
        next: &Request,
    ) -> Result<(), ChainError> {
        let of = |request: &Request| {
            let mut url = request.url.clone();
            url.set_fragment(None);
            (request.method, url)
        };
        if answer
            .headers
            .0
            .iter()
            .any(|(name, _)| name == "set-cookie")
        {
            self.asked.clear();
        } else {
            self.asked.insert(of(request));
        }
        if self.asked.contains(&of(next)) {
            return Err(ChainError::Circle);
        }
        if self.hops >= self.most {
            return Err(ChainError::TooLong(self.most));
        }
        self.hops += 1;
        Ok(())
    }
}

#[cfg(test)]
#[path = "redirect_tests.rs"]
mod tests;
