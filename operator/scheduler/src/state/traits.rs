//! Nodes by the properties that constraints depend on. New constraints are answered from the few
//! distinct states and label values, not node by node.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::{Facts, NodeIdx, Nodes};
use crate::constraints::{Constraints, Expression, NodeSelectorTerm, Operator};
use crate::node::Taint;

/// Label keys that are kept at most; the least recently used one is dropped first.
const KEYS: usize = 32;
/// Values without nodes that may be kept, beyond as many as there are nodes.
const UNUSED: usize = 1_024;

/// Nodes by state, and by the value of each recently requested label.
#[derive(Debug, Default)]
pub(crate) struct Traits {
    states: Index<State>,
    keys: BTreeMap<String, Key>,
    clock: u64,
}

/// The properties of a node that matter to constraints, besides labels and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    well: bool,
    unschedulable: bool,
    taints: Vec<Taint>,
}

#[derive(Debug, Default)]
struct Key {
    values: Index<Arc<str>>,
    used: u64,
}

/// Nodes by a value; each node has one or none.
#[derive(Debug)]
struct Index<V> {
    /// The version of the nodes that was last seen.
    seen: u64,
    numbers: BTreeMap<V, u32>,
    /// By number, in order.
    nodes: Vec<Vec<NodeIdx>>,
    of: Vec<Option<u32>>,
    /// Nodes that have a value.
    bearers: FixedBitSet,
}

impl<V> Default for Index<V> {
    fn default() -> Self {
        Self {
            seen: 0,
            numbers: BTreeMap::new(),
            nodes: Vec::new(),
            of: Vec::new(),
            bearers: FixedBitSet::new(),
        }
    }
}

impl<V: Ord + Clone> Index<V> {
    /// Nodes that have changed since the last call. The caller must put all of them.
    fn changed<'n>(
        &mut self,
        nodes: &'n Nodes,
    ) -> impl Iterator<Item = (NodeIdx, Option<&'n Facts>)> + use<'n, V> {
        if self.nodes.len() > nodes.len().saturating_add(UNUSED) {
            *self = Self::default();
        }
        let seen = std::mem::replace(&mut self.seen, nodes.version());
        self.of.resize(nodes.len(), None);
        self.bearers.grow(nodes.len());
        let unchanged = seen == nodes.version();
        let changed = (!unchanged).then(|| nodes.changed_since(seen));
        changed
            .into_iter()
            .flatten()
            .map(|node| (node, nodes.facts(node)))
    }

    fn put(&mut self, node: NodeIdx, value: Option<&V>) {
        let next = value.map(|value| self.number(value));
        let Some(slot) = self.of.get_mut(node.at()) else {
            return;
        };
        let before = std::mem::replace(slot, next);
        if before == next {
            return;
        }
        self.bearers.set(node.at(), next.is_some());
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

    fn number(&mut self, value: &V) -> u32 {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        let number = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        self.nodes.push(Vec::new());
        self.numbers.insert(value.clone(), number);
        number
    }

    /// The nodes with a value, in order.
    fn with<Q>(&self, value: &Q) -> &[NodeIdx]
    where
        V: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let number = self.numbers.get(value);
        let list = number.and_then(|number| self.nodes.get(*number as usize));
        list.map_or(&[], Vec::as_slice)
    }

    /// Every value with the nodes that have it.
    fn iter(&self) -> impl Iterator<Item = (&V, &[NodeIdx])> {
        let list = |number: &u32| self.nodes.get(*number as usize).map(Vec::as_slice);
        let all = self.numbers.iter();
        all.filter_map(move |(value, number)| Some((value, list(number)?)))
    }
}

fn add(set: &mut FixedBitSet, nodes: &[NodeIdx]) {
    for node in nodes {
        set.insert(node.at());
    }
}

fn take(set: &mut FixedBitSet, nodes: &[NodeIdx]) {
    for node in nodes {
        set.set(node.at(), false);
    }
}

impl Traits {
    /// The nodes that meet constraints which name no nodes.
    pub(super) fn find(&mut self, constraints: &Constraints, nodes: &Nodes) -> Found {
        self.look(nodes);
        let mut feasible = self.states.bearers.clone();
        let mut wanted: BTreeMap<NodeIdx, (usize, i64)> = BTreeMap::new();
        for (_, alike) in self.states.iter() {
            let Some(facts) = alike.first().and_then(|node| nodes.facts(*node)) else {
                continue;
            };
            if !super::signature::is_open(constraints, facts) {
                take(&mut feasible, alike);
                continue;
            }
            let discouraging = constraints.discouraged_by(&facts.taints);
            if discouraging > 0 {
                wanted.extend(alike.iter().map(|node| (*node, (discouraging, 0))));
            }
        }
        for (key, value) in &constraints.node_selector {
            let mut bearers = self.none();
            add(&mut bearers, self.key(key, nodes).with(value.as_str()));
            feasible.intersect_with(&bearers);
        }
        if !constraints.required.is_empty() {
            feasible.intersect_with(&self.any_of(&constraints.required, nodes));
        }
        for terms in &constraints.volumes {
            feasible.intersect_with(&self.any_of(terms, nodes));
        }
        for domain in &constraints.kept_out {
            take(
                &mut feasible,
                self.key(&domain.label, nodes).with(domain.value.as_str()),
            );
        }
        for preference in &constraints.preferred {
            let mut meeting = self.all_of(&preference.term, nodes);
            meeting.intersect_with(&feasible);
            for node in meeting.ones().map(NodeIdx::of) {
                let (_, weight) = wanted.entry(node).or_default();
                *weight = weight.saturating_add(i64::from(preference.weight));
            }
        }
        wanted.retain(|node, _| feasible.contains(node.at()));
        Found { feasible, wanted }
    }

    fn look(&mut self, nodes: &Nodes) {
        for (node, facts) in self.states.changed(nodes) {
            let state = facts.map(|facts| State {
                well: facts.ready && facts.unhealthy.is_none(),
                unschedulable: facts.unschedulable,
                taints: facts.taints.clone(),
            });
            self.states.put(node, state.as_ref());
        }
    }

    /// The nodes by the value of a label.
    fn key(&mut self, key: &str, nodes: &Nodes) -> &Index<Arc<str>> {
        self.clock = self.clock.saturating_add(1);
        if !self.keys.contains_key(key) && self.keys.len() >= KEYS {
            let oldest = self.keys.iter().min_by_key(|(_, key)| key.used);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.keys.remove(&oldest);
            }
        }
        let known = self.keys.entry(key.to_owned()).or_default();
        known.used = self.clock;
        for (node, facts) in known.values.changed(nodes) {
            let value = facts.and_then(|facts| facts.labels.get(key));
            known.values.put(node, value);
        }
        &known.values
    }

    fn none(&self) -> FixedBitSet {
        FixedBitSet::with_capacity(self.states.bearers.len())
    }

    fn any_of(&mut self, terms: &[NodeSelectorTerm], nodes: &Nodes) -> FixedBitSet {
        let mut any = self.none();
        for term in terms {
            any.union_with(&self.all_of(term, nodes));
        }
        any
    }

    fn all_of(&mut self, term: &NodeSelectorTerm, nodes: &Nodes) -> FixedBitSet {
        let mut expressions = term.match_expressions.iter();
        let Some(first) = expressions.next() else {
            return self.none();
        };
        let mut all = self.matching(first, nodes);
        for expression in expressions {
            all.intersect_with(&self.matching(expression, nodes));
        }
        all
    }

    fn matching(&mut self, expression: &Expression, nodes: &Nodes) -> FixedBitSet {
        let mut matching = self.none();
        let all = self.states.bearers.clone();
        let values = self.key(&expression.key, nodes);
        let listed = expression
            .values
            .iter()
            .map(|value| values.with(value.as_str()));
        match expression.operator {
            // Only the listed values are looked up.
            Operator::In => listed.for_each(|nodes| add(&mut matching, nodes)),
            Operator::NotIn => {
                matching.union_with(&all);
                listed.for_each(|nodes| take(&mut matching, nodes));
            }
            Operator::Exists | Operator::DoesNotExist | Operator::Gt | Operator::Lt => {
                if expression.matches(None) {
                    matching.union_with(&all);
                    matching.difference_with(&values.bearers);
                }
                let met = values.iter().filter(|(v, _)| expression.matches(Some(v)));
                met.for_each(|(_, nodes)| add(&mut matching, nodes));
            }
        }
        matching
    }
}

/// The nodes that meet constraints.
pub(super) struct Found {
    pub(super) feasible: FixedBitSet,
    /// Discouraging taints and the sum of preferences, for nodes that have any.
    pub(super) wanted: BTreeMap<NodeIdx, (usize, i64)>,
}
