//! Equal values stored once, for as long as they are in use.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use super::Slots;

/// Values by number, with a count of their uses. It uses the standard hasher because users choose
/// the values.
#[derive(Debug)]
pub(crate) struct Interner<T> {
    numbers: HashMap<Arc<T>, usize>,
    values: Slots<(Arc<T>, u32)>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self {
            numbers: HashMap::new(),
            values: Slots::default(),
        }
    }
}

impl<T: Hash + Eq> Interner<T> {
    /// Adds a use of a value. Returns its number, and true if the value is new.
    pub(crate) fn acquire(&mut self, value: T) -> (usize, bool) {
        if let Some(&at) = self.numbers.get(&value) {
            if let Some((_, uses)) = self.values.get_mut(at) {
                *uses = uses.saturating_add(1);
            }
            return (at, false);
        }
        let value = Arc::new(value);
        let at = self.values.insert((Arc::clone(&value), 1));
        self.numbers.insert(value, at);
        (at, true)
    }

    /// Adds a use of a value that is in use.
    pub(crate) fn retain(&mut self, at: usize) {
        if let Some((_, uses)) = self.values.get_mut(at) {
            *uses = uses.saturating_add(1);
        }
    }

    /// Releases a use. Returns the value if that was the last use.
    pub(crate) fn release(&mut self, at: usize) -> Option<Arc<T>> {
        let (_, uses) = self.values.get_mut(at)?;
        *uses = uses.saturating_sub(1);
        if *uses > 0 {
            return None;
        }
        let (value, _) = self.values.remove(at)?;
        self.numbers.remove(&value);
        Some(value)
    }

    pub(crate) fn find(&self, value: &T) -> Option<usize> {
        self.numbers.get(value).copied()
    }

    pub(crate) fn get(&self, at: usize) -> Option<&Arc<T>> {
        self.values.get(at).map(|(value, _)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_dropped_with_its_last_use() {
        let mut interner = Interner::default();
        let (a, new) = interner.acquire("a");
        assert!(new);
        assert_eq!(interner.acquire("a"), (a, false));
        assert_eq!(interner.release(a), None);
        assert_eq!(interner.get(a).map(|v| **v), Some("a"));
        assert_eq!(interner.release(a).map(|v| *v), Some("a"));
        assert_eq!(interner.find(&"a"), None);
        assert_eq!(interner.acquire("b"), (a, true), "the place is used again");
    }
}
