//! One exchange under a permit, and what it came to. The only way by which a calibration reaches the network.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use url::Url;

use crate::exchange::{self, Client, ExchangePermit, Robots, RobotsRead, read_robots};
use crate::governor::hints::hints;
use crate::governor::{Ceiling, Governor, Hints, LaneKey, Permit, Receipt, Refused};
use crate::model::{Answer, Job, Name, Outcome, Request, RobotsPolicy, Task, UnixMillis};
use crate::platform::judge_robots;
use crate::site::urls::authority;
use crate::site::{Reader, Reading, Redirect, Site};

/// The endpoint under which robots.txt is limited, as in a crawl.
const ROBOTS: &str = "robots";

/// Makes exchanges for one site.
pub(super) struct Probe {
    pub(super) governor: Governor,
    pub(super) client: Client,
    pub(super) site: Arc<dyn Site>,
    pub(super) job: Job,
    pub(super) agent: String,
    /// The longest Crawl-delay that is kept; `None`: none is.
    pub(super) longest_delay: Option<Duration>,
    /// robots.txt by origin; a calibration is too short for them to change.
    pub(super) robots: RefCell<HashMap<String, Rc<Robots>>>,
    /// Turns true when nothing more may be asked.
    pub(super) stop: watch::Receiver<bool>,
}

/// What an exchange came to.
pub(super) struct Probed {
    pub(super) outcome: Outcome,
    pub(super) said: Hints,
    /// When its permit was given back.
    pub(super) released: Instant,
    /// The answer, or why there is none.
    pub(super) answer: Result<Answer, String>,
    /// Where a redirect leads that a crawl would follow.
    pub(super) moved: Option<(Url, Name)>,
    /// What was read from a good answer.
    pub(super) reading: Option<Reading>,
}

/// A permit that notes when it is given back.
struct Timed(Permit);

impl ExchangePermit for Timed {
    type Receipt = (Receipt, Instant);

    fn deadline(&self) -> Instant {
        self.0.deadline()
    }

    fn refused(&self, outcome: Outcome, hints: Hints) {
        self.0.refused(outcome, hints);
    }

    fn release(self, used: bool) -> Self::Receipt {
        (self.0.release(used), Instant::now())
    }
}

/// Why there was no exchange.
pub(super) enum NoExchange {
    /// A stop was asked for.
    Stopped,
    /// Not before this has passed.
    Later(Duration),
    /// No governor answers, or none that would grant anything.
    Gone,
}

impl Probe {
    /// The governor's key of an endpoint in the queue `lane`, as a crawl forms it.
    pub(super) fn lane(&self, endpoint: &Name, lane: &Name) -> Arc<LaneKey> {
        Arc::new(LaneKey {
            site: self.site.name().clone(),
            host: self.site.lanes_by_host().then(|| lane.clone()),
            endpoint: endpoint.clone(),
        })
    }

    /// Waits for a permit; `patience` as in [`Governor::acquire`].
    pub(super) async fn permit(
        &self,
        lane: &Arc<LaneKey>,
        patience: Duration,
    ) -> Result<Permit, NoExchange> {
        let mut stop = self.stop.clone();
        let answer = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return Err(NoExchange::Stopped),
            answer = self.governor.acquire(lane.clone(), 0, patience) => answer,
        };
        answer.map_err(|refused| match refused {
            Refused::Later { wait, .. } => NoExchange::Later(wait),
            Refused::Stopping | Refused::Cancelled => NoExchange::Stopped,
            Refused::Paused | Refused::QueueFull | Refused::Gone => NoExchange::Gone,
        })
    }

    /// Makes the exchange of `task` and reads its answer as a crawl would, but for storing it.
    pub(super) async fn exchange(&self, permit: Permit, task: &Task, request: &Request) -> Probed {
        let exchanged = self.client.exchange(Timed(permit), request).await;
        let (receipt, released) = exchanged.receipt;
        let answer = match exchanged.result {
            Ok(answer) => answer,
            Err(error) => {
                receipt.report(error.outcome(), Hints::default());
                return Probed {
                    outcome: error.outcome(),
                    said: Hints::default(),
                    released,
                    answer: Err(error.to_string()),
                    moved: None,
                    reading: None,
                };
            }
        };
        let said = hints(&answer.headers, UnixMillis::now());
        let (mut outcome, moved) = self.classify(task, &answer);
        receipt.report(outcome, said);
        let mut reading = None;
        if moved.is_none() && matches!(outcome, Outcome::Ok | Outcome::Empty) {
            // Links are read but lead to nothing: all are known.
            let reader = Reader {
                job: &self.job,
                known: &|_, _| self.job.mode == crate::model::Mode::Crawl,
            };
            match self.site.read(task, &answer, &reader) {
                Ok(read) => reading = Some(read),
                Err(_) => outcome = Outcome::Malformed,
            }
        }
        Probed {
            outcome,
            said,
            released,
            answer: Ok(answer),
            moved,
            reading,
        }
    }

    /// The class of an answer, and where it leads.
    fn classify(&self, task: &Task, answer: &Answer) -> (Outcome, Option<(Url, Name)>) {
        let target = match exchange::target(answer) {
            None => return (self.site.classify(task, answer), None),
            Some(Err(error)) if error.is_malformed() => return (Outcome::Malformed, None),
            Some(Err(_)) => return (Outcome::Denied, None),
            Some(Ok(target)) => target,
        };
        match self.site.redirect(task, &target) {
            Redirect::Follow { url, lane, .. } => (Outcome::Ok, Some((url, lane))),
            Redirect::Answer(outcome) => (outcome, None),
            Redirect::Refuse(_) => (Outcome::Denied, None),
        }
    }

    /// Whether robots.txt lets `url` be asked for. The inner error says why it cannot be had.
    pub(super) async fn allowed(
        &self,
        url: &Url,
        patience: Duration,
    ) -> Result<Result<bool, String>, NoExchange> {
        if self.site.robots() == RobotsPolicy::Off {
            return Ok(Ok(true));
        }
        let origin = url.origin().ascii_serialization();
        let known = self.robots.borrow().get(&origin).cloned();
        let rules = match known {
            Some(rules) => rules,
            None => match self.fetch_robots(url, patience).await? {
                Err(why) => return Ok(Err(why)),
                Ok(rules) => {
                    let rules = Rc::new(rules);
                    self.robots.borrow_mut().insert(origin, rules.clone());
                    rules
                }
            },
        };
        Ok(Ok(rules.allows(url)))
    }

    async fn fetch_robots(
        &self,
        url: &Url,
        patience: Duration,
    ) -> Result<Result<Robots, String>, NoExchange> {
        let read = read_robots(url, async |request| {
            let lane = self.lane(&ROBOTS.into(), &Name::from(authority(&request.url)));
            let permit = self.permit(&lane, patience).await?;
            let exchanged = self.client.exchange(permit, request).await;
            let (outcome, said) = match &exchanged.result {
                Ok(answer) => (
                    judge_robots(answer),
                    hints(&answer.headers, UnixMillis::now()),
                ),
                Err(error) => (error.outcome(), Hints::default()),
            };
            exchanged.receipt.report(outcome, said);
            Ok(exchanged.result)
        })
        .await?;
        Ok(match read {
            RobotsRead::Known { file, .. } => {
                let rules = Robots::of_file(file.as_deref(), &self.agent);
                if let (Some(longest), Some(asked)) = (self.longest_delay, rules.crawl_delay()) {
                    self.governor.tell(Ceiling {
                        lane: self.lane(&ROBOTS.into(), &Name::from(authority(url))),
                        interval: Some(asked.min(longest)).filter(|delay| !delay.is_zero()),
                    });
                }
                Ok(rules)
            }
            RobotsRead::Unreachable { why, .. } => Err(why),
        })
    }
}
