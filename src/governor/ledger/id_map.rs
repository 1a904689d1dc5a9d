//! Maps whose keys are numbers that this process counts up: they need no defence against chosen keys, and
//! are looked up several times for each permit.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map from permits or tickets.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Multiplies by an odd number near 2⁶⁴/φ and folds the upper half of the product into the lower one, so
/// that neighbours differ in the bits that choose a place and in those that are compared first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdHasher(u64);

impl IdHasher {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(Self::FACTOR);
        // The halves of the product; nothing is lost.
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.mix(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::hash::BuildHasher;

    use super::*;
    use crate::governor::messages::PermitId;

    #[test]
    fn neighbours_spread_over_places_and_tags() {
        let map = IdMap::<PermitId, ()>::default();
        let hashes: Vec<u64> = (0..4096)
            .map(|id| map.hasher().hash_one(PermitId(id)))
            .collect();
        let distinct = |bits: &dyn Fn(u64) -> u64| {
            let set: BTreeSet<u64> = hashes.iter().map(|hash| bits(*hash)).collect();
            set.len()
        };
        assert_eq!(distinct(&|hash| hash), 4096);
        assert!(distinct(&|hash| hash % 4096) > 2300, "places");
        assert_eq!(distinct(&|hash| hash >> 57), 128, "tags");
    }
}
