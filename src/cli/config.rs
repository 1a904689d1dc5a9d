//! `crawler-node config`: every effective value, and where it was set.

use std::io::{self, ErrorKind, Write};

use serde_json::{Value, json};

use crate::settings::Loaded;

/// Prints `key = value  # origin`, a line for each setting. The lines are TOML: they can be kept as a file.
///
/// # Errors
/// When `out` cannot be written. A reader that has gone away is none: it has read enough.
pub(super) fn show(loaded: &Loaded, out: &mut impl Write) -> io::Result<()> {
    unless_gone(write_text(loaded, out))
}

/// Prints the same as one JSON object: `environment`, `files`, and `settings` with `value` and `origin` by key.
///
/// # Errors
/// As [`show`].
pub(super) fn show_json(loaded: &Loaded, out: &mut impl Write) -> io::Result<()> {
    unless_gone(write_json(loaded, out))
}

fn write_text(loaded: &Loaded, out: &mut impl Write) -> io::Result<()> {
    let provenance = &loaded.provenance;
    writeln!(out, "# environment: {}", provenance.environment)?;
    for (path, there) in &provenance.files {
        let state = if *there { "read" } else { "absent" };
        writeln!(out, "# {}: {state}", path.display())?;
    }
    let lines: Vec<_> = loaded
        .entries()
        .into_iter()
        .map(|entry| (format!("{} = {}", entry.key, entry.value), entry.origin))
        .collect();
    // Long values do not push the origins of all others out of sight.
    let width = lines.iter().map(|(line, _)| line.chars().count());
    let width = width.filter(|width| *width <= 60).max().unwrap_or(0);
    for (line, origin) in lines {
        // An origin is text from outside; a line break in it would end the comment.
        let origin = origin.to_string().replace(char::is_control, "?");
        writeln!(out, "{line:width$}  # {origin}")?;
    }
    out.flush()
}

fn write_json(loaded: &Loaded, out: &mut impl Write) -> io::Result<()> {
    let provenance = &loaded.provenance;
    let settings: serde_json::Map<String, Value> = loaded
        .entries()
        .into_iter()
        .map(|entry| {
            let shown = json!({ "value": Value::from(entry.value), "origin": entry.origin });
            (entry.key.to_owned(), shown)
        })
        .collect();
    let files: Vec<_> = provenance
        .files
        .iter()
        .map(|(path, there)| json!({ "path": path.display().to_string(), "read": there }))
        .collect();
    let all = json!({
        "environment": provenance.environment,
        "files": files,
        "settings": settings,
    });
    serde_json::to_writer_pretty(&mut *out, &all)?;
    writeln!(out)?;
    out.flush()
}

fn unless_gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{LoadOptions, Override, Settings};

    fn loaded(vars: &[(&str, &str)], overrides: &[(&str, &str)]) -> Loaded {
        let options = LoadOptions {
            dir: "there/is/no/such/directory".into(),
            vars: vars
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            overrides: overrides
                .iter()
                .map(|(key, value)| Override {
                    key: (*key).to_owned(),
                    value: (*value).to_owned(),
                    option: format!("--set {key}={value}"),
                })
                .collect(),
            ..LoadOptions::default()
        };
        Settings::load(&options).unwrap()
    }

    fn text(loaded: &Loaded) -> String {
        let mut out = Vec::new();
        show(loaded, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_line_names_value_and_origin() {
        let text = text(&loaded(
            &[("CRAWLER__SITES__MY_SHOP__RATE", "30/min")],
            &[("max_concurrency_num", "8")],
        ));
        let line = |key: &str| {
            let line = text.lines().find(|line| line.starts_with(key)).unwrap();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            line("max_concurrency_num"),
            "max_concurrency_num = 8 # option --set max_concurrency_num=8"
        );
        assert_eq!(
            line("sites.my-shop.rate"),
            "sites.my-shop.rate = \"30/min\" # variable CRAWLER__SITES__MY_SHOP__RATE"
        );
        assert_eq!(line("retry.base"), "retry.base = \"1s\" # built-in default");
        assert!(text.starts_with("# environment: development\n"));
    }

    #[test]
    fn what_is_printed_loads_to_the_same_settings() {
        let first = loaded(
            &[
                ("CRAWLER__CRAWL__INCLUDE", r#"["a{1,3}\\n", "\"quoted\""]"#),
                ("CRAWLER__SITES__A__QUOTA", "180/h per account, 5/s"),
                ("CRAWLER__SITES__A__ENDPOINTS__TOP_10__BURST", "3"),
                ("CRAWLER__OUT", "a\u{1b}b"),
            ],
            &[
                ("exchange.max_body_bytes", "3 MiB"),
                ("crawl.max_depth", "0"),
            ],
        );
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("local.toml"), text(&first)).unwrap();
        let again = Settings::load(&LoadOptions {
            dir: dir.path().to_owned(),
            ..LoadOptions::default()
        });
        assert_eq!(again.unwrap().settings, first.settings);
        assert!(!text(&first).contains('\u{1b}'));
    }

    #[test]
    fn json_names_value_and_origin() {
        let mut out = Vec::new();
        show_json(&loaded(&[("MAX_CONCURRENCY_NUM", "3")], &[]), &mut out).unwrap();
        let all: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(
            all["settings"]["max_concurrency_num"],
            json!({ "value": 3, "origin": { "layer": "variable", "name": "MAX_CONCURRENCY_NUM" } })
        );
        assert_eq!(all["environment"], "development");
    }

    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_went_away_is_no_error() {
        let loaded = loaded(&[], &[]);
        assert!(show(&loaded, &mut Broken(ErrorKind::BrokenPipe)).is_ok());
        assert!(show_json(&loaded, &mut Broken(ErrorKind::BrokenPipe)).is_ok());
        assert!(show(&loaded, &mut Broken(ErrorKind::StorageFull)).is_err());
        assert!(show_json(&loaded, &mut Broken(ErrorKind::StorageFull)).is_err());
    }
}
