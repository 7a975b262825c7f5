//! Nodes grouped by what is free on them, brought up to date when asked: a node
//! that changes a hundred times between two placements is sorted once.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::NodeIdx;
use super::profile::{Members, Profile};

/// Empty classes that may be left beside as many as are not, before all numbers
/// are given anew.
const KEPT: usize = 4_096;

/// A class: its profile never changes, its members do. One that has lost its
/// last member stays, for nodes that come to be like that again.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) profile: Arc<Profile>,
    /// By rank, that is by name.
    pub(crate) members: Members,
}

/// All classes. The number of a class is its own until the age changes.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    numbers: FxHashMap<Arc<Profile>, usize>,
    classes: Vec<Class>,
    of: Vec<Option<usize>>,
    occupied: usize,
    age: u64,
}

impl Classes {
    /// Counts how often all numbers have been given anew.
    pub(crate) fn age(&self) -> u64 {
        self.age
    }

    /// Those numbered from there on, some of them without members.
    pub(crate) fn from(&self, number: usize) -> impl Iterator<Item = (usize, &Class)> {
        (number..).zip(self.classes.get(number..).unwrap_or(&[]))
    }

    pub(crate) fn get(&self, number: usize) -> Option<&Class> {
        self.classes.get(number)
    }

    /// The class that a node is in.
    pub(crate) fn of(&self, node: NodeIdx) -> Option<usize> {
        *self.of.get(node.at())?
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

    /// True where so many classes are empty that the numbers should be given anew.
    pub(crate) fn is_sparse(&self) -> bool {
        self.classes.len() > self.occupied.saturating_mul(2).saturating_add(KEPT)
    }

    /// Puts a node where it belongs; takes it out where there is no profile.
    pub(crate) fn put(&mut self, node: NodeIdx, rank: u32, profile: Option<Profile>) {
        let next = profile.map(|p| self.number(p));
        if self.of.len() <= node.at() {
            self.of.resize(node.at().saturating_add(1), None);
        }
        let Some(slot) = self.of.get_mut(node.at()) else {
            return;
        };
        let before = std::mem::replace(slot, next);
        if before == next {
            return;
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
    }

    fn number(&mut self, profile: Profile) -> usize {
        if let Some(at) = self.numbers.get(&profile) {
            return *at;
        }
        let profile = Arc::new(profile);
        let at = self.classes.len();
        self.numbers.insert(Arc::clone(&profile), at);
        self.classes.push(Class {
            profile,
            members: Members::new(),
        });
        at
    }
}
