//! Limits and bans of an origin.

use std::time::Duration;

use super::{LONGEST, one_of, read_time, whole};
use crate::sim::{Ban, Limit};
use crate::site::document::{Item, Problems, Table};

/// `limits` of the whole origin.
pub(super) fn read_list(table: &mut Table<'_>, problems: &mut Problems<'_>) -> Vec<Limit> {
    read_named(table, "limits", problems)
}

/// A list of limits under a key.
pub(super) fn read_named(
    table: &mut Table<'_>,
    key: &'static str,
    problems: &mut Problems<'_>,
) -> Vec<Limit> {
    table
        .get(key)
        .map(|item| read_items(&item, problems))
        .unwrap_or_default()
}

/// One limit, or a list of them.
pub(super) fn read_items(item: &Item<'_>, problems: &mut Problems<'_>) -> Vec<Limit> {
    item.one_or_many()
        .iter()
        .filter_map(|item| {
            let table = item.table(problems)?;
            read_one(table, problems)
        })
        .collect()
}

/// A list of lists.
pub(super) fn read_sets(item: &Item<'_>, problems: &mut Problems<'_>) -> Vec<Vec<Limit>> {
    item.one_or_many()
        .iter()
        .map(|item| read_items(item, problems))
        .collect()
}

#[derive(Clone, Copy)]
enum Kind {
    AtOnce,
    Fixed,
    Sliding,
    Bucket,
}

const KINDS: &[(&str, Kind)] = &[
    ("at_once", Kind::AtOnce),
    ("fixed", Kind::Fixed),
    ("sliding", Kind::Sliding),
    ("bucket", Kind::Bucket),
];

fn read_one(mut table: Table<'_>, problems: &mut Problems<'_>) -> Option<Limit> {
    let kind = table
        .need("kind", problems)
        .and_then(|item| one_of(&item, KINDS, problems))?;
    let limit = match kind {
        Kind::AtOnce => most(&mut table, problems).map(|max| Limit::Concurrency { max }),
        Kind::Fixed => {
            let max = most(&mut table, problems);
            let window = window(&mut table, "window", problems);
            max.zip(window).map(|(max, window)| Limit::Fixed {
                max,
                window,
                // Drawn for each run.
                phase: Duration::ZERO,
            })
        }
        Kind::Sliding => {
            let max = most(&mut table, problems);
            let window = window(&mut table, "window", problems);
            let count_refused = table
                .get("count_refused")
                .and_then(|item| item.boolean(problems))
                .unwrap_or(false);
            max.zip(window).map(|(max, window)| Limit::Sliding {
                max,
                window,
                count_refused,
            })
        }
        Kind::Bucket => {
            let per_second = table
                .need("per_second", problems)
                .and_then(|item| item.number(0.001..=1e6, problems));
            let burst = whole(&mut table, "burst", 1..=1_000_000, problems).unwrap_or(1);
            per_second.map(|per_second| Limit::Bucket { per_second, burst })
        }
    };
    table.finish(problems);
    limit
}

fn most(table: &mut Table<'_>, problems: &mut Problems<'_>) -> Option<u32> {
    let max = table
        .need("max", problems)?
        .integer(1..=1_000_000, problems)?;
    u32::try_from(max).ok()
}

fn window(
    table: &mut Table<'_>,
    key: &'static str,
    problems: &mut Problems<'_>,
) -> Option<Duration> {
    let item = table.need(key, problems)?;
    let window = read_time(&item, LONGEST, problems)?;
    if window.is_zero() {
        problems.add(item.at(), format!("`{}` must be above zero", item.name));
        return None;
    }
    Some(window)
}

/// What follows too many refusals.
pub(super) fn read_ban(mut table: Table<'_>, problems: &mut Problems<'_>) -> Option<Ban> {
    let refusals = table
        .need("refusals", problems)
        .and_then(|item| item.integer(1..=1_000_000, problems));
    let within = window(&mut table, "within", problems);
    let lasts = window(&mut table, "lasts", problems);
    table.finish(problems);
    Some(Ban {
        refusals: u32::try_from(refusals?).ok()?,
        within: within?,
        lasts: lasts?,
    })
}
