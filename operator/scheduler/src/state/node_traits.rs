//! Nodes by the properties that constraints depend on. A lookup for new constraints reads the few
//! distinct states and label values instead of each node.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::{NodeIdx, NodeProperties, Nodes};
use crate::constraints::{
    Constraints, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm,
};
use crate::node::Taint;

/// Maximum number of label keys to keep; the least recently used key is dropped first.
const MAX_KEYS: usize = 32;
/// Number of values, beyond the number of nodes, above which the index starts anew.
const MAX_UNUSED_VALUES: usize = 1_024;

/// Nodes by state, and by the value of each recently requested label.
#[derive(Debug, Default)]
pub(crate) struct NodeTraits {
    states: ValueIndex<SchedulingState>,
    keys: BTreeMap<String, LabelKey>,
    clock: u64,
}

/// The properties of a node that constraints depend on, besides labels and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SchedulingState {
    healthy: bool,
    unschedulable: bool,
    taints: Vec<Taint>,
}

#[derive(Debug, Default)]
struct LabelKey {
    values: ValueIndex<Arc<str>>,
    used: u64,
}

/// Nodes by a value; each node has one or none.
#[derive(Debug)]
struct ValueIndex<V> {
    /// The version of the nodes at the last update.
    seen: u64,
    numbers: BTreeMap<V, u32>,
    /// Nodes by value number, in order.
    nodes: Vec<Vec<NodeIdx>>,
    by_node: Vec<Option<u32>>,
    /// Nodes that have a value.
    nodes_with_value: FixedBitSet,
}

impl<V> Default for ValueIndex<V> {
    fn default() -> Self {
        Self {
            seen: 0,
            numbers: BTreeMap::new(),
            nodes: Vec::new(),
            by_node: Vec::new(),
            nodes_with_value: FixedBitSet::new(),
        }
    }
}

impl<V: Ord + Clone> ValueIndex<V> {
    /// Returns the nodes that have changed since the last call. The caller must put all of them
    /// into the index.
    fn take_changed<'n>(
        &mut self,
        nodes: &'n Nodes,
    ) -> impl Iterator<Item = (NodeIdx, Option<&'n NodeProperties>)> + use<'n, V> {
        if self.nodes.len() > nodes.index_bound().saturating_add(MAX_UNUSED_VALUES) {
            *self = Self::default();
        }
        let seen = std::mem::replace(&mut self.seen, nodes.version());
        self.by_node.resize(nodes.index_bound(), None);
        self.nodes_with_value.grow(nodes.index_bound());
        let unchanged = seen == nodes.version();
        let changed = (!unchanged).then(|| nodes.changed_since(seen));
        changed
            .into_iter()
            .flatten()
            .map(|node| (node, nodes.properties(node)))
    }

    fn set_value(&mut self, node: NodeIdx, value: Option<&V>) {
        let next = value.map(|value| self.intern(value));
        let Some(slot) = self.by_node.get_mut(node.at()) else {
            return;
        };
        let before = std::mem::replace(slot, next);
        if before == next {
            return;
        }
        self.nodes_with_value.set(node.at(), next.is_some());
        if let Some(list) = before.and_then(|at| self.nodes.get_mut(at as usize))
            && let Ok(place) = list.binary_search(&node)
        {
            list.remove(place);
        }
        if let Some(list) = next.and_then(|at| self.nodes.get_mut(at as usize))
            && let Err(place) = list.binary_search(&node)
        {
            list.insert(place, node);
        }
    }

    fn intern(&mut self, value: &V) -> u32 {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        let number = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        self.nodes.push(Vec::new());
        self.numbers.insert(value.clone(), number);
        number
    }

    /// Returns the nodes with a value, in order.
    fn nodes_with<Q>(&self, value: &Q) -> &[NodeIdx]
    where
        V: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let number = self.numbers.get(value);
        let list = number.and_then(|number| self.nodes.get(*number as usize));
        list.map_or(&[], Vec::as_slice)
    }

    /// Returns every value with the nodes that have it.
    fn iter(&self) -> impl Iterator<Item = (&V, &[NodeIdx])> {
        let list = |number: &u32| self.nodes.get(*number as usize).map(Vec::as_slice);
        let all = self.numbers.iter();
        all.filter_map(move |(value, number)| Some((value, list(number)?)))
    }
}

fn insert_all(set: &mut FixedBitSet, nodes: &[NodeIdx]) {
    for node in nodes {
        set.insert(node.at());
    }
}

fn remove_all(set: &mut FixedBitSet, nodes: &[NodeIdx]) {
    for node in nodes {
        set.set(node.at(), false);
    }
}

impl NodeTraits {
    /// Returns the nodes that meet constraints without node names.
    pub(super) fn matching_nodes(
        &mut self,
        constraints: &Constraints,
        nodes: &Nodes,
    ) -> MatchingNodes {
        self.update(nodes);
        let mut feasible = self.states.nodes_with_value.clone();
        let mut wanted: BTreeMap<NodeIdx, (usize, i64)> = BTreeMap::new();
        for (_, alike) in self.states.iter() {
            let Some(facts) = alike.first().and_then(|node| nodes.properties(*node)) else {
                continue;
            };
            if !facts.is_open(constraints) {
                remove_all(&mut feasible, alike);
                continue;
            }
            let discouraging = constraints.count_discouraging_taints(&facts.taints);
            if discouraging > 0 {
                wanted.extend(alike.iter().map(|node| (*node, (discouraging, 0))));
            }
        }
        for (key, value) in &constraints.node_selector {
            let mut bearers = self.no_nodes();
            insert_all(
                &mut bearers,
                self.label_index(key, nodes).nodes_with(value.as_str()),
            );
            feasible.intersect_with(&bearers);
        }
        if !constraints.required.is_empty() {
            feasible.intersect_with(&self.nodes_matching_any(&constraints.required, nodes));
        }
        for terms in &constraints.volumes {
            feasible.intersect_with(&self.nodes_matching_any(terms, nodes));
        }
        for domain in &constraints.kept_out {
            remove_all(
                &mut feasible,
                self.label_index(&domain.label, nodes)
                    .nodes_with(domain.value.as_str()),
            );
        }
        for preference in &constraints.preferred {
            let mut meeting = self.nodes_matching_all(&preference.term, nodes);
            meeting.intersect_with(&feasible);
            for node in meeting.ones().map(NodeIdx::of) {
                let (_, weight) = wanted.entry(node).or_default();
                *weight = weight.saturating_add(i64::from(preference.weight));
            }
        }
        wanted.retain(|node, _| feasible.contains(node.at()));
        MatchingNodes {
            feasible,
            preferences: wanted,
        }
    }

    fn update(&mut self, nodes: &Nodes) {
        for (node, facts) in self.states.take_changed(nodes) {
            let state = facts.map(|facts| SchedulingState {
                healthy: facts.ready && facts.unhealthy.is_none(),
                unschedulable: facts.unschedulable,
                taints: facts.taints.clone(),
            });
            self.states.set_value(node, state.as_ref());
        }
    }

    /// Returns the nodes by the value of a label.
    fn label_index(&mut self, key: &str, nodes: &Nodes) -> &ValueIndex<Arc<str>> {
        self.clock = self.clock.saturating_add(1);
        if !self.keys.contains_key(key) && self.keys.len() >= MAX_KEYS {
            let oldest = self.keys.iter().min_by_key(|(_, key)| key.used);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.keys.remove(&oldest);
            }
        }
        let known = self.keys.entry(key.to_owned()).or_default();
        known.used = self.clock;
        for (node, facts) in known.values.take_changed(nodes) {
            let value = facts.and_then(|facts| facts.labels.get(key));
            known.values.set_value(node, value);
        }
        &known.values
    }

    fn no_nodes(&self) -> FixedBitSet {
        FixedBitSet::with_capacity(self.states.nodes_with_value.len())
    }

    fn nodes_matching_any(&mut self, terms: &[NodeSelectorTerm], nodes: &Nodes) -> FixedBitSet {
        let mut any = self.no_nodes();
        for term in terms {
            any.union_with(&self.nodes_matching_all(term, nodes));
        }
        any
    }

    fn nodes_matching_all(&mut self, term: &NodeSelectorTerm, nodes: &Nodes) -> FixedBitSet {
        let mut expressions = term.match_expressions.iter();
        let Some(first) = expressions.next() else {
            return self.no_nodes();
        };
        let mut all = self.nodes_matching(first, nodes);
        for expression in expressions {
            all.intersect_with(&self.nodes_matching(expression, nodes));
        }
        all
    }

    fn nodes_matching(
        &mut self,
        expression: &NodeSelectorRequirement,
        nodes: &Nodes,
    ) -> FixedBitSet {
        let mut matching = self.no_nodes();
        let all = self.states.nodes_with_value.clone();
        let values = self.label_index(&expression.key, nodes);
        let listed = expression
            .values
            .iter()
            .map(|value| values.nodes_with(value.as_str()));
        match expression.operator {
            // Look up only the listed values.
            NodeSelectorOperator::In => listed.for_each(|nodes| insert_all(&mut matching, nodes)),
            NodeSelectorOperator::NotIn => {
                matching.union_with(&all);
                listed.for_each(|nodes| remove_all(&mut matching, nodes));
            }
            NodeSelectorOperator::Exists
            | NodeSelectorOperator::DoesNotExist
            | NodeSelectorOperator::Gt
            | NodeSelectorOperator::Lt => {
                if expression.matches(None) {
                    matching.union_with(&all);
                    matching.difference_with(&values.nodes_with_value);
                }
                let met = values.iter().filter(|(v, _)| expression.matches(Some(v)));
                met.for_each(|(_, nodes)| insert_all(&mut matching, nodes));
            }
        }
        matching
    }
}

/// The nodes that meet constraints.
pub(super) struct MatchingNodes {
    pub(super) feasible: FixedBitSet,
    /// Number of discouraging taints and sum of preferences, for nodes that have any.
    pub(super) preferences: BTreeMap<NodeIdx, (usize, i64)>,
}
