//! Records, follow-ups and their fields.

use crate::site::document::{Item, Problems, Table, hint};
use crate::site::extract::{Each, Field, FollowRule, RecordRule, Several, Source};
use crate::site::predicate::Predicate;
use crate::site::select::{Language, Path};
use crate::site::template::Template;
use crate::site::values::Form;

use super::{is_name, keep, read_regex};

/// One or several paths; none: the whole answer.
pub(super) fn read_paths(
    language: Language,
    item: &Item<'_>,
    problems: &mut Problems<'_>,
) -> Vec<Path> {
    item.texts(problems)
        .iter()
        .filter_map(|text| keep(Path::parse(language, &text.text), text.at, problems))
        .collect()
}

fn read_each(language: Language, table: &mut Table<'_>, problems: &mut Problems<'_>) -> Each {
    let paths = match table.get("each") {
        Some(item) => read_paths(language, &item, problems),
        None => whole(language).into_iter().collect(),
    };
    let when = table
        .text("when", problems)
        .and_then(|text| keep(Predicate::parse(language, &text.text), text.at, problems));
    Each { paths, when }
}

fn whole(language: Language) -> Option<Path> {
    let text = match language {
        Language::Json => "$",
        Language::Html => "",
    };
    Path::parse(language, text).ok()
}

/// A kind of record; `in_crawl`: one of mode `crawl`, which names its pages by `match`.
pub(super) fn read_record(
    language: Language,
    mut table: Table<'_>,
    in_crawl: bool,
    problems: &mut Problems<'_>,
) -> Option<RecordRule> {
    let each = read_each(language, &mut table, problems);
    let matches = if in_crawl {
        let text = table.text("match", problems);
        text.and_then(|text| read_regex(&text, problems))
    } else {
        None
    };
    let kind = table
        .need("kind", problems)
        .and_then(|item| item.text(problems));
    if let Some(kind) = &kind
        && !is_name(&kind.text.replace('_', "-"))
    {
        problems.add(
            kind.at,
            format!(
                "`{}` is not a kind of record; allowed: a-z, 0-9, `-`, `_`",
                kind.text
            ),
        );
    }
    let key = table
        .need("key", problems)
        .and_then(|item| read_field(language, &item, problems));
    let fields = read_fields(language, table.table("fields", problems), problems);
    for (name, _) in &fields {
        if name.starts_with('_') {
            problems.add(
                table.at(),
                format!("field `{name}`: names that begin with `_` belong to the engine"),
            );
        }
    }
    table.finish(problems);
    Some(RecordRule {
        each,
        matches,
        kind: kind?.text.into(),
        key: key?,
        fields,
    })
}

/// A follow-up, with its place.
pub(super) fn read_follow(
    language: Language,
    mut table: Table<'_>,
    problems: &mut Problems<'_>,
) -> Option<(usize, FollowRule)> {
    let at = table.at();
    let each = read_each(language, &mut table, problems);
    let endpoint = table
        .need("endpoint", problems)
        .and_then(|item| item.text(problems));
    let with = read_fields(language, table.table("with", problems), problems);
    table.finish(problems);
    let endpoint = endpoint?;
    let rule = FollowRule {
        each,
        endpoint: endpoint.text.into(),
        with,
    };
    Some((at, rule))
}

fn read_fields(
    language: Language,
    table: Option<Table<'_>>,
    problems: &mut Problems<'_>,
) -> Vec<(String, Field)> {
    let mut fields = Vec::new();
    for (key, item) in table.iter().flat_map(|table| table.entries()) {
        let field = read_field(language, &item, problems);
        fields.extend(field.map(|field| (key.text, field)));
    }
    fields
}

/// A field: a path or a template as text, or a table that says more.
pub(super) fn read_field(
    language: Language,
    item: &Item<'_>,
    problems: &mut Problems<'_>,
) -> Option<Field> {
    if item.is_table() {
        return read_long(language, item, problems);
    }
    let text = item.text(problems)?;
    Some(Field {
        source: keep(read_source(language, &text.text), text.at, problems)?,
        several: Several::First,
        form: Form::AsIs,
        default: None,
    })
}

/// Text with braces is a template, any other a path.
fn read_source(language: Language, text: &str) -> Result<Source, String> {
    let is_template = match language {
        Language::Json => !text.starts_with('$'),
        Language::Html => text.contains('{'),
    };
    if !is_template {
        return Path::parse(language, text).map(Source::Item);
    }
    let template = Template::parse(text)?;
    if template.holes().next().is_none() {
        return Err(format!(
            "`{text}` is neither a path (`$…`) nor a template (`{{…}}`); for fixed text write {{ const = \"{text}\" }}"
        ));
    }
    Ok(Source::Template(template))
}

fn read_long(language: Language, item: &Item<'_>, problems: &mut Problems<'_>) -> Option<Field> {
    let mut table = item.table(problems)?;
    let at = table.at();
    let mut sources = Vec::new();
    if let Some(text) = table.text("path", problems) {
        sources.push(keep(read_source(language, &text.text), text.at, problems));
    }
    if let Some(text) = table.text("root", problems) {
        sources.push(keep(
            Path::parse(language, &text.text).map(Source::Root),
            text.at,
            problems,
        ));
    }
    if let Some(item) = table.get("const") {
        sources.push(Some(Source::Const(item.json())));
    }
    let join = table.text("join", problems).map(|text| text.text);
    if let Some(item) = table.get("parts") {
        let parts = item.one_or_many();
        let parts = parts
            .iter()
            .filter_map(|part| read_field(language, part, problems))
            .collect();
        sources.push(Some(Source::Parts(parts, join.clone().unwrap_or_default())));
    }
    let all = table
        .get("all")
        .and_then(|item| item.boolean(problems))
        .unwrap_or(false);
    let form = table.text("as", problems).and_then(|text| {
        let form = Form::NAMES.iter().find(|(name, _)| *name == text.text);
        if form.is_none() {
            let names = Form::NAMES.map(|(name, _)| name);
            problems.add(
                text.at,
                format!(
                    "`{}` is not a form of a value; {}",
                    text.text,
                    hint(&text.text, names)
                ),
            );
        }
        form.map(|(_, form)| *form)
    });
    let default = table.get("default").map(|item| item.json());
    table.finish(problems);
    if sources.len() != 1 {
        problems.add(
            at,
            format!(
                "`{}` needs exactly one of `path`, `root`, `const`, `parts`",
                item.name
            ),
        );
        return None;
    }
    let source = sources.pop().flatten()?;
    let several = match (join, all) {
        (Some(_), true) => {
            problems.add(
                at,
                format!(
                    "`{}` has both `join` and `all`; allowed: one of them",
                    item.name
                ),
            );
            return None;
        }
        (Some(separator), false) if !matches!(source, Source::Parts(..)) => {
            Several::Join(separator)
        }
        (_, true) => Several::All,
        (_, false) => Several::First,
    };
    Some(Field {
        source,
        several,
        form: form.unwrap_or_default(),
        default,
    })
}
