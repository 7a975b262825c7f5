//! The gangs that hold quota of a queue.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use crate::ids::GangId;
use crate::state::GangIdx;

/// A gang and its charge.
#[derive(Debug)]
pub(super) struct QueueHolder {
    pub(super) gang: GangIdx,
    pub(super) priority: i32,
    /// True if the gang is not preemptible: its queue's quota protects it.
    pub(super) non_preemptible: bool,
    pub(super) surplus: bool,
    /// The number of its charge; equal charges share one number.
    pub(super) charge: usize,
    pub(super) id: GangId,
}

/// All holders of one queue.
#[derive(Debug, Default)]
pub(super) struct QueueHolders {
    /// The holders, in no order. The list is contiguous because the search for victims iterates
    /// over all of them.
    list: Vec<QueueHolder>,
    places: FxHashMap<GangIdx, usize>,
    /// The number of holders of each priority.
    priorities: BTreeMap<i32, usize>,
    /// Holders that are surplus.
    surplus: BTreeSet<GangIdx>,
}

impl QueueHolders {
    pub(super) fn iter(&self) -> impl Iterator<Item = &QueueHolder> {
        self.list.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn get(&self, gang: GangIdx) -> Option<&QueueHolder> {
        self.list.get(*self.places.get(&gang)?)
    }

    pub(super) fn lowest_priority(&self) -> Option<i32> {
        self.priorities.keys().next().copied()
    }

    /// Returns the holders that are surplus.
    pub(super) fn surplus(&self) -> impl Iterator<Item = &QueueHolder> {
        self.surplus.iter().filter_map(|gang| self.get(*gang))
    }

    /// Returns the number of holders that are not surplus.
    pub(super) fn gang_count(&self) -> usize {
        self.list.len().saturating_sub(self.surplus.len())
    }

    /// Adds a gang that is not a holder yet.
    pub(super) fn insert(&mut self, holder: QueueHolder) {
        if holder.surplus {
            self.surplus.insert(holder.gang);
        }
        let count = self.priorities.entry(holder.priority).or_default();
        *count = count.saturating_add(1);
        self.places.insert(holder.gang, self.list.len());
        self.list.push(holder);
    }

    pub(super) fn remove(&mut self, gang: GangIdx) -> Option<QueueHolder> {
        let place = self.places.remove(&gang)?;
        self.surplus.remove(&gang);
        if place >= self.list.len() {
            return None;
        }
        let holder = self.list.swap_remove(place);
        if let Some(moved) = self.list.get(place) {
            self.places.insert(moved.gang, place);
        }
        if let Some(count) = self.priorities.get_mut(&holder.priority) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.priorities.remove(&holder.priority);
            }
        }
        Some(holder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_a_holder_keeps_the_other_holders() {
        let mut holders = QueueHolders::default();
        for (at, priority) in [(7, 3), (1, 0), (4, 3)] {
            holders.insert(QueueHolder {
                gang: GangIdx::of(at),
                priority,
                non_preemptible: false,
                surplus: at == 4,
                charge: at,
                id: GangId::new(format!("a/{at}")),
            });
        }
        assert_eq!(holders.lowest_priority(), Some(0));
        assert_eq!((holders.gang_count(), holders.surplus().count()), (2, 1));
        let charge = |holders: &QueueHolders, at| holders.get(GangIdx::of(at)).map(|h| h.charge);
        assert_eq!(holders.remove(GangIdx::of(7)).map(|h| h.charge), Some(7));
        assert!(holders.remove(GangIdx::of(7)).is_none());
        assert_eq!(charge(&holders, 7), None);
        assert_eq!(
            (charge(&holders, 1), charge(&holders, 4)),
            (Some(1), Some(4))
        );
        assert_eq!(holders.remove(GangIdx::of(1)).map(|h| h.charge), Some(1));
        assert_eq!(holders.lowest_priority(), Some(3));
        assert_eq!((holders.len(), charge(&holders, 4)), (1, Some(4)));
        assert!(holders.remove(GangIdx::of(4)).is_some());
        assert_eq!((holders.gang_count(), holders.surplus().count()), (0, 0));
    }
}
