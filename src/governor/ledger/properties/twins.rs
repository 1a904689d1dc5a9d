//! Two ledgers that are told the same, one of which drops every group as soon as it rests: the same requests are
//! granted at the same instants.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use super::world::limits;
use super::{HISTORIES, Op};
use crate::governor::ledger::rest::Rules;
use crate::governor::ledger::{Action, Ledger, LedgerConfig, Msg, SiteTable};
use crate::governor::messages::{Hints, LaneKey, PermitId, Refused, Target, Ticket};
use crate::model::{Name, Outcome, Timestamp};
use crate::settings::{LimitMode, LimitSettings};

/// What a ledger says, without the numbers that it makes up itself.
#[derive(Debug, PartialEq)]
enum Said {
    Granted(Ticket),
    Refused(Ticket, Refused),
}

struct Twin {
    ledger: Ledger,
    permits: BTreeMap<Ticket, PermitId>,
    drops: bool,
    dropped: usize,
}

impl Twin {
    fn say(&mut self, now: Timestamp, msg: Msg) -> Vec<Said> {
        let mut actions = Vec::new();
        self.ledger.handle(now, msg, &mut actions);
        if self.drops {
            let before = self.ledger.lanes_in_memory();
            self.ledger.sweep();
            self.dropped += before - self.ledger.lanes_in_memory();
        }
        let mut said: Vec<_> = actions
            .into_iter()
            .filter_map(|action| match action {
                Action::Grant { ticket, permit, .. } => {
                    self.permits.insert(ticket, permit);
                    Some(Said::Granted(ticket))
                }
                Action::Refuse { ticket, why } => Some(Said::Refused(ticket, why)),
                _ => None,
            })
            .collect();
        // Of what happens in one instant the order is that of the groups' numbers.
        said.sort_by_key(|said| match said {
            Said::Granted(ticket) | Said::Refused(ticket, _) => *ticket,
        });
        said
    }
}

struct Twins {
    both: [Twin; 2],
    keys: Vec<Arc<LaneKey>>,
    rng: fastrand::Rng,
    now: Timestamp,
    asked: u64,
    held: Vec<Ticket>,
    log: Vec<String>,
}

impl Twins {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut config = LedgerConfig {
            // Whose turn it is below a full cap depends on the groups' numbers.
            max_concurrency_num: 10_000,
            permit_lease: Duration::from_secs(60),
            report_timeout: Duration::from_secs(20),
            store_uses: false,
            default_limits: LimitSettings {
                mode: Some(LimitMode::Fixed),
                ..LimitSettings::default()
            },
            ..LedgerConfig::default()
        };
        let mut keys = Vec::new();
        for site in ["a", "b", "c"] {
            let endpoints = ["0", "1"].map(|name| (Name::from(name), limits(&mut rng, false)));
            let table = SiteTable {
                limits: limits(&mut rng, false),
                endpoints: endpoints.into(),
                weight: 1,
            };
            config.sites.insert(site.into(), table);
            for host in ["h", "i"] {
                for endpoint in ["0", "1"] {
                    keys.push(Arc::new(LaneKey {
                        site: site.into(),
                        host: (site != "a").then(|| host.into()),
                        endpoint: endpoint.into(),
                    }));
                }
            }
        }
        let now = Timestamp::from_nanos(10_u64.pow(18));
        let both = [false, true].map(|drops| {
            let mut ledger = Ledger::new(config.clone(), seed, now);
            if drops {
                ledger.rules = Rules {
                    room: 0,
                    crowd: 0,
                    long: Duration::ZERO,
                };
            }
            Twin {
                ledger,
                permits: BTreeMap::new(),
                drops,
                dropped: 0,
            }
        });
        Self {
            both,
            keys,
            rng,
            now,
            asked: 0,
            held: Vec::new(),
            log: Vec::new(),
        }
    }

    fn say(&mut self, msg: impl Fn(&mut Twin) -> Option<Msg>) -> Result<(), String> {
        let now = self.now;
        let [one, other] = &mut self.both;
        let (Some(first), Some(second)) = (msg(one), msg(other)) else {
            return Ok(());
        };
        self.log.push(format!("{now:?} {first:?}"));
        let (one, other) = (one.say(now, first), other.say(now, second));
        if one != other {
            let log = self.log.join("\n");
            return Err(format!(
                "{one:?}, and where groups are dropped {other:?}\n{log}"
            ));
        }
        for said in one {
            if let Said::Granted(ticket) = said {
                self.held.push(ticket);
            }
        }
        Ok(())
    }

    fn step(&mut self, op: Op) -> Result<(), String> {
        let [kind, a, b, low, high, ..] = op.to_le_bytes();
        let c = u64::from(u16::from_le_bytes([low, high]));
        self.now = self.now
            + match kind >> 5 {
                0..=3 => Duration::ZERO,
                4 | 5 => Duration::from_millis(c % 600),
                6 => Duration::from_secs(c % 20),
                _ => Duration::from_secs(c % 400),
            };
        let place = usize::from(a);
        match kind & 15 {
            0..=4 => {
                let key = self.keys[place % self.keys.len()].clone();
                self.asked += 1;
                let ticket = Ticket(self.asked);
                let patience = match b % 3 {
                    0 => Duration::from_millis(c),
                    _ => Duration::MAX,
                };
                self.say(|twin| {
                    Some(Msg::Acquire {
                        ticket,
                        lane: twin.ledger.lane(&key),
                        priority: b % 2,
                        patience,
                    })
                })
            }
            5..=8 if !self.held.is_empty() => {
                let ticket = self.held.swap_remove(place % self.held.len());
                let used = b % 8 > 0;
                self.say(|twin| {
                    let permit = *twin.permits.get(&ticket)?;
                    Some(Msg::Release { permit, used })
                })?;
                let outcome = match b % 5 {
                    0 => Outcome::Limited,
                    1 => Outcome::ServerError,
                    _ => Outcome::Ok,
                };
                let retry_after = (c % 5 == 0).then(|| Duration::from_millis(c));
                self.say(|twin| {
                    let permit = twin.permits.remove(&ticket)?;
                    let hints = Hints {
                        retry_after,
                        ..Hints::default()
                    };
                    Some(Msg::Report {
                        permit,
                        outcome,
                        hints,
                    })
                })
            }
            9 => {
                let ticket = Ticket(self.asked.saturating_sub(u64::from(a) % 8));
                self.say(|_| Some(Msg::Cancel { ticket }))
            }
            10 => {
                let key = self.keys[place % self.keys.len()].clone();
                let target = match b % 2 {
                    0 => Target::Site(key.site.clone()),
                    _ => Target::Endpoint(key.site.clone(), key.endpoint.clone()),
                };
                let config = &self.both[0].ledger.config;
                let paced = match &target {
                    Target::Endpoint(..) => config.endpoint(&key).rate.is_some(),
                    _ => config.site(&key.site).rate.is_some(),
                };
                // A pace that comes while a group is not there begins with its burst spent when the group comes
                // back: later than for one that stayed.
                let limits = loop {
                    let limits = limits(&mut self.rng, false);
                    if limits.rate.is_some() == paced {
                        break limits;
                    }
                };
                self.say(|_| {
                    Some(Msg::Retune {
                        target: target.clone(),
                        limits: limits.clone(),
                    })
                })
            }
            _ => {
                let wake = self.both[0].ledger.next_wake();
                self.now = self.now.max(wake.unwrap_or_default());
                self.say(|_| Some(Msg::Tick))
            }
        }
    }
}

#[test]
fn dropping_what_rests_changes_no_grant() {
    let config = Config {
        cases: HISTORIES,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(9),
        ..Config::default()
    };
    let dropped = std::cell::Cell::new(0);
    TestRunner::new(config)
        .run(&(any::<u64>(), vec(any::<Op>(), 60..90)), |(seed, ops)| {
            let mut twins = Twins::new(seed);
            for op in ops {
                twins.step(op).map_err(TestCaseError::fail)?;
            }
            dropped.set(dropped.get() + twins.both[1].dropped);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    let dropped = dropped.get();
    assert!(
        dropped > 2 * HISTORIES as usize,
        "only {dropped} lanes were dropped"
    );
}
