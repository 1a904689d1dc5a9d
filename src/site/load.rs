//! Loading site definitions from a directory and from the binary.

use std::collections::BTreeMap;
use std::path::Path;

use super::{DefinitionErrors, Site, SiteDefinition};

/// Definitions that come with the program, by file name.
const BUILTIN: [(&str, &str); 1] = [(
    "config/sites/example.toml",
    include_str!("../../config/sites/example.toml"),
)];

/// The definitions that come with the program.
///
/// # Errors
/// None in a released program: they are checked by its tests.
pub fn builtin() -> Result<Vec<SiteDefinition>, DefinitionErrors> {
    BUILTIN
        .into_iter()
        .map(|(name, text)| SiteDefinition::parse(name, text))
        .collect()
}

/// All `*.toml` files of a directory, in the order of their names.
///
/// # Errors
/// Every problem of every file, and two files with one site name.
pub fn load_dir(path: impl AsRef<Path>) -> Result<Vec<SiteDefinition>, DefinitionErrors> {
    let path = path.as_ref();
    let unreadable = |path: &Path, error: std::io::Error| {
        DefinitionErrors::of(
            &path.display().to_string(),
            format!("cannot be read: {error}"),
        )
    };
    let entries = std::fs::read_dir(path).map_err(|error| unreadable(path, error))?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(|error| unreadable(path, error))?.path();
        if file
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            files.push(file);
        }
    }
    files.sort();
    let mut sites = Vec::new();
    let mut problems = Vec::new();
    let mut named: BTreeMap<String, String> = BTreeMap::new();
    for file in files {
        let source = file.display().to_string();
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) => {
                problems.extend(unreadable(&file, error).0);
                continue;
            }
        };
        match SiteDefinition::parse(&source, &text) {
            Err(errors) => problems.extend(errors.0),
            Ok(site) => {
                if let Some(other) = named.insert(site.name().to_string(), source.clone()) {
                    let text = format!("site `{}` is defined in {other} already", site.name());
                    problems.extend(DefinitionErrors::of(&source, text).0);
                }
                sites.push(site);
            }
        }
    }
    if problems.is_empty() {
        Ok(sites)
    } else {
        Err(DefinitionErrors(problems))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "name = \"a\"\nbase_url = \"http://127.0.0.1/\"\n[endpoints.x]\nget = \"/{id}\"\n[modes.detail]\nstart = \"x\"\n";

    #[test]
    fn the_builtin_definitions_are_sound() {
        assert!(!builtin().unwrap().is_empty());
    }

    #[test]
    fn a_directory_gives_all_its_sites_or_all_its_problems() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.toml"), GOOD).unwrap();
        std::fs::write(dir.path().join("note.txt"), "no definition").unwrap();
        assert_eq!(load_dir(dir.path()).unwrap().len(), 1);
        std::fs::write(dir.path().join("b.toml"), GOOD).unwrap();
        std::fs::write(dir.path().join("c.toml"), "name = 1").unwrap();
        let errors = load_dir(dir.path()).unwrap_err().to_string();
        assert!(
            errors.contains("b.toml: site `a` is defined in"),
            "{errors}"
        );
        assert!(errors.contains("c.toml:1: `name` must be text"), "{errors}");
        assert!(
            load_dir(dir.path().join("none"))
                .unwrap_err()
                .to_string()
                .contains("cannot be read")
        );
    }
}
