//! What can be set on a built-in site: latency, faults, hidden limits and how it refuses.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use thiserror::Error;

use super::dice;
use super::limits::{Ban, Limit};
use super::schedule::Step;

/// The class of `/robots.txt`. Of a site's knobs only its latency and what is set for this class apply to it.
pub const ROBOTS: &str = "robots";

/// The knobs of a site. The default answers everything at once and refuses nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Knobs {
    /// Decides which resources and attempts fail and how long answers take.
    pub seed: u64,
    /// Spent between the request and the answer, while the request counts as in flight.
    pub latency: Latency,
    /// The first that picks a request decides it.
    pub faults: Vec<Fault>,
    /// All must admit a request.
    pub limits: Vec<Limit>,
    /// How `limits` change later on.
    pub steps: Vec<Step>,
    /// How a request is refused.
    pub refusal: Refusal,
    /// What follows too many refusals.
    pub ban: Option<Ban>,
    /// Per class of endpoints, by the names of [`super::Content::classes`] or [`ROBOTS`].
    pub endpoints: BTreeMap<String, EndpointKnobs>,
}

/// The knobs of one class of endpoints.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndpointKnobs {
    /// In place of the site's.
    pub latency: Option<Latency>,
    /// In place of the site's.
    pub faults: Option<Vec<Fault>>,
    /// Beside the site's.
    pub limits: Vec<Limit>,
    /// In place of the site's.
    pub refusal: Option<Refusal>,
}

/// How long an answer takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Latency {
    /// Always this long.
    Fixed(Duration),
    /// Between the two, drawn for each attempt on each resource.
    Between(Duration, Duration),
    /// At least the first, and beyond it a time with an exponential distribution, whose mean is the second.
    Tail(Duration, Duration),
}

impl Default for Latency {
    fn default() -> Self {
        Self::Fixed(Duration::ZERO)
    }
}

impl Latency {
    pub(super) fn pick(&self, seed: u64, resource: &[u8], attempt: u32) -> Duration {
        match self {
            Self::Fixed(latency) => *latency,
            Self::Between(least, most) => {
                *least
                    + most
                        .saturating_sub(*least)
                        .mul_f64(unit(seed, resource, attempt))
            }
            // One minus the draw is never zero, and the longest is some 37 times the mean.
            Self::Tail(least, mean) => {
                *least + mean.mul_f64(-(1.0 - unit(seed, resource, attempt)).ln())
            }
        }
    }
}

/// Evenly from 0 to below 1.
fn unit(seed: u64, resource: &[u8], attempt: u32) -> f64 {
    let draw = dice::draw(seed, &[b"latency", resource, &attempt.to_le_bytes()]);
    (draw >> 11) as f64 / (1_u64 << 53) as f64
}

/// Something that goes wrong with an admitted request.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// With which requests.
    pub pick: Pick,
}

/// What can go wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// An answer with this status and a short text.
    Status(u16),
    /// The connection is reset after the latency, without a byte.
    Reset,
    /// The head promises the whole body, half of it comes, then the connection ends.
    Truncate,
    /// No answer at all, until the client goes away.
    Hang,
    /// 200 with this body in place of the right one.
    Replace {
        /// Media type.
        content_type: String,
        /// Body; may be empty.
        body: String,
    },
}

/// Which requests a fault befalls. A resource is method, target and body; an attempt is an admitted request for it.
#[derive(Clone, Debug, PartialEq)]
pub enum Pick {
    /// The first `attempts` attempts on a share (0 to 1) of the resources.
    Resources {
        /// Of all resources.
        share: f64,
        /// How many attempts fail; `u32::MAX`: all.
        attempts: u32,
    },
    /// A share (0 to 1) of all attempts, each drawn by itself.
    Attempts {
        /// Of all attempts.
        share: f64,
    },
    /// The first `attempts` attempts on resources whose path and query start like this.
    Target {
        /// For example `/api/item/17`.
        prefix: String,
        /// How many attempts fail; `u32::MAX`: all.
        attempts: u32,
    },
    /// By order of admission, from 1: of the site, or of the class where the fault is set for one.
    Arrivals(Range<u64>),
}

/// An admitted request, as far as faults look at it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt<'a> {
    pub(super) resource: &'a [u8],
    pub(super) target: &'a str,
    /// From 1.
    pub(super) attempt: u32,
    /// From 1.
    pub(super) arrival: u64,
}

impl Pick {
    pub(super) fn takes(&self, seed: u64, nth: usize, request: Attempt<'_>) -> bool {
        // The place of the fault in its list is part of the draw, so that two faults do not pick the same resources.
        let nth = (nth as u64).to_le_bytes();
        match self {
            Self::Resources { share, attempts } => {
                request.attempt <= *attempts
                    && dice::within(
                        dice::draw(seed, &[b"resource", &nth, request.resource]),
                        *share,
                    )
            }
            Self::Attempts { share } => {
                let attempt = request.attempt.to_le_bytes();
                let parts: [&[u8]; 4] = [b"attempt", &nth, request.resource, &attempt];
                dice::within(dice::draw(seed, &parts), *share)
            }
            Self::Target { prefix, attempts } => {
                request.attempt <= *attempts && request.target.starts_with(prefix.as_str())
            }
            Self::Arrivals(range) => range.contains(&request.arrival),
        }
    }
}

/// How a site says no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// 429, 503, 403, or 200 where the body says it.
    pub status: u16,
    /// Media type of the body.
    pub content_type: String,
    /// The body.
    pub body: String,
    /// Whether and how the wait is told.
    pub retry_after: RetryAfter,
    /// How long the refusal itself takes.
    pub after: Duration,
}

impl Default for Refusal {
    fn default() -> Self {
        Self::status(429)
    }
}

impl Refusal {
    /// A refusal by status, without `Retry-After`.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self {
            status,
            content_type: "text/plain".to_owned(),
            body: "refused\n".to_owned(),
            retry_after: RetryAfter::Absent,
            after: Duration::ZERO,
        }
    }

    /// Status 200 and a JSON body with `code`, as many platforms do it.
    #[must_use]
    pub fn in_body(code: i64) -> Self {
        Self {
            status: 200,
            content_type: "application/json".to_owned(),
            body: format!(r#"{{"code":{code},"msg":"too many requests","data":null}}"#),
            ..Self::default()
        }
    }

    /// The same with another `Retry-After`.
    #[must_use]
    pub fn retry_after(mut self, retry_after: RetryAfter) -> Self {
        self.retry_after = retry_after;
        self
    }
}

/// The `Retry-After` field of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryAfter {
    /// None.
    Absent,
    /// Whole seconds, rounded up, at least 1.
    Seconds,
    /// An HTTP-date that is not before the wait is over.
    Date,
    /// This text, whatever the wait is.
    Text(String),
}

/// A knob that cannot be set so.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KnobError {
    /// There is no site of this name.
    #[error("no built-in site is called {0:?}")]
    Site(String),
    /// Two sites have this name, or there is none at all.
    #[error("the sites need distinct names, and there must be one at least: {0:?}")]
    Names(String),
    /// The site has no such class of endpoints.
    #[error("site {site:?} has no endpoint class {class:?}; it has {known}")]
    Class {
        /// The site.
        site: String,
        /// What was asked for.
        class: String,
        /// What there is.
        known: String,
    },
    /// A number out of range.
    #[error("site {site:?}, {key}: {problem}")]
    Value {
        /// The site.
        site: String,
        /// The knob.
        key: String,
        /// What is wrong, and what is allowed.
        problem: &'static str,
    },
}

impl Knobs {
    /// Checks the numbers and the names of classes.
    pub(super) fn check(&self, site: &str, classes: &[&str]) -> Result<(), KnobError> {
        let value = |key: String, problem| KnobError::Value {
            site: site.to_owned(),
            key,
            problem,
        };
        check_rules(&self.faults, &self.limits).map_err(|(key, problem)| value(key, problem))?;
        for (nth, step) in self.steps.iter().enumerate() {
            check_rules(&[], &step.limits)
                .map_err(|(key, problem)| value(format!("steps[{nth}].{key}"), problem))?;
        }
        if let Some(problem) = self.ban.as_ref().and_then(Ban::fault) {
            return Err(value("ban".to_owned(), problem));
        }
        for (class, knobs) in &self.endpoints {
            if class != ROBOTS && !classes.contains(&class.as_str()) {
                return Err(KnobError::Class {
                    site: site.to_owned(),
                    class: class.clone(),
                    known: format!("{}, {ROBOTS}", classes.join(", ")),
                });
            }
            check_rules(knobs.faults.as_deref().unwrap_or_default(), &knobs.limits)
                .map_err(|(key, problem)| value(format!("endpoints.{class}.{key}"), problem))?;
        }
        Ok(())
    }
}

fn check_rules(faults: &[Fault], limits: &[Limit]) -> Result<(), (String, &'static str)> {
    for (nth, fault) in faults.iter().enumerate() {
        if let Pick::Resources { share, .. } | Pick::Attempts { share } = &fault.pick
            && !(0.0..=1.0).contains(share)
        {
            return Err((format!("faults[{nth}]"), "share must be between 0 and 1"));
        }
        if let FaultKind::Status(status) = fault.kind
            && !(200..=599).contains(&status)
        {
            return Err((
                format!("faults[{nth}]"),
                "status must be between 200 and 599",
            ));
        }
    }
    for (nth, limit) in limits.iter().enumerate() {
        if let Some(problem) = limit.fault() {
            return Err((format!("limits[{nth}]"), problem));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
