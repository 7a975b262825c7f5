//! Nodes by capacity: there are usually few kinds, however many nodes.

use super::NodeIdx;
use super::interner::Interner;
use super::profile::Profile;

/// The kind of every existing node.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    profiles: Interner<Profile>,
    of: Vec<Option<usize>>,
    version: u64,
}

impl Kinds {
    /// The number of a node's kind.
    pub(crate) fn of(&self, node: NodeIdx) -> Option<usize> {
        *self.of.get(node.at())?
    }

    /// The profile of an empty node of a kind.
    pub(crate) fn get(&self, kind: usize) -> Option<&Profile> {
        self.profiles.get(kind).map(|profile| &**profile)
    }

    /// Counts the changes, because numbers are reused.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Sets the kind of a node; None if the node does not exist.
    pub(crate) fn put(&mut self, node: NodeIdx, empty: Option<Profile>) {
        let next = empty.map(|profile| self.profiles.acquire(profile).0);
        if self.of.len() <= node.at() {
            self.of.resize(node.at().saturating_add(1), None);
        }
        let Some(slot) = self.of.get_mut(node.at()) else {
            return;
        };
        let before = std::mem::replace(slot, next);
        if let Some(kind) = before {
            self.profiles.release(kind);
        }
        if before != next {
            self.version = self.version.saturating_add(1);
        }
    }
}
