//! An origin: gate and ban, then faults, then the work, then what the answer tells.

use std::time::Duration;

use fastrand::Rng;

use super::service::{Service, Workers};
use super::told::{Fields, Header, RetryTold};
use crate::model::{Outcome, Timestamp};
use crate::sim::gate::{Decision, Gate, with_robots};
use crate::sim::{Ban, EndpointKnobs, Knobs, Limit};

/// What an origin is like.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OriginSpec {
    /// Limits on all requests together.
    pub limits: Vec<Limit>,
    /// Limits of each endpoint; at least one endpoint.
    pub endpoints: Vec<Vec<Limit>>,
    /// What follows too many refusals.
    pub ban: Option<Ban>,
    /// What befalls admitted requests.
    pub troubles: Vec<Trouble>,
    /// The work.
    pub service: Service,
    /// How it refuses.
    pub refusal: Refusal,
    /// What every answer tells of the limit.
    pub fields: Fields,
}

impl OriginSpec {
    /// The most endpoints that an origin can have.
    pub const MOST_ENDPOINTS: usize = CLASSES.len();
}

/// How an origin says no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// A 200 whose body says it.
    pub soft: bool,
    /// Whether and how the wait is told.
    pub retry_after: RetryTold,
    /// How long the refusal itself takes.
    pub after: Duration,
}

impl Default for Refusal {
    fn default() -> Self {
        Self {
            soft: false,
            retry_after: RetryTold::Absent,
            after: Duration::from_millis(10),
        }
    }
}

/// Something that befalls a share of the admitted requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trouble {
    /// Of all admitted requests, 0 to 1.
    pub share: f64,
    /// What happens.
    pub what: Mishap,
}

/// What can go wrong with an admitted request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mishap {
    /// A 5xx in place of the answer.
    Error,
    /// No answer at all.
    Hang,
    /// The connection is reset in place of the answer.
    Reset,
    /// The work takes so many times as long.
    Slow(f64),
}

/// What became of a request at the origin.
#[derive(Debug)]
pub(super) struct Verdict {
    /// When the answer leaves; `None`: never.
    pub(super) leaves: Option<Timestamp>,
    pub(super) outcome: Outcome,
    /// Refused by a limit or a ban.
    pub(super) refused: bool,
    pub(super) header: Header,
}

/// An origin at work.
pub(super) struct Origin {
    spec: OriginSpec,
    classes: Vec<&'static str>,
    gate: Gate,
    workers: Workers,
    at_work: Vec<u32>,
    at_work_all: u32,
    /// How far the grids of fixed windows are ahead, as a share of the window.
    phase: f64,
    bans: u32,
    refusals: usize,
    rng: Rng,
}

/// The gate knows classes by name.
const CLASSES: [&str; 8] = ["e0", "e1", "e2", "e3", "e4", "e5", "e6", "e7"];

impl Origin {
    pub(super) fn new(spec: OriginSpec, mut rng: Rng) -> Self {
        let phase = rng.f64();
        let classes = with_robots(&CLASSES[..spec.endpoints.len().min(CLASSES.len())]);
        let gate = Gate::new(&knobs(&spec, phase), &classes);
        Self {
            workers: Workers::new(spec.service.workers),
            at_work: vec![0; spec.endpoints.len()],
            at_work_all: 0,
            spec,
            classes,
            gate,
            phase,
            bans: 0,
            refusals: 0,
            rng,
        }
    }

    /// Other limits from now on; those that stay keep what they remember.
    pub(super) fn retune(&mut self, limits: &[Limit], endpoints: &[Vec<Limit>]) {
        self.spec.limits = limits.to_vec();
        self.spec.endpoints = endpoints.to_vec();
        self.gate
            .retune(&knobs(&self.spec, self.phase), &self.classes);
    }

    pub(super) const fn bans(&self) -> u32 {
        self.bans
    }

    /// A request arrives. Where it is admitted, [`Origin::ended`] follows when it has left.
    pub(super) fn arrive(&mut self, now: Timestamp, endpoint: usize) -> Verdict {
        let clock = now.since(Timestamp::ZERO);
        let decision = self
            .gate
            .ask(clock, endpoint, self.at_work_all, self.at_work[endpoint]);
        if let Decision::Refuse { wait, bans, .. } = decision {
            self.bans += u32::from(bans);
            let refusal = &self.spec.refusal;
            let mut header = Header::new();
            refusal
                .retry_after
                .write(clock, wait, self.refusals, &mut header);
            self.refusals += 1;
            self.tell(clock, endpoint, &mut header);
            return Verdict {
                leaves: Some(now + refusal.after),
                outcome: Outcome::Limited,
                refused: true,
                header,
            };
        }
        self.at_work[endpoint] += 1;
        self.at_work_all += 1;
        let mut work = self.spec.service.pick(&mut self.rng);
        let mut outcome = Outcome::Ok;
        for trouble in &self.spec.troubles {
            if self.rng.f64() >= trouble.share {
                continue;
            }
            match trouble.what {
                Mishap::Error => outcome = Outcome::ServerError,
                Mishap::Hang => outcome = Outcome::Timeout,
                Mishap::Reset => outcome = Outcome::Network,
                Mishap::Slow(factor) => work = work.mul_f64(factor.clamp(0.0, 1e6)),
            }
        }
        let mut header = Header::new();
        self.tell(clock, endpoint, &mut header);
        let leaves = (outcome != Outcome::Timeout).then(|| self.workers.done(now, work));
        Verdict {
            leaves,
            outcome,
            refused: false,
            header,
        }
    }

    fn tell(&self, clock: Duration, endpoint: usize, header: &mut Header) {
        if self.spec.fields == Fields::Absent {
            return;
        }
        let (all, own) = (self.at_work_all, self.at_work[endpoint]);
        if let Some(left) = self.gate.left(clock, endpoint, all, own) {
            self.spec.fields.write(clock, left, header);
        }
    }

    /// An admitted request is no longer at work.
    pub(super) fn ended(&mut self, endpoint: usize) {
        self.at_work[endpoint] = self.at_work[endpoint].saturating_sub(1);
        self.at_work_all = self.at_work_all.saturating_sub(1);
    }
}

/// The spec in the words of the built-in servers' gate.
fn knobs(spec: &OriginSpec, phase: f64) -> Knobs {
    let placed = |limits: &[Limit]| -> Vec<Limit> {
        limits
            .iter()
            .map(|limit| match limit {
                Limit::Fixed { max, window, .. } => Limit::Fixed {
                    max: *max,
                    window: *window,
                    phase: window.mul_f64(phase),
                },
                other => other.clone(),
            })
            .collect()
    };
    let endpoints = spec.endpoints.iter().zip(CLASSES).map(|(limits, class)| {
        let knobs = EndpointKnobs {
            limits: placed(limits),
            ..EndpointKnobs::default()
        };
        (class.to_owned(), knobs)
    });
    Knobs {
        limits: placed(&spec.limits),
        ban: spec.ban.clone(),
        endpoints: endpoints.collect(),
        ..Knobs::default()
    }
}
