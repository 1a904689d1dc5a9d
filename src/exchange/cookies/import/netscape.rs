//! `cookies.txt` of Netscape: seven fields a line, parted by tabs.

use bytes::Bytes;

use super::{Found, ImportErrors, Problems, domain_of, end_of};
use crate::model::{Cookie, UnixMillis};

/// A comment to most readers; to curl and browsers a cookie that scripts may not read.
const HTTP_ONLY: &str = "#HttpOnly_";

pub(super) fn read(text: &str) -> Result<Vec<Found>, ImportErrors> {
    let mut problems = Problems::default();
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let (line, http_only) = match line.strip_prefix(HTTP_ONLY) {
            Some(rest) => (rest, true),
            None => (line, false),
        };
        if line.trim().is_empty() || (line.starts_with('#') && !http_only) {
            continue;
        }
        let place = format!("line {number}");
        match cookie(line, http_only) {
            Ok(cookie) => found.push(Found { place, cookie }),
            Err(why) => problems.add(&place, &why),
        }
    }
    problems.none().map(|()| found)
}

/// Whether the line is one whose tabs were turned into spaces on the way.
pub(super) fn has_spaces_for_tabs(line: &str) -> bool {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let flag = |index: usize| {
        let field: Option<&&str> = fields.get(index);
        field.is_some_and(|field| flag_of(field).is_some())
    };
    flag(1) && flag(3)
}

fn flag_of(text: &str) -> Option<bool> {
    match () {
        () if text.eq_ignore_ascii_case("true") => Some(true),
        () if text.eq_ignore_ascii_case("false") => Some(false),
        () => None,
    }
}

fn cookie(line: &str, http_only: bool) -> Result<Cookie, String> {
    let fields: Vec<&str> = line.splitn(7, '\t').collect();
    // A tool that cuts white space at the end of a line cuts off the tab before an empty value.
    let (&[domain, wide, path, secure, end, name], value) = match fields.split_at_checked(6) {
        Some((head, rest)) => (
            <&[&str; 6]>::try_from(head).map_err(|_| "it has no seven fields".to_owned())?,
            rest.first().copied().unwrap_or_default(),
        ),
        None if has_spaces_for_tabs(line) => {
            return Err("its fields are parted by spaces; they must be parted by tabs".to_owned());
        }
        None => {
            return Err(format!(
                "it has {} of the seven fields domain, subdomains, path, secure, end, name, value, which are \
                 parted by tabs",
                fields.len()
            ));
        }
    };
    let flag = |which: &str, text: &str| {
        flag_of(text).ok_or_else(|| format!("`{which}` is neither TRUE nor FALSE"))
    };
    let (domain, dotted) =
        domain_of(domain).ok_or_else(|| "its domain is not the name of a host".to_owned())?;
    if !path.starts_with('/') {
        return Err("its path does not begin with `/`".to_owned());
    }
    let end: f64 = match end.trim() {
        "" => 0.0,
        end => end
            .parse()
            .map_err(|_| "its end is not a number of seconds since 1970".to_owned())?,
    };
    Ok(Cookie {
        name: Bytes::copy_from_slice(name.as_bytes()),
        value: Bytes::copy_from_slice(value.trim_end_matches('\r').as_bytes()),
        domain,
        host_only: !(flag("subdomains", wide)? || dotted),
        path: path.to_owned(),
        secure: flag("secure", secure)?,
        http_only,
        same_site: None,
        expires: end_of(end),
        created: UnixMillis(0),
        used: UnixMillis(0),
    })
}
