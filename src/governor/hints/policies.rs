//! `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers, with the forms of its older versions).
//!
//! A policy allows `q` requests in each `w` seconds; a `RateLimit` member says that `r` of them are left for `t`
//! seconds. A burst of a short policy may look like a licence to be fast, `r=10000;t=10` under `q=10000;w=1000`:
//! the stricter of `q/w` and `r/t` counts. A malformed field is ignored as a whole.

use std::time::Duration;

use super::bounds::Bounds;
use super::structured::{Bare, Member, dictionary, list};
use crate::model::Headers;

/// What a policy counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Requests,
    AtOnce,
    /// Bytes, or something that is not known here.
    Foreign,
}

#[derive(Clone, Debug, PartialEq)]
struct Policy {
    /// Older versions give none.
    name: Option<String>,
    unit: Unit,
    quota: u64,
    window: Option<Duration>,
    partition: Option<String>,
}

/// Adds what the two fields say to `bounds`; returns the longest window of a policy on requests.
pub(super) fn read(headers: &Headers, bounds: &mut Bounds) -> Option<Duration> {
    let policies = field(headers, "ratelimit-policy")
        .and_then(|field| list(&field))
        .and_then(|members| members.iter().map(policy).collect::<Option<Vec<_>>>())
        .unwrap_or_default();
    for policy in &policies {
        match (policy.unit, policy.window) {
            (Unit::Requests, Some(window)) => bounds.policy(policy.quota, window),
            (Unit::AtOnce, _) => bounds.at_once(policy.quota),
            (Unit::Requests, None) | (Unit::Foreign, _) => {}
        }
    }
    let states = field(headers, "ratelimit").and_then(|field| states(&field));
    for state in states.unwrap_or_default() {
        let of_requests = policies
            .iter()
            .find(|policy| policy.name.is_some() && policy.name == state.name)
            .is_none_or(|policy| policy.unit == Unit::Requests);
        if !of_requests {
            continue;
        }
        if let Some(wait) = state.wait {
            bounds.left(state.left, wait, true);
        }
        name_bucket(state.name.as_deref(), state.partition.as_deref(), bounds);
    }
    let of_requests = || {
        policies
            .iter()
            .filter(|policy| policy.unit == Unit::Requests)
    };
    for policy in of_requests() {
        name_bucket(policy.name.as_deref(), policy.partition.as_deref(), bounds);
    }
    of_requests().filter_map(|policy| policy.window).max()
}

fn name_bucket(name: Option<&str>, partition: Option<&str>, bounds: &mut Bounds) {
    if let Some(name) = name {
        // A line break occurs in neither.
        let text = format!("{name}\n{}", partition.unwrap_or_default());
        bounds.bucket("policy", text.as_bytes());
    }
}

/// All lines of a field as one, as RFC 9651 §4.2 reads them.
fn field(headers: &Headers, name: &str) -> Option<String> {
    let lines = headers.0.iter().filter(|(field, _)| field == name);
    let lines: Vec<&str> = lines
        .map(|(_, value)| std::str::from_utf8(value).ok())
        .collect::<Option<_>>()?;
    (!lines.is_empty()).then(|| lines.join(", ").trim().to_owned())
}

/// `"name";q=100;w=60;qu="requests";pk=:…:`, in older versions `100;w=60`.
fn policy(member: &Member) -> Option<Policy> {
    let (name, quota) = match &member.item {
        Bare::Text(name) => (Some(name.clone()), count(member.param("q")?)?),
        item @ Bare::Integer(_) => (None, count(item)?),
        Bare::Bytes(_) | Bare::Other => return None,
    };
    let window = match member.param("w").map(count) {
        None => None,
        Some(Some(seconds)) if seconds > 0 => Some(Duration::from_secs(seconds)),
        Some(_) => return None,
    };
    let unit = match member.param("qu") {
        None => Unit::Requests,
        Some(Bare::Text(unit)) => match unit.as_str() {
            "requests" => Unit::Requests,
            "concurrent-requests" => Unit::AtOnce,
            _ => Unit::Foreign,
        },
        Some(_) => return None,
    };
    Some(Policy {
        name,
        unit,
        quota,
        window,
        partition: partition(member),
    })
}

/// How much of a policy is left.
#[derive(Clone, Debug, PartialEq)]
struct State {
    name: Option<String>,
    left: u64,
    wait: Option<Duration>,
    partition: Option<String>,
}

/// `"name";r=50;t=30`, in older versions one state as `limit=100, remaining=50, reset=30`.
fn states(field: &str) -> Option<Vec<State>> {
    if let Some(members) = list(field) {
        return members.iter().map(state).collect();
    }
    let members = dictionary(field)?;
    let value = |key: &str| {
        let mut members = members.iter().rev();
        members.find(|member| member.key.as_deref() == Some(key))
    };
    Some(vec![State {
        name: None,
        left: count(&value("remaining")?.item)?,
        wait: match value("reset") {
            Some(member) => Some(Duration::from_secs(count(&member.item)?)),
            None => None,
        },
        partition: None,
    }])
}

fn state(member: &Member) -> Option<State> {
    let Bare::Text(name) = &member.item else {
        return None;
    };
    Some(State {
        name: Some(name.clone()),
        left: count(member.param("r")?)?,
        wait: match member.param("t") {
            Some(seconds) => Some(Duration::from_secs(count(seconds)?)),
            None => None,
        },
        partition: partition(member),
    })
}

/// The part of the clients that share the quota with us.
fn partition(member: &Member) -> Option<String> {
    match member.param("pk")? {
        Bare::Text(key) | Bare::Bytes(key) => Some(key.clone()),
        Bare::Integer(key) => Some(key.to_string()),
        Bare::Other => None,
    }
}

fn count(value: &Bare) -> Option<u64> {
    match value {
        Bare::Integer(number) => u64::try_from(*number).ok(),
        Bare::Text(_) | Bare::Bytes(_) | Bare::Other => None,
    }
}
