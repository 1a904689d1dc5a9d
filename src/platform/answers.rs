//! Answers of earlier runs: looked up before a request, asked about, kept for the next run.

use slog::debug;

use super::context::Context;
use crate::exchange::cache::{CachedAnswer, cache_key};
use crate::model::{AccountKey, Answer, Request};
use crate::settings::CacheMode;
use crate::store::{CacheEntry, CacheKind};

/// An answer of an earlier run, and the question whether it still holds.
pub(super) struct Earlier {
    key: String,
    stored: CachedAnswer,
    pub(super) question: Request,
}

/// What an earlier run was answered to `request`, where the site's answers are kept.
pub(super) async fn look_up(context: &Context, request: &Request) -> Option<Earlier> {
    let assignment = &context.assignment;
    if context.cache == CacheMode::Off {
        return None;
    }
    let key = cache_key(assignment.site.name(), AccountKey::DEFAULT, request);
    let entry = assignment.caches.get(CacheKind::Answer, &key).await?;
    let Some(stored) = CachedAnswer::stored(&entry.description, entry.body) else {
        assignment.caches.remove(CacheKind::Answer, &key);
        return None;
    };
    let question = stored.question(request, &assignment.settings.user_agent)?;
    Some(Earlier {
        key,
        stored,
        question,
    })
}

impl Earlier {
    /// The page that a 304 confirms. `None` where it speaks of another one.
    pub(super) fn confirmed(&self, by: &Answer) -> Option<Confirmed> {
        let stored = self.stored.confirmed(by)?;
        Some(Confirmed {
            key: self.key.clone(),
            description: stored.description(),
            answer: stored.answer(by),
        })
    }
}

/// A page that was confirmed.
pub(super) struct Confirmed {
    key: String,
    description: String,
    pub(super) answer: Answer,
}

impl Confirmed {
    /// Keep what the server said of it now.
    pub(super) fn keep(&self, context: &Context) {
        let caches = &context.assignment.caches;
        caches.describe(CacheKind::Answer, &self.key, self.description.clone());
    }
}

/// Keep an answer that was good, if it may be.
pub(super) fn keep(context: &Context, request: &Request, answer: &Answer) {
    let assignment = &context.assignment;
    if context.cache == CacheMode::Off {
        return;
    }
    let Some(stored) = CachedAnswer::of(request, answer, &assignment.settings.user_agent) else {
        return;
    };
    let key = cache_key(assignment.site.name(), AccountKey::DEFAULT, request);
    debug!(assignment.log, "kept for the next run"; "bytes" => stored.body().len());
    let entry = CacheEntry {
        description: stored.description(),
        body: stored.body().clone(),
    };
    assignment.caches.put(CacheKind::Answer, &key, entry);
}
