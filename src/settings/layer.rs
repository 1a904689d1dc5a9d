//! One layer: the leaves that it sets, and their checks.

use std::collections::BTreeSet;

use config::{ConfigError, Map, Source, Value, ValueKind};

use super::error::{Problem, SettingsError};
use super::given::Given;
use super::keys::{Located, bad_name, locate, nearest};
use super::origin::{Layer, Origin};
use super::schema::Settings;

/// A value and the path of keys that leads to it.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) path: Vec<String>,
    pub(super) value: Value,
}

impl Leaf {
    pub(super) fn parts(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }
}

/// A path as it is written in TOML.
pub(super) fn written<S: AsRef<str>>(path: &[S]) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let parts = path.iter().map(AsRef::as_ref).map(|part| {
        if !part.is_empty() && part.chars().all(bare) {
            part.to_owned()
        } else {
            super::given::quote(part)
        }
    });
    parts.collect::<Vec<_>>().join(".")
}

/// The origins of all values. The `config` crate carries an origin as a text: here its position in this list.
#[derive(Debug, Default)]
pub(super) struct Origins(Vec<Origin>);

impl Origins {
    /// Keeps `origin`; the text to give to its values.
    pub(super) fn add(&mut self, origin: Origin) -> String {
        self.0.push(origin);
        (self.0.len() - 1).to_string()
    }

    /// The origin of a value.
    pub(super) fn of(&self, value: &Value) -> Option<&Origin> {
        self.0.get(value.origin()?.parse::<usize>().ok()?)
    }
}

/// The leaves of one layer that are good, as a source for the `config` crate.
#[derive(Clone, Debug, Default)]
pub(super) struct LayerSource {
    root: Map<String, Value>,
}

impl LayerSource {
    /// Sets a leaf, in place of an earlier one with its path.
    pub(super) fn set(&mut self, leaf: Leaf) {
        let mut path = leaf.path;
        let Some(last) = path.pop() else {
            return;
        };
        let mut table = &mut self.root;
        for part in path {
            let below = table
                .entry(part)
                .or_insert_with(|| Map::<_, Value>::new().into());
            if !matches!(below.kind, ValueKind::Table(_)) {
                *below = Map::<_, Value>::new().into();
            }
            let ValueKind::Table(next) = &mut below.kind else {
                return;
            };
            table = next;
        }
        table.insert(last, leaf.value);
    }
}

impl Source for LayerSource {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        Ok(self.root.clone())
    }
}

/// All leaves below a merged table.
pub(super) fn leaves(root: &Value) -> Vec<Leaf> {
    fn walk(path: &mut Vec<String>, value: &Value, found: &mut Vec<Leaf>) {
        let ValueKind::Table(table) = &value.kind else {
            found.push(Leaf {
                path: path.clone(),
                value: value.clone(),
            });
            return;
        };
        for (key, below) in table {
            path.push(key.clone());
            walk(path, below, found);
            path.pop();
        }
    }
    let mut found = Vec::new();
    walk(&mut Vec::new(), root, &mut found);
    found
}

/// Checks the leaves of one layer, each by itself.
pub(super) struct Checker<'c> {
    pub(super) origins: &'c Origins,
    pub(super) errors: &'c mut Vec<SettingsError>,
    /// Names already refused in this layer: a table of a bad name is one problem, not one for each key.
    refused: BTreeSet<String>,
}

impl<'c> Checker<'c> {
    pub(super) fn new(origins: &'c Origins, errors: &'c mut Vec<SettingsError>) -> Self {
        Self {
            origins,
            errors,
            refused: BTreeSet::new(),
        }
    }

    /// Whether `leaf` is a setting with a good value; reads it into `settings`.
    pub(super) fn check(&mut self, leaf: &Leaf, settings: &mut Settings) -> bool {
        let Some(origin) = self.origins.of(&leaf.value).cloned() else {
            return false;
        };
        match problem(leaf, origin.layer(), settings) {
            Verdict::Good => true,
            Verdict::Nothing => false,
            Verdict::Bad(Problem::Name { name, .. }) if !self.refused.insert(name.clone()) => false,
            Verdict::Bad(problem) => {
                self.errors.push(SettingsError::at(
                    origin,
                    unknown_variable(problem, leaf, self.origins),
                ));
                false
            }
        }
    }
}

enum Verdict {
    Good,
    /// An empty table: it sets nothing.
    Nothing,
    Bad(Problem),
}

/// Of a variable the name is given, and not the key that it does not lead to.
fn unknown_variable(problem: Problem, leaf: &Leaf, origins: &Origins) -> Problem {
    match (&problem, origins.of(&leaf.value)) {
        (Problem::Unknown { .. }, Some(Origin::Variable { name })) => {
            super::env::unknown(name, &leaf.parts())
        }
        _ => problem,
    }
}

fn problem(leaf: &Leaf, layer: Layer, settings: &mut Settings) -> Verdict {
    let parts = leaf.parts();
    let given = Given {
        value: &leaf.value,
        text: layer.is_text(),
    };
    match locate(&parts) {
        Located::Key(place) => {
            let (allowed, field) = place.field(settings);
            match field.read(&given, allowed) {
                Ok(()) => Verdict::Good,
                Err(detail) => Verdict::Bad(Problem::Value {
                    key: written(&parts),
                    given: match place.is_secret() {
                        true => "something else".to_owned(),
                        false => given.describe(),
                    },
                    detail,
                    allowed: place.allowed(),
                }),
            }
        }
        Located::Table(_) if matches!(leaf.value.kind, ValueKind::Table(_)) => Verdict::Nothing,
        Located::Table(keys) => Verdict::Bad(Problem::Table {
            key: written(&parts),
            given: given.describe(),
            keys: keys.join(", "),
        }),
        Located::BadName(at) => {
            let (what, allowed) = bad_name(&parts, at);
            Verdict::Bad(Problem::Name {
                name: parts.get(at).copied().unwrap_or_default().to_owned(),
                what,
                allowed,
            })
        }
        Located::Unknown => Verdict::Bad(Problem::Unknown {
            key: written(&parts),
            nearest: nearest(&parts),
        }),
    }
}
