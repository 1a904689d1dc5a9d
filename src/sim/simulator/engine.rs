//! The clock of events: clients send, the origin answers, and every result goes back to the control that sent it.

use std::collections::BinaryHeap;
use std::time::Duration;

use fastrand::Rng;

use super::control::{Control, Poll};
use super::event::{Event, Flight, Queued};
use super::metrics::{Records, Report};
use super::origin::Origin;
use super::scenario::{Demand, Scenario};
use super::told::{self, Header};
use super::trace::{Look, Sample};
use crate::governor::Hints;
use crate::model::{Outcome, Timestamp};

/// More than this many at one instant is a control that knows no bound; the rest has to wait a millisecond.
const MOST_AT_ONCE: u32 = 10_000;

/// Builds the control of one client from a seed.
pub type Make<'a> = dyn FnMut(u64) -> Box<dyn Control> + 'a;

/// Runs a scenario.
pub fn run(scenario: &Scenario, seed: u64, make: &mut Make<'_>) -> Report {
    run_traced(scenario, seed, make, 0).0
}

/// The same, with what happened in each of `steps` equal parts of the run.
pub fn run_traced(
    scenario: &Scenario,
    seed: u64,
    make: &mut Make<'_>,
    steps: u32,
) -> (Report, Vec<Sample>) {
    let mut engine = Engine::new(scenario, seed, make);
    for nth in 0..steps {
        let at = scenario
            .lasts
            .mul_f64((f64::from(nth) + 0.5) / f64::from(steps));
        engine.at(Timestamp::ZERO + at, Event::Look);
    }
    engine.go();
    engine.records.bans = engine.origin.bans();
    let samples = engine.records.samples(scenario, &engine.looks, steps);
    (engine.records.report(scenario), samples)
}

struct Client {
    control: Box<dyn Control>,
    /// The earliest wake-up that is queued.
    wake: Option<Timestamp>,
    /// Tasks per endpoint; `None`: always another.
    tasks: Option<Vec<u64>>,
    sees_soft_blocks: bool,
}

struct Engine<'a> {
    scenario: &'a Scenario,
    origin: Origin,
    clients: Vec<Client>,
    queue: BinaryHeap<Queued>,
    nth: u64,
    rng: Rng,
    end: Timestamp,
    /// Tasks that are not done yet, where their number is bounded.
    open: Option<u64>,
    records: Records,
    looks: Vec<Look>,
}

impl<'a> Engine<'a> {
    fn new(scenario: &'a Scenario, seed: u64, make: &mut Make<'_>) -> Self {
        let mut rng = Rng::with_seed(seed);
        let origin = Origin::new(scenario.origin.clone(), rng.fork());
        let endpoints = scenario.origin.endpoints.len();
        let clients: Vec<Client> = (0..scenario.clients)
            .map(|_| {
                let control = make(rng.u64(..));
                let sees_soft_blocks = control.sees_soft_blocks();
                let tasks = match scenario.demand {
                    Demand::Always => None,
                    Demand::PerSecond(_) => Some(vec![0; endpoints]),
                    Demand::Total(total) => Some(split(total, endpoints)),
                };
                Client {
                    control,
                    wake: None,
                    tasks,
                    sees_soft_blocks,
                }
            })
            .collect();
        let open = match scenario.demand {
            Demand::Total(total) => Some(total.saturating_mul(scenario.clients as u64)),
            _ => None,
        };
        Self {
            scenario,
            origin,
            records: Records::new(clients.len()),
            clients,
            queue: BinaryHeap::new(),
            nth: 0,
            rng,
            end: Timestamp::ZERO + scenario.lasts,
            open,
            looks: Vec::new(),
        }
    }

    fn at(&mut self, at: Timestamp, event: Event) {
        if at <= self.end {
            self.nth += 1;
            let nth = self.nth;
            self.queue.push(Queued { at, nth, event });
        }
    }

    fn go(&mut self) {
        let start = Timestamp::ZERO;
        for (nth, change) in self.scenario.changes.iter().enumerate() {
            self.at(start + change.at, Event::Change(nth));
        }
        for after in &self.scenario.chaos.restarts {
            self.at(start + *after, Event::Restart);
        }
        if self.scenario.strangers > 0.0 {
            self.next_stranger(start);
        }
        for client in 0..self.clients.len() {
            self.tell_all(start, client);
            if let Demand::PerSecond(_) = self.scenario.demand {
                self.next_task(start, client);
            }
            // Not all at the same nanosecond: real clients never start so.
            let offset = Duration::from_nanos(self.rng.u64(..1_000_000));
            self.at(start + offset, Event::Wake(client));
        }
        while let Some(Queued { at, event, .. }) = self.queue.pop() {
            self.happen(at, event);
            if self.open == Some(0) {
                self.records.finished = Some(at);
                break;
            }
        }
    }

    fn happen(&mut self, now: Timestamp, event: Event) {
        match event {
            Event::Arrive(flight) => self.arrive(now, flight),
            Event::Ended(endpoint) => self.origin.ended(endpoint),
            Event::Answer(flight, outcome, refused, header) => {
                self.answer(now, flight, outcome, refused, header);
            }
            Event::Wake(client) => {
                let state = &mut self.clients[client];
                if state.wake.is_none_or(|wake| wake <= now) {
                    state.wake = None;
                    self.poll(now, client);
                }
            }
            Event::Task(client, endpoint) => {
                self.add_task(now, client, endpoint);
                self.next_task(now, client);
                self.poll(now, client);
            }
            Event::Drop(client, endpoint, permit) => {
                self.dropped(now, client, endpoint, permit);
            }
            Event::Stranger => {
                let flight = Flight {
                    client: None,
                    endpoint: self.rng.usize(..self.scenario.origin.endpoints.len()),
                    permit: 0,
                    sent: now,
                    abandoned: true,
                };
                self.arrive(now, flight);
                self.next_stranger(now);
            }
            Event::Change(nth) => {
                let change = &self.scenario.changes[nth];
                self.origin.retune(&change.limits, &change.endpoints);
            }
            Event::Look => self.look(now),
            Event::Restart => {
                for client in 0..self.clients.len() {
                    self.clients[client].control.restart(now);
                    self.tell_all(now, client);
                    self.poll(now, client);
                }
            }
        }
    }

    fn look(&mut self, now: Timestamp) {
        let endpoints = self.scenario.origin.endpoints.len();
        let views = self.clients.iter().flat_map(|client| {
            (0..endpoints).map(move |endpoint| client.control.view(now, endpoint))
        });
        let mut look = Look {
            pace: 0.0,
            cap: Some(0),
            out: self.records.out(),
        };
        for view in views {
            look.pace += view.pace;
            look.cap = look.cap.zip(view.cap).map(|(sum, cap)| sum + cap);
        }
        self.looks.push(look);
    }

    /// Asks a client's control until it has nothing more to send.
    fn poll(&mut self, now: Timestamp, client: usize) {
        for _ in 0..MOST_AT_ONCE {
            match self.clients[client].control.poll(now) {
                Poll::Send { endpoint, permit } => self.send(now, client, endpoint, permit),
                Poll::Wait(None) => return,
                Poll::Wait(Some(at)) => {
                    // A control that names the past is asked again a little later, not for ever now.
                    let at = at.max(now + Duration::from_micros(1));
                    return self.wake_at(client, at);
                }
            }
        }
        self.wake_at(client, now + Duration::from_millis(1));
    }

    fn wake_at(&mut self, client: usize, at: Timestamp) {
        let state = &mut self.clients[client];
        if state.wake.is_none_or(|wake| at < wake) {
            state.wake = Some(at);
            self.at(at, Event::Wake(client));
        }
    }

    fn send(&mut self, now: Timestamp, client: usize, endpoint: usize, permit: u64) {
        if let Some(tasks) = &mut self.clients[client].tasks {
            tasks[endpoint] = tasks[endpoint].saturating_sub(1);
            self.tell(now, client, endpoint);
        }
        self.records.granted(now);
        let chaos = self.scenario.chaos.dropped;
        let dropped = chaos > 0.0 && self.rng.f64() < chaos;
        if dropped && self.rng.bool() {
            // The holder goes away a moment after it was handed the permit.
            let after = Duration::from_millis(1);
            return self.at(now + after, Event::Drop(client, endpoint, permit));
        }
        self.records.sent(now);
        let flight = Flight {
            client: Some(client),
            endpoint,
            permit,
            sent: now,
            abandoned: dropped,
        };
        if dropped {
            let after = self.scenario.wire + Duration::from_millis(20);
            self.at(now + after, Event::Drop(client, endpoint, permit));
        }
        self.at(now + self.scenario.wire, Event::Arrive(flight));
    }

    fn arrive(&mut self, now: Timestamp, flight: Flight) {
        let verdict = self.origin.arrive(now, flight.endpoint);
        let timeout = flight.sent + self.scenario.timeout;
        if !verdict.refused {
            // Where no answer comes, the server works until the client has gone away.
            let ends = verdict.leaves.unwrap_or(timeout + self.scenario.wire);
            self.at(ends, Event::Ended(flight.endpoint));
        }
        if flight.abandoned {
            return;
        }
        let answer = verdict.leaves.map(|leaves| leaves + self.scenario.wire);
        let (at, outcome) = match answer {
            Some(at) if at <= timeout => (at, verdict.outcome),
            _ => (timeout, Outcome::Timeout),
        };
        let header = (!verdict.header.is_empty()).then(|| Box::new(verdict.header));
        self.at(at, Event::Answer(flight, outcome, verdict.refused, header));
    }

    fn answer(
        &mut self,
        now: Timestamp,
        flight: Flight,
        outcome: Outcome,
        refused: bool,
        header: Option<Box<Header>>,
    ) {
        let Some(client) = flight.client else { return };
        let held = now.since(flight.sent);
        let done = outcome.is_success() && !refused;
        self.records.ended(now, client, held, done, refused);
        if done {
            self.open = self.open.map(|open| open.saturating_sub(1));
        } else {
            self.add_task(now, client, flight.endpoint);
        }
        let hints = header.map_or_else(Hints::default, |header| {
            told::read(*header, now.since(Timestamp::ZERO))
        });
        let state = &mut self.clients[client];
        let soft = refused && self.scenario.origin.refusal.soft;
        let seen = if soft && !state.sees_soft_blocks {
            Outcome::Ok
        } else {
            outcome
        };
        state.control.end(now, flight.permit, seen, &hints, held);
        self.poll(now, client);
    }

    fn dropped(&mut self, now: Timestamp, client: usize, endpoint: usize, permit: u64) {
        self.records.lost();
        self.add_task(now, client, endpoint);
        self.clients[client].control.drop_permit(now, permit);
        self.poll(now, client);
    }

    fn add_task(&mut self, now: Timestamp, client: usize, endpoint: usize) {
        if let Some(tasks) = &mut self.clients[client].tasks {
            tasks[endpoint] += 1;
            self.tell(now, client, endpoint);
        }
    }

    fn tell(&mut self, now: Timestamp, client: usize, endpoint: usize) {
        let state = &mut self.clients[client];
        if let Some(tasks) = &state.tasks {
            state.control.waiting(now, endpoint, tasks[endpoint]);
        }
    }

    fn tell_all(&mut self, now: Timestamp, client: usize) {
        for endpoint in 0..self.scenario.origin.endpoints.len() {
            self.tell(now, client, endpoint);
        }
    }

    fn next_task(&mut self, now: Timestamp, client: usize) {
        if let Demand::PerSecond(rate) = self.scenario.demand {
            let gap = self.gap(rate);
            let endpoint = self.rng.usize(..self.scenario.origin.endpoints.len());
            self.at(now + gap, Event::Task(client, endpoint));
        }
    }

    fn next_stranger(&mut self, now: Timestamp) {
        let gap = self.gap(self.scenario.strangers);
        self.at(now + gap, Event::Stranger);
    }

    /// Until the next of `rate` a second, at random instants.
    fn gap(&mut self, rate: f64) -> Duration {
        let mean = 1.0 / rate.clamp(1e-6, 1e6);
        Duration::from_secs_f64(mean * -(1.0 - self.rng.f64()).ln())
    }
}

fn split(total: u64, parts: usize) -> Vec<u64> {
    let parts_u64 = parts as u64;
    (0..parts_u64)
        .map(|nth| total / parts_u64 + u64::from(nth < total % parts_u64))
        .collect()
}
