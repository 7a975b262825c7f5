//! Slices: consecutive pods of a group that must share a domain.
//!
//! If the number of pods in every domain of the level is a multiple of the size of a slice, and the
//! pods are numbered in the order of the topology, then every slice is in one domain. So the search
//! rounds the room of each domain down to whole slices. With several layers, it rounds down for the
//! inner layer first, and adds up the results for the outer layer. This is exact, because the size
//! of an outer slice is a multiple of the size of an inner one.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::explain::MissingLevel;
use crate::state::{DomainLevel, Layout, NodeIdx, TopologyDomains};
use crate::topology::SliceLayer;

/// The slices of a group in one topology, with their levels resolved. Empty: the group is not
/// split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResolvedSlices {
    /// Coarse to fine.
    layers: SmallVec<[ResolvedLayer; 2]>,
}

/// One layer of slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedLayer {
    /// The depth of its level in the topology.
    pub(crate) depth: usize,
    /// The number of pods in one slice; at least 1.
    pub(crate) pods: u32,
}

impl ResolvedSlices {
    /// Returns the level of the coarsest layer, and the layers. If several topologies have that
    /// level, the one with the level `outer` comes first. None: there are no slices.
    ///
    /// # Errors
    ///
    /// A level is missing, is not finer than the level before it, or is in another topology.
    pub(super) fn find(
        domains: &TopologyDomains,
        outer: Option<&str>,
        slices: &[SliceLayer],
    ) -> Result<Option<(DomainLevel, Self)>, MissingLevel> {
        let Some(first) = slices.first() else {
            return Ok(None);
        };
        let missing = |layer: &SliceLayer| MissingLevel::Slices(layer.level.clone());
        let near = outer.and_then(|outer| domains.find_beside(outer, &first.level));
        let level = near.or_else(|| domains.find(&first.level));
        let level = level.ok_or_else(|| missing(first))?;
        let mut found = Self::default();
        let mut before = first;
        for layer in slices {
            domains.find(&layer.level).ok_or_else(|| missing(layer))?;
            let depth = domains.find_in_topology_of(&level, &layer.level);
            let is_finer = |depth: &usize| found.finest().is_none_or(|coarser| coarser < *depth);
            let Some(depth) = depth.filter(is_finer) else {
                return Err(MissingLevel::SlicesNotFiner {
                    coarser: before.level.clone(),
                    finer: layer.level.clone(),
                });
            };
            let pods = layer.pods.max(1);
            found.layers.push(ResolvedLayer { depth, pods });
            before = layer;
        }
        Ok(Some((level, found)))
    }

    /// Checks that the slices in the topology of `level` are finer than the level in which all pods
    /// must be in one domain. Coarser slices would have no effect.
    ///
    /// # Errors
    ///
    /// The coarsest slices are not finer.
    pub(super) fn check_within(
        &self,
        domains: &TopologyDomains,
        level: &DomainLevel,
        required: Option<&str>,
    ) -> Result<(), MissingLevel> {
        let depth = required.and_then(|required| domains.find_in_topology_of(level, required));
        if depth.is_none() || self.coarsest() > depth {
            return Ok(());
        }
        Err(MissingLevel::SlicesNotFiner {
            coarser: required.unwrap_or_default().to_owned(),
            finer: domains.level_name(level),
        })
    }

    /// Returns the slices that a gang of the history needed, and their topology: that of the first
    /// layer whose level exists. Leaves out layers that are not finer than the layer before, because
    /// that one implies them. None: no topology has a level.
    pub(in super::super) fn find_needed(
        domains: &TopologyDomains,
        needed: &[SliceLayer],
    ) -> Option<(Arc<Layout>, Self)> {
        let level = needed.iter().find_map(|layer| domains.find(&layer.level))?;
        let mut found = Self::default();
        for layer in needed {
            let depth = domains.find_in_topology_of(&level, &layer.level);
            let is_finer = |depth: &usize| found.finest().is_none_or(|coarser| coarser < *depth);
            if let Some(depth) = depth.filter(is_finer) {
                let pods = layer.pods.max(1);
                found.layers.push(ResolvedLayer { depth, pods });
            }
        }
        Some((level.layout, found))
    }

    /// True if the group is not split.
    pub(crate) fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Returns the layers, coarse to fine.
    pub(crate) fn layers(&self) -> &[ResolvedLayer] {
        &self.layers
    }

    /// Returns the depth of the coarsest layer.
    pub(super) fn coarsest(&self) -> Option<usize> {
        self.layers.first().map(|layer| layer.depth)
    }

    /// Returns the depth of the finest layer.
    pub(super) fn finest(&self) -> Option<usize> {
        self.layers.last().map(|layer| layer.depth)
    }

    /// Returns the layers that split the pods of one domain of a level: those of finer levels.
    pub(crate) fn within(&self, depth: usize) -> Self {
        let finer = self.layers.iter().filter(|layer| layer.depth > depth);
        Self {
            layers: finer.copied().collect(),
        }
    }

    /// Returns the size of the largest slice within a domain of a level; 1 if the level is not split.
    pub(super) fn largest_within(&self, depth: usize) -> u32 {
        let mut layers = self.layers.iter();
        let largest = layers.find(|layer| layer.depth >= depth);
        largest.map_or(1, |layer| layer.pods)
    }

    /// Returns a counter for domains of a level.
    pub(crate) fn counter<'a>(&'a self, layout: &'a Layout, depth: usize) -> SliceCounter<'a> {
        let first = self.layers.partition_point(|layer| layer.depth < depth);
        let layers = self.layers.get(first..).unwrap_or(&[]);
        SliceCounter {
            layout,
            layers,
            open: layers.iter().map(|_| OpenSlices::default()).collect(),
            whole: 0,
        }
    }

    /// True if each slice is in one domain. `runs` are in the order of the pods.
    pub(super) fn allows<'r>(
        &self,
        layout: &Layout,
        runs: impl Iterator<Item = &'r (NodeIdx, u32)> + Clone,
    ) -> bool {
        self.layers.iter().all(|layer| {
            let mut slice: Option<(u64, Option<u32>)> = None;
            let mut first = 0_u64;
            runs.clone()
                .filter(|(_, pods)| *pods > 0)
                .all(|(node, pods)| {
                    let domain = layout.domain(layer.depth, *node);
                    let number = |pod: u64| pod.checked_div(u64::from(layer.pods)).unwrap_or(0);
                    let end = first.saturating_add(u64::from(*pods));
                    let starts_whole =
                        slice.is_none_or(|(open, held)| open != number(first) || held == domain);
                    slice = Some((number(end.saturating_sub(1)), domain));
                    first = end;
                    domain.is_some() && starts_whole
                })
        })
    }
}

/// Counts the pods that nodes hold in whole slices. Nodes are added in the order of the topology.
pub(crate) struct SliceCounter<'a> {
    layout: &'a Layout,
    /// Coarse to fine.
    layers: &'a [ResolvedLayer],
    /// The domain of each layer that is being counted.
    open: SmallVec<[OpenSlices; 2]>,
    whole: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct OpenSlices {
    domain: Option<u32>,
    pods: u64,
}

impl SliceCounter<'_> {
    /// Adds a node, given by its place in the topology, that holds this many pods.
    pub(crate) fn add(&mut self, place: u32, pods: u64) {
        for (at, layer) in self.layers.iter().enumerate() {
            let domain = self.layout.domain_at(layer.depth, place);
            let open = self.open.get(at).copied().unwrap_or_default();
            if open.domain != domain {
                self.close(at);
            }
            if let Some(open) = self.open.get_mut(at) {
                open.domain = domain;
            }
        }
        match self.open.last_mut() {
            None => self.whole = self.whole.saturating_add(pods),
            Some(finest) if finest.domain.is_some() => {
                finest.pods = finest.pods.saturating_add(pods);
            }
            // The node is in no domain, so it holds no slice.
            Some(_) => {}
        }
    }

    /// Returns the number of pods in whole slices, and starts again from 0.
    pub(crate) fn take(&mut self) -> u64 {
        self.close(0);
        std::mem::take(&mut self.whole)
    }

    /// Ends the open domains of this layer and the finer ones.
    fn close(&mut self, from: usize) {
        for at in (from..self.layers.len()).rev() {
            let Some((open, layer)) = self.open.get_mut(at).zip(self.layers.get(at)) else {
                continue;
            };
            let pods = round_down(open.pods, layer.pods);
            *open = OpenSlices::default();
            let outer = at.checked_sub(1).and_then(|outer| self.open.get_mut(outer));
            let sum = outer.map_or(&mut self.whole, |outer| &mut outer.pods);
            *sum = sum.saturating_add(pods);
        }
    }
}

/// Returns the pods of whole slices of this size.
pub(crate) fn round_down(pods: u64, slice: u32) -> u64 {
    let rest = pods.checked_rem(u64::from(slice)).unwrap_or(0);
    pods.saturating_sub(rest)
}
