//! Endpoints: their request, their list, their records and follow-ups.

use crate::model::Method;
use crate::settings::LimitSettings;
use crate::site::document::{Item, Problems, Table, Text, hint};
use crate::site::endpoint::{Body, CapOf, Endpoint, ListRule};
use crate::site::extract::{Each, FollowRule, RecordRule};
use crate::site::paging::{By, Rule};
use crate::site::select::{Language, Path};
use crate::site::template::{JsonTemplate, Template};

use super::{field, keep, read_limits, read_pairs, save};

/// The endpoint and its limits, as far as each could be read.
pub(super) fn read(
    key: &Text,
    mut table: Table<'_>,
    problems: &mut Problems<'_>,
) -> (Option<Endpoint>, Option<LimitSettings>) {
    let limits = table.get("limits").map(|item| read_limits(&item, problems));
    let target = read_target(key, &mut table, problems);
    let language = read_language(&mut table, problems);
    let query = read_pairs(table.table("query", problems), problems);
    let headers = read_pairs(table.table("headers", problems), problems);
    let body = read_body(&mut table, problems);
    let identity = table.get("identity").map(|item| {
        item.texts(problems)
            .into_iter()
            .map(|text| text.text)
            .collect()
    });
    let records = table.tables("records", problems);
    let records: Vec<RecordRule> = records
        .into_iter()
        .filter_map(|table| field::read_record(language, table, false, problems))
        .collect();
    let follow = table.tables("follow", problems);
    let follow: Vec<(usize, FollowRule)> = follow
        .into_iter()
        .filter_map(|table| field::read_follow(language, table, problems))
        .collect();
    let list = table
        .table("list", problems)
        .and_then(|table| read_list(language, table, &records, &follow, problems));
    let save = table
        .get("save")
        .and_then(|item| save::read(&key.text, &item, problems));
    table.finish(problems);
    let limits = match &save {
        Some(_) => Some(save::limits(limits)),
        None => limits,
    };
    let mut endpoint = target.map(|(method, target)| Endpoint {
        name: key.text.as_str().into(),
        at: key.at,
        method,
        target,
        query,
        body,
        headers,
        language,
        identity,
        list,
        records,
        follow,
        save,
    });
    if let Some(endpoint) = &mut endpoint {
        save::fit(endpoint, problems);
    }
    if let Some(endpoint) = &endpoint
        && endpoint.method == Method::Get
        && endpoint.body != Body::None
    {
        problems.add(
            key.at,
            format!(
                "endpoint `{}` has a body but is a GET; write `post`",
                key.text
            ),
        );
    }
    (endpoint, limits)
}

fn read_target(
    key: &Text,
    table: &mut Table<'_>,
    problems: &mut Problems<'_>,
) -> Option<(Method, Template)> {
    let get = table.text("get", problems);
    let post = table.text("post", problems);
    let (method, text) = match (get, post) {
        (Some(text), None) => (Method::Get, text),
        (None, Some(text)) => (Method::Post, text),
        (None, None) => {
            problems.add(
                key.at,
                format!("endpoint `{}` needs `get` or `post`", key.text),
            );
            return None;
        }
        (Some(_), Some(text)) => {
            problems.add(
                text.at,
                format!(
                    "endpoint `{}` has both `get` and `post`; allowed: one of them",
                    key.text
                ),
            );
            return None;
        }
    };
    let template = keep(Template::parse(&text.text), text.at, problems)?;
    if !text.text.starts_with('/') && !text.text.contains("://") && !text.text.starts_with('{') {
        problems.add(
            text.at,
            format!(
                "`{}` is neither a path (`/…`) nor an absolute URL",
                text.text
            ),
        );
    }
    Some((method, template))
}

fn read_language(table: &mut Table<'_>, problems: &mut Problems<'_>) -> Language {
    match table.text("format", problems) {
        None => Language::Json,
        Some(text) => match text.text.as_str() {
            "json" => Language::Json,
            "html" => Language::Html,
            other => {
                problems.add(
                    text.at,
                    format!(
                        "`{other}` is not a format; {}",
                        hint(other, ["json", "html"])
                    ),
                );
                Language::Json
            }
        },
    }
}

fn read_body(table: &mut Table<'_>, problems: &mut Problems<'_>) -> Body {
    let form = table.get("form");
    let json = table.get("json");
    match (form, json) {
        (None, None) => Body::None,
        (Some(form), None) => Body::Form(read_pairs(form.table(problems), problems)),
        (None, Some(json)) => keep(JsonTemplate::parse(&json.json()), json.at(), problems)
            .map_or(Body::None, Body::Json),
        (Some(_), Some(json)) => {
            problems.add(json.at(), "both `form` and `json`; allowed: one of them");
            Body::None
        }
    }
}

fn read_list(
    language: Language,
    mut table: Table<'_>,
    records: &[RecordRule],
    follow: &[(usize, FollowRule)],
    problems: &mut Problems<'_>,
) -> Option<ListRule> {
    let at = table.at();
    let by = table
        .need("by", problems)
        .and_then(|item| item.text(problems));
    let mut whole =
        |key, problems: &mut Problems<'_>| table.get(key)?.integer(0..=1_000_000, problems);
    let from = whole("from", problems);
    let step = whole("step", problems);
    let window = whole("window", problems);
    if step == Some(0) {
        problems.add(
            at,
            "`list.step` must not be 0: every page would be the same",
        );
    }
    let first = table.get("first").map(|item| item.json());
    let end = table
        .get("end")
        .map(|item| item.one_or_many())
        .unwrap_or_default();
    let end = end.iter().map(Item::json).collect();
    let mut path = |key, problems: &mut Problems<'_>| {
        let text = table.text(key, problems)?;
        keep(Path::parse(language, &text.text), text.at, problems)
    };
    let next = path("next", problems);
    let more = path("more", problems);
    let done = path("done", problems);
    let total = path("total", problems);
    let total_pages = path("total_pages", problems);
    let mut kept = Vec::new();
    for (name, item) in table
        .table("keep", problems)
        .iter()
        .flat_map(|table| table.entries())
    {
        let path = item
            .text(problems)
            .and_then(|text| keep(Path::parse(language, &text.text), text.at, problems));
        kept.extend(path.map(|path| (name.text, path)));
    }
    let each = table
        .get("each")
        .map(|item| field::read_paths(language, &item, problems));
    let key = table
        .get("key")
        .and_then(|item| field::read_field(language, &item, problems));
    let cap = table
        .text("cap", problems)
        .and_then(|text| match text.text.as_str() {
            "items" => Some(CapOf::Items),
            "comments" => Some(CapOf::Comments),
            "none" => Some(CapOf::Nothing),
            other => {
                problems.add(
                    text.at,
                    format!(
                        "`{other}` is not a cap; {}",
                        hint(other, ["items", "comments", "none"])
                    ),
                );
                None
            }
        });
    table.finish(problems);
    let comments = records.first().is_some_and(|rule| &*rule.kind == "comment");
    let items = match each {
        Some(paths) => Each { paths, when: None },
        None => match (records.first(), follow.first()) {
            (Some(rule), _) => rule.each.clone(),
            (None, Some((_, rule))) => rule.each.clone(),
            (None, None) => {
                problems.add(
                    at,
                    "a list without records, follow-ups or `each` has no items",
                );
                return None;
            }
        },
    };
    let by = read_by(&by?, from, step, first, at, next.is_some(), problems)?;
    Some(ListRule {
        paging: Rule {
            by,
            end,
            window: window.and_then(|window| u64::try_from(window).ok()),
        },
        next,
        more,
        done,
        total,
        total_pages,
        keep: kept,
        items,
        key: key.or_else(|| records.first().map(|rule| rule.key.clone())),
        cap: cap.or(comments.then_some(CapOf::Comments)),
    })
}

fn read_by(
    by: &Text,
    from: Option<i64>,
    step: Option<i64>,
    first: Option<serde_json::Value>,
    at: usize,
    has_next: bool,
    problems: &mut Problems<'_>,
) -> Option<By> {
    let numbered = matches!(by.text.as_str(), "page" | "offset");
    let misplaced = |key: &str, given: bool, problems: &mut Problems<'_>| {
        if given {
            problems.add(
                at,
                format!("`list.{key}` has no meaning for a list by `{}`", by.text),
            );
        }
    };
    misplaced("from", from.is_some() && !numbered, problems);
    misplaced("step", step.is_some() && !numbered, problems);
    misplaced("first", first.is_some() && by.text != "cursor", problems);
    misplaced("next", has_next && numbered, problems);
    let needs_next = matches!(by.text.as_str(), "cursor" | "next_url");
    if needs_next && !has_next {
        problems.add(
            at,
            format!(
                "a list by `{}` needs `next`, the path of what asks for the next page",
                by.text
            ),
        );
    }
    match by.text.as_str() {
        "page" => Some(By::Page {
            from: from.unwrap_or(1),
            step: step.unwrap_or(1),
        }),
        "offset" => Some(By::Offset {
            from: from.unwrap_or(0),
            step,
        }),
        "cursor" => Some(By::Cursor { first }),
        "next_url" => Some(By::NextUrl),
        other => {
            let names = ["page", "offset", "cursor", "next_url"];
            problems.add(
                by.at,
                format!("`{other}` is not a way of paging; {}", hint(other, names)),
            );
            None
        }
    }
}
