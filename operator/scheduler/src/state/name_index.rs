//! A table from names to numbers.

use std::hash::{BuildHasher, RandomState};

/// A table from names to numbers of values that are stored elsewhere together with their names: 8
/// bytes per place. It reads a name only to compare two names with the same hash, so growing does
/// not touch the names in memory. It uses the standard hasher because users choose the names.
#[derive(Debug, Default)]
pub(crate) struct NameIndex {
    hasher: RandomState,
    /// The length is a power of two, and at least a quarter of the places are vacant. Each entry is
    /// at the place of its hash, or after it without a vacant place between.
    places: Vec<Option<IndexEntry>>,
    used: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IndexEntry {
    hash: u32,
    /// The number plus one, so that a vacant place needs no extra space. The number is less than
    /// `u32::MAX`.
    number: std::num::NonZeroU32,
}

impl IndexEntry {
    fn number(self) -> u32 {
        self.number.get().saturating_sub(1)
    }
}

impl NameIndex {
    /// Returns the number of the value with this name; `is` returns true if a value has the name.
    pub(crate) fn find(&self, name: &str, is: impl Fn(u32) -> bool) -> Option<u32> {
        let hash = self.hash(name);
        let at = self.place_of(hash, is)?;
        self.entry(at).map(IndexEntry::number)
    }

    /// Adds a number under a name that has none.
    pub(crate) fn insert(&mut self, name: &str, number: u32) {
        if self.used.saturating_mul(4) >= self.places.len().saturating_mul(3) {
            self.grow();
        }
        let number = std::num::NonZeroU32::MIN.saturating_add(number);
        let hash = self.hash(name);
        self.put(IndexEntry { hash, number });
        self.used = self.used.saturating_add(1);
    }

    /// Removes a number and its name.
    pub(crate) fn remove(&mut self, name: &str, number: u32) {
        let hash = self.hash(name);
        let Some(mut vacant) = self.place_of(hash, |n| n == number) else {
            return;
        };
        self.used = self.used.saturating_sub(1);
        // Move later entries up if the vacant place would hide them from lookups.
        let mut next = vacant;
        loop {
            self.set(vacant, None);
            let moved = loop {
                next = self.next_place(next);
                let Some(entry) = self.entry(next) else {
                    return;
                };
                let from = self.home_place(entry.hash);
                if self.distance(from, next) >= self.distance(vacant, next) {
                    break entry;
                }
            };
            self.set(vacant, Some(moved));
            vacant = next;
        }
    }

    /// Changes the number of the value with this name.
    pub(crate) fn renumber(&mut self, name: &str, before: u32, now: u32) {
        let hash = self.hash(name);
        if let Some(at) = self.place_of(hash, |n| n == before) {
            let number = std::num::NonZeroU32::MIN.saturating_add(now);
            self.set(at, Some(IndexEntry { hash, number }));
        }
    }

    fn hash(&self, name: &str) -> u32 {
        let hash = self.hasher.hash_one(name);
        u32::try_from(hash >> 32).unwrap_or(0)
    }

    fn place_of(&self, hash: u32, is: impl Fn(u32) -> bool) -> Option<usize> {
        let mut at = self.home_place(hash);
        loop {
            let entry = self.entry(at)?;
            if entry.hash == hash && is(entry.number()) {
                return Some(at);
            }
            at = self.next_place(at);
        }
    }

    fn put(&mut self, entry: IndexEntry) {
        let mut at = self.home_place(entry.hash);
        while self.entry(at).is_some() {
            at = self.next_place(at);
        }
        self.set(at, Some(entry));
    }

    fn grow(&mut self) {
        let places = self.places.len().saturating_mul(2).max(8);
        let before = std::mem::replace(&mut self.places, vec![None; places]);
        for entry in before.into_iter().flatten() {
            self.put(entry);
        }
    }

    fn entry(&self, at: usize) -> Option<IndexEntry> {
        *self.places.get(at)?
    }

    fn set(&mut self, at: usize, entry: Option<IndexEntry>) {
        if let Some(place) = self.places.get_mut(at) {
            *place = entry;
        }
    }

    /// Returns the place of a hash.
    fn home_place(&self, hash: u32) -> usize {
        hash as usize & self.mask()
    }

    fn next_place(&self, at: usize) -> usize {
        at.wrapping_add(1) & self.mask()
    }

    /// Returns the number of steps from one place to another.
    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & self.mask()
    }

    fn mask(&self) -> usize {
        self.places.len().saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The index returns the same results as a map after any inserts, removals and
        /// renumberings.
        #[test]
        fn name_index_answers_as_a_map(
            steps in prop::collection::vec((0..60_u32, 0..4_u8), 0..400)
        ) {
            let mut index = NameIndex::default();
            let mut names: BTreeMap<u32, u32> = BTreeMap::new();
            let name = |of: u32| format!("team/pod-{of}");
            for (next, (of, what)) in (1_u32..).zip(steps) {
                match (names.get(&of).copied(), what) {
                    (Some(number), 0 | 1) => {
                        index.remove(&name(of), number);
                        names.remove(&of);
                    }
                    (Some(number), _) => {
                        index.renumber(&name(of), number, next);
                        names.insert(of, next);
                    }
                    (None, _) => {
                        index.insert(&name(of), next);
                        names.insert(of, next);
                    }
                }
                for of in 0..60 {
                    let is = |number| names.get(&of) == Some(&number);
                    prop_assert_eq!(index.find(&name(of), is), names.get(&of).copied());
                }
            }
        }
    }
}
