//! Extraction: from a document to fields, records and the values that follow-ups carry.

use std::collections::HashSet;

use regex::Regex;
use serde_json::{Map, Value};
use url::Url;

use super::predicate::Predicate;
use super::select::{Node, Path};
use super::template::{Encoding, Lookup, Template, plain};
use super::values::Form;
use crate::model::{Name, Record};

/// Where a field's value comes from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// A path from the item.
    Item(Path),
    /// A path from the root of the answer.
    Root(Path),
    /// Values that are known already: the task's, the record's earlier fields, `url`.
    Template(Template),
    /// Always the same.
    Const(Value),
    /// Several fields, joined.
    Parts(Vec<Field>, String),
}

/// What becomes of a path that leads to several values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Several {
    /// The first that is not null.
    First,
    /// A list of all.
    All,
    /// All as one text.
    Join(String),
}

/// One value to be extracted.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) source: Source,
    pub(super) several: Several,
    pub(super) form: Form,
    /// Instead of a missing or null value.
    pub(super) default: Option<Value>,
}

/// What fields are read from.
pub(super) struct Scene<'a> {
    pub(super) root: Node<'a>,
    /// The answer's URL.
    pub(super) url: &'a Url,
    pub(super) lookup: Lookup<'a>,
}

impl Field {
    /// The value; `None` when there is none.
    pub(super) fn read(&self, scene: &Scene<'_>, item: Node<'_>) -> Option<Value> {
        let found = match &self.source {
            Source::Item(path) => self.of_path(path, scene, item),
            Source::Root(path) => self.of_path(path, scene, scene.root),
            // The names were checked with the definition: what is missing here is null in this answer.
            Source::Template(template) => template
                .render(Encoding::Plain, scene.lookup)
                .ok()
                .flatten()
                .map(|text| self.form.convert(text.into(), scene.url)),
            Source::Const(value) => Some(value.clone()),
            Source::Parts(parts, separator) => {
                let mut texts = Vec::new();
                for part in parts {
                    let text = part.read(scene, item).map(|value| plain(&value));
                    texts.extend(text.filter(|text| !text.is_empty()));
                }
                let joined = texts.join(separator);
                (!joined.is_empty()).then(|| self.form.convert(joined.into(), scene.url))
            }
        };
        found
            .filter(|value| !value.is_null())
            .or_else(|| self.default.clone())
    }

    fn of_path(&self, path: &Path, scene: &Scene<'_>, from: Node<'_>) -> Option<Value> {
        let convert = |value| self.form.convert(value, scene.url);
        match &self.several {
            Several::First => path.first(from).map(convert),
            Several::All => Some(path.values(from).into_iter().map(convert).collect()),
            Several::Join(separator) => {
                let texts: Vec<String> = path
                    .values(from)
                    .into_iter()
                    .filter(|value| !value.is_null())
                    .map(|value| plain(&convert(value)))
                    .collect();
                (!texts.is_empty()).then(|| texts.join(separator).into())
            }
        }
    }
}

/// What is looked at one by one: the nodes of some paths that fit a condition.
#[derive(Clone, Debug)]
pub(super) struct Each {
    /// Merged in this order; a node that two of them lead to counts once.
    pub(super) paths: Vec<Path>,
    pub(super) when: Option<Predicate>,
}

impl Each {
    /// The nodes, each once. Null is nothing.
    pub(super) fn nodes<'a>(&self, root: Node<'a>) -> Vec<Node<'a>> {
        let mut seen = HashSet::new();
        self.paths
            .iter()
            .flat_map(|path| path.nodes(root))
            .filter(|node| !matches!(node, Node::Json(Value::Null)))
            .filter(|node| seen.insert(node.address()))
            .filter(|node| self.when.as_ref().is_none_or(|when| when.holds(*node)))
            .collect()
    }
}

/// One kind of record of an endpoint.
#[derive(Clone, Debug)]
pub(super) struct RecordRule {
    pub(super) each: Each,
    /// In `crawl` mode: the pages it is read from.
    pub(super) matches: Option<Regex>,
    pub(super) kind: Name,
    pub(super) key: Field,
    pub(super) fields: Vec<(String, Field)>,
}

impl RecordRule {
    /// The record at `item`; `None` for an item without a key, which is an advertisement or the like.
    pub(super) fn read(&self, site: &Name, scene: &Scene<'_>, item: Node<'_>) -> Option<Record> {
        let mut fields = Map::new();
        for (name, field) in &self.fields {
            let value = {
                let known = |wanted: &str| {
                    fields
                        .get(wanted)
                        .cloned()
                        .or_else(|| (scene.lookup)(wanted))
                };
                let scene = Scene {
                    lookup: &known,
                    ..*scene
                };
                field.read(&scene, item)
            };
            fields.insert(name.clone(), value.unwrap_or(Value::Null));
        }
        let known = |wanted: &str| {
            fields
                .get(wanted)
                .cloned()
                .or_else(|| (scene.lookup)(wanted))
        };
        let scene = Scene {
            lookup: &known,
            ..*scene
        };
        let key = self.key.read(&scene, item).map(|value| plain(&value));
        let key = key.filter(|key| !key.is_empty())?;
        Some(Record {
            site: site.clone(),
            kind: self.kind.clone(),
            key,
            fields,
        })
    }
}

/// Follow-ups of an endpoint.
#[derive(Clone, Debug)]
pub(super) struct FollowRule {
    pub(super) each: Each,
    pub(super) endpoint: Name,
    pub(super) with: Vec<(String, Field)>,
}

impl FollowRule {
    /// The values that a follow-up at `item` carries.
    pub(super) fn carried(&self, scene: &Scene<'_>, item: Node<'_>) -> Map<String, Value> {
        let value =
            |(name, field): &(String, Field)| Some((name.clone(), field.read(scene, item)?));
        self.with.iter().filter_map(value).collect()
    }
}
