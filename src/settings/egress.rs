//! Settings of the ways out: `[egress.NAME]`, and which of them a site uses.

use super::error::{Problem, SettingsError};
use super::field::Field;
use super::origin::Provenance;
use super::schema::Settings;
use super::value::{Rate, Secret};
use crate::model::UnixMillis;

/// The way without a proxy, as it is named in lists of egresses.
pub(super) const DIRECT: &str = "direct";

/// One proxy.
#[derive(Clone, Debug, PartialEq)]
pub struct EgressSettings {
    /// `http://`, `socks5://` or `socks5h://`, with host and port. Must be set.
    pub url: Option<String>,
    /// Who we are to the proxy.
    pub username: Option<String>,
    /// What proves it.
    pub password: Option<Secret>,
    /// From then on it is not used.
    pub expires: Option<UnixMillis>,
    /// Exchanges through it at one time, over all sites. 1 to 10000.
    pub max_concurrency_num: Option<u32>,
    /// Exchanges through it per time, over all sites; evenly.
    pub rate: Option<Rate>,
    /// Whether certificates of servers are checked.
    pub tls_verify: bool,
}

impl Default for EgressSettings {
    fn default() -> Self {
        Self {
            url: None,
            username: None,
            password: None,
            expires: None,
            max_concurrency_num: None,
            rate: None,
            tls_verify: true,
        }
    }
}

/// Egresses that are named and not there, or there without what they need.
pub(super) fn problems(settings: &Settings, provenance: &Provenance) -> Vec<SettingsError> {
    let mut found = Vec::new();
    let mut add =
        |key: String, at: &[&str], given: String, detail: Option<String>, allowed: &str| {
            found.push(SettingsError {
                origin: at
                    .iter()
                    .filter_map(|key| provenance.of(key))
                    .max_by_key(|origin| origin.layer())
                    .cloned(),
                problem: Problem::Value {
                    key,
                    given,
                    detail,
                    allowed: allowed.to_owned(),
                },
            });
        };
    let sites = settings.sites.iter();
    let lists = sites.map(|(name, site)| (format!("sites.{name}.egress"), &site.egress));
    let own = ("exchange.egress".to_owned(), &settings.exchange.egress);
    for (key, list) in [own].into_iter().chain(lists) {
        let known = || settings.egress.keys().map(String::as_str).chain([DIRECT]);
        for name in list
            .iter()
            .filter(|name| !known().any(|known| known == **name))
        {
            let like = |known: &&str| strsim::normalized_damerau_levenshtein(name, known);
            let nearest = known().max_by(|a, b| like(a).total_cmp(&like(b)));
            let allowed: Vec<_> = known().collect();
            add(
                key.clone(),
                &[&key],
                Field::show(list).to_string(),
                Some(format!(
                    "there is no [egress.{name}]; the nearest is `{}`",
                    nearest.unwrap_or(DIRECT)
                )),
                &format!("names of egresses: {}", allowed.join(", ")),
            );
        }
    }
    for (name, egress) in &settings.egress {
        let key = |key: &str| format!("egress.{name}.{key}");
        let parts = [
            "url",
            "username",
            "password",
            "expires",
            "max_concurrency_num",
            "rate",
            "tls_verify",
        ]
        .map(key);
        let all: Vec<_> = parts.iter().map(String::as_str).collect();
        if egress.url.is_none() {
            let allowed = super::field::Allowed::Proxy.to_string();
            add(key("url"), &all, "nothing".to_owned(), None, &allowed);
        }
        if egress.password.is_some() && egress.username.is_none() {
            let detail = Some("a password goes with a user name".to_owned());
            add(
                key("username"),
                &all,
                "nothing".to_owned(),
                detail,
                "a text",
            );
        }
        if name == DIRECT {
            let detail = Some("the name of the way without a proxy".to_owned());
            let all_parts = Some(parts[0].clone());
            let at = all_parts.as_deref().unwrap_or_default();
            add(
                format!("egress.{name}"),
                &[at],
                "a table".to_owned(),
                detail,
                "another name",
            );
        }
    }
    found
}
