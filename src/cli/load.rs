//! From the command line to settings and site definitions.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::args::Common;
use super::failure::Failure;
use crate::settings::{LoadOptions, Loaded, Override, Settings};
use crate::site::{self, CrawlSite, Site, SiteDefinition};

/// A configuration key set by an option of its own.
pub(super) struct Given {
    pub(super) key: &'static str,
    pub(super) option: &'static str,
    pub(super) value: String,
}

/// Load the settings: the layers, then the options of the command line.
pub(super) fn settings(common: &Common, given: &[Given]) -> Result<Loaded, Failure> {
    let mut overrides = Vec::new();
    let mut named = BTreeSet::new();
    let mut add = |key: &str, value: &str, origin: String| {
        if !named.insert(key.to_owned()) {
            return Err(Failure::usage(format!(
                "{origin}: the key `{key}` is set twice on the command line"
            )));
        }
        overrides.push(Override {
            key: key.to_owned(),
            value: value.to_owned(),
            option: origin,
        });
        Ok(())
    };
    let common_options = [
        (
            "max_concurrency_num",
            "--max-concurrency-num",
            common.max_concurrency_num.clone(),
        ),
        ("log.level", "--log-level", common.log_level.clone()),
        ("state", "--state", common.state.as_deref().map(shown)),
    ];
    for (key, option, value) in common_options {
        if let Some(value) = value {
            add(key, &value, format!("{option} {value}"))?;
        }
    }
    for given in given {
        add(
            given.key,
            &given.value,
            format!("{} {}", given.option, given.value),
        )?;
    }
    for set in &common.set {
        let Some((key, value)) = set.split_once('=') else {
            return Err(Failure::usage(format!(
                "--set {set}: write KEY=VALUE, for example --set exchange.total_timeout=30s"
            )));
        };
        add(key.trim(), value, format!("--set {set}"))?;
    }
    Settings::load(&LoadOptions {
        dir: common
            .config
            .clone()
            .unwrap_or_else(|| PathBuf::from("config")),
        dir_required: common.config.is_some(),
        environment: None,
        vars: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        overrides,
    })
    .map_err(|errors| Failure::usage(errors.to_string()))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The built-in site definitions and those of a directory, which replace built-in ones of the same name.
pub(super) fn definitions(dir: Option<&Path>) -> Result<Vec<SiteDefinition>, Failure> {
    let mut all = site::builtin().map_err(|errors| Failure::internal(errors.to_string()))?;
    if let Some(dir) = dir {
        let own = site::load_dir(dir).map_err(|errors| Failure::usage(errors.to_string()))?;
        all.retain(|known| own.iter().all(|new| new.name() != known.name()));
        all.extend(own);
    }
    Ok(all)
}

/// Settings of a site that does not exist are a mistake: name the nearest one that does.
pub(super) fn check_site_names(
    settings: &Settings,
    definitions: &[SiteDefinition],
) -> Result<(), Failure> {
    let known = || {
        definitions
            .iter()
            .map(|definition| &**definition.name())
            .chain([CrawlSite::DEFAULT_NAME])
    };
    for name in settings.sites.keys() {
        if known().all(|known| known != name) {
            let nearest = known()
                .max_by(|a, b| strsim::jaro(a, name).total_cmp(&strsim::jaro(b, name)))
                .unwrap_or_default();
            let all: Vec<&str> = known().collect();
            return Err(Failure::usage(format!(
                "sites.{name}: there is no site of this name; nearest: {nearest}; known: {}",
                all.join(", ")
            )));
        }
    }
    Ok(())
}
