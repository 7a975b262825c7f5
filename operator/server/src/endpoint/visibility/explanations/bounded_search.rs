//! Results of a costly search, for the gangs of one snapshot that were explained.

use std::collections::BTreeMap;

use trellis_scheduler::GangId;

/// The results by gang. It searches for a limited number of gangs.
pub(super) struct BoundedSearch<T> {
    most: usize,
    found: BTreeMap<GangId, Vec<T>>,
}

impl<T: Clone> BoundedSearch<T> {
    /// Searches for at most this many gangs.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            found: BTreeMap::new(),
        }
    }

    /// Returns the result for a gang. The first call for it runs the search. Empty also if the search
    /// has run for the most gangs.
    pub(super) fn find(&mut self, gang: &GangId, search: impl FnOnce() -> Vec<T>) -> Vec<T> {
        if let Some(known) = self.found.get(gang) {
            return known.clone();
        }
        if self.found.len() >= self.most {
            return Vec::new();
        }
        let found = search();
        self.found.insert(gang.clone(), found.clone());
        found
    }
}
