//! Paging: from a list's state and one page's facts to the next state. Pure.
//!
//! A page's items are taken before its flags are obeyed, a cap is exact, and every list ends: a repeated cursor, pages
//! without anything new and empty pages that claim more are all bounded.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::template::plain;
use crate::model::{ListState, StopReason};

/// Pages in a row without a new item after which a list is stalled.
const MAX_STALE_PAGES: u32 = 3;

/// Fingerprints kept for a list without a cap: enough to see that pages repeat, small enough to be stored each time.
const SEEN_WITHOUT_CAP: usize = 1000;

/// How the next page is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum By {
    /// `{page}`: from, from + step, …
    Page { from: i64, step: i64 },
    /// `{offset}`: by `step`, or by the items of the page where there is none.
    Offset { from: i64, step: Option<i64> },
    /// `{cursor}`: what the page before said; `first` asks for the first page, if anything does.
    Cursor { first: Option<Value> },
    /// The page before names the URL.
    NextUrl,
}

impl By {
    /// The placeholder that it fills.
    pub(super) const fn placeholder(&self) -> Option<&'static str> {
        match self {
            Self::Page { .. } => Some("page"),
            Self::Offset { .. } => Some("offset"),
            Self::Cursor { .. } => Some("cursor"),
            Self::NextUrl => None,
        }
    }

    /// What asks for the page that `state` stands at.
    pub(super) fn current(&self, state: &ListState) -> Option<Value> {
        let first = || match self {
            Self::Page { from, .. } | Self::Offset { from, .. } => Some((*from).into()),
            Self::Cursor { first } => first.clone(),
            Self::NextUrl => None,
        };
        state.cursor.clone().or_else(first)
    }
}

/// What paging needs to know of a list.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rule {
    pub(super) by: By,
    /// Cursors that mean the end.
    pub(super) end: Vec<Value>,
    /// Items that the server gives at most.
    pub(super) window: Option<u64>,
}

/// What one page said.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Page {
    /// Keys of its items, in order.
    pub(super) items: Vec<String>,
    /// Whether there is more, where it said so.
    pub(super) more: Option<bool>,
    /// The next cursor or URL.
    pub(super) next: Option<Value>,
    /// The server's count of items.
    pub(super) total: Option<u64>,
    /// The server's count of pages.
    pub(super) total_pages: Option<u64>,
    /// Values to send with the pages to come.
    pub(super) keep: Map<String, Value>,
}

/// What becomes of an item of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Taken, and new to the list.
    New,
    /// Seen in the list before.
    Seen,
    /// Beyond the cap.
    Cut,
}

/// The result of a page.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Turn {
    /// `stop: None`: there is a page to ask for.
    pub(super) state: ListState,
    /// One for each item.
    pub(super) fates: Vec<Fate>,
}

fn fingerprint(key: &str) -> u64 {
    let hash = blake3::hash(key.as_bytes());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash.as_bytes()[..8]);
    u64::from_le_bytes(bytes)
}

/// Takes a page into a list. `cap`: the most distinct items that the list may give.
pub(super) fn turn(rule: &Rule, before: &ListState, page: Page, cap: Option<u64>) -> Turn {
    let mut state = before.clone();
    state.stop = None;
    state.pages = state.pages.saturating_add(1);
    state.total = page.total.or(state.total);
    state.sticky.extend(page.keep.clone());
    let fates = take_items(&mut state, &page.items, cap);
    let new = fates.iter().filter(|fate| **fate == Fate::New).count();
    let cut = fates.contains(&Fate::Cut);
    state.stale_pages = if new > 0 {
        0
    } else {
        state.stale_pages.saturating_add(1)
    };

    let current = rule.by.current(before);
    let next = next_cursor(rule, current.as_ref(), &page);
    let confirming = before.confirming;
    state.confirming = false;
    let at_cap = cap.is_some_and(|cap| state.items >= cap);
    state.stop = if cut {
        // The same page holds what was cut, should the cap be raised: then it is read again, and counted then.
        state.pages = before.pages;
        Some(StopReason::Cap)
    } else {
        match ending(rule, &state, &page, next.as_ref()) {
            Ending::Complete => {
                state.cursor = next.or(state.cursor);
                Some(StopReason::Complete)
            }
            Ending::Window => Some(StopReason::ServerWindow),
            _ if at_cap => {
                state.cursor = next.or(state.cursor);
                Some(StopReason::Cap)
            }
            Ending::Doubtful if confirming => Some(StopReason::EmptyUnconfirmed),
            Ending::Doubtful => {
                state.confirming = true;
                None
            }
            Ending::Goes => match next {
                _ if state.stale_pages >= MAX_STALE_PAGES => Some(StopReason::Stalled),
                None => Some(StopReason::Stalled),
                Some(next) if current.as_ref() == Some(&next) => Some(StopReason::Stalled),
                Some(next) => {
                    state.cursor = Some(next);
                    None
                }
            },
        }
    };
    Turn { state, fates }
}

fn take_items(state: &mut ListState, items: &[String], cap: Option<u64>) -> Vec<Fate> {
    let mut seen: HashSet<u64> = state.seen.iter().copied().collect();
    let mut fates = Vec::with_capacity(items.len());
    for key in items {
        let mark = fingerprint(key);
        fates.push(if seen.contains(&mark) {
            Fate::Seen
        } else if cap.is_some_and(|cap| state.items >= cap) {
            Fate::Cut
        } else {
            seen.insert(mark);
            state.seen.push(mark);
            state.items += 1;
            Fate::New
        });
    }
    if cap.is_none() && state.seen.len() > SEEN_WITHOUT_CAP {
        state.seen.drain(..state.seen.len() - SEEN_WITHOUT_CAP);
    }
    fates
}

/// What asks for the page after this one; `None`: nothing was named.
fn next_cursor(rule: &Rule, current: Option<&Value>, page: &Page) -> Option<Value> {
    let number = || current.and_then(Value::as_i64);
    match &rule.by {
        By::Page { step, .. } => number().and_then(|n| n.checked_add(*step)).map(Value::from),
        By::Offset { step, .. } => {
            let step = step.unwrap_or(i64::try_from(page.items.len()).unwrap_or(i64::MAX));
            number().and_then(|n| n.checked_add(step)).map(Value::from)
        }
        By::Cursor { .. } | By::NextUrl => page.next.clone().filter(|next| match next {
            Value::Null => false,
            Value::String(text) => !text.is_empty(),
            _ => true,
        }),
    }
}

enum Ending {
    /// The server said so, or nothing speaks for more.
    Complete,
    /// The server's own window is used up.
    Window,
    /// Empty, although there should be more.
    Doubtful,
    /// On.
    Goes,
}

fn ending(rule: &Rule, state: &ListState, page: &Page, next: Option<&Value>) -> Ending {
    let empty = page.items.is_empty();
    let sentinel = next.is_some_and(|next| rule.end.iter().any(|end| plain(end) == plain(next)));
    let by_count = state.total.map(|total| state.items >= total);
    let by_pages = page
        .total_pages
        .map(|pages| u64::from(state.pages) >= pages);
    // Cursors and next URLs are flags themselves: none named means the end, unless a flag says otherwise.
    let follows = matches!(rule.by, By::Cursor { .. } | By::NextUrl);
    let ends = sentinel
        || match page.more {
            Some(more) => !more,
            None if by_pages.is_some() => by_pages == Some(true),
            None if follows => next.is_none(),
            None => by_count == Some(true) || (empty && by_count.is_none()),
        };
    let window = rule.window.is_some_and(|window| state.items >= window);
    let short = by_count == Some(false);
    match (ends, window) {
        (true, true) if short || state.total.is_none() => Ending::Window,
        (true, _) => Ending::Complete,
        (false, true) => Ending::Window,
        (false, false) if empty => Ending::Doubtful,
        (false, false) => Ending::Goes,
    }
}

#[cfg(test)]
#[path = "paging_tests.rs"]
mod tests;
