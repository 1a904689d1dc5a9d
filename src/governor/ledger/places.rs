//! Values under small numbers that are used again: what is gone leaves nothing behind but its number.

use std::ops::{Index, IndexMut};

/// Each value has an allocation of its own, so that a place that is free costs a pointer, not a lane. To index a
/// place that is free is a mistake of the caller, as an index beyond the end of a list is.
#[derive(Clone, Debug)]
pub(crate) struct Places<T> {
    places: Vec<Option<Box<T>>>,
    /// Free places below the end; those beyond it are stale and skipped.
    free: Vec<u32>,
    taken: usize,
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            taken: 0,
        }
    }
}

impl<T> Places<T> {
    /// Values that are there.
    pub(crate) fn len(&self) -> usize {
        self.taken
    }

    /// Every number is below this.
    pub(crate) fn end(&self) -> usize {
        self.places.len()
    }

    /// Keeps a value; its number.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        let mut place = self.places.len();
        while let Some(free) = self.free.pop() {
            let is_free = self.places.get(free as usize).is_some_and(Option::is_none);
            if is_free {
                place = free as usize;
                break;
            }
        }
        // Billions of lanes do not fit into memory.
        let number = u32::try_from(place).unwrap_or(u32::MAX);
        self.put(number, value);
        number
    }

    /// Keeps a value under a number of the caller's; what was there is replaced.
    pub(crate) fn put(&mut self, number: u32, value: T) {
        let place = number as usize;
        while self.places.len() <= place {
            if self.places.len() < place {
                self.free
                    .push(u32::try_from(self.places.len()).unwrap_or(u32::MAX));
            }
            self.places.push(None);
        }
        self.taken += usize::from(self.places[place].is_none());
        self.places[place] = Some(Box::new(value));
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.places.get(number as usize)?.as_deref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.places.get_mut(number as usize)?.as_deref_mut()
    }

    /// Takes a value out; its number is free.
    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.places.get_mut(number as usize)?.take()?;
        self.taken -= 1;
        self.free.push(number);
        while matches!(self.places.last(), Some(None)) {
            self.places.pop();
        }
        if self.places.is_empty() {
            self.free.clear();
        }
        if self.places.capacity() > 64 + 4 * self.places.len() {
            self.places.shrink_to(2 * self.places.len());
            let end = self.places.len();
            self.free.retain(|free| (*free as usize) < end);
            self.free.shrink_to(2 * self.free.len());
        }
        Some(*value)
    }

    /// The numbers of all values, in order.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.iter().map(|(number, _)| number).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let places = (0..).zip(&self.places);
        places.filter_map(|(number, place)| Some((number, place.as_deref()?)))
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().filter_map(Option::as_deref_mut)
    }
}

impl<T> Index<usize> for Places<T> {
    type Output = T;

    #[inline]
    fn index(&self, place: usize) -> &T {
        match &self.places[place] {
            Some(value) => value,
            None => vacant(place),
        }
    }
}

impl<T> IndexMut<usize> for Places<T> {
    #[inline]
    fn index_mut(&mut self, place: usize) -> &mut T {
        match &mut self.places[place] {
            Some(value) => value,
            None => vacant(place),
        }
    }
}

#[cold]
fn vacant(place: usize) -> ! {
    panic!("place {place} is free")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        /// Against a map; numbers are used again, and the list is no longer than it has to be.
        #[test]
        fn places_are_a_map_with_small_numbers(steps in prop::collection::vec(any::<u16>(), 0..100)) {
            let mut places = Places::default();
            let mut model = BTreeMap::new();
            for step in steps {
                let number = u32::from(step >> 4) % 24;
                match step % 4 {
                    0 | 1 => {
                        let end = places.end();
                        let full = places.len() == end;
                        let number = places.insert(step);
                        prop_assert!(full || (number as usize) < end, "a free number was there");
                        prop_assert_eq!(model.insert(number, step), None);
                    }
                    2 => prop_assert_eq!(places.remove(number), model.remove(&number)),
                    _ => {
                        places.put(number, step);
                        model.insert(number, step);
                    }
                }
                prop_assert_eq!(places.len(), model.len());
                let last = model.last_key_value().map_or(0, |(number, _)| *number as usize + 1);
                prop_assert_eq!(places.end(), last);
                prop_assert_eq!(places.get(number), model.get(&number));
            }
            let all: BTreeMap<u32, u16> = places.iter().map(|(number, value)| (number, *value)).collect();
            prop_assert_eq!(all, model);
        }
    }

    #[test]
    fn what_is_gone_leaves_no_memory_behind() {
        let mut places = Places::default();
        for value in 0..100_000_u32 {
            places.insert(value);
        }
        for number in 10..100_000 {
            places.remove(number);
        }
        assert_eq!((places.len(), places.end()), (10, 10));
        assert!(places.places.capacity() <= 128 && places.free.capacity() <= 128);
    }
}
