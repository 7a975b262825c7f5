//! Adds and removes nodes.

use std::collections::{BTreeMap, BTreeSet};

use trellis_scheduler::{FlavorName, NodeName, Resources};

use super::packing::{self, Bin, BinState, PendingPods};
use super::{AddedNode, Autoscaler, added_node_name};
use crate::runner::SimulationRunner;
use crate::runner::record::{NodeEvent, NodeEventRecord, SimulationRecord};
use crate::runner::script::ScriptChange;
use crate::runner::simulated_job::StoppedPod;

impl SimulationRunner<'_, '_> {
    /// Adds the nodes that arrive at this time, and removes those that have been idle for long
    /// enough.
    pub(in crate::runner) fn apply_node_events(&mut self) {
        let mut arrived: BTreeMap<FlavorName, Vec<NodeName>> = BTreeMap::new();
        while let Some((at, ..)) = self.autoscaler.coming.first()
            && *at <= self.now
        {
            let Some((_, number, flavor)) = self.autoscaler.coming.pop_first() else {
                break;
            };
            let known = self.autoscaler.flavors.get(&flavor);
            let Some(growth) = known.and_then(|flavor| flavor.growth.as_ref()) else {
                continue;
            };
            let name = added_node_name(&flavor, number);
            let node = growth.node.to_node(name.clone());
            self.apply_change(ScriptChange::Node(node));
            let added = AddedNode {
                flavor: flavor.clone(),
                idle_since: Some(self.now),
            };
            self.autoscaler.nodes.insert(name.clone(), added);
            arrived.entry(flavor).or_default().push(name);
        }
        self.node_hours.add_arrived(&arrived);
        self.report_nodes(NodeEvent::Arrived, arrived);

        let mut removed: BTreeMap<FlavorName, Vec<NodeName>> = BTreeMap::new();
        for (name, node) in &self.autoscaler.nodes {
            let removal = self.autoscaler.removal(node);
            if removal.is_some_and(|at| at <= self.now) {
                let flavor = node.flavor.clone();
                removed.entry(flavor).or_default().push(name.clone());
            }
        }
        for name in removed.values().flatten() {
            self.remove_node(name);
        }
        self.report_nodes(NodeEvent::Removed, removed);
    }

    fn report_nodes(&mut self, event: NodeEvent, nodes: BTreeMap<FlavorName, Vec<NodeName>>) {
        for (flavor, nodes) in &nodes {
            (self.record_sink)(&SimulationRecord::Nodes(NodeEventRecord {
                t: self.now,
                event,
                flavor,
                nodes,
            }));
        }
    }

    /// Buys the nodes that the engine's orders lack, cancels coming nodes that no order needs, and
    /// updates which nodes are idle.
    pub(in crate::runner) fn update_autoscaler(&mut self) {
        let counts_all = self.options.counts_nodes;
        if !counts_all && !self.autoscaler.can_grow() && self.autoscaler.nodes.is_empty() {
            return;
        }
        let engine = &self.engine;
        self.autoscaler
            .orders
            .retain(|(gang, _)| engine.provisioning(gang).is_some());
        let used = self.used_resources();
        let counted = self
            .nodes
            .values()
            .filter(|node| counts_all || self.autoscaler.belongs_to_growing_flavor(node));
        let (mut all, mut idle) = (0_u32, 0_u32);
        for node in counted {
            all = all.saturating_add(1);
            idle = idle.saturating_add(u32::from(!used.contains_key(&node.name)));
        }
        self.node_hours.set_nodes(all, idle);

        let needed = self.buy_missing_nodes(&used);
        for (name, node) in &mut self.autoscaler.nodes {
            let is_idle = !used.contains_key(name) && !needed.contains(name);
            node.idle_since = is_idle.then(|| node.idle_since.unwrap_or(self.now));
        }
    }

    /// Packs the pods of all orders on the nodes. Buys the missing nodes, and cancels coming nodes
    /// that no order needs. Returns the existing nodes that the orders need.
    fn buy_missing_nodes(&mut self, used: &BTreeMap<NodeName, Resources>) -> BTreeSet<NodeName> {
        let mut bins = self.autoscaler.coming_bins();
        let ordered = self.ordered_pods();
        if !ordered.is_empty() {
            let usable = self.nodes.values();
            let usable = usable.filter(|node| node.ready && !node.unschedulable);
            let existing = usable.map(|node| {
                let mut bin = Bin::new(node.clone(), BinState::Existing);
                if let Some(used) = used.get(&node.name) {
                    bin.take(used, 1);
                }
                bin
            });
            bins = existing.chain(bins).collect();
        }
        for (pods, flavor) in ordered {
            packing::pack_on(&mut bins, &pods, |bins| {
                self.autoscaler.new_bin(flavor.as_ref()?, bins)
            });
        }
        let mut needed = BTreeSet::new();
        for bin in bins {
            match bin.state {
                BinState::Existing if bin.is_needed => {
                    needed.insert(bin.node.name);
                }
                BinState::Coming(coming) if !bin.is_needed => {
                    self.autoscaler.coming.remove(&coming);
                }
                BinState::New(flavor) => {
                    self.autoscaler.buy_node(&flavor, self.now);
                    self.node_hours.add_bought();
                }
                BinState::Existing | BinState::Coming(_) => {}
            }
        }
        needed
    }

    /// Returns the pods of all orders, each with the flavor of which new nodes may come.
    fn ordered_pods(&self) -> Vec<(PendingPods, Option<FlavorName>)> {
        let mut all = Vec::new();
        for (gang, flavors) in &self.autoscaler.orders {
            let groups = self.jobs.get(gang).map(|job| job.gang.groups.iter());
            for group in groups.into_iter().flatten() {
                let chosen = flavors
                    .iter()
                    .filter(|chosen| group.stands_for(&chosen.group));
                let names: BTreeSet<&FlavorName> =
                    chosen.flat_map(|chosen| chosen.flavors.values()).collect();
                let mut pods = PendingPods {
                    count: group.count,
                    request: packing::with_pod(&group.request),
                    constraints: group.constraints.clone(),
                };
                let mut growing = None;
                for flavor in names
                    .into_iter()
                    .filter_map(|name| self.autoscaler.flavors.get(name))
                {
                    let tolerations = flavor.tolerations.iter().cloned();
                    pods.constraints.tolerations.extend(tolerations);
                    pods.constraints.narrow_to(&flavor.node_labels);
                    if flavor.growth.is_some() {
                        growing = Some(flavor.name.clone());
                    }
                }
                all.push((pods, growing));
            }
        }
        all
    }

    /// Returns the resources of the running pods, by node. A node without pods has no entry.
    fn used_resources(&self) -> BTreeMap<NodeName, Resources> {
        let mut used: BTreeMap<NodeName, Resources> = BTreeMap::new();
        let mut add = |node: &NodeName, request: &Resources| {
            let sum = used.entry(node.clone()).or_default();
            // More than 64 bits of a resource are on no node.
            if let Ok(more) = sum.checked_add(&packing::with_pod(request)) {
                *sum = more;
            }
        };
        for job in self.placed_jobs.iter().filter_map(|id| self.jobs.get(id)) {
            let placement = self.engine.placement(&job.gang.id).unwrap_or_default();
            for (name, index, node) in placement.iter() {
                let Some((group, key)) = job.gang.member_pod(name, index) else {
                    continue;
                };
                if job.stopped_pods.get(&key) != Some(&StoppedPod::Done) {
                    add(node, &group.request);
                }
            }
            for (pod, nodes) in job.surplus.placed_units() {
                for group in &pod.gang.groups {
                    nodes.iter().for_each(|node| add(node, &group.request));
                }
            }
        }
        for (node, request) in self.external_pods.values() {
            add(node, request);
        }
        used
    }
}

impl Autoscaler {
    fn coming_bins(&self) -> Vec<Bin> {
        let coming = self.coming.iter().filter_map(|coming| {
            let (_, number, flavor) = coming;
            let template = &self.flavors.get(flavor)?.growth.as_ref()?.node;
            let node = template.to_node(added_node_name(flavor, *number));
            Some(Bin::new(node, BinState::Coming(coming.clone())))
        });
        coming.collect()
    }

    /// Returns a new node of a flavor beside these. None: its stock is used up.
    fn new_bin(&self, flavor: &FlavorName, bins: &[Bin]) -> Option<Bin> {
        let state = BinState::New(flavor.clone());
        let new = bins.iter().filter(|bin| bin.state == state).count();
        if u32::try_from(new).unwrap_or(u32::MAX) >= self.remaining_stock(flavor) {
            return None;
        }
        let template = &self.flavors.get(flavor)?.growth.as_ref()?.node;
        Some(Bin::new(template.to_node(NodeName::new("")), state))
    }
}
