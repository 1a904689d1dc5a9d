//! `save`: an endpoint whose answers are files.

use std::time::Duration;

use crate::model::{Checksum, Method};
use crate::settings::{LimitSettings, parse_bytes};
use crate::site::document::{Item, Problems};
use crate::site::endpoint::{Body, Endpoint};
use crate::site::save::SaveRule;
use crate::site::template::Template;

use super::{keep, read_pairs};

/// The largest file, where nothing is said.
const MAX_BYTES: u64 = 1 << 30;

/// How long an exchange may take that brings a file, where nothing is said.
pub(super) const TOTAL_TIMEOUT: Duration = Duration::from_secs(3600);

/// Reads the table of the endpoint called `name`.
pub(super) fn read(name: &str, item: &Item<'_>, problems: &mut Problems<'_>) -> Option<SaveRule> {
    let mut table = item.table(problems)?;
    let dir = table.text("dir", problems).map_or_else(
        || name.to_owned(),
        |text| {
            if !is_dir(&text.text) {
                problems.add(
                    text.at,
                    format!(
                        "`{}` is not a folder; allowed: a-z, 0-9, `-`, `_`, parts joined by `/`",
                        text.text
                    ),
                );
            }
            text.text
        },
    );
    let template = table
        .text("name", problems)
        .and_then(|text| keep(Template::parse(&text.text), text.at, problems));
    let kind = table
        .text("kind", problems)
        .map_or_else(|| "media".into(), |text| text.text.into());
    let max_bytes = table.text("max_bytes", problems).and_then(|text| {
        let bytes = parse_bytes(&text.text).and_then(|bytes| match bytes {
            0 => Err("a file of no bytes is none".to_owned()),
            bytes => Ok(bytes),
        });
        let bytes = bytes
            .map_err(|why| format!("`{}` is not a size such as \"200 MiB\": {why}", text.text));
        keep(bytes, text.at, problems)
    });
    let checksum = table.text("checksum", problems).and_then(|text| {
        let named = text.text.parse::<Checksum>();
        keep(named.map_err(|error| error.to_string()), text.at, problems)
    });
    let mut types = Vec::new();
    for text in table.texts("types", problems) {
        let name = text.text.to_ascii_lowercase();
        if !is_type(&name) {
            problems.add(
                text.at,
                format!(
                    "`{}` is not a media type; allowed: \"video/mp4\", \"image/*\"",
                    text.text
                ),
            );
        }
        types.push(name);
    }
    let fields = read_pairs(table.table("fields", problems), problems);
    for own in ["url", "path", "bytes", "content_type", "checksum"] {
        if fields.iter().any(|(field, _)| field == own) {
            problems.add(item.at(), format!("`{own}` is a field of every file"));
        }
    }
    table.finish(problems);
    Some(SaveRule {
        dir,
        name: template,
        telling: false,
        kind,
        max_bytes: max_bytes.unwrap_or(MAX_BYTES),
        checksum: checksum.unwrap_or_default(),
        types,
        fields,
    })
}

/// Fits the rule to its endpoint; notes what the two have against each other.
pub(super) fn fit(endpoint: &mut Endpoint, problems: &mut Problems<'_>) {
    let telling = tells_tasks(endpoint);
    let Some(save) = &mut endpoint.save else {
        return;
    };
    save.telling = telling;
    let at = endpoint.at;
    let mut clash = |what: &str, there: bool| {
        if there {
            problems.add(
                at,
                format!(
                    "`{}` saves its answers, so it cannot have {what}",
                    endpoint.name
                ),
            );
        }
    };
    clash("`post`", endpoint.method == Method::Post);
    clash("a body", endpoint.body != Body::None);
    clash("`list`", endpoint.list.is_some());
    clash("`records`", !endpoint.records.is_empty());
    clash("`follow`", !endpoint.follow.is_empty());
}

/// An endpoint that saves has time for it.
pub(super) fn limits(own: Option<LimitSettings>) -> LimitSettings {
    let own = own.unwrap_or_default();
    LimitSettings {
        total_timeout: own.total_timeout.or(Some(TOTAL_TIMEOUT)),
        ..own
    }
}

/// Whether the file's name is one value, and it alone tells the endpoint's tasks apart.
fn tells_tasks(endpoint: &Endpoint) -> bool {
    let save = endpoint.save.as_ref();
    let Some(name) = save.and_then(|save| save.name.as_ref()) else {
        return false;
    };
    let mut holes = name.holes();
    let (Some(hole), None) = (holes.next(), holes.next()) else {
        return false;
    };
    match &endpoint.identity {
        Some(names) => matches!(&names[..], [only] if *only == hole.name),
        None => endpoint
            .request_holes()
            .iter()
            .all(|other| other.name == hole.name),
    }
}

fn is_dir(text: &str) -> bool {
    let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    text.len() <= 200
        && text
            .split('/')
            .all(|part| !part.is_empty() && part.bytes().all(plain))
}

fn is_type(text: &str) -> bool {
    let token = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+-._".contains(&byte))
    };
    text.split_once('/')
        .is_some_and(|(family, name)| token(family) && (name == "*" || token(name)))
}
