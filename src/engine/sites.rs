//! Which sites a job runs on, and what it starts from there.

use std::sync::Arc;

use super::EngineError;
use crate::exchange::product_token;
use crate::model::{Job, Mode};
use crate::settings::Settings;
use crate::site::{CrawlSite, Seeds, Site, SiteDefinition};

/// The site of a `crawl` job that names none.
const WEB: &str = CrawlSite::DEFAULT_NAME;

/// The sites of a job, ready to run. An application's own site goes before a definition of the same name.
pub(super) fn choose(
    job: &Job,
    own: &[Arc<dyn Site>],
    definitions: &[Arc<SiteDefinition>],
    settings: &Settings,
) -> Result<Vec<Arc<dyn Site>>, EngineError> {
    if job.sites.is_empty() {
        return match job.mode {
            Mode::Crawl => Ok(vec![crawl_site(job, WEB, None, settings)?]),
            Mode::Search | Mode::Detail | Mode::Creator => Err(EngineError::NoSite(job.mode)),
        };
    }
    job.sites
        .iter()
        .map(|name| {
            if let Some(site) = own.iter().rev().find(|site| **site.name() == **name) {
                return Ok(site.clone());
            }
            let definition =
                find(definitions, name).ok_or_else(|| unknown(name, own, definitions))?;
            if !definition.modes().contains(&job.mode) {
                let modes = definition.modes().into_iter().map(Mode::as_str);
                return Err(EngineError::NoMode {
                    site: name.clone(),
                    mode: job.mode,
                    modes: modes.collect::<Vec<_>>().join(", "),
                });
            }
            if job.mode == Mode::Crawl {
                return crawl_site(job, name, Some(definition), settings);
            }
            let Some(set) = settings.sites.get(name) else {
                return Ok(definition.clone() as Arc<dyn Site>);
            };
            let site = definition.as_ref().clone().with_settings(set);
            Ok(Arc::new(site.map_err(EngineError::Definition)?) as Arc<dyn Site>)
        })
        .collect()
}

fn crawl_site(
    job: &Job,
    name: &str,
    definition: Option<&Arc<SiteDefinition>>,
    settings: &Settings,
) -> Result<Arc<dyn Site>, EngineError> {
    let mut rules = job.crawl.clone();
    if let Some(set) = settings.sites.get(name) {
        rules.robots = set.robots.unwrap_or(rules.robots);
        rules.urls = set.urls.over(&rules.urls);
    }
    let definition = definition.map(AsRef::as_ref);
    CrawlSite::new(name, &rules, &job.inputs.urls, definition)
        .map(|site| site.known_as(product_token(&settings.user_agent)))
        .map(|site| Arc::new(site) as Arc<dyn Site>)
        .map_err(EngineError::Definition)
}

fn find<'a>(definitions: &'a [Arc<SiteDefinition>], name: &str) -> Option<&'a Arc<SiteDefinition>> {
    definitions
        .iter()
        .rev()
        .find(|definition| **definition.name() == *name)
}

fn unknown(name: &str, own: &[Arc<dyn Site>], definitions: &[Arc<SiteDefinition>]) -> EngineError {
    let mut known: Vec<&str> = own
        .iter()
        .map(|site| &**site.name())
        .chain(definitions.iter().map(|definition| &**definition.name()))
        .collect();
    known.sort_unstable();
    known.dedup();
    EngineError::UnknownSite {
        name: name.to_owned(),
        known: if known.is_empty() {
            "none".to_owned()
        } else {
            known.join(", ")
        },
    }
}

/// What the job starts from on each site; an error when nothing can be used at all.
pub(super) fn seed(job: &Job, sites: &[Arc<dyn Site>]) -> Result<Vec<Seeds>, EngineError> {
    let seeds: Vec<Seeds> = sites.iter().map(|site| site.seeds(job)).collect();
    if seeds.iter().any(|seeds| !seeds.tasks.is_empty()) {
        return Ok(seeds);
    }
    let rejected: Vec<String> = seeds
        .iter()
        .flat_map(|seeds| &seeds.rejected)
        .map(|(input, why)| format!("`{input}`: {why}"))
        .collect();
    Err(EngineError::NoInput(if rejected.is_empty() {
        match job.mode {
            Mode::Search => "give --keywords".to_owned(),
            Mode::Detail => "give --ids".to_owned(),
            Mode::Creator => "give --creators".to_owned(),
            Mode::Crawl => "give --urls".to_owned(),
        }
    } else {
        rejected.join("; ")
    }))
}
