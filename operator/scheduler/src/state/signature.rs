//! The nodes that meet constraints, computed once and then updated as nodes change.

use std::collections::BTreeMap;
use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::traits::Found;
use super::{Facts, NodeIdx, Nodes, Traits};
use crate::constraints::Constraints;
use crate::node::{Taint, TaintEffect};

/// The taint that Kubernetes puts on cordoned nodes (KEP-382).
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The preference for a node, the most preferred first: discouraging taints count more than any
/// preference that the node meets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tier {
    discouraging: usize,
    preference: std::cmp::Reverse<i64>,
}

impl Tier {
    /// The sum over `pods` pods: of discouraging taints, and of the weights of the preferences that
    /// the node meets.
    pub(crate) fn of_pods(self, pods: u64) -> (u128, i128) {
        let discouraging = u128::try_from(self.discouraging).unwrap_or(u128::MAX);
        (
            discouraging.saturating_mul(u128::from(pods)),
            i128::from(self.preference.0).saturating_mul(i128::from(pods)),
        )
    }
}

/// Constraints, and the nodes that meet them.
#[derive(Debug)]
pub(crate) struct Signature {
    constraints: Arc<Constraints>,
    /// The version of the nodes that was last seen.
    seen: u64,
    feasible: FixedBitSet,
    tiers: Vec<Tier>,
    /// The number of nodes whose tier is not the default.
    special: usize,
    /// How many of the feasible nodes are of each kind.
    kinds: Vec<(usize, u32)>,
    /// The versions of the nodes and of the kinds that were counted.
    counted: (u64, u64),
}

impl Signature {
    pub(crate) fn new(constraints: Arc<Constraints>) -> Self {
        Self {
            constraints,
            seen: 0,
            feasible: FixedBitSet::new(),
            tiers: Vec::new(),
            special: 0,
            kinds: Vec::new(),
            counted: (0, 0),
        }
    }

    pub(crate) fn constraints(&self) -> &Constraints {
        &self.constraints
    }

    /// True if the node is ready and healthy and meets the constraints.
    pub(crate) fn allows(&self, node: NodeIdx) -> bool {
        self.feasible.contains(node.at())
    }

    /// All nodes that the constraints allow.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeIdx> {
        self.feasible.ones().map(NodeIdx::of)
    }

    /// The preference for a node.
    pub(crate) fn tier(&self, node: NodeIdx) -> Tier {
        self.tiers.get(node.at()).copied().unwrap_or_default()
    }

    /// True if some nodes are preferred to others.
    pub(crate) fn has_tiers(&self) -> bool {
        self.special > 0
    }

    /// The kinds of the allowed nodes, with the number of nodes of each, as last counted.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (usize, u32)> {
        self.kinds.iter().copied()
    }

    /// Counts the kinds of the allowed nodes, if they have changed.
    pub(crate) fn count_kinds(&mut self, nodes: &Nodes) {
        let now = (self.seen, nodes.kinds().version());
        if self.counted == now {
            return;
        }
        self.counted = now;
        let mut kinds: BTreeMap<usize, u32> = BTreeMap::new();
        for kind in self.nodes().filter_map(|node| nodes.kinds().of(node)) {
            let count = kinds.entry(kind).or_default();
            *count = count.saturating_add(1);
        }
        self.kinds = kinds.into_iter().collect();
    }

    /// Finds the allowed nodes for the first time.
    fn find(&mut self, nodes: &Nodes, traits: &mut Traits) {
        let Found { feasible, wanted } = traits.find(&self.constraints, nodes);
        self.feasible = feasible;
        let wanted = wanted
            .into_iter()
            .map(|(node, (discouraging, preference))| {
                let preference = std::cmp::Reverse(preference);
                let tier = Tier {
                    discouraging,
                    preference,
                };
                (node, tier)
            });
        for (node, tier) in wanted.filter(|(_, tier)| *tier != Tier::default()) {
            self.tiers.resize(nodes.len(), Tier::default());
            if let Some(slot) = self.tiers.get_mut(node.at()) {
                *slot = tier;
                self.special = self.special.saturating_add(1);
            }
        }
        self.seen = nodes.version();
    }

    /// Checks the nodes that have changed.
    pub(crate) fn refresh(&mut self, nodes: &Nodes, traits: &mut Traits) {
        if self.seen == nodes.version() {
            return;
        }
        if self.seen == 0 && !self.constraints.name_nodes() {
            self.find(nodes, traits);
            return;
        }
        self.feasible.grow(nodes.len());
        for node in nodes.changed_since(self.seen) {
            let facts = nodes.facts(node);
            let allows = facts.is_some_and(|f| allows(&self.constraints, nodes, node, f));
            self.feasible.set(node.at(), allows);
            let tier = facts
                .filter(|_| allows)
                .map(|f| tier(&self.constraints, nodes, node, f))
                .unwrap_or_default();
            if tier != Tier::default() && self.tiers.len() <= node.at() {
                self.tiers.resize(nodes.len(), Tier::default());
            }
            if let Some(slot) = self.tiers.get_mut(node.at()) {
                let was = usize::from(*slot != Tier::default());
                let is = usize::from(tier != Tier::default());
                self.special = self.special.saturating_add(is).saturating_sub(was);
                *slot = tier;
            }
        }
        self.seen = nodes.version();
    }
}

/// True if only labels or the name of a node may still keep the pods off.
pub(super) fn is_open(constraints: &Constraints, facts: &Facts) -> bool {
    facts.ready
        && facts.unhealthy.is_none()
        && !cordoned(constraints, facts)
        && constraints.repelled_by(&facts.taints).is_none()
}

/// True if a cordon keeps the pods away.
pub(crate) fn cordoned(constraints: &Constraints, facts: &Facts) -> bool {
    facts.unschedulable
        && !constraints.tolerates(&Taint {
            key: UNSCHEDULABLE.to_owned(),
            value: String::new(),
            effect: TaintEffect::NoSchedule,
        })
}

fn allows(constraints: &Constraints, nodes: &Nodes, node: NodeIdx, facts: &Facts) -> bool {
    is_open(constraints, facts)
        && constraints.selects(&facts.labels)
        && constraints.requires(nodes.name(node), &facts.labels)
        && constraints.reaches_volumes(nodes.name(node), &facts.labels)
        && !constraints.is_kept_out(&facts.labels)
}

fn tier(constraints: &Constraints, nodes: &Nodes, node: NodeIdx, facts: &Facts) -> Tier {
    Tier {
        discouraging: constraints.discouraged_by(&facts.taints),
        preference: std::cmp::Reverse(constraints.preference(nodes.name(node), &facts.labels)),
    }
}

#[cfg(test)]
mod tests;
