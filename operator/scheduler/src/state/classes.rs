//! Nodes grouped by their free capacity. Classes are updated on demand: a node that changes a
//! hundred times between two placements is sorted once.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::NodeIdx;
use super::profile::{ClassMembers, NodeProfile};

/// Number of empty classes, beyond the number of occupied ones, from which all classes are numbered
/// again.
const MIN_EMPTY_CLASSES: usize = 4_096;

/// A class of nodes: its profile never changes, its members do. An empty class stays for nodes that
/// get its profile later.
#[derive(Debug)]
pub(crate) struct NodeClass {
    pub(crate) profile: Arc<NodeProfile>,
    /// The members by rank, which is the order of names.
    pub(crate) members: ClassMembers,
}

/// All classes. The number of a class is stable until the age changes.
#[derive(Debug, Default)]
pub(crate) struct NodeClasses {
    numbers: FxHashMap<Arc<NodeProfile>, usize>,
    classes: Vec<NodeClass>,
    by_node: Vec<Option<usize>>,
    occupied: usize,
    age: u64,
}

impl NodeClasses {
    /// Returns how often all classes have been numbered again.
    pub(crate) fn age(&self) -> u64 {
        self.age
    }

    /// Returns the classes from this number on, including empty ones.
    pub(crate) fn starting_at(&self, number: usize) -> impl Iterator<Item = (usize, &NodeClass)> {
        (number..).zip(self.classes.get(number..).unwrap_or(&[]))
    }

    pub(crate) fn get(&self, number: usize) -> Option<&NodeClass> {
        self.classes.get(number)
    }

    /// Returns the class that a node is in.
    pub(crate) fn class_of(&self, node: NodeIdx) -> Option<usize> {
        *self.by_node.get(node.at())?
    }

    pub(crate) fn len(&self) -> usize {
        self.classes.len()
    }

    /// Forgets all nodes and classes.
    pub(crate) fn clear(&mut self) {
        *self = Self {
            age: self.age.saturating_add(1),
            ..Self::default()
        };
    }

    /// True if so many classes are empty that they should be numbered again.
    pub(crate) fn is_sparse(&self) -> bool {
        self.classes.len()
            > self
                .occupied
                .saturating_mul(2)
                .saturating_add(MIN_EMPTY_CLASSES)
    }

    /// Moves a node to the class of its profile, or removes it if there is no profile. Returns true
    /// if it was in another class.
    pub(crate) fn set_profile(
        &mut self,
        node: NodeIdx,
        rank: u32,
        profile: Option<NodeProfile>,
    ) -> bool {
        let next = profile.map(|p| self.get_or_insert(p));
        if self.by_node.len() <= node.at() {
            self.by_node.resize(node.at().saturating_add(1), None);
        }
        let Some(slot) = self.by_node.get_mut(node.at()) else {
            return false;
        };
        let before = std::mem::replace(slot, next);
        if before == next {
            return false;
        }
        if let Some(class) = before.and_then(|at| self.classes.get_mut(at)) {
            class.members.remove(&(rank, node));
            if class.members.is_empty() {
                self.occupied = self.occupied.saturating_sub(1);
            }
        }
        if let Some(class) = next.and_then(|at| self.classes.get_mut(at)) {
            self.occupied = self
                .occupied
                .saturating_add(usize::from(class.members.is_empty()));
            class.members.insert((rank, node));
        }
        true
    }

    fn get_or_insert(&mut self, profile: NodeProfile) -> usize {
        if let Some(at) = self.numbers.get(&profile) {
            return *at;
        }
        let profile = Arc::new(profile);
        let at = self.classes.len();
        self.numbers.insert(Arc::clone(&profile), at);
        self.classes.push(NodeClass {
            profile,
            members: ClassMembers::new(),
        });
        at
    }
}
