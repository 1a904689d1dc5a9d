//! What loading comes to, and how it is listed.

use super::field::Field;
use super::given::Shown;
use super::keys::{EGRESS, ENDPOINT, Located, NODE, Place, SITE, locate};
use super::origin::{Origin, Provenance};
use super::schema::Settings;

/// The effective settings, and where each came from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What holds.
    pub settings: Settings,
    /// Where it was set.
    pub provenance: Provenance,
}

/// A setting as `config` shows it.
pub(crate) struct Entry<'l> {
    pub(crate) key: &'l str,
    pub(crate) value: Shown,
    pub(crate) origin: &'l Origin,
}

impl Loaded {
    /// Every setting that any layer sets: the node's in the order of `default.toml`, then the sites'.
    pub(crate) fn entries(&self) -> Vec<Entry<'_>> {
        let mut entries: Vec<_> = self
            .provenance
            .origins
            .iter()
            .filter_map(|(key, origin)| {
                let Located::Key(place) = locate(&key.split('.').collect::<Vec<_>>()) else {
                    return None;
                };
                let value = shown(&self.settings, &place)?;
                let rank = if let Place::Node(index) = place {
                    index
                } else {
                    NODE.len()
                };
                Some((rank, Entry { key, value, origin }))
            })
            .collect();
        entries.sort_by_key(|(rank, _)| *rank);
        entries.into_iter().map(|(_, entry)| entry).collect()
    }
}

/// The value at `place`; `None` when its site or endpoint was taken out.
fn shown(settings: &Settings, place: &Place) -> Option<Shown> {
    let field: &dyn Field = match place {
        Place::Node(index) => (NODE[*index].get)(settings),
        Place::Egress(name, index) => (EGRESS[*index].get)(settings.egress.get(name)?),
        Place::Site(site, index) => (SITE[*index].get)(settings.sites.get(site)?),
        Place::Endpoint(site, endpoint, index) => {
            (ENDPOINT[*index].get)(settings.sites.get(site)?.endpoints.get(endpoint)?)
        }
    };
    Some(field.show())
}
