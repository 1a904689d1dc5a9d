//! Checks that look at a definition as a whole: who reaches whom, and who fills what.

use std::collections::{BTreeMap, BTreeSet};

use super::definition::SiteDefinition;
use super::document::{Problems, hint};
use super::endpoint::Endpoint;
use super::extract::{Field, Source};
use super::paging::By;
use super::template::Hole;

/// One way into an endpoint.
struct Way<'a> {
    at: usize,
    from: String,
    fills: BTreeSet<&'a str>,
}

/// Notes every contradiction between the parts of a definition.
pub(super) fn check(site: &SiteDefinition, problems: &mut Problems<'_>) {
    let names = || site.endpoints.keys().map(String::as_str);
    for rule in &site.answers {
        for name in &rule.when.endpoints {
            if !site.endpoints.contains_key(&name.text) {
                problems.add(
                    name.at,
                    format!(
                        "there is no endpoint `{}`; {}",
                        name.text,
                        hint(&name.text, names())
                    ),
                );
            }
        }
    }
    let mut ways: BTreeMap<&str, Vec<Way<'_>>> = BTreeMap::new();
    for (mode, rule) in &site.modes {
        for start in &rule.start {
            if !site.endpoints.contains_key(start) {
                problems.add(
                    rule.at,
                    format!(
                        "mode `{mode}` starts at `{start}`, which is no endpoint; {}",
                        hint(start, names())
                    ),
                );
            }
            for fills in rule.filled() {
                ways.entry(start).or_default().push(Way {
                    at: rule.at,
                    from: format!("mode `{mode}`"),
                    fills: fills.into_iter().collect(),
                });
            }
        }
    }
    for endpoint in site.endpoints.values() {
        for (at, rule) in &endpoint.follow {
            if !site.endpoints.contains_key(&*rule.endpoint) {
                problems.add(
                    *at,
                    format!(
                        "follows to `{}`, which is no endpoint; {}",
                        rule.endpoint,
                        hint(&rule.endpoint, names())
                    ),
                );
            }
            ways.entry(&rule.endpoint).or_default().push(Way {
                at: *at,
                from: format!("`{}`", endpoint.name),
                fills: rule.with.iter().map(|(name, _)| name.as_str()).collect(),
            });
        }
    }
    check_reached(site, problems);
    check_folders(site, problems);
    for endpoint in site.endpoints.values() {
        check_list(endpoint, problems);
        let ways = ways.get(&*endpoint.name).map_or(&[][..], Vec::as_slice);
        check_filled(site, endpoint, ways, problems);
    }
    if let Some(crawl) = &site.crawl {
        for rule in &crawl.records {
            let mut known: BTreeSet<&str> = ["url"].into();
            for (name, field) in rule
                .fields
                .iter()
                .map(|(name, field)| (name.as_str(), field))
            {
                check_field(0, field, &known, problems);
                known.insert(name);
            }
            check_field(0, &rule.key, &known, problems);
        }
    }
    if site.modes.is_empty() && site.crawl.is_none() {
        problems.add(0, "there is no mode to start from; write [modes.search], [modes.detail], [modes.creator] or [modes.crawl]");
    }
}

fn check_reached(site: &SiteDefinition, problems: &mut Problems<'_>) {
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    let mut waiting: Vec<&str> = site
        .modes
        .values()
        .flat_map(|mode| mode.start.iter().map(String::as_str))
        .collect();
    while let Some(name) = waiting.pop() {
        if reached.insert(name)
            && let Some(endpoint) = site.endpoints.get(name)
        {
            waiting.extend(endpoint.follow.iter().map(|(_, rule)| &*rule.endpoint));
        }
    }
    for endpoint in site.endpoints.values() {
        if !reached.contains(&*endpoint.name) {
            problems.add(
                endpoint.at,
                format!("endpoint `{}` is reached from no mode", endpoint.name),
            );
        }
    }
}

/// Files of two endpoints in one folder could have one name.
fn check_folders(site: &SiteDefinition, problems: &mut Problems<'_>) {
    let mut folders: BTreeMap<&str, &str> = BTreeMap::new();
    for endpoint in site.endpoints.values() {
        let Some(save) = &endpoint.save else { continue };
        if let Some(other) = folders.insert(&save.dir, &endpoint.name) {
            problems.add(
                endpoint.at,
                format!(
                    "`{}` saves into the folder of `{other}`; give each a `dir` of its own",
                    endpoint.name
                ),
            );
        }
    }
}

fn check_list(endpoint: &Endpoint, problems: &mut Problems<'_>) {
    let holes = endpoint.holes();
    let Some(list) = &endpoint.list else {
        if let Some(hole) = holes.iter().find(|hole| hole.name.starts_with("list.")) {
            problems.add(
                endpoint.at,
                format!(
                    "`{{{}}}` in `{}`, which is no list",
                    hole.name, endpoint.name
                ),
            );
        }
        return;
    };
    let by = &list.paging.by;
    if let Some(name) = by.placeholder() {
        match holes.iter().find(|hole| hole.name == name) {
            None => problems.add(endpoint.at, format!("`{}` is a list by {name}, but nothing in its request is `{{{name}}}`", endpoint.name)),
            Some(hole) if !hole.optional && matches!(by, By::Cursor { first: None }) => problems.add(
                endpoint.at,
                format!("`{}`: `{{cursor}}` has no value for the first page; write `{{cursor?}}` or set `first`", endpoint.name),
            ),
            Some(_) => {}
        }
    }
    for hole in holes {
        let kept = hole
            .name
            .strip_prefix("list.")
            .is_some_and(|name| list.keep.iter().any(|(key, _)| key == name));
        if kept && !hole.optional {
            problems.add(
                endpoint.at,
                format!(
                    "`{}`: `{{{1}}}` has no value on the first page; write `{{{1}?}}`",
                    endpoint.name, hole.name
                ),
            );
        }
    }
    if list.key.is_none() && endpoint.follow.is_empty() {
        problems.add(
            endpoint.at,
            format!(
                "`{}`: the items of its list have no key; write `list.key`",
                endpoint.name
            ),
        );
    }
}

/// Whether each way into the endpoint brings what its request and its records need.
fn check_filled(
    site: &SiteDefinition,
    endpoint: &Endpoint,
    ways: &[Way<'_>],
    problems: &mut Problems<'_>,
) {
    let paging = endpoint
        .list
        .as_ref()
        .and_then(|list| list.paging.by.placeholder());
    let own = |hole: &&Hole| Some(hole.name.as_str()) == paging || hole.name.starts_with("list.");
    let mut holes = endpoint.holes();
    holes.extend(
        site.common
            .headers
            .iter()
            .flat_map(|(_, template)| template.holes()),
    );
    let needed: BTreeSet<(&str, bool)> = holes
        .iter()
        .filter(|hole| !own(hole))
        .map(|hole| (hole.name.as_str(), hole.optional))
        .chain(
            endpoint
                .identity
                .iter()
                .flatten()
                .map(|name| (name.as_str(), false)),
        )
        .collect();
    for (name, optional) in needed {
        if optional && !ways.is_empty() && !ways.iter().any(|way| way.fills.contains(name)) {
            problems.add(
                endpoint.at,
                format!("`{{{name}?}}` of `{}` is filled by nobody", endpoint.name),
            );
        }
        for way in ways
            .iter()
            .filter(|way| !optional && !way.fills.contains(name))
        {
            problems.add(
                way.at,
                format!(
                    "`{{{name}}}` of endpoint `{}` is not filled by {}",
                    endpoint.name, way.from
                ),
            );
        }
    }
    // What is known when an answer is read, whichever way led to it.
    let mut known: BTreeSet<&str> = match ways.split_first() {
        Some((first, rest)) => rest
            .iter()
            .fold(first.fills.clone(), |all, way| &all & &way.fills),
        None => return,
    };
    known.insert("url");
    for rule in &endpoint.records {
        let mut known = known.clone();
        for (name, field) in &rule.fields {
            check_field(endpoint.at, field, &known, problems);
            known.insert(name);
        }
        check_field(endpoint.at, &rule.key, &known, problems);
    }
    for (at, rule) in &endpoint.follow {
        for (_, field) in &rule.with {
            check_field(*at, field, &known, problems);
        }
    }
}

fn check_field(at: usize, field: &Field, known: &BTreeSet<&str>, problems: &mut Problems<'_>) {
    match &field.source {
        Source::Template(template) => {
            for hole in template.holes() {
                if !hole.optional && !known.contains(hole.name.as_str()) {
                    problems.add(
                        at,
                        format!(
                            "`{{{}}}` in a field is not known there; {}",
                            hole.name,
                            hint(&hole.name, known.iter().copied())
                        ),
                    );
                }
            }
        }
        Source::Parts(parts, _) => parts
            .iter()
            .for_each(|part| check_field(at, part, known, problems)),
        Source::Item(_) | Source::Root(_) | Source::Const(_) => {}
    }
}
