//! Answers that are files: where one is saved, under which name, and what is taken for it. Pure.

use serde_json::{Map, Value};

use super::SiteError;
use super::answers::type_fits;
use super::media_type::{extension, is_file, media_type};
use super::template::{Encoding, Lookup, Template};
use crate::model::{Answer, Checksum, MEDIA_FOLDER, Name, Params, TaskKey};

/// Bytes of a file's name without its extension, at most: far below what any file system allows.
const LONGEST_STEM: usize = 120;

/// Hexadecimal digits of a task's key that are put behind a name which alone does not tell its task.
const KEY_DIGITS: usize = 12;

/// Names that are devices on some systems, whatever their extension.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// How the file of one task is saved.
#[derive(Clone, Debug, PartialEq)]
pub struct Save {
    /// The folder, relative to the job's directory; parts are joined by `/`.
    pub folder: String,
    /// The file's name without its extension. No other task of the site has the same in this folder.
    pub stem: String,
    /// The kind of its record.
    pub kind: Name,
    /// The key of its record.
    pub key: String,
    /// The largest file, in bytes.
    pub max_bytes: u64,
    /// How its checksum is made.
    pub checksum: Checksum,
    /// Media types that are taken: whole names or `image/*`. None: all but pages and JSON.
    pub types: Vec<String>,
    /// Fields that its record has beside those of the file.
    pub fields: Map<String, Value>,
}

/// What a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileType {
    /// The media type, in lower case and without parameters.
    pub name: String,
    /// The extension, without a dot; never one of a program.
    pub extension: &'static str,
}

impl Save {
    /// What the file is that `answer` begins; `None`: not one that is taken here.
    #[must_use]
    pub fn file_type(&self, answer: &Answer) -> Option<FileType> {
        takes(&self.types, answer)
    }
}

/// What a definition says of the files of an endpoint.
#[derive(Clone, Debug)]
pub(super) struct SaveRule {
    /// Its folder below that of the site.
    pub(super) dir: String,
    /// The name; `None`: the task's key.
    pub(super) name: Option<Template>,
    /// Whether the name alone tells tasks apart.
    pub(super) telling: bool,
    pub(super) kind: Name,
    pub(super) max_bytes: u64,
    pub(super) checksum: Checksum,
    pub(super) types: Vec<String>,
    pub(super) fields: Vec<(String, Template)>,
}

impl SaveRule {
    /// Its templates.
    pub(super) fn templates(&self) -> impl Iterator<Item = &Template> {
        let fields = self.fields.iter().map(|(_, template)| template);
        self.name.iter().chain(fields)
    }

    /// How the file of a task is saved.
    pub(super) fn of(&self, site: &str, params: &Params, key: &TaskKey) -> Result<Save, SiteError> {
        let lookup = |name: &str| params.get(name).cloned();
        let lookup: Lookup<'_> = &lookup;
        let name = match &self.name {
            Some(template) => template.render(Encoding::Plain, lookup)?,
            None => None,
        };
        let stem = stem(name.as_deref().unwrap_or_default(), self.telling, key);
        let mut fields = Map::new();
        for (name, template) in &self.fields {
            let text = template.render(Encoding::Plain, lookup)?;
            fields.insert(name.clone(), text.map_or(Value::Null, Value::from));
        }
        Ok(Save {
            folder: format!("{MEDIA_FOLDER}/{site}/{}", self.dir),
            key: format!("{}/{stem}", self.dir),
            stem,
            kind: self.kind.clone(),
            max_bytes: self.max_bytes,
            checksum: self.checksum,
            types: self.types.clone(),
            fields,
        })
    }

    /// What the file is that `answer` begins; `None`: not one that is taken here.
    pub(super) fn file_type(&self, answer: &Answer) -> Option<FileType> {
        takes(&self.types, answer)
    }
}

fn takes(types: &[String], answer: &Answer) -> Option<FileType> {
    let name = media_type(&answer.media_type(), &answer.body);
    let taken = match types {
        [] => is_file(&name),
        types => types.iter().any(|pattern| type_fits(pattern, &name)),
    };
    taken.then(|| FileType {
        extension: extension(&name),
        name,
    })
}

/// A name that every file system takes and that no other task's file has, not even where case does not count.
///
/// `raw` stays as it is where it is plain and tells its task (`telling`). Else letters, digits, `-`, `_` and `.` stay,
/// the rest becomes `_`, and digits of the task's key make it unique.
fn stem(raw: &str, telling: bool, key: &TaskKey) -> String {
    if telling && is_plain(raw) {
        return raw.to_owned();
    }
    let digits = blake3::hash(&key.0).to_hex();
    let digits = &digits[..KEY_DIGITS];
    let room = LONGEST_STEM - KEY_DIGITS - 1;
    let mut kept = String::new();
    for char in raw.chars() {
        let char = match char {
            '-' | '_' | '.' => char,
            char if char.is_alphanumeric() => char,
            _ => '_',
        };
        if kept.len() + char.len_utf8() > room {
            break;
        }
        // Neither hidden nor `..`.
        if !(kept.is_empty() && char == '.') {
            kept.push(char);
        }
    }
    match kept.is_empty() {
        true => digits.to_owned(),
        false => format!("{kept}-{digits}"),
    }
}

/// Whether a name can be told from every other plain name on any file system.
fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    let digit = |byte: u8| matches!(byte, b'a'..=b'f' | b'0'..=b'9');
    let tail = name.len().saturating_sub(KEY_DIGITS);
    // What looks like a name with a key is given its own.
    let keyed = name.len() >= KEY_DIGITS
        && name.bytes().skip(tail).all(digit)
        && (tail == 0 || name.as_bytes()[tail - 1] == b'-');
    let port = name.strip_prefix("com").or(name.strip_prefix("lpt"));
    let device = DEVICES.contains(&name)
        || port.is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|b| b.is_ascii_digit()));
    (1..=LONGEST_STEM).contains(&name.len()) && name.bytes().all(plain) && !keyed && !device
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn key(of: &str) -> TaskKey {
        TaskKey::of("s", "e", of)
    }

    #[test]
    fn plain_names_stay_and_others_are_made_safe() {
        for name in ["7", "a-b_c", "2024-01-01", "x".repeat(120).as_str()] {
            assert_eq!(stem(name, true, &key("k")), name);
        }
        for (name, begins) in [
            ("../../etc/passwd", "_.._etc_passwd-"),
            ("a/b\\c", "a_b_c-"),
            ("ABC", "ABC-"),
            ("视频 1", "视频_1-"),
            ("con", "con-"),
            ("com1", "com1-"),
            ("a\0b\n", "a_b_-"),
            ("...", ""),
            ("", ""),
        ] {
            let made = stem(name, true, &key("k"));
            assert!(made.starts_with(begins), "{name:?} {made}");
            assert!(made.len() >= begins.len() + KEY_DIGITS, "{name:?} {made}");
        }
        assert_ne!(stem("7", false, &key("k")), "7", "7 alone does not tell");
    }

    proptest! {
        #[test]
        fn any_name_is_one_safe_part_of_a_path(raw in ".{0,300}", telling: bool) {
            let made = stem(&raw, telling, &key(&raw));
            prop_assert!((1..=LONGEST_STEM).contains(&made.len()));
            prop_assert!(!made.starts_with('.'));
            let unsafe_char = |c: char| c.is_control() || "/\\:*?\"<>|".contains(c);
            prop_assert!(!made.contains(unsafe_char), "{}", made);
        }

        #[test]
        fn two_tasks_never_have_one_name_even_where_case_does_not_count(
            names in prop::collection::vec("[abAB./ _0-]{0,6}", 2..40),
        ) {
            let mut seen: HashMap<String, &str> = HashMap::new();
            for name in &names {
                let made = stem(name, true, &key(name)).to_lowercase();
                if let Some(other) = seen.insert(made, name) {
                    prop_assert_eq!(other, name);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "save_tests.rs"]
mod definition_tests;
