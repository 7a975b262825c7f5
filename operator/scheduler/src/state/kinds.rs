//! Nodes by what they have: mostly there are few kinds, however many nodes.

use super::NodeIdx;
use super::interner::Interner;
use super::profile::Profile;

/// The kind of every node that is there.
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

    /// A kind, as a node of it is when it is empty.
    pub(crate) fn get(&self, kind: usize) -> Option<&Profile> {
        self.profiles.get(kind).map(|profile| &**profile)
    }

    /// Counts the changes: numbers are used again.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// A node is of this kind now; of none where it is not there.
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
