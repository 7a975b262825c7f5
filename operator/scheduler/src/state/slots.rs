//! An array whose places are reused.

/// Values in numbered places. The number of a value stays the same until the value is removed.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Option<T>>,
    vacant: Vec<usize>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            vacant: Vec::new(),
        }
    }
}

impl<T> Slots<T> {
    /// Puts a value into a vacant place.
    pub(crate) fn insert(&mut self, value: T) -> usize {
        if let Some(at) = self.vacant.pop()
            && let Some(slot) = self.slots.get_mut(at)
        {
            *slot = Some(value);
            return at;
        }
        self.slots.push(Some(value));
        self.slots.len().saturating_sub(1)
    }

    pub(crate) fn remove(&mut self, at: usize) -> Option<T> {
        let value = self.slots.get_mut(at)?.take()?;
        self.vacant.push(at);
        Some(value)
    }

    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        self.slots.get(at)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.slots.get_mut(at)?.as_mut()
    }
}
