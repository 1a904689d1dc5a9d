//! `sites`: which definitions there are, and whether files hold good ones.

use std::io::{self, Write};

use super::args::{Common, SitesArgs};
use super::failure::{Failure, printed};
use super::{load, table};
use crate::site::{Site, SiteDefinition};

/// List the definitions, or check the files given.
pub(super) fn run(common: &Common, args: &SitesArgs) -> Result<u8, Failure> {
    let settings = load::settings(common, &[])?.settings;
    if args.files.is_empty() {
        let dir = args.sites.clone().or(settings.sites_dir);
        return list(&load::definitions(dir.as_deref())?);
    }
    let mut wrong = Vec::new();
    let mut out = io::stdout().lock();
    for file in &args.files {
        let name = file.display().to_string();
        match std::fs::read_to_string(file) {
            Err(error) => wrong.push(format!("{name}: {error}")),
            Ok(text) => match SiteDefinition::parse(&name, &text) {
                Err(errors) => wrong.push(errors.to_string()),
                Ok(definition) => {
                    printed(writeln!(
                        out,
                        "{name}: site `{}` is good",
                        definition.name()
                    ))?;
                }
            },
        }
    }
    if wrong.is_empty() {
        Ok(0)
    } else {
        Err(Failure::usage(wrong.join("\n")))
    }
}

fn list(definitions: &[SiteDefinition]) -> Result<u8, Failure> {
    let mut listed = table::table(&["site", "modes", "endpoints", "limits"], 4);
    for definition in definitions {
        let limits = definition.limits().site;
        let mut said = Vec::new();
        if let Some(cap) = limits.max_concurrency_num {
            said.push(format!("{cap} at once"));
        }
        if let Some(rate) = limits.rate {
            said.push(rate.to_string());
        }
        said.extend(limits.quota.iter().map(ToString::to_string));
        listed.add_row([
            definition.name().to_string(),
            joined(definition.modes().iter()),
            joined(definition.endpoint_names()),
            said.join(", "),
        ]);
    }
    printed(writeln!(io::stdout().lock(), "{listed}"))
}

fn joined(names: impl Iterator<Item = impl ToString>) -> String {
    names
        .map(|name| name.to_string())
        .collect::<Vec<_>>()
        .join(", ")
}
