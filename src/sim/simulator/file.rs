//! Scenarios as files: TOML to a [`Scenario`]. All problems are found at once, each with its line.

mod limit;
#[cfg(test)]
mod tests;

use std::time::Duration;

use self::limit::{read_ban, read_list, read_sets};
use super::origin::{Mishap, OriginSpec, Refusal, Trouble};
use super::scenario::{Change, Chaos, Configured, Demand, Scenario};
use super::service::{Draw, Service};
use super::told::{Fields, Reset, RetryTold};
use crate::site::document::{self, Item, Problems, Table, hint};
use crate::site::{DefinitionErrors, read_limits};

/// The longest run.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);

/// Reads a scenario; `source` names the file in messages, and the scenario.
///
/// # Errors
/// Everything that is wrong with it, with its lines.
pub fn read(source: &str, text: &str) -> Result<Scenario, DefinitionErrors> {
    document::read(source, text, |root, problems| {
        Some(read_scenario(source, root, problems))
    })
}

fn read_scenario(source: &str, mut root: Table<'_>, problems: &mut Problems<'_>) -> Scenario {
    let usual = Scenario::default();
    let about = root.text("about", problems).map(|text| text.text);
    let lasts = time(&mut root, "lasts", LONGEST, problems).unwrap_or(usual.lasts);
    let wire = time(&mut root, "wire", LONGEST, problems).unwrap_or(usual.wire);
    let timeout = time(&mut root, "timeout", LONGEST, problems).unwrap_or(usual.timeout);
    let warm_up = time(&mut root, "warm_up", LONGEST, problems);
    let strangers = number(&mut root, "strangers", 0.0..=1e5, problems).unwrap_or(0.0);
    if lasts.is_zero() {
        problems.add(0, "`lasts` must be above zero");
    }
    if timeout.is_zero() {
        problems.add(0, "`timeout` must be above zero");
    }
    let mut origin = match root.table("origin", problems) {
        Some(table) => read_origin(table, problems),
        None => OriginSpec::default(),
    };
    let mut configured = match root.get("limits") {
        Some(item) => read_configured(&item, problems),
        None => Configured::default(),
    };
    if let Some(item) = root.get("max_concurrency_num")
        && let Some(cap) = item.integer(1..=10_000, problems)
    {
        configured.max_concurrency_num = u32::try_from(cap).unwrap_or(u32::MAX);
    }
    for table in root.tables("endpoints", problems) {
        read_endpoint(table, &mut origin, &mut configured, problems);
    }
    if origin.endpoints.is_empty() {
        origin.endpoints.push(Vec::new());
    }
    let clients = root.table("clients", problems);
    let (clients, demand, chaos) = clients.map_or_else(
        || (1, Demand::Always, Chaos::default()),
        |table| read_clients(table, problems),
    );
    let mut changes: Vec<Change> = Vec::new();
    for table in root.tables("changes", problems) {
        changes.extend(read_change(table, &origin, changes.last(), problems));
    }
    root.finish(problems);
    Scenario {
        name: source.to_owned(),
        about: about.unwrap_or_default(),
        lasts,
        origin,
        clients,
        demand,
        changes,
        strangers,
        chaos,
        configured,
        wire,
        timeout,
        warm_up: warm_up.unwrap_or_else(|| usual.warm_up.min(lasts / 4)),
    }
}

fn read_origin(mut table: Table<'_>, problems: &mut Problems<'_>) -> OriginSpec {
    let limits = read_list(&mut table, problems);
    let ban = table
        .table("ban", problems)
        .and_then(|table| read_ban(table, problems));
    let troubles = table
        .tables("faults", problems)
        .into_iter()
        .filter_map(|table| read_trouble(table, problems))
        .collect();
    let service = table
        .table("service", problems)
        .map_or_else(Service::default, |table| read_service(table, problems));
    let usual = Refusal::default();
    let refusal = table.table("refusal", problems).map(|mut table| {
        let soft = table
            .get("soft")
            .and_then(|item| item.boolean(problems))
            .unwrap_or(false);
        let refusal = Refusal {
            soft,
            retry_after: named(&mut table, "retry_after", RETRY_AFTER, problems)
                .unwrap_or_default(),
            after: time(&mut table, "after", LONGEST, problems).unwrap_or(usual.after),
        };
        table.finish(problems);
        refusal
    });
    let fields = named(&mut table, "fields", FIELDS, problems).unwrap_or_default();
    table.finish(problems);
    OriginSpec {
        limits,
        endpoints: Vec::new(),
        ban,
        troubles,
        service,
        refusal: refusal.unwrap_or_default(),
        fields,
    }
}

const RETRY_AFTER: &[(&str, RetryTold)] = &[
    ("none", RetryTold::Absent),
    ("seconds", RetryTold::Seconds),
    ("fraction", RetryTold::Fraction),
    ("date", RetryTold::Date),
    ("rfc850", RetryTold::Rfc850),
    ("asctime", RetryTold::Asctime),
    ("zero", RetryTold::Zero),
    ("past", RetryTold::Past),
    ("rotate", RetryTold::Rotate),
];

const FIELDS: &[(&str, Fields)] = &[
    ("none", Fields::Absent),
    ("ietf", Fields::Ietf),
    ("ietf-trap", Fields::IetfTrap),
    ("x-seconds", Fields::Legacy(Reset::Seconds)),
    ("x-epoch", Fields::Legacy(Reset::Epoch)),
    ("x-millis", Fields::Legacy(Reset::Millis)),
    ("x-iso", Fields::Legacy(Reset::Iso)),
];

const FAULTS: &[(&str, Mishap)] = &[
    ("error", Mishap::Error),
    ("hang", Mishap::Hang),
    ("reset", Mishap::Reset),
    ("slow", Mishap::Slow(10.0)),
];

fn read_trouble(mut table: Table<'_>, problems: &mut Problems<'_>) -> Option<Trouble> {
    let share = table
        .need("share", problems)
        .and_then(|item| item.number(0.0..=1.0, problems));
    let what = table
        .need("kind", problems)
        .and_then(|item| one_of(&item, FAULTS, problems));
    let factor = match what {
        Some(Mishap::Slow(_)) => number(&mut table, "factor", 1.0..=1000.0, problems),
        _ => None,
    };
    table.finish(problems);
    Some(Trouble {
        share: share?,
        what: factor.map_or(what?, Mishap::Slow),
    })
}

fn read_service(mut table: Table<'_>, problems: &mut Problems<'_>) -> Service {
    let usual = Service::default();
    let time_of = |table: &mut Table<'_>, usual: Draw, problems: &mut Problems<'_>| Draw {
        fixed: time(table, "time", LONGEST, problems).unwrap_or(usual.fixed),
        random: time(table, "random", LONGEST, problems).unwrap_or(usual.random),
    };
    let other = table.table("other", problems).and_then(|mut other| {
        let share = other
            .need("share", problems)
            .and_then(|item| item.number(0.0..=1.0, problems));
        let draw = time_of(&mut other, Draw::default(), problems);
        other.finish(problems);
        Some((share?, draw))
    });
    let service = Service {
        time: time_of(&mut table, usual.time, problems),
        other,
        workers: whole(&mut table, "workers", 1..=100_000, problems),
    };
    table.finish(problems);
    service
}

fn read_endpoint(
    mut table: Table<'_>,
    origin: &mut OriginSpec,
    configured: &mut Configured,
    problems: &mut Problems<'_>,
) {
    if origin.endpoints.len() == OriginSpec::MOST_ENDPOINTS {
        let most = OriginSpec::MOST_ENDPOINTS;
        problems.add(table.at(), format!("at most {most} endpoints"));
        return;
    }
    origin
        .endpoints
        .push(limit::read_named(&mut table, "origin", problems));
    let own = table.get("limits").map(|item| read_limits(&item, problems));
    configured.endpoints.push(own.unwrap_or_default());
    table.finish(problems);
}

/// `[limits]`: as in the settings.
fn read_configured(item: &Item<'_>, problems: &mut Problems<'_>) -> Configured {
    Configured {
        site: read_limits(item, problems),
        ..Configured::default()
    }
}

fn read_clients(mut table: Table<'_>, problems: &mut Problems<'_>) -> (usize, Demand, Chaos) {
    let count = whole(&mut table, "count", 1..=100, problems).unwrap_or(1);
    let tasks = table
        .get("tasks")
        .and_then(|item| item.integer(1..=10_000_000, problems));
    let per_second = number(&mut table, "per_second", 0.001..=1e5, problems);
    let demand = match (tasks, per_second) {
        (Some(_), Some(_)) => {
            problems.add(table.at(), "give `tasks` or `per_second`, not both");
            Demand::Always
        }
        (Some(tasks), None) => Demand::Total(tasks.unsigned_abs()),
        (None, Some(rate)) => Demand::PerSecond(rate),
        (None, None) => Demand::Always,
    };
    let dropped = number(&mut table, "dropped", 0.0..=0.9, problems).unwrap_or(0.0);
    let restarts = table
        .get("restarts")
        .map(|item| item.one_or_many())
        .unwrap_or_default()
        .iter()
        .filter_map(|item| read_time(item, LONGEST, problems))
        .collect();
    table.finish(problems);
    (count as usize, demand, Chaos { dropped, restarts })
}

/// What is not said stays as it was before.
fn read_change(
    mut table: Table<'_>,
    origin: &OriginSpec,
    before: Option<&Change>,
    problems: &mut Problems<'_>,
) -> Option<Change> {
    let at_item = table.need("at", problems);
    let at = at_item
        .as_ref()
        .and_then(|item| read_time(item, LONGEST, problems));
    let limits = table
        .get("limits")
        .map(|item| limit::read_items(&item, problems));
    let endpoints = table.get("endpoints").map(|item| {
        let sets = read_sets(&item, problems);
        if sets.len() != origin.endpoints.len() {
            let text = format!(
                "`{}` must have a list of limits for each endpoint, {} in all, not {}",
                item.name,
                origin.endpoints.len(),
                sets.len()
            );
            problems.add(item.at(), text);
        }
        sets
    });
    table.finish(problems);
    let at = at?;
    if before.is_some_and(|before| before.at >= at) {
        let place = at_item.map_or(0, |item| item.at());
        problems.add(place, "changes must be in order of time");
    }
    let (old_limits, old_endpoints) = before
        .map_or((&origin.limits, &origin.endpoints), |before| {
            (&before.limits, &before.endpoints)
        });
    Some(Change {
        at,
        limits: limits.unwrap_or_else(|| old_limits.clone()),
        endpoints: endpoints.unwrap_or_else(|| old_endpoints.clone()),
    })
}

fn time(
    table: &mut Table<'_>,
    key: &'static str,
    most: Duration,
    problems: &mut Problems<'_>,
) -> Option<Duration> {
    read_time(&table.get(key)?, most, problems)
}

fn read_time(item: &Item<'_>, most: Duration, problems: &mut Problems<'_>) -> Option<Duration> {
    let text = item.text(problems)?;
    match humantime::parse_duration(&text.text) {
        Ok(time) if time <= most => Some(time),
        Ok(_) => {
            let most = humantime::format_duration(most);
            problems.add(text.at, format!("`{}` must be at most {most}", item.name));
            None
        }
        Err(error) => {
            let wanted = "must be a time with its unit, such as \"10ms\" or \"2min\"";
            problems.add(text.at, format!("`{}` {wanted}: {error}", item.name));
            None
        }
    }
}

fn number(
    table: &mut Table<'_>,
    key: &'static str,
    range: std::ops::RangeInclusive<f64>,
    problems: &mut Problems<'_>,
) -> Option<f64> {
    table.get(key)?.number(range, problems)
}

fn whole(
    table: &mut Table<'_>,
    key: &'static str,
    range: std::ops::RangeInclusive<i64>,
    problems: &mut Problems<'_>,
) -> Option<u32> {
    let value = table.get(key)?.integer(range, problems)?;
    u32::try_from(value).ok()
}

fn named<T: Copy>(
    table: &mut Table<'_>,
    key: &'static str,
    names: &[(&str, T)],
    problems: &mut Problems<'_>,
) -> Option<T> {
    one_of(&table.get(key)?, names, problems)
}

fn one_of<T: Copy>(item: &Item<'_>, names: &[(&str, T)], problems: &mut Problems<'_>) -> Option<T> {
    let text = item.text(problems)?;
    let found = names.iter().find(|(name, _)| *name == text.text);
    if found.is_none() {
        let known = hint(&text.text, names.iter().map(|(name, _)| *name));
        problems.add(
            text.at,
            format!("`{}` cannot be `{}`; {known}", item.name, text.text),
        );
    }
    found.map(|(_, value)| *value)
}
