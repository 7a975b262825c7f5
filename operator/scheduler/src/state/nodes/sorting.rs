//! Nodes by name, by free capacity, and in classes.

use super::Nodes;
use crate::state::classes::NodeClasses;
use crate::state::profile::{NodeProfile, fraction};
use crate::state::{Catalog, NodeIdx, ResourceIdx, SignatureIdx};

impl Nodes {
    /// Returns the existing nodes, tightest first: nodes without devices, then by free devices, by
    /// the free fraction of the cores, by free cores, and by name.
    pub(crate) fn nodes_by_tightness(&self) -> Vec<NodeIdx> {
        self.sort_by_tightness(self.iter().map(|(at, _)| at))
    }

    /// Returns these nodes in the same order. Equal nodes stay in the given order.
    pub(crate) fn sort_by_tightness(&self, nodes: impl Iterator<Item = NodeIdx>) -> Vec<NodeIdx> {
        let mut all: Vec<((i64, u32, i64), NodeIdx)> = nodes
            .map(|at| {
                let has = |d: &&ResourceIdx| self.ledger.allocatable(**d, at) > 0;
                let free = |d: &ResourceIdx| self.ledger.free(*d, at).max(0).saturating_add(1);
                let devices = self.devices.iter().filter(has).map(free);
                let cores = self.cpu.map_or(0, |cpu| self.ledger.free(cpu, at));
                let all = self.cpu.map_or(0, |cpu| self.ledger.allocatable(cpu, at));
                let devices = devices.fold(0, i64::saturating_add);
                ((devices, fraction(cores, all), cores), at)
            })
            .collect();
        // The sort is stable.
        all.sort_by_key(|(free, _)| *free);
        all.into_iter().map(|(_, at)| at).collect()
    }

    /// Returns the classes, as of the last sort.
    pub(crate) fn classes(&self) -> &NodeClasses {
        &self.classes
    }

    /// Ranks the nodes by name again if nodes were added, and updates the domains if they have
    /// changed.
    pub(crate) fn rank_by_name(&mut self) {
        self.domains.lay_out();
        if !std::mem::take(&mut self.unranked) {
            return;
        }
        self.ranks.clear();
        self.ranks.resize(self.entries.len(), 0);
        for (rank, at) in (0_u32..).zip(self.by_name.values()) {
            if let Some(slot) = self.ranks.get_mut(at.at()) {
                *slot = rank;
            }
        }
        self.mark_all_stale();
    }

    /// Makes classes distinguish which of these signatures their nodes meet. Only the first 128
    /// signatures count.
    pub(crate) fn set_class_signatures(&mut self, lenses: Vec<SignatureIdx>) {
        self.class_signatures = lenses;
        self.mark_all_stale();
    }

    /// Marks all nodes for sorting.
    fn mark_all_stale(&mut self) {
        self.classes.clear();
        for at in (0..self.entries.len()).map(NodeIdx::of) {
            self.mark_stale(at);
        }
    }

    /// Sorts changed nodes into their classes, and returns the nodes that are in another class now.
    /// Costs nothing if no node has changed.
    pub(crate) fn sort_into_classes(&mut self, catalog: &Catalog) -> Vec<NodeIdx> {
        if self.stale.is_empty() {
            return Vec::new();
        }
        if self.classes.is_sparse() {
            self.mark_all_stale();
        }
        let mut moved = std::mem::take(&mut self.stale);
        moved.retain(|at| {
            if let Some(entry) = self.entries.get_mut(at.at()) {
                entry.stale = false;
            }
            let there = self.properties(*at).is_some();
            let profile = there.then(|| self.profile(*at, catalog));
            let rank = self.position_by_name(*at);
            self.classes.set_profile(*at, rank, profile)
        });
        moved
    }

    /// Returns the profile of a node without any pods.
    pub(super) fn empty_profile(&self, at: NodeIdx) -> NodeProfile {
        self.profile_with_free(at, |resource| self.ledger.allocatable(resource, at))
    }

    /// Returns the profile of a node with these free amounts.
    fn profile_with_free(&self, at: NodeIdx, free: impl Fn(ResourceIdx) -> i64) -> NodeProfile {
        let has = |d: &ResourceIdx| self.ledger.allocatable(*d, at) > 0;
        let cores = self.cpu.map_or(0, |cpu| self.ledger.allocatable(cpu, at));
        let mut profile = NodeProfile::new(cores, self.devices.iter().any(has));
        for resource in self.listed_resources(at) {
            profile.set(*resource, free(*resource));
        }
        profile
    }

    fn profile(&self, at: NodeIdx, catalog: &Catalog) -> NodeProfile {
        let free = |resource| self.ledger.free(resource, at);
        let mut profile = self.profile_with_free(at, free);
        for (device, left) in self.shares.open(at) {
            profile.add_shared_device(device, left);
        }
        for (bit, lens) in (0_u32..u128::BITS).zip(&self.class_signatures) {
            if catalog.signature(*lens).is_some_and(|s| s.allows(at)) {
                profile.met_signatures |= 1_u128.checked_shl(bit).unwrap_or(0);
            }
        }
        profile
    }

    pub(super) fn mark_stale(&mut self, at: NodeIdx) {
        if let Some(entry) = self.entries.get_mut(at.at())
            && !std::mem::replace(&mut entry.stale, true)
        {
            self.stale.push(at);
        }
    }
}
