//! Nodes by capacity. Even many nodes usually have few kinds.

use super::NodeIdx;
use super::interner::Interner;
use super::profile::NodeProfile;

/// The kind of every existing node.
#[derive(Debug, Default)]
pub(crate) struct NodeKinds {
    profiles: Interner<NodeProfile>,
    by_node: Vec<Option<usize>>,
    version: u64,
}

impl NodeKinds {
    /// Returns the number of a node's kind.
    pub(crate) fn kind_of(&self, node: NodeIdx) -> Option<usize> {
        *self.by_node.get(node.at())?
    }

    /// Returns the profile of an empty node of a kind.
    pub(crate) fn get(&self, kind: usize) -> Option<&NodeProfile> {
        self.profiles.get(kind).map(|profile| &**profile)
    }

    /// Returns the number of changes so far, because kind numbers are reused.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Sets the kind of a node; None if the node does not exist.
    pub(crate) fn set_kind(&mut self, node: NodeIdx, empty: Option<NodeProfile>) {
        let next = empty.map(|profile| self.profiles.acquire(profile).0);
        if self.by_node.len() <= node.at() {
            self.by_node.resize(node.at().saturating_add(1), None);
        }
        let Some(slot) = self.by_node.get_mut(node.at()) else {
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
