//! Whether a site waits, is blocked or is done, and its end.

use std::time::Duration;

use actix::prelude::*;
use slog::{debug, error, info, warn};

use super::PlatformActor;
use crate::model::UnixMillis;
use crate::observe::SiteState;
use crate::platform::messages::{SiteEnd, SiteEnded};

/// A wait worth telling.
const LONG_WAIT: Duration = Duration::from_secs(5);

impl PlatformActor {
    /// Nothing runs and nothing could be leased: is the site done, waiting, or blocked?
    pub(super) fn idle(&mut self, ctx: &mut Context<Self>) {
        if let Some(reason) = self.errand() {
            let until = None;
            return self.finish(SiteEnd::Blocked { until, reason });
        }
        if self.last.pending == 0 && self.last.leased == 0 {
            return self.finish(SiteEnd::Finished);
        }
        if *self.stopping.borrow() {
            return self.finish(SiteEnd::Interrupted);
        }
        if self.last.capped {
            return self.finish(SiteEnd::Capped);
        }
        let now = UnixMillis::now();
        let until = self.last.next_due.unwrap_or(now);
        let wait = until.since(now);
        let max_wait = self.scaled(self.assignment.settings.max_wait);
        let refused_for = self
            .shared
            .as_ref()
            .and_then(|shared| shared.trouble.get())
            .map_or(Duration::ZERO, |trouble| trouble.since.elapsed());
        if wait > max_wait || refused_for > max_wait {
            let why = self.waits_for();
            let reason = if wait > max_wait {
                format!("{why}; the next request is not due before {until}")
            } else {
                format!(
                    "{why}; nothing but refusals for {}",
                    humantime::format_duration(Duration::from_secs(refused_for.as_secs()))
                )
            };
            return self.finish(SiteEnd::Blocked {
                until: Some(until),
                reason,
            });
        }
        self.meter.state(SiteState::Waiting(until));
        let why = self.waits_for();
        if wait > LONG_WAIT {
            info!(self.assignment.log, "waiting"; "until" => %until, "why" => why);
        } else {
            debug!(self.assignment.log, "waiting"; "until" => %until, "why" => why);
        }
        self.look_after(wait.max(Duration::from_millis(1)), ctx);
    }

    /// What a person has to do before the site can go on.
    pub(super) fn errand(&self) -> Option<String> {
        self.shared.as_ref().and_then(|shared| shared.errand())
    }

    fn waits_for(&self) -> String {
        let told = self
            .shared
            .as_ref()
            .map(|shared| shared.waits_for.borrow().clone())
            .filter(|told| !told.is_empty());
        told.unwrap_or_else(|| "what failed is asked again later".to_owned())
    }

    /// The site ends; what it comes to first counts.
    pub(super) fn finish(&mut self, end: SiteEnd) {
        if self.end.is_some() {
            return;
        }
        if let Some(shared) = &self.shared {
            shared.leave_errand();
        }
        let word = match &end {
            SiteEnd::Finished => "complete",
            SiteEnd::Capped => "cap",
            SiteEnd::Blocked { .. } => "blocked",
            SiteEnd::Interrupted => "interrupted",
            SiteEnd::Failed(_) => "failed",
        };
        self.meter.state(SiteState::Finished(word));
        match &end {
            SiteEnd::Failed(why) => error!(self.assignment.log, "failed"; "why" => why),
            SiteEnd::Blocked {
                reason,
                until: None,
            } => {
                warn!(self.assignment.log, "a person is needed"; "why" => reason);
            }
            SiteEnd::Blocked { reason, .. } => {
                info!(self.assignment.log, "blocked"; "why" => reason);
            }
            _ => info!(self.assignment.log, "ended"; "how" => word),
        }
        self.end = Some(end.clone());
        self.ended.do_send(SiteEnded {
            owner: self.owner,
            end,
        });
    }
}
