//! Calibrating: real requests at rising levels of concurrency, until one is too many.
//!
//! Every request goes through the RateGovernor, whose lanes are held fixed, and through the one client of the exchange.
//! What a level showed and which one is worth having is judged by [`crate::calibrate`].

mod level;
mod messages;
mod probe;
mod targets;
mod usage;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

pub use messages::{End, Findings, Opening, Running, Seen, Trial};

use self::probe::Probe;
use self::targets::{Looked, Target as Asked, first_look, millis};
use super::{Engine, EngineError, sites};
use crate::calibrate::{Measured, Standing, check_levels, decide, ladder, standing};
use crate::exchange::Client;
use crate::governor::{Governor, Retune, Target};
use crate::model::{ListState, Name, NewTask, RobotsPolicy, Task};
use crate::settings::{CrawlDelay, LimitMode, LimitSettings, Rate};
use crate::site::Site;
use crate::site::urls::shown;

/// A pause that is shorter is waited for within a level.
const SHORT: Duration = Duration::from_millis(50);

impl Engine {
    /// Finds the concurrency that a site takes, by the first requests of a job, made again and again.
    ///
    /// Caps, rates and quotas that are configured hold; the level is a further cap on everything. Nothing is stored but
    /// used quota. `stop` ends it early, with what is known; `seen` is told how it goes. The engine must have no job
    /// meanwhile: it would count against the levels. Runs on the caller's thread, inside its actix System.
    ///
    /// # Errors
    /// When the job names not exactly one site, has no input that can be used, or asks for what cannot be measured; when
    /// rules or levels make no sense; when the engine has been stopped. What the site does is no error.
    pub async fn calibrate(
        &self,
        trial: &Trial,
        stop: watch::Receiver<bool>,
        seen: &dyn Fn(Seen<'_>),
    ) -> Result<Findings, EngineError> {
        let inner = &self.inner;
        let settings = &inner.settings;
        trial.rules.check().map_err(wrong)?;
        let job = &trial.job;
        let mut chosen = sites::choose(job, &inner.sites, &inner.definitions, settings)?;
        let mut seeded = sites::seed(job, &chosen)?;
        let (Some(site), Some(seeds), true) = (chosen.pop(), seeded.pop(), chosen.is_empty())
        else {
            return Err(EngineError::Calibration(
                "one site at a time can be calibrated".to_owned(),
            ));
        };
        for (input, why) in &seeds.rejected {
            seen(Seen::Left(input, why));
        }
        // Its levels would be measured on another way than the one that is crawled, and from another address.
        if !settings.egress_of(site.name()).is_empty() {
            let why = format!(
                "{} goes through an egress, which calibrate does not",
                site.name()
            );
            return Err(EngineError::Calibration(why));
        }
        self.check_state(std::slice::from_ref(&site)).await?;
        let limits = fixed(self.limits_of(site.as_ref()), trial.rate);
        let levels = levels(
            trial,
            settings.max_concurrency_num,
            &limits,
            &site,
            &seeds.tasks,
        )?;
        let opening = opening(trial, levels, settings, site.as_ref(), &seeds.tasks);
        seen(Seen::Opening(&opening));
        for retune in limits {
            inner.governor.retune(retune).await;
        }
        let _whole = Restore {
            governor: inner.governor.clone(),
            cap: settings.max_concurrency_num,
        };
        let client = Client::new(&settings.exchange, &settings.user_agent)
            .map_err(|error| EngineError::Calibration(error.to_string()))?;
        // What is measured is what a crawl would get.
        let held = inner.sessions.of_site(site.name(), settings).await;
        let held = held.map_err(|error| EngineError::Calibration(error.to_string()))?;
        let client = match &held {
            Some(held) => client.with_session(held.session()),
            None => client,
        };
        let probe = Probe {
            governor: inner.governor.clone(),
            client,
            longest_delay: longest_delay(settings, site.name()),
            site,
            job: job.clone(),
            agent: settings.user_agent.clone(),
            robots: HashMap::new().into(),
            stop,
        };
        cap(&probe.governor, 1).await;
        let mut stop = probe.stop.clone();
        let looked = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => Looked::End(End::Interrupted),
            looked = first_look(
                &probe,
                &seeds.tasks,
                settings.exchange.max_redirects,
                settings.max_wait,
                seen,
            ) => looked?,
        };
        let climb = match looked {
            Looked::End(end) => Climb {
                levels: Vec::new(),
                end,
            },
            Looked::Ready(targets) => {
                let climb = Climber {
                    probe: &probe,
                    targets: &targets,
                    trial,
                    max_wait: settings.max_wait,
                    seen,
                };
                climb.climb(&opening.levels).await?
            }
        };
        Ok(Findings {
            verdict: decide(&climb.levels, &trial.rules),
            opening,
            levels: climb.levels,
            end: climb.end,
        })
    }
}

fn wrong(error: crate::calibrate::RulesError) -> EngineError {
    EngineError::Calibration(error.to_string())
}

/// The limits of a site with lanes that do not learn, at most at `rate`.
fn fixed(mut limits: Vec<Retune>, rate: Option<Rate>) -> Vec<Retune> {
    for retune in &mut limits {
        retune.limits.mode = Some(LimitMode::Fixed);
        if let (Target::Site(_), Some(rate)) = (&retune.target, rate) {
            let lower = retune
                .limits
                .rate
                .is_none_or(|set| rate.per_second() < set.per_second());
            if lower {
                retune.limits.rate = Some(rate);
            }
        }
    }
    limits
}

/// The levels to climb: those asked for, or a ladder up to the smallest cap that applies.
fn levels(
    trial: &Trial,
    global: u32,
    limits: &[Retune],
    site: &Arc<dyn Site>,
    seeds: &[NewTask],
) -> Result<Vec<u32>, EngineError> {
    let reachable = reachable(limits, site.lanes_by_host(), seeds);
    let ceiling = reachable.map_or(global, |reachable| reachable.min(global));
    let Some(levels) = &trial.levels else {
        return Ok(ladder(ceiling));
    };
    check_levels(levels).map_err(wrong)?;
    match levels.iter().find(|level| **level > ceiling) {
        None => Ok(levels.clone()),
        Some(level) if ceiling == global => Err(EngineError::Calibration(format!(
            "level {level} is above max_concurrency_num, which is {global}"
        ))),
        Some(level) => Err(EngineError::Calibration(format!(
            "level {level} is above the caps set for site {}, which allow {ceiling}",
            site.name()
        ))),
    }
}

/// Most exchanges in flight that the caps of a site and its endpoints let these tasks have. `None`: no such cap.
fn reachable(limits: &[Retune], by_host: bool, tasks: &[NewTask]) -> Option<u32> {
    let cap_of = |wanted: &dyn Fn(&Target) -> bool| {
        limits
            .iter()
            .find(|retune| wanted(&retune.target))
            .and_then(|retune| retune.limits.max_concurrency_num)
    };
    let site = cap_of(&|target| matches!(target, Target::Site(_)));
    // A group is what the site's cap holds for: a host in mode crawl, else the site. It has a lane for each endpoint.
    let mut groups: BTreeMap<Option<&Name>, BTreeMap<&Name, Option<u32>>> = BTreeMap::new();
    for task in tasks {
        let endpoint =
            cap_of(&|target| matches!(target, Target::Endpoint(_, name) if *name == task.endpoint));
        let group = by_host.then_some(&task.lane);
        groups
            .entry(group)
            .or_default()
            .insert(&task.endpoint, endpoint);
    }
    groups.values().try_fold(0_u32, |sum, lanes| {
        // An endpoint that only follow-ups reach may have room left: the site's cap alone bounds that.
        let lanes = lanes
            .values()
            .try_fold(0_u32, |sum, cap| Some(sum.saturating_add((*cap)?)))
            .filter(|_| by_host);
        let cap = match (site, lanes) {
            (Some(site), Some(lanes)) => site.min(lanes),
            (Some(cap), None) | (None, Some(cap)) => cap,
            (None, None) => return None,
        };
        Some(sum.saturating_add(cap))
    })
}

fn opening(
    trial: &Trial,
    levels: Vec<u32>,
    settings: &crate::settings::Settings,
    site: &dyn Site,
    seeds: &[NewTask],
) -> Opening {
    let targets = seeds.iter().filter_map(|seed| {
        let task = Task {
            id: 0,
            lease: 0,
            site: site.name().clone(),
            endpoint: seed.endpoint.clone(),
            params: seed.params.clone(),
            lane: seed.lane.clone(),
            priority: 0,
            depth: seed.depth,
            attempts: 0,
            list: seed.list.then(ListState::default),
        };
        site.request(&task).ok().map(|request| shown(&request.url))
    });
    let targets = targets.collect();
    let (rules, count) = (&trial.rules, levels.len());
    Opening {
        site: site.name().to_string(),
        targets,
        requests_at_most: rules.requests_per_level(count) * count as u64,
        seconds_at_most: rules.length.as_secs_f64() * count as f64,
        levels,
        robots_obeyed: site.robots() == RobotsPolicy::Obey,
        user_agent: settings.user_agent.clone(),
    }
}

/// The longest Crawl-delay that is kept at this site; `None`: none is.
fn longest_delay(settings: &crate::settings::Settings, site: &str) -> Option<Duration> {
    let obeyed = settings.crawl_delay_of(site) == CrawlDelay::Obey;
    obeyed.then_some(settings.robots.max_crawl_delay)
}

async fn cap(governor: &Governor, level: u32) {
    governor.retune(global(level)).await;
}

fn global(cap: u32) -> Retune {
    Retune {
        target: Target::Global,
        limits: LimitSettings {
            max_concurrency_num: Some(cap),
            ..LimitSettings::default()
        },
    }
}

/// Gives the global cap back when the calibration ends, however it ends. A site's limits are told anew with each job.
struct Restore {
    governor: Governor,
    cap: u32,
}

impl Drop for Restore {
    fn drop(&mut self) {
        self.governor.tell(global(self.cap));
    }
}

/// The levels measured, and why there are no more.
struct Climb {
    levels: Vec<Measured>,
    end: End,
}

struct Climber<'c> {
    probe: &'c Probe,
    targets: &'c [Asked],
    trial: &'c Trial,
    max_wait: Duration,
    seen: &'c dyn Fn(Seen<'_>),
}

impl Climber<'_> {
    async fn climb(&self, steps: &[u32]) -> Result<Climb, EngineError> {
        let rules = &self.trial.rules;
        let requests = rules.requests_per_level(steps.len());
        let mut levels = Vec::new();
        for step in steps {
            if let Some(end) = self.settle().await? {
                return Ok(Climb { levels, end });
            }
            cap(&self.probe.governor, *step).await;
            let ran = level::run(self.probe, self.targets, *step, requests, rules, self.seen).await;
            (self.seen)(Seen::Level(&ran.measured));
            let standing = standing(&ran.measured, rules);
            levels.push(ran.measured);
            let end = match ran.end {
                Some(End::Blocked {
                    outcome,
                    status,
                    wait_ms: None,
                }) => Some(End::Blocked {
                    outcome,
                    status,
                    wait_ms: self.pause().await?.map(millis),
                }),
                None if standing == Standing::Above => Some(End::Above { level: *step }),
                end => end,
            };
            if let Some(end) = end {
                return Ok(Climb { levels, end });
            }
        }
        Ok(Climb {
            levels,
            end: End::Done,
        })
    }

    /// Waits until no lane is paused. What ends the climb: a pause that is too long, a stop.
    async fn settle(&self) -> Result<Option<End>, EngineError> {
        let mut stop = self.probe.stop.clone();
        loop {
            let Some(wait) = self.pause().await? else {
                return Ok(None);
            };
            if wait > self.max_wait {
                return Ok(Some(End::Paused {
                    wait_ms: millis(wait),
                }));
            }
            (self.seen)(Seen::Waiting(wait));
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return Ok(Some(End::Interrupted)),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// The longest time that has to pass before a target may be asked, if it is worth speaking of.
    async fn pause(&self) -> Result<Option<Duration>, EngineError> {
        let snapshot = self.probe.governor.snapshot().await;
        let lanes = snapshot.ok_or(EngineError::Stopped)?.lanes;
        let ours = lanes.iter().filter(|lane| {
            self.targets.iter().any(|target| {
                let key = &target.lane;
                *lane.site == *key.site
                    && *lane.endpoint == *key.endpoint
                    && lane.host.as_deref() == key.host.as_deref()
            })
        });
        let longest = ours
            .map(|lane| Duration::from_millis(lane.not_before_ms))
            .max();
        Ok(longest.filter(|wait| *wait > SHORT))
    }
}

#[cfg(test)]
mod tests;
