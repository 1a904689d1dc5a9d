//! What can be set on a built-in site: latency, faults, hidden limits and how it refuses.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use thiserror::Error;

use super::dice;
use super::limits::{Ban, Limit};

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
                let draw = dice::draw(seed, &[b"latency", resource, &attempt.to_le_bytes()]);
                let span = most.saturating_sub(*least);
                *least + span.mul_f64((draw >> 11) as f64 / (1_u64 << 53) as f64)
            }
        }
    }
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
mod tests {
    use super::*;

    fn attempt(resource: &str, attempt: u32) -> Attempt<'_> {
        Attempt {
            resource: resource.as_bytes(),
            target: resource,
            attempt,
            arrival: 1,
        }
    }

    #[test]
    fn a_picked_resource_fails_its_first_attempts_only() {
        let pick = Pick::Resources {
            share: 1.0 / 7.0,
            attempts: 2,
        };
        let picked: Vec<String> = (0..700)
            .map(|n| format!("/item/{n}"))
            .filter(|name| pick.takes(3, 0, attempt(name, 1)))
            .collect();
        assert!((60..140).contains(&picked.len()), "{}", picked.len());
        assert!(picked.iter().all(|name| pick.takes(3, 0, attempt(name, 2))));
        assert!(!picked.iter().any(|name| pick.takes(3, 0, attempt(name, 3))));
    }

    #[test]
    fn attempts_are_drawn_each_by_itself() {
        let pick = Pick::Attempts { share: 0.5 };
        let draws: Vec<bool> = (1..=20)
            .map(|n| pick.takes(3, 0, attempt("/", n)))
            .collect();
        assert!(draws.contains(&true) && draws.contains(&false));
    }

    #[test]
    fn targets_and_arrivals_are_picked_exactly() {
        let target = Pick::Target {
            prefix: "/item/7".to_owned(),
            attempts: u32::MAX,
        };
        assert!(target.takes(0, 0, attempt("/item/7?token=x", 99)));
        assert!(!target.takes(0, 0, attempt("/item/8", 1)));
        let arrivals = Pick::Arrivals(7..10);
        let hits = (1..20)
            .filter(|arrival| {
                let arrival = *arrival;
                arrivals.takes(
                    0,
                    0,
                    Attempt {
                        arrival,
                        ..attempt("/", 1)
                    },
                )
            })
            .count();
        assert_eq!(hits, 3);
    }

    #[test]
    fn latency_stays_between_its_bounds() {
        let (least, most) = (Duration::from_millis(10), Duration::from_millis(30));
        let latency = Latency::Between(least, most);
        let picks: Vec<Duration> = (0..50).map(|n| latency.pick(1, b"x", n)).collect();
        assert!(picks.iter().all(|pick| (least..=most).contains(pick)));
        assert!(picks.iter().any(|pick| pick != &picks[0]));
        assert_eq!(picks[3], latency.pick(1, b"x", 3));
    }

    #[test]
    fn wrong_knobs_are_named() {
        let mut knobs = Knobs::default();
        knobs
            .endpoints
            .insert("serch".to_owned(), EndpointKnobs::default());
        let text = knobs.check("api", &["search"]).unwrap_err().to_string();
        assert!(
            text.contains("serch") && text.contains("search, robots"),
            "{text}"
        );

        let knobs = Knobs {
            faults: vec![Fault {
                kind: FaultKind::Reset,
                pick: Pick::Attempts { share: 1.5 },
            }],
            ..Knobs::default()
        };
        let text = knobs.check("api", &[]).unwrap_err().to_string();
        assert!(
            text.contains("faults[0]") && text.contains("between 0 and 1"),
            "{text}"
        );
    }
}
