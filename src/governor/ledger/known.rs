//! What one run knows of lanes, for the next one: what was learned, and times that servers named.

use std::time::Duration;

use super::learner::Learner;
use super::{Action, Known, Ledger};
use crate::governor::messages::{LaneKey, Target, WaitReason};

/// A named time that is over sooner is not worth a write.
const WORTH_KEEPING: Duration = Duration::from_secs(5);

impl Ledger {
    pub(super) fn new_learner(&self, key: &LaneKey, known: Option<Known>) -> Learner {
        let known = known.unwrap_or_default();
        let manner = self.config.manner(key);
        let mut learner = Learner::new(manner, known.learned.as_ref(), self.now);
        if let Some(wait) = known.wait {
            learner.not_before(self.now + wait);
        }
        learner
    }

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
        self.known = known.into_iter().collect();
        for id in 0..self.lanes.len() {
            let key = self.lanes[id].key.clone();
            // Nothing was granted before it came, so that nothing is lost with the learner.
            if let Some(known) = self.known.remove(&key.to_string()) {
                self.lanes[id].learner = self.new_learner(&key, Some(known));
                self.touch_lane(id);
            }
        }
        for id in 0..u32::try_from(self.lanes.len()).unwrap_or(u32::MAX) {
            self.presume(id);
        }
        self.look_at_target(&Target::Global, actions);
    }

    /// What is known of lanes by now, by scope: for the next run.
    #[must_use]
    pub fn known(&self) -> Vec<(String, Known)> {
        let ids = 0..u32::try_from(self.lanes.len()).unwrap_or(u32::MAX);
        ids.map(|id| {
            let learner = self.learner(id);
            let named = learner
                .time_gate(self.now)
                .filter(|(_, why)| *why == WaitReason::NotBefore);
            let wait = named.map(|(at, _)| at.since(self.now));
            let known = Known {
                learned: learner.learned(),
                wait: wait.filter(|wait| *wait >= WORTH_KEEPING),
            };
            (self.lanes[id as usize].key.to_string(), known)
        })
        .collect()
    }

    /// A server named a time: it holds for the next run too.
    pub(super) fn named(&mut self, wait: Duration, actions: &mut Vec<Action>) {
        if wait >= WORTH_KEEPING && self.config.store_uses {
            actions.push(Action::KeepLearned);
        }
    }
}
