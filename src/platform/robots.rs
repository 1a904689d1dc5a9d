//! robots.txt of the hosts that a PlatformActor visits: fetched through the governor, kept for a day.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use slog::info;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use url::Url;

use super::context::Context;
use super::permit::{self, NoPermit};
use crate::exchange::{Robots, resolve, robots_url};
use crate::governor::Hints;
use crate::governor::hints::hints;
use crate::model::{Name, Outcome, Request, UnixMillis};

/// RFC 9309 §2.4: not to be used for more than 24 hours.
const FRESH: Duration = Duration::from_secs(24 * 3600);
/// RFC 9309 §2.3.1.2: at least five consecutive redirects should be followed.
const MOST_REDIRECTS: usize = 5;
/// Origins remembered before the cache starts afresh.
const MOST_ORIGINS: usize = 10_000;
/// The endpoint under which robots.txt is limited and counted.
pub(super) const ENDPOINT: &str = "robots";

/// What robots.txt says of a URL.
pub(super) enum Verdict {
    Allowed,
    Denied,
    /// It could not be read: nothing may be fetched from this host until it can (RFC 9309 §2.3.1.4).
    Unreachable(String),
    /// No permit was to be had for asking.
    NoPermit(NoPermit),
}

struct Entry {
    /// The rules, or why they cannot be had.
    rules: Result<Robots, String>,
    until: Instant,
}

type Slot = Rc<OnceCell<Entry>>;

/// Rules by origin. Those who ask at once for one origin share one fetch.
pub(super) struct RobotsCache {
    origins: RefCell<HashMap<String, Slot>>,
}

impl RobotsCache {
    pub(super) fn new() -> Self {
        Self {
            origins: RefCell::default(),
        }
    }

    fn slot(&self, origin: &str) -> Slot {
        let now = Instant::now();
        let mut origins = self.origins.borrow_mut();
        if let Some(slot) = origins.get(origin)
            && slot.get().is_none_or(|entry| now < entry.until)
        {
            return slot.clone();
        }
        if origins.len() >= MOST_ORIGINS {
            origins.clear();
        }
        let slot = Slot::default();
        origins.insert(origin.to_owned(), slot.clone());
        slot
    }
}

/// What the robots.txt of `url`'s origin says of `url`, fetched first if need be.
pub(super) async fn verdict(context: &Context, url: &Url, lane: &Name) -> Verdict {
    let origin = url.origin().ascii_serialization();
    let slot = context.robots.slot(&origin);
    match slot.get_or_try_init(|| fetch(context, url, lane)).await {
        Err(refused) => Verdict::NoPermit(refused),
        Ok(entry) => match &entry.rules {
            Err(trouble) => Verdict::Unreachable(trouble.clone()),
            Ok(rules) if rules.allows(url) => Verdict::Allowed,
            Ok(_) => Verdict::Denied,
        },
    }
}

async fn fetch(context: &Context, url: &Url, lane: &Name) -> Result<Entry, NoPermit> {
    let rules = ask(context, url, lane).await?;
    let fresh = match &rules {
        Ok(_) => FRESH,
        Err(why) => {
            info!(context.assignment.log, "robots.txt cannot be read"; "why" => why);
            context.assignment.settings.retry.base
        }
    };
    Ok(Entry {
        rules,
        until: Instant::now() + context.scaled(fresh),
    })
}

async fn ask(
    context: &Context,
    url: &Url,
    lane: &Name,
) -> Result<Result<Robots, String>, NoPermit> {
    let endpoint = Name::from(ENDPOINT);
    let agent = &context.assignment.settings.user_agent;
    let mut target = robots_url(url);
    for _ in 0..=MOST_REDIRECTS {
        let granted = permit::acquire(context, &endpoint, lane, 0).await?;
        let exchanged = context
            .client
            .exchange(granted.permit, &Request::get(target.clone()))
            .await;
        let answer = match exchanged.result {
            Ok(answer) => answer,
            Err(error) => {
                let outcome = error.outcome();
                granted
                    .meter
                    .count(context, &endpoint, outcome, None, false);
                exchanged.receipt.report(outcome, Hints::default(), None);
                return Ok(Err(format!("{target}: {error}")));
            }
        };
        let said = hints(&answer.headers, UnixMillis::now());
        let location = answer.location();
        let outcome = match location {
            Some(_) => Outcome::Ok,
            None => Outcome::of_status(answer.status, said.retry_after.is_some()),
        };
        granted
            .meter
            .count(context, &endpoint, outcome, Some(&answer), false);
        exchanged
            .receipt
            .report(outcome, said, Some(answer.total_time));
        match location {
            Some(location) => match resolve(&answer.url, location) {
                Ok(next) => target = next,
                // It leads nowhere: there is no such file.
                Err(_) => return Ok(Ok(Robots::from_answer(404, b"", agent))),
            },
            // A request to slow down says nothing about the rules, so they are not known yet.
            None if answer.status == 429 || answer.status >= 500 => {
                return Ok(Err(format!("{target} answered {}", answer.status)));
            }
            None => return Ok(Ok(Robots::from_answer(answer.status, &answer.body, agent))),
        }
    }
    // More redirects than are followed: as if there were no such file (RFC 9309 §2.3.1.2).
    Ok(Ok(Robots::from_answer(404, b"", agent)))
}
