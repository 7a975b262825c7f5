//! The nodes that meet constraints, computed once and then updated as nodes change.

use std::collections::BTreeMap;
use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::node_traits::MatchingNodes;
use super::{NodeIdx, NodeProperties, NodeTraits, Nodes};
use crate::constraints::Constraints;

/// The preference for a node, the most preferred first: discouraging taints count more than any
/// preference that the node meets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PreferenceTier {
    discouraging: usize,
    preference: std::cmp::Reverse<i64>,
}

impl PreferenceTier {
    /// Returns two sums over `pods` pods: discouraging taints, and weights of the preferences that
    /// the node meets.
    pub(crate) fn times(self, pods: u64) -> (u128, i128) {
        let discouraging = u128::try_from(self.discouraging).unwrap_or(u128::MAX);
        (
            discouraging.saturating_mul(u128::from(pods)),
            i128::from(self.preference.0).saturating_mul(i128::from(pods)),
        )
    }
}

/// Constraints, and the nodes that meet them.
#[derive(Debug)]
pub(crate) struct ConstraintSignature {
    constraints: Arc<Constraints>,
    /// The version of the nodes at the last refresh.
    nodes_version: u64,
    feasible: FixedBitSet,
    tiers: Vec<PreferenceTier>,
    /// The number of nodes whose tier is not the default.
    tiered_nodes: usize,
    /// Number of allowed nodes of each kind.
    kinds: Vec<(usize, u32)>,
    /// The versions of the nodes and of the kinds at the last count.
    counted_versions: (u64, u64),
}

impl ConstraintSignature {
    pub(crate) fn new(constraints: Arc<Constraints>) -> Self {
        Self {
            constraints,
            nodes_version: 0,
            feasible: FixedBitSet::new(),
            tiers: Vec::new(),
            tiered_nodes: 0,
            kinds: Vec::new(),
            counted_versions: (0, 0),
        }
    }

    pub(crate) fn constraints(&self) -> &Constraints {
        &self.constraints
    }

    /// True if the node is ready and healthy and meets the constraints.
    pub(crate) fn allows(&self, node: NodeIdx) -> bool {
        self.feasible.contains(node.at())
    }

    /// Returns all nodes that the constraints allow.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeIdx> {
        self.feasible.ones().map(NodeIdx::of)
    }

    /// Returns the preference for a node.
    pub(crate) fn tier(&self, node: NodeIdx) -> PreferenceTier {
        self.tiers.get(node.at()).copied().unwrap_or_default()
    }

    /// True if some nodes are preferred to others.
    pub(crate) fn has_tiers(&self) -> bool {
        self.tiered_nodes > 0
    }

    /// Returns the kinds of the allowed nodes, with the number of nodes of each, as last counted.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (usize, u32)> {
        self.kinds.iter().copied()
    }

    /// Counts the kinds of the allowed nodes, if they have changed.
    pub(crate) fn count_kinds(&mut self, nodes: &Nodes) {
        let now = (self.nodes_version, nodes.kinds().version());
        if self.counted_versions == now {
            return;
        }
        self.counted_versions = now;
        let mut kinds: BTreeMap<usize, u32> = BTreeMap::new();
        for kind in self.nodes().filter_map(|node| nodes.kinds().kind_of(node)) {
            let count = kinds.entry(kind).or_default();
            *count = count.saturating_add(1);
        }
        self.kinds = kinds.into_iter().collect();
    }

    /// Finds the allowed nodes for the first time.
    fn find_nodes(&mut self, nodes: &Nodes, traits: &mut NodeTraits) {
        let MatchingNodes {
            feasible,
            preferences: wanted,
        } = traits.matching_nodes(&self.constraints, nodes);
        self.feasible = feasible;
        let wanted = wanted
            .into_iter()
            .map(|(node, (discouraging, preference))| {
                let preference = std::cmp::Reverse(preference);
                let tier = PreferenceTier {
                    discouraging,
                    preference,
                };
                (node, tier)
            });
        for (node, tier) in wanted.filter(|(_, tier)| *tier != PreferenceTier::default()) {
            self.tiers
                .resize(nodes.index_bound(), PreferenceTier::default());
            if let Some(slot) = self.tiers.get_mut(node.at()) {
                *slot = tier;
                self.tiered_nodes = self.tiered_nodes.saturating_add(1);
            }
        }
        self.nodes_version = nodes.version();
    }

    /// Checks again the nodes that have changed.
    pub(crate) fn refresh(&mut self, nodes: &Nodes, traits: &mut NodeTraits) {
        if self.nodes_version == nodes.version() {
            return;
        }
        if self.nodes_version == 0 && !self.constraints.depends_on_node_name() {
            self.find_nodes(nodes, traits);
            return;
        }
        self.feasible.grow(nodes.index_bound());
        for node in nodes.changed_since(self.nodes_version) {
            let facts = nodes.properties(node);
            let allows = facts.is_some_and(|f| is_allowed(&self.constraints, nodes, node, f));
            self.feasible.set(node.at(), allows);
            let tier = facts
                .filter(|_| allows)
                .map(|f| tier(&self.constraints, nodes, node, f))
                .unwrap_or_default();
            if tier != PreferenceTier::default() && self.tiers.len() <= node.at() {
                self.tiers
                    .resize(nodes.index_bound(), PreferenceTier::default());
            }
            if let Some(slot) = self.tiers.get_mut(node.at()) {
                let was = usize::from(*slot != PreferenceTier::default());
                let is = usize::from(tier != PreferenceTier::default());
                self.tiered_nodes = self.tiered_nodes.saturating_add(is).saturating_sub(was);
                *slot = tier;
            }
        }
        self.nodes_version = nodes.version();
    }
}

fn is_allowed(
    constraints: &Constraints,
    nodes: &Nodes,
    node: NodeIdx,
    facts: &NodeProperties,
) -> bool {
    facts.is_open(constraints)
        && constraints.node_selector_matches(&facts.labels)
        && constraints.required_affinity_matches(nodes.name(node), &facts.labels)
        && constraints.can_reach_volumes(nodes.name(node), &facts.labels)
        && !constraints.is_excluded_by_anti_affinity(&facts.labels)
}

fn tier(
    constraints: &Constraints,
    nodes: &Nodes,
    node: NodeIdx,
    facts: &NodeProperties,
) -> PreferenceTier {
    PreferenceTier {
        discouraging: constraints.count_discouraging_taints(&facts.taints),
        preference: std::cmp::Reverse(
            constraints.preference_weight(nodes.name(node), &facts.labels),
        ),
    }
}

#[cfg(test)]
mod tests;
