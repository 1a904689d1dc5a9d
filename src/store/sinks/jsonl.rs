//! JSON Lines: `DIR/<site>.<kind>.jsonl`, one flat object a line.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::Sink;
use crate::model::{Name, Record, StoredRecord, UnixMillis};
use crate::store::StoreError;
use crate::store::kill::{Hook, KillPoint, Moment};

/// What the store adds to a record's fields. A field of the same name gives way.
const RESERVED: [&str; 6] = ["_site", "_kind", "_key", "_rev", "_run", "_at"];

/// Whether a file called `name` is, by its form, an output of a job: `<site>.<kind>.jsonl`.
pub(crate) fn is_output_name(name: &str) -> bool {
    name.strip_suffix(".jsonl")
        .and_then(|stem| stem.split_once('.'))
        .is_some_and(|(site, kind)| !site.is_empty() && !kind.is_empty() && !kind.contains('.'))
}

/// The file of a site's records of one kind. What is no letter, digit, `-` or `_` becomes `_`.
fn file_name(site: &str, kind: &str) -> String {
    let clean = |text: &str| -> String {
        text.chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') {
                    c
                } else {
                    '_'
                }
            })
            .collect()
    };
    format!("{}.{}.jsonl", clean(site), clean(kind))
}

/// One output file.
#[derive(Debug)]
struct Output {
    name: String,
    path: PathBuf,
    file: File,
    /// Bytes written and synced.
    end: u64,
    /// Lines not written yet.
    lines: Vec<u8>,
}

/// The sink of format `jsonl`.
#[derive(Debug)]
pub(crate) struct JsonlSink {
    dir: PathBuf,
    outputs: Vec<Output>,
    /// Which output a site and kind go to. Few, and compared by address first: a list is faster than a map.
    routes: Vec<(Name, Name, usize)>,
    /// Committed lengths of files that are not open yet.
    committed: BTreeMap<String, u64>,
    /// Names of outputs that could not be opened when a record came; told at the next flush.
    broken: Option<StoreError>,
    /// The text of the last instant: a batch shares one.
    at: (UnixMillis, String),
}

impl JsonlSink {
    /// Open the outputs in `dir` whose `committed` lengths are given, and cut them back to these.
    /// Outputs that are there without a committed length stem from a batch that never was committed: they are removed.
    /// Returns the sink and how many bytes were cut.
    ///
    /// # Errors
    /// [`StoreError::Shorter`] when a file lacks committed bytes; [`StoreError::Io`].
    pub(crate) fn open(
        dir: &Path,
        committed: BTreeMap<String, u64>,
        hook: &mut Hook,
    ) -> Result<(Self, u64), StoreError> {
        let mut cut = 0;
        for (name, &bytes) in &committed {
            cut += cut_back(&dir.join(name), bytes, hook)?;
        }
        for path in outputs_in(dir)? {
            let name = path.file_name().and_then(|name| name.to_str());
            if name.is_some_and(|name| committed.contains_key(name)) {
                continue;
            }
            let length = std::fs::metadata(&path)
                .map_err(|error| StoreError::io(&path, "read its length", &error))?
                .len();
            hook.at(KillPoint::Truncate(Moment::Before));
            std::fs::remove_file(&path)
                .map_err(|error| StoreError::io(&path, "remove it", &error))?;
            hook.at(KillPoint::Truncate(Moment::After));
            cut += length;
        }
        let sink = Self {
            dir: dir.to_owned(),
            outputs: Vec::new(),
            routes: Vec::new(),
            committed,
            broken: None,
            at: (UnixMillis::default(), UnixMillis::default().to_string()),
        };
        Ok((sink, cut))
    }

    /// The index of the output for `site` and `kind`.
    fn route(&mut self, site: &Name, kind: &Name) -> Result<usize, StoreError> {
        let same = |a: &Name, b: &Name| Name::ptr_eq(a, b) || a == b;
        if let Some((_, _, index)) = self
            .routes
            .iter()
            .find(|(s, k, _)| same(s, site) && same(k, kind))
        {
            return Ok(*index);
        }
        let name = file_name(site, kind);
        let index = match self.outputs.iter().position(|output| output.name == name) {
            Some(index) => index,
            None => {
                let output = self.open_output(name)?;
                self.outputs.push(output);
                self.outputs.len() - 1
            }
        };
        self.routes.push((site.clone(), kind.clone(), index));
        Ok(index)
    }

    fn open_output(&self, name: String) -> Result<Output, StoreError> {
        let path = self.dir.join(&name);
        let end = self.committed.get(&name).copied();
        let opened = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(end.is_none())
            .open(&path);
        let mut file = opened.map_err(|error| StoreError::io(&path, "open it", &error))?;
        let end = end.unwrap_or_default();
        file.seek(SeekFrom::Start(end))
            .map_err(|error| StoreError::io(&path, "seek to its end", &error))?;
        // A new file's name must be as durable as its bytes.
        sync_dir(&self.dir)?;
        Ok(Output {
            name,
            path,
            file,
            end,
            lines: Vec::new(),
        })
    }
}

impl Sink for JsonlSink {
    fn append(&mut self, record: &StoredRecord, fields: &str) {
        let index = match self.route(&record.record.site, &record.record.kind) {
            Ok(index) => index,
            Err(error) => {
                self.broken.get_or_insert(error);
                return;
            }
        };
        if self.at.0 != record.at {
            self.at = (record.at, record.at.to_string());
        }
        if let Some(output) = self.outputs.get_mut(index) {
            render_line(&mut output.lines, record, fields, &self.at.1);
        }
    }

    fn flush(&mut self, hook: &mut Hook) -> Result<Vec<(String, u64)>, StoreError> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        let mut ends = Vec::new();
        for output in self.outputs.iter_mut().filter(|o| !o.lines.is_empty()) {
            hook.at(KillPoint::Append(Moment::Before));
            let half = if hook.is_set() {
                output.lines.len() / 2
            } else {
                0
            };
            let (first, second) = output.lines.split_at(half);
            let written = output.file.write_all(first).and_then(|()| {
                hook.at(KillPoint::TornAppend);
                output.file.write_all(second)
            });
            written.map_err(|error| StoreError::io(&output.path, "append to it", &error))?;
            hook.at(KillPoint::Append(Moment::After));
            hook.at(KillPoint::Sync(Moment::Before));
            output
                .file
                .sync_data()
                .map_err(|error| StoreError::io(&output.path, "sync it", &error))?;
            hook.at(KillPoint::Sync(Moment::After));
            output.end += output.lines.len() as u64;
            output.lines.clear();
            ends.push((output.name.clone(), output.end));
        }
        Ok(ends)
    }
}

/// Append `record` to `lines` as one line.
fn render_line(lines: &mut Vec<u8>, record: &StoredRecord, fields: &str, at: &str) {
    let reserved = record
        .record
        .fields
        .keys()
        .any(|name| name.starts_with('_') && RESERVED.contains(&name.as_str()));
    let kept;
    let fields = if reserved {
        let mut map = record.record.fields.clone();
        map.retain(|name, _| !RESERVED.contains(&name.as_str()));
        kept = serde_json::Value::Object(map).to_string();
        kept.as_str()
    } else {
        fields
    };
    let body = fields.strip_suffix('}').unwrap_or("{");
    lines.extend_from_slice(body.as_bytes());
    if body.len() > 1 {
        lines.push(b',');
    }
    let Record {
        site, kind, key, ..
    } = &record.record;
    text(lines, "\"_site\":", site);
    text(lines, ",\"_kind\":", kind);
    text(lines, ",\"_key\":", key);
    lines.extend_from_slice(b",\"_rev\":");
    lines.extend_from_slice(record.revision.to_string().as_bytes());
    text(lines, ",\"_run\":", &record.run);
    text(lines, ",\"_at\":", at);
    lines.extend_from_slice(b"}\n");
}

/// Append `lead` and `value` as a JSON string.
fn text(lines: &mut Vec<u8>, lead: &str, value: &str) {
    lines.extend_from_slice(lead.as_bytes());
    // Writing text into memory cannot fail.
    let _ = serde_json::to_writer(lines, value);
}

/// Cut the file back to its committed length; how many bytes that took.
fn cut_back(path: &Path, committed: u64, hook: &mut Hook) -> Result<u64, StoreError> {
    let have = match std::fs::metadata(path) {
        Ok(meta) => meta.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => return Err(StoreError::io(path, "read its length", &error)),
    };
    if have < committed {
        return Err(StoreError::Shorter {
            file: path.to_owned(),
            have,
            committed,
        });
    }
    if have == committed {
        return Ok(0);
    }
    hook.at(KillPoint::Truncate(Moment::Before));
    let cut = OpenOptions::new().write(true).open(path).and_then(|file| {
        file.set_len(committed)?;
        file.sync_all()
    });
    cut.map_err(|error| StoreError::io(path, "cut it back", &error))?;
    hook.at(KillPoint::Truncate(Moment::After));
    Ok(have - committed)
}

/// The outputs that lie in `dir`, by the form of their names.
pub(crate) fn outputs_in(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let failed = |error: std::io::Error| StoreError::io(dir, "list it", &error);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let output = entry.file_name().to_str().is_some_and(is_output_name);
        if output && entry.file_type().map_err(failed)?.is_file() {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

/// Make the names in `dir` durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    // Only Unix lets a directory be opened and synced.
    if cfg!(unix) {
        File::open(dir)
            .and_then(|handle| handle.sync_all())
            .map_err(|error| StoreError::io(dir, "sync it", &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::Change;

    fn stored(key: &str, fields: Value) -> StoredRecord {
        let Value::Object(fields) = fields else {
            panic!("an object");
        };
        StoredRecord {
            record: Record {
                site: "web".into(),
                kind: "page".into(),
                key: key.to_owned(),
                fields,
            },
            revision: 2,
            run: "r1".into(),
            at: UnixMillis(1_700_000_000_123),
            change: Change::New,
        }
    }

    fn append(sink: &mut JsonlSink, record: &StoredRecord) {
        let fields = Value::Object(record.record.fields.clone()).to_string();
        sink.append(record, &fields);
    }

    fn open(dir: &Path, committed: &[(&str, u64)]) -> Result<(JsonlSink, u64), StoreError> {
        let committed = committed
            .iter()
            .map(|(n, b)| ((*n).to_owned(), *b))
            .collect();
        JsonlSink::open(dir, committed, &mut Hook::default())
    }

    #[test]
    fn a_line_holds_the_fields_then_what_the_store_knows() {
        let dir = tempfile::tempdir().unwrap();
        let (mut sink, cut) = open(dir.path(), &[]).unwrap();
        assert_eq!(cut, 0);
        append(&mut sink, &stored("a\"b\n😀", json!({"z": 1, "a": "é"})));
        append(&mut sink, &stored("k", json!({})));
        append(&mut sink, &stored("k", json!({"_key": "no", "_mine": 1})));
        let ends = sink.flush(&mut Hook::default()).unwrap();
        let text = std::fs::read_to_string(dir.path().join("web.page.jsonl")).unwrap();
        assert_eq!(ends, [("web.page.jsonl".to_owned(), text.len() as u64)]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            r#"{"z":1,"a":"é","_site":"web","_kind":"page","_key":"a\"b\n😀","_rev":2,"_run":"r1","_at":"2023-11-14T22:13:20.123Z"}"#
        );
        assert!(lines[1].starts_with(r#"{"_site":"web","#));
        assert!(lines[2].starts_with(r#"{"_mine":1,"_site":"web","_kind":"page","_key":"k""#));
        for line in lines {
            serde_json::from_str::<Value>(line).unwrap();
        }
    }

    #[test]
    fn what_was_not_committed_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("web.page.jsonl");
        std::fs::write(&file, "{}\n{\"torn").unwrap();
        std::fs::write(dir.path().join("web.other.jsonl"), "{\"never\"").unwrap();
        std::fs::write(dir.path().join("notes.jsonl"), "mine").unwrap();
        let (mut sink, cut) = open(dir.path(), &[("web.page.jsonl", 3)]).unwrap();
        assert_eq!(cut, 6 + 8);
        assert!(!dir.path().join("web.other.jsonl").exists());
        assert!(dir.path().join("notes.jsonl").exists());
        append(&mut sink, &stored("k", json!({})));
        sink.flush(&mut Hook::default()).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("{}\n{\"_site\""), "{text}");
        assert!(text.ends_with("}\n"), "{text}");
    }

    #[test]
    fn a_file_that_lost_committed_bytes_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("web.page.jsonl");
        std::fs::write(&file, "{}\n").unwrap();
        let error = open(dir.path(), &[("web.page.jsonl", 9)]).unwrap_err();
        assert_eq!(
            error,
            StoreError::Shorter {
                file,
                have: 3,
                committed: 9
            }
        );
    }

    #[test]
    fn names_of_outputs_are_safe_and_recognised() {
        assert_eq!(file_name("zhihu", "../x"), "zhihu.___x.jsonl");
        assert!(is_output_name(&file_name("a-b", "page")));
        assert!(!is_output_name("page.jsonl"));
        assert!(!is_output_name(".page.jsonl"));
        assert!(!is_output_name("a.b.c.jsonl"));
    }
}
