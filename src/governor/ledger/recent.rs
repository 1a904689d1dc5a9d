//! Values under numbers that are counted up, of which mostly the latest are asked for: permits.
//!
//! Each number has one place in a ring, where it is found without hashing. One that is still there when the
//! ring comes round again is moved into a map.

use super::id_map::IdMap;
use crate::governor::messages::PermitId;

/// A new ring has so many places, a power of two.
const FIRST_PLACES: usize = 64;
/// It grows no further.
const MOST_PLACES: usize = 1 << 16;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Recent<T> {
    ring: Vec<Option<(PermitId, T)>>,
    /// Values in the ring.
    here: usize,
    old: IdMap<PermitId, T>,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self {
            ring: empty(FIRST_PLACES),
            here: 0,
            old: IdMap::default(),
        }
    }
}

impl<T> Recent<T> {
    pub(crate) fn len(&self) -> usize {
        self.here + self.old.len()
    }

    #[inline]
    pub(crate) fn get(&self, id: &PermitId) -> Option<&T> {
        match &self.ring[self.place(*id)] {
            Some((there, value)) if there == id => Some(value),
            _ if self.old.is_empty() => None,
            _ => self.old.get(id),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: &PermitId) -> Option<&mut T> {
        let place = self.place(*id);
        match &mut self.ring[place] {
            Some((there, value)) if there == id => Some(value),
            _ if self.old.is_empty() => None,
            _ => self.old.get_mut(id),
        }
    }

    pub(crate) fn contains_key(&self, id: &PermitId) -> bool {
        self.get(id).is_some()
    }

    /// Keeps a value; one that was there under the same number is replaced.
    #[inline]
    pub(crate) fn insert(&mut self, id: PermitId, value: T) {
        if !self.old.is_empty() {
            self.old.remove(&id);
        }
        let place = self.place(id);
        let place = &mut self.ring[place];
        match place {
            None => {
                *place = Some((id, value));
                self.here += 1;
            }
            Some(there) if there.0 == id => there.1 = value,
            Some(there) => {
                let (id, value) = std::mem::replace(there, (id, value));
                self.old.insert(id, value);
                self.grow();
            }
        }
    }

    /// Takes a value out and drops it where it is.
    #[inline]
    pub(crate) fn discard(&mut self, id: &PermitId) {
        let place = self.place(*id);
        let place = &mut self.ring[place];
        match place {
            Some((there, _)) if there == id => {
                *place = None;
                self.here -= 1;
            }
            _ if self.old.is_empty() => {}
            _ => {
                self.old.remove(id);
            }
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, id: &PermitId) -> Option<T> {
        let place = self.place(*id);
        match self.ring[place].take() {
            Some((there, value)) if there == *id => {
                self.here -= 1;
                Some(value)
            }
            other => {
                self.ring[place] = other;
                if self.old.is_empty() {
                    return None;
                }
                self.old.remove(id)
            }
        }
    }

    /// All values, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PermitId, &T)> {
        let ring = self.ring.iter().flatten().map(|(id, value)| (*id, value));
        ring.chain(self.old.iter().map(|(id, value)| (*id, value)))
    }

    /// The same without their numbers.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.iter().map(|(_, value)| value)
    }

    #[inline]
    fn place(&self, id: PermitId) -> usize {
        // The length is a power of two: the lower bits count round the ring.
        id.0 as usize & (self.ring.len() - 1)
    }

    /// Makes room when it is not single old values that stand in the way, but many.
    #[cold]
    fn grow(&mut self) {
        let places = self.ring.len() * 2;
        if self.here * 2 <= self.ring.len() || places > MOST_PLACES {
            return;
        }
        let ring = std::mem::replace(&mut self.ring, empty(places));
        let old = std::mem::take(&mut self.old);
        self.here = 0;
        for (id, value) in ring.into_iter().flatten().chain(old) {
            let place = self.place(id);
            match &mut self.ring[place] {
                // The later number is the likelier to be asked for.
                Some((there, _)) if *there > id => {
                    self.old.insert(id, value);
                }
                Some(there) => {
                    let (id, value) = std::mem::replace(there, (id, value));
                    self.old.insert(id, value);
                }
                free => {
                    *free = Some((id, value));
                    self.here += 1;
                }
            }
        }
    }
}

fn empty<T>(places: usize) -> Vec<Option<T>> {
    std::iter::repeat_with(|| None).take(places).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        /// Against a map: permits that end soon, late and never, and numbers that leap.
        #[test]
        fn it_is_a_map(steps in prop::collection::vec(any::<u32>(), 0..400)) {
            let mut recent = Recent::default();
            let mut model = BTreeMap::new();
            let mut next = 0_u64;
            for step in steps {
                let some = |model: &BTreeMap<u64, u32>| {
                    let keys: Vec<_> = model.keys().copied().collect();
                    keys.get(step as usize / 8 % keys.len().max(1)).copied().unwrap_or(next / 2)
                };
                match step % 8 {
                    0..4 => {
                        next += 1 + u64::from(step % 97 == 0) * 1000;
                        recent.insert(PermitId(next), step);
                        model.insert(next, step);
                    }
                    4 => {
                        let id = some(&model);
                        prop_assert_eq!(recent.remove(&PermitId(id)), model.remove(&id));
                    }
                    5 if step % 3 == 0 => {
                        let id = some(&model);
                        recent.discard(&PermitId(id));
                        model.remove(&id);
                    }
                    5 => {
                        let id = next.saturating_sub(u64::from(step / 8 % 5));
                        prop_assert_eq!(recent.remove(&PermitId(id)), model.remove(&id));
                    }
                    6 => {
                        let id = some(&model);
                        recent.insert(PermitId(id), step);
                        model.insert(id, step);
                    }
                    _ => {
                        let id = some(&model);
                        if let Some(value) = recent.get_mut(&PermitId(id)) {
                            *value += 1;
                        }
                        model.entry(id).and_modify(|value| *value += 1);
                    }
                }
                prop_assert_eq!(recent.len(), model.len());
                for id in next.saturating_sub(4)..=next + 1 {
                    prop_assert_eq!(recent.get(&PermitId(id)), model.get(&id));
                }
            }
            let all: BTreeMap<u64, u32> = recent.iter().map(|(id, value)| (id.0, *value)).collect();
            prop_assert_eq!(all, model);
        }
    }

    #[test]
    fn the_ring_grows_with_the_values_and_not_with_their_age() {
        let mut recent = Recent::default();
        recent.insert(PermitId(0), 0);
        for id in 1..100_000 {
            recent.insert(PermitId(id), 0);
            recent.remove(&PermitId(id));
        }
        assert_eq!(recent.ring.len(), FIRST_PLACES);
        assert!(recent.contains_key(&PermitId(0)));
        for id in 100_000..101_000 {
            recent.insert(PermitId(id), 0);
        }
        assert!(recent.ring.len() >= 1024);
        assert!(recent.old.len() <= 1);
    }
}
