//! What one run knows of lanes, for the next one: what was learned, and times that servers named.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::adapt::Learned;
use super::learner::Learner;
use super::{Action, Known, Ledger};
use crate::governor::messages::{LaneKey, Target, WaitReason};
use crate::model::Timestamp;

/// A named time that is over sooner is not worth a write.
const WORTH_KEEPING: Duration = Duration::from_secs(5);
/// Lanes of earlier runs whose learning is kept in memory until they are met: some megabytes. A named time is
/// kept of all.
const MOST_KNOWN: usize = 16_384;

/// Lanes of earlier runs that have not been met in this one, by scope.
pub(super) type Earlier = HashMap<String, Remembered>;

/// What an earlier run knew of a lane.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Remembered {
    learned: Option<Learned>,
    /// Nothing leaves before it: a server named the time.
    until: Timestamp,
}

/// Lanes of which there is something to store.
#[derive(Debug, Default)]
pub(super) struct News {
    /// An answer came since they were stored last.
    lanes: Vec<u32>,
    /// Their server named a time that has to outlast a kill.
    named: Vec<u32>,
    /// Dropped before they could be stored.
    dropped: Vec<(String, Known)>,
}

impl Ledger {
    pub(super) fn new_learner(&self, key: &LaneKey, known: Option<Remembered>) -> Learner {
        let known = known.unwrap_or_default();
        let manner = self.config.manner(key);
        let mut learner = Learner::new(manner, known.learned.as_ref(), self.now);
        if known.until > self.now {
            learner.not_before(known.until);
        }
        learner
    }

    /// `known`: the latest first.
    pub(super) fn learned_loaded(
        &mut self,
        known: Vec<(String, Known)>,
        actions: &mut Vec<Action>,
    ) {
        if self.known_loaded {
            return;
        }
        self.known_loaded = true;
        self.dirty.config = true;
        let mut learned = 0;
        for (scope, known) in known {
            let met = self.lane_of_scope(&scope);
            learned += 1;
            if met.is_none() && known.wait.is_none() && learned > MOST_KNOWN {
                continue;
            }
            let remembered = Remembered {
                learned: known.learned,
                until: known.wait.map(|wait| self.now + wait).unwrap_or_default(),
            };
            match met {
                // Nothing was granted before it came, so that nothing is lost with the learner.
                Some(lane) => {
                    let key = self.lanes[lane as usize].key.clone();
                    self.lanes[lane as usize].learner = self.new_learner(&key, Some(remembered));
                    self.touch_lane(lane);
                }
                None => drop(self.known.insert(scope, remembered)),
            }
        }
        for lane in self.lanes.numbers() {
            self.presume(lane);
        }
        self.look_at_target(&Target::Global, actions);
    }

    /// What is worth storing of a lane for the next run.
    fn known(&self, lane: u32) -> Option<(String, Known)> {
        let learner = self.learner(lane);
        let named = learner
            .time_gate(self.now)
            .filter(|(_, why)| *why == WaitReason::NotBefore);
        let wait = named.map(|(at, _)| at.since(self.now));
        let known = Known {
            // A limit that was never met is looked for again: that costs little, and stores nothing.
            learned: learner.learned().filter(|learned| learned.met),
            wait: wait.filter(|wait| *wait >= WORTH_KEEPING),
        };
        let any = known.learned.is_some() || known.wait.is_some();
        any.then(|| (self.lanes[lane as usize].key.to_string(), known))
    }

    /// What has become known of lanes since the last call, by scope, for the next run. `named`: only of those
    /// whose server named a time meanwhile, which is what [`Action::KeepLearned`] asks for.
    pub fn take_news(&mut self, named: bool) -> Vec<(String, Known)> {
        let mut seen = HashSet::new();
        let mut concerned = Vec::new();
        let lanes = match named {
            true => std::mem::take(&mut self.news.named),
            false => std::mem::take(&mut self.news.lanes),
        };
        for lane in lanes {
            let Some(there) = self.lanes.get(lane) else {
                continue;
            };
            // A time may be that of all endpoints, and who learns together knows the same.
            let group = &self.groups[there.group as usize];
            let alone = !named && there.kin.is_none();
            let others = if alone { &[lane][..] } else { &group.lanes[..] };
            concerned.extend(others.iter().copied().filter(|lane| seen.insert(*lane)));
            if !named {
                self.lanes[lane as usize].news = false;
            }
        }
        let mut known = match named {
            true => Vec::new(),
            false => std::mem::take(&mut self.news.dropped),
        };
        known.extend(concerned.into_iter().filter_map(|lane| self.known(lane)));
        known
    }

    /// All lanes are to be stored anew: what was taken last could not be.
    pub fn renew_news(&mut self) {
        for lane in self.lanes.numbers() {
            self.note_news(lane);
        }
    }

    /// An answer came.
    #[inline]
    pub(super) fn note_news(&mut self, lane: u32) {
        let place = &mut self.lanes[lane as usize];
        if self.config.store_uses && !place.news {
            place.news = true;
            self.news.lanes.push(lane);
        }
    }

    /// A lane is about to be dropped.
    pub(super) fn tell_last_news(&mut self, lane: u32) {
        if self.lanes[lane as usize].news {
            let known = self.known(lane);
            self.news.dropped.extend(known);
        }
    }

    /// A server named a time: it holds for the next run too.
    pub(super) fn named(&mut self, lane: u32, wait: Duration, actions: &mut Vec<Action>) {
        if wait >= WORTH_KEEPING && self.config.store_uses {
            self.news.named.push(lane);
            actions.push(Action::KeepLearned);
        }
    }
}
