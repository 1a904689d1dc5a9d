//! robots.txt of the hosts that a PlatformActor visits: fetched through the governor, kept between runs.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use slog::{Logger, debug, info, warn};
use tokio::sync::Mutex;
use tokio::time::Instant;
use url::Url;

use super::ask::{self, Ask, Kind};
use super::context::Context;
use super::permit::{NoPermit, Waiting};
use crate::exchange::{
    HostRobots, Robots, RobotsRead, RobotsTimes, Standing, read_robots, robots_url,
};
use crate::governor::Ceiling;
use crate::model::{Answer, Name, Outcome, UnixMillis};
use crate::settings::{CrawlDelay, RobotsSettings, Settings};
use crate::site::urls::authority;
use crate::store::{CacheEntry, CacheKind};

/// Origins remembered before the memory starts afresh; what is known of them is on disk.
const MOST_ORIGINS: usize = 10_000;
/// Bytes of robots.txt remembered before the memory starts afresh.
const MOST_BYTES: usize = 32 * 1024 * 1024;
/// The endpoint under which robots.txt is limited and counted.
pub(super) const ENDPOINT: &str = "robots";

/// What robots.txt says of a URL.
pub(super) enum Verdict {
    Allowed,
    Denied,
    /// It could not be read: nothing may be fetched from this host until it can (RFC 9309 §2.3.1.4).
    Unreachable(Unreachable),
    /// No permit was to be had for asking.
    NoPermit(NoPermit),
}

/// A robots.txt that the host does not give.
pub(super) struct Unreachable {
    /// For people.
    pub(super) why: String,
    /// Until it is asked for again.
    pub(super) wait: Duration,
    /// Whether there was a connection to the host at all.
    pub(super) connected: bool,
    /// How long the host has been waited for in this run.
    pub(super) waited: Duration,
}

/// What this run knows of one origin.
#[derive(Default)]
struct Entry {
    /// `None`: not looked up yet.
    host: Option<HostRobots>,
    rules: Option<Rules>,
    /// Since when the host has been waited for.
    waits_since: Option<Instant>,
    /// Whether the governor keeps a delay for it.
    delayed: bool,
}

#[derive(Clone)]
struct Rules {
    robots: Robots,
    until: UnixMillis,
    delay: Option<Duration>,
}

type Slot = Rc<Mutex<Entry>>;

/// Rules by origin. Those who ask at once for one origin share one fetch.
#[derive(Default)]
pub(super) struct RobotsCache {
    origins: RefCell<HashMap<String, Slot>>,
    bytes: Cell<usize>,
}

impl RobotsCache {
    fn slot(&self, origin: &str) -> Slot {
        let mut origins = self.origins.borrow_mut();
        if let Some(slot) = origins.get(origin) {
            return slot.clone();
        }
        if origins.len() >= MOST_ORIGINS || self.bytes.get() >= MOST_BYTES {
            origins.clear();
            self.bytes.set(0);
        }
        origins.entry(origin.to_owned()).or_default().clone()
    }
}

/// The rules of robots.txt for one site: what is configured, and under which name it is crawled.
pub(super) struct Manners {
    times: RobotsTimes,
    settings: RobotsSettings,
    delays: CrawlDelay,
}

impl Manners {
    pub(super) fn of(settings: &Settings, site: &str) -> Self {
        Self {
            times: RobotsTimes {
                first_wait: settings.retry.base,
                unreachable_for: settings.robots.unreachable_for,
                scale: settings.test_time_scale,
            },
            settings: settings.robots,
            delays: settings.crawl_delay_of(site),
        }
    }

    /// The delay that is kept, of the one that a file asks for.
    fn delay(&self, robots: &Robots, file: &Url, log: &Logger) -> Option<Duration> {
        let asked = robots.crawl_delay().filter(|asked| !asked.is_zero())?;
        let shown = file.as_str();
        if self.delays == CrawlDelay::Ignore {
            debug!(log, "a Crawl-delay is passed over"; "of" => shown, "seconds" => asked.as_secs_f64());
            return None;
        }
        let kept = asked.min(self.settings.max_crawl_delay);
        if kept < asked {
            warn!(log, "a Crawl-delay is longer than robots.max_crawl_delay, which is kept"; "of" => shown,
                "seconds" => asked.as_secs_f64(), "kept_seconds" => kept.as_secs_f64());
        } else {
            info!(log, "robots.txt asks for a delay"; "of" => shown, "seconds" => kept.as_secs_f64());
        }
        Some(kept)
    }
}

/// What the robots.txt of `url`'s origin says of `url`, fetched first if need be.
pub(super) async fn verdict(context: &Context, url: &Url, lane: &Name) -> Verdict {
    let origin = url.origin().ascii_serialization();
    let slot = context.robots.slot(&origin);
    let mut entry = slot.lock().await;
    let now = UnixMillis::now();
    let known = entry.rules.clone().filter(|rules| now < rules.until);
    let rules = match known {
        Some(rules) => rules,
        None => match entry.look_up(context, url, &origin, lane).await {
            Ok(Ok(rules)) => rules,
            Ok(Err(unreachable)) => return Verdict::Unreachable(unreachable),
            Err(refused) => return Verdict::NoPermit(refused),
        },
    };
    if !rules.robots.allows(url) {
        return Verdict::Denied;
    }
    if rules.delay.is_some() || entry.delayed {
        // Said each time: the governor forgets hosts that it has not met for a while.
        entry.delayed = rules.delay.is_some();
        context.assignment.governor.tell(Ceiling {
            lane: context.lane(&Name::from(ENDPOINT), lane).key.clone(),
            interval: rules.delay,
        });
    }
    Verdict::Allowed
}

impl Entry {
    /// The rules, from the disk or from the host.
    async fn look_up(
        &mut self,
        context: &Context,
        url: &Url,
        origin: &str,
        lane: &Name,
    ) -> Result<Result<Rules, Unreachable>, NoPermit> {
        let assignment = &context.assignment;
        let times = &context.manners.times;
        if self.host.is_none() {
            let stored = assignment.caches.get(CacheKind::Robots, origin).await;
            let stored =
                stored.and_then(|entry| HostRobots::stored(&entry.description, entry.body));
            self.host = Some(stored.unwrap_or_default());
        }
        let host = self.host.get_or_insert_default();
        if host.standing(UnixMillis::now(), times) == Standing::Ask {
            let read = read(context, url, lane).await?;
            host.heard(read, UnixMillis::now(), times);
            let (description, body) = host.to_store();
            let bytes = &context.robots.bytes;
            bytes.set(bytes.get().saturating_add(body.len()));
            let entry = CacheEntry { description, body };
            assignment.caches.put(CacheKind::Robots, origin, entry);
        }
        let now = UnixMillis::now();
        match host.standing(now, times) {
            // Only where the clock has jumped since: the next request asks.
            Standing::Ask => Err(NoPermit::Later(context.patience())),
            Standing::Rules { file, until } => {
                self.waits_since = None;
                let rules = rules(context, url, file.as_deref(), until);
                self.rules = Some(rules.clone());
                Ok(Ok(rules))
            }
            Standing::Wait {
                until,
                why,
                connected,
            } => {
                self.rules = None;
                let since = *self.waits_since.get_or_insert_with(Instant::now);
                info!(assignment.log, "robots.txt cannot be read: nothing is asked of this host until it can";
                    "why" => &why, "again" => %until);
                Ok(Err(Unreachable {
                    why,
                    wait: until.since(now),
                    connected,
                    waited: since.elapsed(),
                }))
            }
        }
    }
}

fn rules(context: &Context, url: &Url, file: Option<&[u8]>, until: UnixMillis) -> Rules {
    let assignment = &context.assignment;
    let robots = Robots::of_file(file, &assignment.settings.user_agent);
    let lies = robots_url(url);
    let sitemaps = robots.sitemaps(&lies);
    if let Some(first) = sitemaps.first() {
        info!(assignment.log, "robots.txt names sitemaps"; "of" => lies.as_str(),
            "count" => sitemaps.len(), "first" => first.as_str());
    }
    Rules {
        delay: context.manners.delay(&robots, &lies, &assignment.log),
        robots,
        until,
    }
}

async fn read(context: &Context, url: &Url, lane: &Name) -> Result<RobotsRead, NoPermit> {
    let endpoint = Name::from(ENDPOINT);
    read_robots(url, async |request| {
        // Where it has moved to another host, that host's lane is asked.
        let lane = match context.assignment.site.lanes_by_host() {
            true => Name::from(authority(&request.url)),
            false => lane.clone(),
        };
        let wanted = Ask {
            request,
            endpoint: &endpoint,
            lane: &lane,
            priority: 0,
            kind: Kind::Further,
        };
        let waiting = Waiting::new(context, &lane);
        let heard = ask::ask(context, &wanted, waiting, |answer| (judge(answer), ())).await?;
        Ok(heard.map(|heard| heard.answer))
    })
    .await
}

/// What an answer says of limits. A session, a captcha or a legal block is nothing that robots.txt could ask for: such a
/// status is a file that is not there.
pub(crate) fn judge(answer: &Answer) -> Outcome {
    let told = answer.headers.all("retry-after").next().is_some();
    match answer.location() {
        Some(_) => Outcome::Ok,
        None => match Outcome::of_status(answer.status, told) {
            Outcome::Login | Outcome::Blocked => Outcome::ClientError,
            outcome => outcome,
        },
    }
}
