//! The schema of site definitions: from TOML to the compiled definition. All problems are found at once.

mod endpoint;
mod field;
mod save;

use std::collections::BTreeMap;
use std::time::Duration;

use regex::Regex;

use super::SiteLimits;
use super::answers::{AnswerRule, When};
use super::definition::{CrawlPart, SiteDefinition};
use super::document::{Item, Problems, Table, Text, hint};
use super::endpoint::{CapOf, Common};
use super::inputs::ModeRule;
use super::predicate::Predicate;
use super::select::Language;
use super::template::Template;
use super::urls::parse_web;
use super::{DefinitionErrors, check, document};
use crate::model::{Mode, Name, Outcome, RobotsPolicy};
use crate::settings::{LimitMode, LimitSettings, Profile};

/// What `total_timeout` may be.
const LONGEST: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(86_400);

/// Reads a definition.
pub(super) fn parse(source: &str, text: &str) -> Result<SiteDefinition, DefinitionErrors> {
    document::read(source, text, |root, problems| {
        let definition = read_site(root, problems);
        if let Some(definition) = &definition {
            check::check(definition, problems);
        }
        definition
    })
}

fn read_site(mut root: Table<'_>, problems: &mut Problems<'_>) -> Option<SiteDefinition> {
    let name = root
        .need("name", problems)
        .and_then(|item| item.text(problems));
    if let Some(name) = &name
        && !is_name(&name.text)
    {
        problems.add(
            name.at,
            format!(
                "`{}` is not a name of a site; allowed: a-z, 0-9, `-`",
                name.text
            ),
        );
    }
    let base = root
        .need("base_url", problems)
        .and_then(|item| item.text(problems));
    let base = base.and_then(|base| {
        keep(
            parse_web(&base.text).map_err(|why| format!("`base_url`: {why}")),
            base.at,
            problems,
        )
    });
    let robots = root.text("robots", problems).and_then(|text| {
        keep(
            text.text
                .parse::<RobotsPolicy>()
                .map_err(|error| error.to_string()),
            text.at,
            problems,
        )
    });
    let headers = read_pairs(root.table("headers", problems), problems);
    let mut limits = SiteLimits {
        site: root
            .get("limits")
            .map(|item| read_limits(&item, problems))
            .unwrap_or_default(),
        endpoints: BTreeMap::new(),
    };
    let answers = root.tables("answers", problems);
    let answers = answers
        .into_iter()
        .filter_map(|table| read_answer(table, problems))
        .collect();
    let mut endpoints = BTreeMap::new();
    if let Some(table) = root.table("endpoints", problems) {
        for (key, item) in table.entries() {
            let Some(table) = item.table(problems) else {
                continue;
            };
            if !is_name(&key.text.replace('_', "-")) {
                problems.add(
                    key.at,
                    format!(
                        "`{}` is not a name of an endpoint; allowed: a-z, 0-9, `-`, `_`",
                        key.text
                    ),
                );
            }
            let (endpoint, own) = endpoint::read(&key, table, problems);
            limits
                .endpoints
                .extend(own.map(|own| (key.text.clone(), own)));
            endpoints.extend(endpoint.map(|endpoint| (key.text.clone(), endpoint)));
        }
    }
    let mut modes = BTreeMap::new();
    let mut crawl = None;
    if let Some(mut table) = root.table("modes", problems) {
        for (key, mode, each) in [
            ("search", Mode::Search, "keyword"),
            ("detail", Mode::Detail, "id"),
            ("creator", Mode::Creator, "creator"),
        ] {
            let rule = table
                .table(key, problems)
                .and_then(|table| read_mode(table, each, problems));
            modes.extend(rule.map(|rule| (mode, rule)));
        }
        crawl = table
            .table("crawl", problems)
            .map(|table| read_crawl(table, problems));
        table.finish(problems);
    }
    root.finish(problems);
    mark_starts(&modes, &mut endpoints);
    // A stand-in, so that the parts are compared all the same: the problem itself is noted.
    let base = base.or_else(|| parse_web("http://localhost/").ok())?;
    Some(SiteDefinition {
        common: Common {
            site: name.map_or_else(|| Name::from(""), |name| name.text.into()),
            base,
            headers,
        },
        robots: robots.unwrap_or(RobotsPolicy::Obey),
        limits,
        answers,
        endpoints,
        modes,
        crawl,
    })
}

/// Lists that a mode starts from are bounded by the job's items, unless they say otherwise.
fn mark_starts(
    modes: &BTreeMap<Mode, ModeRule>,
    endpoints: &mut BTreeMap<String, super::endpoint::Endpoint>,
) {
    let starts = [Mode::Search, Mode::Creator]
        .into_iter()
        .filter_map(|mode| modes.get(&mode));
    for start in starts.flat_map(|mode| &mode.start) {
        let list = endpoints
            .get_mut(start)
            .and_then(|endpoint| endpoint.list.as_mut());
        if let Some(list) = list {
            list.cap.get_or_insert(CapOf::Items);
        }
    }
}

/// A name as sites and endpoints bear it.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// The value, or a problem at `at`.
fn keep<T>(result: Result<T, String>, at: usize, problems: &mut Problems<'_>) -> Option<T> {
    result.map_err(|why| problems.add(at, why)).ok()
}

fn read_regex(text: &Text, problems: &mut Problems<'_>) -> Option<Regex> {
    let result = Regex::new(&text.text)
        .map_err(|error| format!("`{}` is not a regular expression: {error}", text.text));
    keep(result, text.at, problems)
}

/// The pairs of a table of headers, a query or a form: texts, numbers, true and false.
fn read_pairs(table: Option<Table<'_>>, problems: &mut Problems<'_>) -> Vec<(String, Template)> {
    let mut pairs = Vec::new();
    for (key, item) in table.iter().flat_map(|table| table.entries()) {
        let text = match item.json() {
            serde_json::Value::String(text) => text,
            value @ (serde_json::Value::Number(_) | serde_json::Value::Bool(_)) => {
                value.to_string()
            }
            _ => {
                problems.add(
                    item.at(),
                    format!("`{}` must be text, a number, true or false", item.name),
                );
                continue;
            }
        };
        let template = keep(Template::parse(&text), item.at(), problems);
        pairs.extend(template.map(|template| (key.text, template)));
    }
    pairs
}

/// The limits of a site or an endpoint.
pub(crate) fn read_limits(item: &Item<'_>, problems: &mut Problems<'_>) -> LimitSettings {
    let Some(mut table) = item.table(problems) else {
        return LimitSettings::default();
    };
    let mut whole = |key, range: std::ops::RangeInclusive<i64>, problems: &mut Problems<'_>| {
        let value = table.get(key)?.integer(range, problems)?;
        u32::try_from(value).ok()
    };
    let max_concurrency_num = whole("max_concurrency_num", 1..=10_000, problems);
    let burst = whole("burst", 1..=1000, problems);
    let rate = table
        .text("rate", problems)
        .and_then(|text| keep(text.text.parse(), text.at, problems));
    let mode = table.text("mode", problems).and_then(|text| {
        let named = text.text.parse::<LimitMode>();
        keep(named.map_err(|error| error.to_string()), text.at, problems)
    });
    let profile = table.text("profile", problems).and_then(|text| {
        let named = text.text.parse::<Profile>();
        keep(named.map_err(|error| error.to_string()), text.at, problems)
    });
    let quota = table.texts("quota", problems);
    let quota = quota
        .iter()
        .filter_map(|text| keep(text.text.parse(), text.at, problems))
        .collect();
    let total_timeout = table.text("total_timeout", problems).and_then(|text| {
        let time = humantime::parse_duration(&text.text).ok();
        let time = time.filter(|time| LONGEST.contains(time));
        let wrong = || {
            format!(
                "`{}` is not a time from 1ms to 1day, such as \"30s\" or \"2h\"",
                text.text
            )
        };
        keep(time.ok_or_else(wrong), text.at, problems)
    });
    table.finish(problems);
    LimitSettings {
        total_timeout,
        mode,
        profile,
        max_concurrency_num,
        rate,
        burst,
        quota,
    }
}

fn read_answer(mut table: Table<'_>, problems: &mut Problems<'_>) -> Option<AnswerRule> {
    let when = table
        .need("when", problems)
        .and_then(|item| item.table(problems));
    let when = when.map(|when| read_when(when, problems));
    let is = table
        .need("is", problems)
        .and_then(|item| item.text(problems));
    let is = is.and_then(|text| {
        let known = text.text.parse::<Outcome>();
        let names = Outcome::ALL.map(Outcome::as_str);
        keep(
            known.map_err(|_| {
                format!(
                    "`{}` is not an outcome class; {}",
                    text.text,
                    hint(&text.text, names)
                )
            }),
            text.at,
            problems,
        )
    });
    table.finish(problems);
    Some(AnswerRule {
        when: when?,
        is: is?,
    })
}

fn read_when(mut table: Table<'_>, problems: &mut Problems<'_>) -> When {
    if table.entries().is_empty() {
        problems.add(table.at(), "`when` is empty: it would match every answer");
    }
    let status = table
        .get("status")
        .map(|item| item.one_or_many())
        .unwrap_or_default();
    let status = status
        .iter()
        .filter_map(|item| read_status(item, problems))
        .collect();
    let mut headers = Vec::new();
    for (name, item) in table
        .table("header", problems)
        .iter()
        .flat_map(|table| table.entries())
    {
        let value = item
            .text(problems)
            .and_then(|text| read_regex(&text, problems));
        headers.extend(value.map(|value| (name.text.to_ascii_lowercase(), value)));
    }
    let content_type = table
        .texts("content_type", problems)
        .into_iter()
        .map(|text| text.text.to_ascii_lowercase())
        .collect();
    let json = table.text("json", problems).and_then(|text| {
        keep(
            Predicate::parse(Language::Json, &text.text),
            text.at,
            problems,
        )
    });
    let text = table
        .texts("text", problems)
        .into_iter()
        .map(|text| text.text)
        .collect();
    let mut regex = |key, problems: &mut Problems<'_>| {
        let text = table.text(key, problems)?;
        read_regex(&text, problems)
    };
    let matches = regex("matches", problems);
    let location = regex("location", problems);
    let empty = table.get("empty").and_then(|item| item.boolean(problems));
    let endpoints = table.texts("endpoint", problems);
    table.finish(problems);
    When {
        status,
        headers,
        content_type,
        json,
        text,
        matches,
        empty,
        location,
        endpoints,
    }
}

/// `429`, `"5xx"` or `"460-479"`.
fn read_status(item: &Item<'_>, problems: &mut Problems<'_>) -> Option<(u16, u16)> {
    if !item.is_text() {
        let code = u16::try_from(item.integer(100..=599, problems)?).ok()?;
        return Some((code, code));
    }
    let text = item.text(problems)?.text;
    let range = match text.strip_suffix("xx") {
        Some(class) => class
            .parse::<u16>()
            .ok()
            .map(|class| (class * 100, class * 100 + 99)),
        None => text
            .split_once('-')
            .and_then(|(from, to)| Some((from.trim().parse().ok()?, to.trim().parse().ok()?))),
    };
    let range = range.filter(|(from, to)| from <= to && (100..=599).contains(from) && *to <= 599);
    if range.is_none() {
        problems.add(
            item.at(),
            format!("`{text}` is not a status; allowed: 429, \"5xx\", \"460-479\" (100 to 599)"),
        );
    }
    range
}

fn read_mode(mut table: Table<'_>, each: &str, problems: &mut Problems<'_>) -> Option<ModeRule> {
    let at = table.at();
    let each = table
        .text("each", problems)
        .map_or_else(|| each.to_owned(), |text| text.text);
    let start = table
        .need("start", problems)
        .map(|item| item.texts(problems));
    let inputs = table.texts("inputs", problems);
    let inputs = inputs
        .iter()
        .filter_map(|text| read_regex(text, problems))
        .collect();
    table.finish(problems);
    Some(ModeRule {
        at,
        each,
        start: start?.into_iter().map(|text| text.text).collect(),
        inputs,
    })
}

fn read_crawl(mut table: Table<'_>, problems: &mut Problems<'_>) -> CrawlPart {
    let mut urls = Vec::new();
    for text in table.texts("urls", problems) {
        urls.extend(
            keep(
                parse_web(&text.text).map_err(|why| format!("`{}`: {why}", text.text)),
                text.at,
                problems,
            )
            .map(String::from),
        );
    }
    let records = table.tables("records", problems);
    let records = records
        .into_iter()
        .filter_map(|table| field::read_record(Language::Html, table, true, problems))
        .collect();
    table.finish(problems);
    CrawlPart { urls, records }
}
