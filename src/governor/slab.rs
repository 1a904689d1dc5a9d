//! A store of values under dense keys that are never confused: a place that is used again has another name.

/// Values by key. A key has 48 bits: the generation of a place above, its index in the lower 24.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Place<T> {
    generation: u32,
    value: Option<T>,
}

/// Bits of a key that belong to its index.
const INDEX_BITS: u32 = 24;
const INDEX: u64 = (1 << INDEX_BITS) - 1;
/// Generations count modulo this: a key would have to be kept over so many uses of its place to be taken
/// for another.
const GENERATIONS: u32 = 1 << 24;

/// Every key is below this.
pub(crate) const KEYS: u64 = (GENERATIONS as u64) << INDEX_BITS;

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Keeps a value; its key. `None` when there are 2²⁴ already.
    pub(crate) fn insert(&mut self, value: T) -> Option<u64> {
        if let Some(index) = self.free.pop() {
            let place = &mut self.places[index as usize];
            place.value = Some(value);
            return Some(key(place.generation, index));
        }
        let index = u32::try_from(self.places.len()).ok()?;
        if u64::from(index) > INDEX {
            return None;
        }
        self.places.push(Place {
            generation: 0,
            value: Some(value),
        });
        Some(key(0, index))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }

    pub(crate) fn get(&self, key: u64) -> Option<&T> {
        let place = self.places.get(index(key))?;
        if place.generation != generation(key) {
            return None;
        }
        place.value.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        let place = self.places.get_mut(index(key))?;
        if place.generation != generation(key) {
            return None;
        }
        place.value.as_mut()
    }

    /// Takes a value out. Its key is not used again.
    pub(crate) fn remove(&mut self, key: u64) -> Option<T> {
        let place = self.places.get_mut(index(key))?;
        if place.generation != generation(key) {
            return None;
        }
        let value = place.value.take()?;
        place.generation = (place.generation + 1) % GENERATIONS;
        self.free.push((key & INDEX) as u32);
        Some(value)
    }

    /// All values with their keys, by place.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        self.places
            .iter_mut()
            .zip(0..)
            .filter_map(|(place, index)| {
                let key = key(place.generation, index);
                place.value.as_mut().map(|value| (key, value))
            })
    }
}

fn key(generation: u32, index: u32) -> u64 {
    u64::from(generation) << INDEX_BITS | u64::from(index)
}

fn index(key: u64) -> usize {
    (key & INDEX) as usize
}

fn generation(key: u64) -> u32 {
    (key >> INDEX_BITS) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        /// Against a map: what is in is found, what was taken out is not, and no key comes twice.
        #[test]
        fn a_slab_is_a_map_with_keys_of_its_own(steps in prop::collection::vec(0_u8..4, 0..60)) {
            let mut slab = Slab::default();
            let mut model = HashMap::new();
            let mut given = Vec::new();
            for (value, step) in steps.into_iter().enumerate() {
                if step < 2 || given.is_empty() {
                    let key = slab.insert(value).expect("room");
                    prop_assert!(key < KEYS);
                    prop_assert!(!given.contains(&key), "{key} again");
                    given.push(key);
                    model.insert(key, value);
                } else {
                    let key = given[value * 7 % given.len()];
                    prop_assert_eq!(slab.remove(key), model.remove(&key));
                }
                for key in &given {
                    prop_assert_eq!(slab.get(*key), model.get(key));
                    prop_assert_eq!(slab.get_mut(*key).copied(), model.get(key).copied());
                }
            }
            prop_assert_eq!(slab.is_empty(), model.is_empty());
            let mut all: Vec<_> = slab.iter_mut().map(|(key, value)| (key, *value)).collect();
            let mut expected: Vec<_> = model.into_iter().collect();
            all.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(all, expected);
        }
    }

    #[test]
    fn generations_begin_again() {
        let mut slab = Slab::default();
        let first = slab.insert('a').expect("room");
        slab.places[0].generation = GENERATIONS - 1;
        let last = key(GENERATIONS - 1, 0);
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(last), Some('a'));
        assert_eq!(slab.insert('b'), Some(first));
        assert!(last < KEYS);
    }
}
