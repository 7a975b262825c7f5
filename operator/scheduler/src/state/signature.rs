//! Which nodes meet constraints, worked out once and then as nodes change.

use std::collections::BTreeMap;
use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::traits::Found;
use super::{Facts, NodeIdx, Nodes, Traits};
use crate::constraints::Constraints;
use crate::node::{Taint, TaintEffect};

/// The taint that Kubernetes puts on cordoned nodes (KEP-382).
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// How much a node is wanted, the least first: taints that would rather keep
/// the pods away count more than any preference that it meets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tier {
    discouraging: usize,
    preference: std::cmp::Reverse<i64>,
}

impl Tier {
    /// The sum over so many pods: of discouraging taints, and of the weights of the
    /// preferences that the node meets.
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
    /// The version of the nodes that has been looked at.
    seen: u64,
    feasible: FixedBitSet,
    tiers: Vec<Tier>,
    /// Nodes whose tier is not the usual one.
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

    /// True where the node is ready, well and meets the constraints.
    pub(crate) fn allows(&self, node: NodeIdx) -> bool {
        self.feasible.contains(node.at())
    }

    /// All nodes that do.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeIdx> {
        self.feasible.ones().map(NodeIdx::of)
    }

    /// How much a node is wanted.
    pub(crate) fn tier(&self, node: NodeIdx) -> Tier {
        self.tiers.get(node.at()).copied().unwrap_or_default()
    }

    /// True where some nodes are wanted more than others.
    pub(crate) fn has_tiers(&self) -> bool {
        self.special > 0
    }

    /// Kinds of nodes with how many of those that do are of each, as last counted.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (usize, u32)> {
        self.kinds.iter().copied()
    }

    /// Counts the kinds of the nodes, where that is not known.
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

    /// Looks at all nodes for the first time.
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

    /// Looks at the nodes that have changed.
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

/// True where nothing but labels or its name may keep the pods off a node.
pub(super) fn is_open(constraints: &Constraints, facts: &Facts) -> bool {
    facts.ready
        && facts.unhealthy.is_none()
        && !cordoned(constraints, facts)
        && constraints.repelled_by(&facts.taints).is_none()
}

/// True where a cordon keeps the pods away.
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
