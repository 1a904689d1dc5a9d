//! JSON exports: arrays as EditThisCookie, Cookie-Editor and Puppeteer write them, and the storage state of Playwright.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use super::{Found, ImportErrors, Problems, domain_of, end_of};
use crate::model::{Cookie, SameSite, UnixMillis};

/// One cookie of an export. What other tools add is passed over.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Exported {
    name: String,
    value: String,
    domain: String,
    path: Option<String>,
    /// Playwright, Puppeteer: seconds; -1 is the session's end.
    expires: Option<f64>,
    /// EditThisCookie, Cookie-Editor: seconds.
    expiration_date: Option<f64>,
    host_only: Option<bool>,
    secure: Option<bool>,
    http_only: Option<bool>,
    same_site: Option<String>,
}

pub(super) fn read(text: &str) -> Result<Vec<Found>, ImportErrors> {
    // The error of a parser may quote what it read; its place says enough.
    let broken = |error: &serde_json::Error| {
        ImportErrors::one(format!(
            "line {}, column {}: this is not JSON",
            error.line(),
            error.column()
        ))
    };
    let list = match serde_json::from_str(text).map_err(|error| broken(&error))? {
        Value::Array(list) => list,
        Value::Object(mut object) => match object.remove("cookies") {
            Some(Value::Array(list)) => list,
            _ => {
                return Err(ImportErrors::one(
                    "the JSON object has no array `cookies`; allowed: an array of cookies, or such an object",
                ));
            }
        },
        _ => return Err(ImportErrors::one("the JSON is no array of cookies")),
    };
    let mut problems = Problems::default();
    let mut found = Vec::new();
    for (nth, entry) in (1..).zip(list) {
        let place = format!("cookie {nth}");
        match cookie(entry) {
            Ok(cookie) => found.push(Found { place, cookie }),
            Err(why) => problems.add(&place, why),
        }
    }
    problems.none().map(|()| found)
}

fn cookie(entry: Value) -> Result<Cookie, &'static str> {
    let exported: Exported = serde_json::from_value(entry).map_err(|_| {
        "it is no object with the texts `name`, `value` and `domain`, and ends in numbers and flags in true or false"
    })?;
    let (domain, dotted) =
        domain_of(&exported.domain).ok_or("its `domain` is not the name of a host")?;
    let path = exported.path.unwrap_or_default();
    Ok(Cookie {
        name: Bytes::from(exported.name),
        value: Bytes::from(exported.value),
        domain,
        host_only: exported.host_only.unwrap_or(!dotted),
        path: match path.starts_with('/') {
            true => path,
            false => "/".to_owned(),
        },
        secure: exported.secure.unwrap_or(false),
        http_only: exported.http_only.unwrap_or(false),
        same_site: exported.same_site.as_deref().and_then(SameSite::of),
        expires: exported
            .expires
            .or(exported.expiration_date)
            .and_then(end_of),
        created: UnixMillis(0),
        used: UnixMillis(0),
    })
}
