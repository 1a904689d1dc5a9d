//! Changing `local.toml`: a few keys are set, all else in it stays as it is, comments included.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use toml_edit::{DocumentMut, Item, Table, TableLike, value};

/// The file of the configuration directory that is the user's own.
const NAME: &str = "local.toml";

/// One key that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Written {
    /// The file.
    pub(super) file: PathBuf,
    /// The full key, such as `sites.books.max_concurrency_num`.
    pub(super) key: String,
    /// Its value.
    pub(super) value: u32,
}

/// Whether keys can be set: what is there can be read and changed.
pub(super) fn check(dir: &Path, keys: &[Vec<&str>]) -> Result<(), String> {
    let path = dir.join(NAME);
    let mut document = read(&path)?;
    for key in keys {
        set(&mut document, key, 1).map_err(|why| format!("{}: {why}", path.display()))?;
    }
    Ok(())
}

/// Sets keys in `local.toml` of `dir`, which is made if need be. All are set, or the file stays what it was.
pub(super) fn write(dir: &Path, keys: &[(Vec<&str>, u32)]) -> Result<Vec<Written>, String> {
    let path = dir.join(NAME);
    let mut document = read(&path)?;
    for (key, number) in keys {
        set(&mut document, key, *number).map_err(|why| format!("{}: {why}", path.display()))?;
    }
    fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    replace(&path, &document.to_string())
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let written = keys.iter().map(|(key, value)| Written {
        file: path.clone(),
        key: key.join("."),
        value: *value,
    });
    Ok(written.collect())
}

fn read(path: &Path) -> Result<DocumentMut, String> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    // The settings were loaded from it: it was TOML a moment ago. Its text may hold secrets and is not shown.
    text.parse()
        .map_err(|_| format!("{}: it is not TOML any more", path.display()))
}

fn set(document: &mut DocumentMut, key: &[&str], number: u32) -> Result<(), String> {
    let Some((last, tables)) = key.split_last() else {
        return Ok(());
    };
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for name in tables {
        let item = table.entry(name).or_insert_with(|| {
            let mut new = Table::new();
            // A table that only holds tables needs no line of its own.
            new.set_implicit(true);
            Item::Table(new)
        });
        table = item
            .as_table_like_mut()
            .ok_or_else(|| format!("`{name}` is not a table"))?;
    }
    match table.get_mut(last).and_then(Item::as_value_mut) {
        Some(old) => {
            let decor = old.decor().clone();
            *old = i64::from(number).into();
            *old.decor_mut() = decor;
        }
        None => {
            table.insert(last, value(i64::from(number)));
        }
    }
    Ok(())
}

/// The file is the old one or the new one at every moment.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    // A link stays a link.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut temporary = target.clone().into_os_string();
    temporary.push(format!(".{}.new", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let written =
        write_new(&temporary, &target, text).and_then(|()| fs::rename(&temporary, &target));
    if written.is_err() {
        // What is left of the attempt helps nobody; the first error is the one to tell.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn write_new(temporary: &Path, target: &Path, text: &str) -> std::io::Result<()> {
    let mut file = File::create(temporary)?;
    if let Ok(known) = fs::metadata(target) {
        file.set_permissions(known.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(before: &str, keys: &[(Vec<&str>, u32)]) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        if !before.is_empty() {
            fs::write(dir.path().join(NAME), before).unwrap();
        }
        check(
            dir.path(),
            &keys.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>(),
        )?;
        write(dir.path(), keys)?;
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no leftovers");
        Ok(fs::read_to_string(dir.path().join(NAME)).unwrap())
    }

    #[test]
    fn a_file_is_made_where_there_is_none() {
        let text = after("", &[(vec!["max_concurrency_num"], 4)]).unwrap();
        assert_eq!(text, "max_concurrency_num = 4\n");
        let text = after("", &[(vec!["sites", "books", "max_concurrency_num"], 4)]).unwrap();
        assert_eq!(text, "[sites.books]\nmax_concurrency_num = 4\n");
    }

    #[test]
    fn everything_else_stays_comments_included() {
        let before = "# mine\n\nmax_concurrency_num = 2  # by feel\nstate = '/srv'\n\n# less noise\n[log]\nlevel = \"warning\"\n";
        let text = after(before, &[(vec!["max_concurrency_num"], 16)]).unwrap();
        assert_eq!(text, before.replace("= 2 ", "= 16 "));
        let before = "# mine\n[log]\nlevel = \"warning\"  # quiet\n";
        let text = after(before, &[(vec!["max_concurrency_num"], 3)]).unwrap();
        assert_eq!(text, format!("max_concurrency_num = 3\n{before}"));
    }

    #[test]
    fn tables_of_every_form_are_changed() {
        let key = vec!["sites", "books", "max_concurrency_num"];
        for (before, now) in [
            (
                "sites.books.rate = \"1/s\"\n",
                "sites.books.rate = \"1/s\"\nsites.books.max_concurrency_num = 4\n",
            ),
            (
                "[sites]\nbooks = { rate = \"1/s\" }\n",
                "[sites]\nbooks = { rate = \"1/s\" , max_concurrency_num = 4 }\n",
            ),
            (
                "[sites.books]\nrate = \"1/s\" # slow\n",
                "[sites.books]\nrate = \"1/s\" # slow\nmax_concurrency_num = 4\n",
            ),
        ] {
            let text = after(before, &[(key.clone(), 4)]).unwrap();
            let read = |text: &str| text.parse::<toml::Table>().unwrap();
            assert_eq!(read(&text), read(now), "{text}");
            assert_eq!(before.contains('#'), text.contains("# slow"));
        }
    }

    #[test]
    fn what_cannot_be_changed_is_named_and_left_alone() {
        let why = after("sites = 3\n", &[(vec!["sites", "a", "b"], 1)]).unwrap_err();
        assert!(why.ends_with("local.toml: `sites` is not a table"), "{why}");
        let why = after("= token=abc\n", &[(vec!["a"], 1)]).unwrap_err();
        assert!(why.contains("local.toml") && !why.contains("abc"), "{why}");
    }

    #[cfg(unix)]
    #[test]
    fn permissions_and_links_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real.toml");
        fs::write(&real, "# kept\n").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&real, dir.path().join(NAME)).unwrap();
        write(dir.path(), &[(vec!["max_concurrency_num"], 2)]).unwrap();
        assert!(fs::read_to_string(&real).unwrap().contains("# kept"));
        assert_eq!(
            fs::metadata(&real).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert!(
            fs::symlink_metadata(dir.path().join(NAME))
                .unwrap()
                .is_symlink()
        );
    }
}
