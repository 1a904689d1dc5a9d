//! The layer of environment variables: `CRAWLER__RETRY__BASE=2s`, and the plain `MAX_CONCURRENCY_NUM`.
//!
//! Not the `config` crate's own source: that one ignores a variable whose name has one underscore too few.

use super::error::Problem;
use super::keys::candidates;

/// Every variable that starts like this is meant for this program.
const FAMILY: &str = "CRAWLER_";
/// Before the keys, and between them: single underscores are part of keys.
const PREFIX: &str = "CRAWLER__";
const SEPARATOR: &str = "__";
/// Names the environment; no setting.
pub(super) const ENVIRONMENT: &str = "CRAWLER_ENV";
/// The one setting that may be named without the prefix; the prefixed name wins.
const PLAIN: &str = "MAX_CONCURRENCY_NUM";

/// What a variable is to the settings.
pub(super) enum Variable {
    /// The path of a key, and whether the variable is the plain one.
    Key { path: Vec<String>, plain: bool },
    /// Meant for this program, and no name of a setting.
    Unknown(Problem),
    /// Not ours.
    Foreign,
}

/// What the variable `name` is.
pub(super) fn classify(name: &str) -> Variable {
    if name == PLAIN {
        return Variable::Key {
            path: vec![PLAIN.to_ascii_lowercase()],
            plain: true,
        };
    }
    if name == ENVIRONMENT || !name.starts_with(FAMILY) {
        return Variable::Foreign;
    }
    match name.strip_prefix(PREFIX) {
        Some(rest) => Variable::Key {
            path: path(rest),
            plain: false,
        },
        None => {
            let path = path(&name[FAMILY.len()..]);
            let parts: Vec<_> = path.iter().map(String::as_str).collect();
            Variable::Unknown(unknown(name, &parts))
        }
    }
}

/// The keys in a name. The name of a site or an egress has no underscore, so `MY_SHOP` can only mean `my-shop`.
fn path(rest: &str) -> Vec<String> {
    let rest = rest.to_ascii_lowercase();
    let mut path: Vec<_> = rest.split(SEPARATOR).map(ToOwned::to_owned).collect();
    if let [first, site, ..] = path.as_mut_slice()
        && matches!(first.as_str(), "sites" | "egress")
    {
        *site = site.replace('_', "-");
    }
    path
}

/// The variable that sets `key`.
fn variable(key: &str) -> String {
    let mut name = PREFIX.to_owned();
    for (index, part) in key.split('.').enumerate() {
        if index > 0 {
            name.push_str(SEPARATOR);
        }
        let site = index == 1 && (key.starts_with("sites.") || key.starts_with("egress."));
        name.push_str(
            &if site {
                part.replace('-', "_")
            } else {
                part.to_owned()
            }
            .to_ascii_uppercase(),
        );
    }
    name
}

/// The variable `name` fits no key; `path` is what it would lead to.
pub(super) fn unknown(name: &str, path: &[&str]) -> Problem {
    let mut names: Vec<_> = candidates(path).iter().map(|key| variable(key)).collect();
    names.push(ENVIRONMENT.to_owned());
    // The part after the prefix counts, else all names are alike.
    let tail = |name: &str| {
        name.trim_start_matches(FAMILY)
            .trim_start_matches('_')
            .to_owned()
    };
    let given = tail(name);
    let by_key = variable(&super::keys::nearest(path));
    let score = |name: &String| {
        let tail = tail(name);
        let alike = strsim::normalized_damerau_levenshtein(&given, &tail);
        // `CRAWLER_ENVIRONMENT` is `CRAWLER_ENV` written out.
        let begins = if given.starts_with(&tail) { 0.7 } else { 0.0 };
        alike.max(begins) + if *name == by_key { 0.2 } else { 0.0 }
    };
    let best = names.iter().max_by(|a, b| score(a).total_cmp(&score(b)));
    Problem::Unknown {
        key: name.to_owned(),
        nearest: best.cloned().unwrap_or_default(),
    }
}
