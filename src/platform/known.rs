//! A bounded memory of tasks that are known for sure, in front of the store's exact check. Pure.

use crate::model::TaskKey;

/// Remembers, for as many keys as it has places, the depth at which a task was stored.
///
/// A place holds one key and the newest wins, so that memory is bounded and a "yes" is always true;
/// a "no" promises nothing. Keys are hashes already: their first bytes choose the place.
#[derive(Debug)]
pub(super) struct Known {
    places: Vec<Option<(TaskKey, u32)>>,
}

impl Known {
    /// A memory of `places` keys, at least one; 24 bytes each.
    #[must_use]
    pub(super) fn new(places: usize) -> Self {
        Self {
            places: vec![None; places.max(1)],
        }
    }

    fn place(&self, key: &TaskKey) -> usize {
        let mut head = [0; 8];
        head.copy_from_slice(&key.0[..8]);
        // The remainder is below a `usize`, so the cast keeps its value.
        (u64::from_le_bytes(head) % self.places.len() as u64) as usize
    }

    /// Whether `key` is stored at `depth` or nearer to the start.
    #[must_use]
    pub(super) fn contains(&self, key: &TaskKey, depth: u32) -> bool {
        matches!(self.places[self.place(key)], Some((known, at)) if known == *key && at <= depth)
    }

    /// Remember that `key` is stored at `depth`.
    pub(super) fn insert(&mut self, key: TaskKey, depth: u32) {
        let place = self.place(&key);
        let depth = match self.places[place] {
            Some((known, at)) if known == key => at.min(depth),
            _ => depth,
        };
        self.places[place] = Some((key, depth));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> TaskKey {
        TaskKey::of("web", "page", &n.to_string())
    }

    #[test]
    fn knows_what_was_stored_at_the_same_depth_or_nearer() {
        let mut known = Known::new(1000);
        known.insert(key(1), 3);
        assert!(known.contains(&key(1), 3));
        assert!(known.contains(&key(1), 4));
        assert!(
            !known.contains(&key(1), 2),
            "a shallower find must reach the store"
        );
        known.insert(key(1), 2);
        assert!(known.contains(&key(1), 2));
        known.insert(key(1), 9);
        assert!(known.contains(&key(1), 2), "a deeper find changes nothing");
    }

    #[test]
    fn forgets_rather_than_confuses() {
        let mut known = Known::new(7);
        for n in 0..1000 {
            known.insert(key(n), 0);
            assert!(known.contains(&key(n), 0));
        }
        let kept = (0..1000).filter(|n| known.contains(&key(*n), 0)).count();
        assert!(kept <= 7, "{kept} keys in 7 places");
    }
}
