//! The simulated autoscaler. It adds the nodes that the engine orders, and removes the nodes that
//! it added once they are idle.
//!
//! It sees what Karpenter and Cluster Autoscaler see in a cluster: the nodes, the running pods, and
//! for each order the pods of the whole gang. `packing` finds the nodes that these pods need.
//! `steps` adds and removes nodes.

#[cfg(test)]
mod invariants;
mod packing;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use trellis_scheduler::{Flavor, FlavorName, GangId, GroupFlavors, Node, NodeName, Time};

use crate::random::Random;

/// How the simulated autoscaler adds and removes the nodes of one flavor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoscalerSettings {
    /// The shortest and the longest time from the purchase of a node until it is ready. The time of
    /// each node is drawn between them.
    pub arrive_after: (Duration, Duration),
    /// How long a node must be idle before it is removed.
    pub remove_idle_after: Duration,
    /// The most nodes that it has at one time, including coming ones. None: no limit.
    pub stock: Option<u32>,
}

impl Default for AutoscalerSettings {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(minutes.saturating_mul(60));
        Self {
            arrive_after: (minutes(5), minutes(5)),
            remove_idle_after: minutes(10),
            stock: None,
        }
    }
}

/// A coming node: the time of its arrival, its number and its flavor.
type ComingNode = (Time, u32, FlavorName);

/// A node that the autoscaler has added.
#[derive(Debug)]
struct AddedNode {
    flavor: FlavorName,
    /// Since when no pod runs on it and no order needs it. None: it is in use.
    idle_since: Option<Time>,
}

/// The state of the autoscaler.
#[derive(Debug)]
pub(super) struct Autoscaler {
    /// All flavors.
    flavors: BTreeMap<FlavorName, Flavor>,
    settings: BTreeMap<FlavorName, AutoscalerSettings>,
    /// The flavors of the task groups of each gang with an order, the oldest order first.
    orders: Vec<(GangId, Vec<GroupFlavors>)>,
    coming: BTreeSet<ComingNode>,
    nodes: BTreeMap<NodeName, AddedNode>,
    /// The number of nodes bought so far, by flavor.
    numbers: BTreeMap<FlavorName, u32>,
    random: Random,
}

impl Autoscaler {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            flavors: BTreeMap::new(),
            settings: BTreeMap::new(),
            orders: Vec::new(),
            coming: BTreeSet::new(),
            nodes: BTreeMap::new(),
            numbers: BTreeMap::new(),
            // A separate generator keeps the other draws the same.
            random: Random::new(seed.wrapping_add(2)),
        }
    }

    pub(super) fn apply_settings(&mut self, flavor: FlavorName, settings: AutoscalerSettings) {
        self.settings.insert(flavor, settings);
    }

    pub(super) fn apply_flavor(&mut self, flavor: Flavor) {
        self.flavors.insert(flavor.name.clone(), flavor);
    }

    pub(super) fn delete_flavor(&mut self, flavor: &FlavorName) {
        self.flavors.remove(flavor);
    }

    /// Records that a node is gone.
    pub(super) fn forget_node(&mut self, node: &NodeName) {
        self.nodes.remove(node);
    }

    /// Records that the engine orders nodes for a gang.
    pub(super) fn add_order(&mut self, gang: GangId, flavors: Vec<GroupFlavors>) {
        self.orders.push((gang, flavors));
    }

    /// Returns true if a flavor may get new nodes.
    pub(super) fn can_grow(&self) -> bool {
        self.flavors.values().any(|flavor| flavor.growth.is_some())
    }

    /// Returns true if a node belongs to a flavor that may get new nodes.
    pub(super) fn belongs_to_growing_flavor(&self, node: &Node) -> bool {
        let mut growing = self.flavors.values().filter(|f| f.growth.is_some());
        growing.any(|flavor| has_labels(node, flavor))
    }

    /// Returns true if a node belongs to a flavor.
    pub(super) fn belongs_to_flavor(&self, node: &Node, flavor: &FlavorName) -> bool {
        let flavor = self.flavors.get(flavor);
        flavor.is_some_and(|flavor| has_labels(node, flavor))
    }

    /// Returns when the next node arrives or is removed.
    pub(super) fn next_time(&self) -> Option<Time> {
        let arrival = self.coming.first().map(|(at, ..)| *at);
        let removals = self.nodes.values().filter_map(|node| self.removal(node));
        removals.chain(arrival).min()
    }

    /// Returns when a node is removed if it stays idle.
    fn removal(&self, node: &AddedNode) -> Option<Time> {
        let after = self.settings(&node.flavor).remove_idle_after;
        Some(super::add_duration(node.idle_since?, after))
    }

    fn settings(&self, flavor: &FlavorName) -> AutoscalerSettings {
        self.settings.get(flavor).cloned().unwrap_or_default()
    }

    /// Returns how many more nodes of a flavor may come.
    fn remaining_stock(&self, flavor: &FlavorName) -> u32 {
        let Some(stock) = self.settings(flavor).stock else {
            return u32::MAX;
        };
        let coming = self.coming.iter().filter(|(_, _, of)| of == flavor);
        let here = self.nodes.values().filter(|node| node.flavor == *flavor);
        let all = coming.count().saturating_add(here.count());
        stock.saturating_sub(u32::try_from(all).unwrap_or(u32::MAX))
    }

    /// Buys a node. It arrives after a random time between the shortest and the longest.
    fn buy_node(&mut self, flavor: &FlavorName, now: Time) {
        let (shortest, longest) = self.settings(flavor).arrive_after;
        let spread = longest.saturating_sub(shortest).as_millis();
        let draws = usize::try_from(spread).unwrap_or(usize::MAX);
        let extra = self.random.next_below(draws.saturating_add(1));
        let extra = Duration::from_millis(u64::try_from(extra).unwrap_or(0));
        let at = super::add_duration(now, shortest.saturating_add(extra));
        let number = self.numbers.entry(flavor.clone()).or_default();
        self.coming.insert((at, *number, flavor.clone()));
        *number = number.saturating_add(1);
    }
}

fn has_labels(node: &Node, flavor: &Flavor) -> bool {
    let mut labels = flavor.node_labels.iter();
    labels.all(|(key, value)| node.labels.get(key) == Some(value))
}

/// Returns the name of a node that the autoscaler adds.
fn added_node_name(flavor: &FlavorName, number: u32) -> NodeName {
    NodeName::new(format!("{}-auto-{number}", flavor.as_str()))
}
