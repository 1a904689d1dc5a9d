//! The server's own book: every request from its head to its last byte. Pure: time is an argument.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::counts::{ClassCounts, Counts, LogEntry, SiteCounts};
use super::gate::{Decision, Gate, with_robots};
use super::knobs::{Attempt, Fault, FaultKind, KnobError, Knobs, Latency, Refusal};

/// All sites of a server.
#[derive(Debug)]
pub(super) struct Book {
    sites: Vec<Site>,
    in_flight: u32,
    peak_in_flight: u32,
    connections: u64,
    open_connections: u32,
    peak_connections: u32,
    log: Vec<LogEntry>,
    log_limit: usize,
}

#[derive(Debug)]
struct Site {
    name: String,
    classes: Vec<&'static str>,
    seed: u64,
    rules: Vec<Rules>,
    gate: Gate,
    /// Admitted and not ended.
    at_work: u32,
    admitted: u64,
    seen: HashMap<Box<[u8]>, Seen>,
    counts: SiteCounts,
    class_books: Vec<ClassBook>,
}

/// The knobs as they come out for one class.
#[derive(Debug)]
struct Rules {
    latency: Latency,
    faults: Arc<[Fault]>,
    own_faults: bool,
    refusal: Arc<Refusal>,
}

#[derive(Debug, Default)]
struct ClassBook {
    counts: ClassCounts,
    at_work: u32,
    admitted: u64,
}

/// What is known of a resource.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    asked: bool,
    attempts: u32,
    served: bool,
}

/// A request in flight; to be handed back with [`Book::end`].
#[derive(Debug)]
pub(super) struct Visit {
    site: usize,
    class: usize,
    log: Option<usize>,
    admitted: bool,
    refused: bool,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// An answer was written whole.
    Written(u16),
    /// A fault cut the answer off.
    Cut,
    /// The client went away.
    Aborted,
}

/// What becomes of a request.
#[derive(Debug)]
pub(super) enum Verdict {
    Serve {
        latency: Duration,
        fault: Option<FaultKind>,
    },
    Refuse {
        refusal: Arc<Refusal>,
        wait: Duration,
    },
}

impl Book {
    pub(super) const fn new(log_limit: usize) -> Self {
        Self {
            sites: Vec::new(),
            in_flight: 0,
            peak_in_flight: 0,
            connections: 0,
            open_connections: 0,
            peak_connections: 0,
            log: Vec::new(),
            log_limit,
        }
    }

    /// Adds a site; its index is the number of those before.
    pub(super) fn add_site(
        &mut self,
        name: &str,
        classes: &[&'static str],
        knobs: &Knobs,
    ) -> Result<(), KnobError> {
        if self.sites.iter().any(|site| site.name == name) {
            return Err(KnobError::Names(name.to_owned()));
        }
        knobs.check(name, classes)?;
        let classes = with_robots(classes);
        self.sites.push(Site {
            name: name.to_owned(),
            seed: knobs.seed,
            rules: rules(knobs, &classes),
            gate: Gate::new(knobs, &classes),
            at_work: 0,
            admitted: 0,
            seen: HashMap::new(),
            counts: SiteCounts::default(),
            class_books: classes.iter().map(|_| ClassBook::default()).collect(),
            classes,
        });
        Ok(())
    }

    pub(super) fn set_knobs(&mut self, name: &str, knobs: &Knobs) -> Result<(), KnobError> {
        let site = self
            .sites
            .iter_mut()
            .find(|site| site.name == name)
            .ok_or_else(|| KnobError::Site(name.to_owned()))?;
        let (_, own) = site.classes.split_last().unwrap_or((&"", &[]));
        knobs.check(name, own)?;
        site.seed = knobs.seed;
        site.rules = rules(knobs, &site.classes);
        site.gate.retune(knobs, &site.classes);
        Ok(())
    }

    /// A connection was accepted; gives its number.
    pub(super) fn connect(&mut self, site: usize) -> u64 {
        self.connections += 1;
        self.open_connections += 1;
        self.peak_connections = self.peak_connections.max(self.open_connections);
        let counts = &mut self.sites[site].counts;
        counts.connections += 1;
        counts.open_connections += 1;
        counts.peak_connections = counts.peak_connections.max(counts.open_connections);
        self.connections
    }

    pub(super) fn disconnect(&mut self, site: usize) {
        self.open_connections -= 1;
        self.sites[site].counts.open_connections -= 1;
    }

    pub(super) fn malformed(&mut self, site: usize) {
        self.sites[site].counts.malformed += 1;
    }

    /// The head of a request was read. `class` is `None` for robots.txt.
    pub(super) fn begin(
        &mut self,
        now: Duration,
        site: usize,
        class: Option<usize>,
        connection: u64,
        method: &str,
        target: &str,
    ) -> Visit {
        self.in_flight += 1;
        self.peak_in_flight = self.peak_in_flight.max(self.in_flight);
        let here = &mut self.sites[site];
        let robots = here.classes.len() - 1;
        let class = match class {
            Some(class) => {
                here.counts.requests += 1;
                class.min(robots - 1)
            }
            None => {
                here.counts.robots += 1;
                robots
            }
        };
        here.counts.in_flight += 1;
        here.counts.peak_in_flight = here.counts.peak_in_flight.max(here.counts.in_flight);
        let counts = &mut here.class_books[class].counts;
        counts.requests += 1;
        counts.in_flight += 1;
        counts.peak_in_flight = counts.peak_in_flight.max(counts.in_flight);
        let log = (self.log.len() < self.log_limit).then(|| {
            self.log.push(LogEntry {
                at: now,
                ended: None,
                site: here.name.clone(),
                class: here.classes[class],
                method: method.to_owned(),
                target: target.to_owned(),
                connection,
                status: None,
                refused: false,
                in_flight: self.in_flight,
            });
            self.log.len() - 1
        });
        Visit {
            site,
            class,
            log,
            admitted: false,
            refused: false,
        }
    }

    /// The request is whole: decides what becomes of it. `resource` is method, target and body.
    pub(super) fn decide(
        &mut self,
        now: Duration,
        visit: &mut Visit,
        resource: &[u8],
        target: &str,
    ) -> Verdict {
        let site = &mut self.sites[visit.site];
        let counted = visit.class + 1 < site.classes.len();
        let class = &mut site.class_books[visit.class];
        let rules = &site.rules[visit.class];
        if !site.seen.contains_key(resource) {
            site.seen.insert(resource.into(), Seen::default());
        }
        let mut unseen = Seen::default();
        let seen = site.seen.get_mut(resource).unwrap_or(&mut unseen);
        if counted && seen.asked {
            site.counts.repeats += 1;
        }
        seen.asked = true;
        let decision = site.gate.ask(now, visit.class, site.at_work, class.at_work);
        if let Decision::Refuse { wait, banned, bans } = decision {
            visit.refused = true;
            class.counts.refused += 1;
            if counted {
                site.counts.refused += 1;
                site.counts.banned += u64::from(banned);
                site.counts.bans += u64::from(bans);
            }
            let refusal = Arc::clone(&rules.refusal);
            return Verdict::Refuse { refusal, wait };
        }
        visit.admitted = true;
        class.at_work += 1;
        class.admitted += 1;
        if counted {
            site.at_work += 1;
            site.admitted += 1;
        }
        seen.attempts = seen.attempts.saturating_add(1);
        let attempt = Attempt {
            resource,
            target,
            attempt: seen.attempts,
            arrival: if rules.own_faults {
                class.admitted
            } else {
                site.admitted
            },
        };
        let fault = rules
            .faults
            .iter()
            .enumerate()
            .find(|(nth, fault)| fault.pick.takes(site.seed, *nth, attempt))
            .map(|(_, fault)| fault.kind.clone());
        if counted && fault.is_some() {
            site.counts.faults += 1;
        }
        let latency = rules.latency.pick(site.seed, resource, seen.attempts);
        Verdict::Serve { latency, fault }
    }

    /// The request left: its last byte was written or its connection ended.
    pub(super) fn end(&mut self, now: Duration, visit: &Visit, resource: &[u8], end: End) {
        self.in_flight -= 1;
        let site = &mut self.sites[visit.site];
        let counted = visit.class + 1 < site.classes.len();
        let class = &mut site.class_books[visit.class];
        site.counts.in_flight -= 1;
        class.counts.in_flight -= 1;
        if visit.admitted {
            class.at_work -= 1;
            if counted {
                site.at_work -= 1;
            }
        }
        match end {
            End::Written(status) => {
                *class.counts.by_status.entry(status).or_default() += 1;
                if counted {
                    *site.counts.by_status.entry(status).or_default() += 1;
                }
                if visit.admitted && (200..300).contains(&status) {
                    class.counts.served += 1;
                    if counted && let Some(seen) = site.seen.get_mut(resource) {
                        if seen.served {
                            site.counts.duplicates += 1;
                        } else {
                            site.counts.distinct += 1;
                            seen.served = true;
                        }
                    }
                }
            }
            End::Aborted if counted => site.counts.aborted += 1,
            End::Cut | End::Aborted => {}
        }
        if let Some(entry) = visit.log.and_then(|log| self.log.get_mut(log)) {
            entry.ended = Some(now);
            entry.refused = visit.refused;
            if let End::Written(status) = end {
                entry.status = Some(status);
            }
        }
    }

    pub(super) fn counts(&self) -> Counts {
        let sites = self.sites.iter().map(|site| {
            let mut counts = site.counts.clone();
            counts.classes = site
                .classes
                .iter()
                .zip(&site.class_books)
                .map(|(name, class)| ((*name).to_owned(), class.counts.clone()))
                .collect();
            (site.name.clone(), counts)
        });
        Counts {
            sites: sites.collect(),
            in_flight: self.in_flight,
            peak_in_flight: self.peak_in_flight,
            connections: self.connections,
            open_connections: self.open_connections,
            peak_connections: self.peak_connections,
        }
    }

    pub(super) fn log(&self) -> Vec<LogEntry> {
        self.log.clone()
    }
}

/// Works out per class what applies: the class's own knobs, else the site's; of the faults, none of the site's to robots.txt.
fn rules(knobs: &Knobs, classes: &[&str]) -> Vec<Rules> {
    let faults: Arc<[Fault]> = knobs.faults.clone().into();
    let refusal = Arc::new(knobs.refusal.clone());
    let of_class = |(nth, class): (usize, &&str)| {
        let own = knobs.endpoints.get(*class);
        let own_faults = own.and_then(|own| own.faults.clone());
        let robots = nth + 1 == classes.len();
        Rules {
            latency: own
                .and_then(|own| own.latency.clone())
                .unwrap_or_else(|| knobs.latency.clone()),
            own_faults: own_faults.is_some(),
            faults: match own_faults {
                Some(own) => own.into(),
                None if robots => Arc::new([]),
                None => Arc::clone(&faults),
            },
            refusal: own
                .and_then(|own| own.refusal.clone())
                .map_or_else(|| Arc::clone(&refusal), Arc::new),
        }
    };
    classes.iter().enumerate().map(of_class).collect()
}

#[cfg(test)]
mod tests;
