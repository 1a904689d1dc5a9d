//! robots.txt of the hosts that a PlatformActor visits: fetched through the governor, kept for a day.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use slog::info;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use url::Url;

use super::ask::{self, Ask, Kind};
use super::context::Context;
use super::permit::{NoPermit, Waiting};
use crate::exchange::{MOST_ROBOTS_REDIRECTS, Robots, RobotsAnswer, robots_url};
use crate::model::{Answer, Name, Outcome, Request};

/// RFC 9309 §2.4: not to be used for more than 24 hours.
const FRESH: Duration = Duration::from_secs(24 * 3600);
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
    let mut request = Request::get(robots_url(url));
    for _ in 0..=MOST_ROBOTS_REDIRECTS {
        let wanted = Ask {
            request: &request,
            endpoint: &endpoint,
            lane,
            priority: 0,
            kind: Kind::Further,
        };
        let waiting = Waiting::new(context, lane);
        let answer = match ask::ask(context, &wanted, waiting, judge).await? {
            Ok(heard) => heard.answer,
            Err(error) => return Ok(Err(format!("{}: {error}", request.url))),
        };
        match RobotsAnswer::of(&answer, agent) {
            RobotsAnswer::Moved(next) => request.url = next,
            RobotsAnswer::Rules(rules) => return Ok(Ok(rules)),
            RobotsAnswer::Unknown => {
                return Ok(Err(format!("{} answered {}", answer.url, answer.status)));
            }
        }
    }
    Ok(Ok(Robots::missing()))
}

/// What an answer says of limits; a session or a captcha is nothing that robots.txt could ask for.
fn judge(answer: &Answer) -> (Outcome, ()) {
    let told = answer.headers.all("retry-after").next().is_some();
    let outcome = match answer.location() {
        Some(_) => Outcome::Ok,
        None => Outcome::of_status(answer.status, told),
    };
    (outcome, ())
}
