//! Nodes: properties, capacity and usage.

mod charging;
mod domains;
mod sorting;

pub(crate) use charging::SavedShares;

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::classes::NodeClasses;
use super::domains::TopologyDomains;
use super::kinds::NodeKinds;
use super::labels::{LabelTexts, NodeLabels};
use super::ledger::{NodeLedger, ResourceColumn};
use super::name_index::NameIndex;
use super::profile::WHOLE_DEVICE;
use super::shares::SharedDevices;
use super::{Catalog, NodeIdx, ResourceIdx, SignatureIdx};
use crate::constraints::Constraints;
use crate::ids::NodeName;
use crate::node::{Node, Taint, TaintEffect};
use crate::time::Time;

/// The taint that Kubernetes puts on cordoned nodes (KEP-382).
pub(super) const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The properties of a node that constraints depend on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NodeProperties {
    pub(crate) labels: NodeLabels,
    pub(crate) taints: Vec<Taint>,
    pub(crate) ready: bool,
    pub(crate) unschedulable: bool,
    pub(crate) unhealthy: Option<String>,
}

impl NodeProperties {
    /// True if only the node's labels or name may keep pods with these constraints off it.
    pub(super) fn is_open(&self, constraints: &Constraints) -> bool {
        self.ready
            && self.unhealthy.is_none()
            && !self.is_cordoned(constraints)
            && constraints.repelling_taint(&self.taints).is_none()
    }

    /// True if a cordon keeps pods with these constraints off the node.
    pub(crate) fn is_cordoned(&self, constraints: &Constraints) -> bool {
        self.unschedulable
            && !constraints.tolerates(&Taint {
                key: UNSCHEDULABLE.to_owned(),
                value: String::new(),
                effect: TaintEffect::NoSchedule,
            })
    }
}

/// A node, or the name of a node that does not exist (any more) but still has pods.
#[derive(Debug)]
struct NodeEntry {
    name: NodeName,
    properties: Option<NodeProperties>,
    /// The time of the last cycle before the node was added. The epoch for a node that is only held.
    added: Time,
    /// The resources that it lists.
    listed_resources: SmallVec<[ResourceIdx; 4]>,
    /// Number of pods and plans that name it.
    hold_count: u32,
    /// The version in which its properties last changed.
    changed: u64,
    /// True if it must be sorted into its class.
    stale: bool,
}

/// All nodes.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// Ordered by name. Lookups use `index`.
    by_name: BTreeMap<NodeName, NodeIdx>,
    index: NameIndex,
    entries: Vec<NodeEntry>,
    label_texts: LabelTexts,
    vacant: Vec<NodeIdx>,
    node_count: u32,
    version: u64,
    /// True if the capacity of a node has changed since [`Nodes::take_changed_totals`].
    totals_changed: bool,
    ledger: NodeLedger,
    /// Devices that any node has or had.
    devices: Vec<ResourceIdx>,
    cpu: Option<ResourceIdx>,
    shares: SharedDevices,
    kinds: NodeKinds,
    /// The classes as of the last sort.
    classes: NodeClasses,
    /// The signatures that classes distinguish.
    class_signatures: Vec<SignatureIdx>,
    /// Nodes that have changed since the last sort.
    stale: Vec<NodeIdx>,
    /// Each node's position by name.
    ranks: Vec<u32>,
    /// True if nodes were added, so ranks and classes must be rebuilt.
    unranked: bool,
    domains: TopologyDomains,
}

impl Nodes {
    /// Adds or replaces a node. Returns true if it changes anything.
    pub(crate) fn apply(&mut self, node: Node, now: Time, catalog: &mut Catalog) -> bool {
        let at = self.find_or_insert(&node.name);
        if let Some(entry) = self.entries.get_mut(at.at())
            && entry.properties.is_none()
        {
            entry.added = now;
        }
        let facts = NodeProperties {
            labels: self.label_texts.intern_labels(node.labels),
            taints: node.taints,
            ready: node.ready,
            unschedulable: node.unschedulable,
            unhealthy: node.unhealthy,
        };
        self.cpu = Some(catalog.cpu());
        let mut offers = Vec::new();
        for (name, amount) in node.allocatable.iter() {
            offers.push((catalog.pin(name), amount));
        }
        for (resource, _) in &offers {
            if catalog.is_device(*resource) && !self.devices.contains(resource) {
                self.devices.push(*resource);
            }
        }
        let changed = self.set_properties(at, Some(facts)) | self.set_listed_resources(at, &offers);
        self.kinds.set_kind(at, Some(self.empty_profile(at)));
        self.mark_stale(at);
        self.totals_changed |= changed;
        changed
    }

    /// Removes a node. Its usage stays until its pods are gone too.
    pub(crate) fn delete(&mut self, name: &NodeName) -> bool {
        let Some(at) = self.find(name) else {
            return false;
        };
        let changed = self.set_listed_resources(at, &[]) | self.set_properties(at, None);
        self.kinds.set_kind(at, None);
        self.mark_stale(at);
        self.forget_unless_held(at);
        self.totals_changed |= changed;
        changed
    }

    /// Holds a node: its index stays the same until the hold is released.
    pub(crate) fn hold(&mut self, name: &NodeName) -> NodeIdx {
        let at = self.find_or_insert(name);
        self.add_hold(at);
        at
    }

    /// Adds a hold of a node that exists or is held.
    pub(crate) fn add_hold(&mut self, at: NodeIdx) {
        if let Some(entry) = self.entries.get_mut(at.at()) {
            entry.hold_count = entry.hold_count.saturating_add(1);
        }
    }

    /// Releases a hold.
    pub(crate) fn release_hold(&mut self, at: NodeIdx) {
        if let Some(entry) = self.entries.get_mut(at.at()) {
            entry.hold_count = entry.hold_count.saturating_sub(1);
        }
        self.forget_unless_held(at);
    }

    pub(crate) fn find(&self, name: &NodeName) -> Option<NodeIdx> {
        let is = |number: u32| {
            let entry = self.entries.get(number as usize);
            entry.is_some_and(|entry| entry.name == *name)
        };
        let number = self.index.find(name.as_str(), is)?;
        Some(NodeIdx::of(number as usize))
    }

    pub(crate) fn name(&self, at: NodeIdx) -> &NodeName {
        static UNKNOWN_NODE: std::sync::LazyLock<NodeName> =
            std::sync::LazyLock::new(|| NodeName::new(""));
        self.entries.get(at.at()).map_or(&UNKNOWN_NODE, |e| &e.name)
    }

    /// Returns its position by name among the nodes that existed when [`Nodes::rank_by_name`] was
    /// last called.
    pub(crate) fn position_by_name(&self, at: NodeIdx) -> u32 {
        self.ranks.get(at.at()).copied().unwrap_or(u32::MAX)
    }

    /// Returns the properties of a node. None if the node does not exist.
    pub(crate) fn properties(&self, at: NodeIdx) -> Option<&NodeProperties> {
        self.entries.get(at.at())?.properties.as_ref()
    }

    /// Returns true if the node exists and was added in or after the cycle of this time.
    pub(crate) fn was_added_since(&self, at: NodeIdx, time: Time) -> bool {
        let entry = self.entries.get(at.at());
        entry.is_some_and(|entry| entry.properties.is_some() && entry.added >= time)
    }

    /// Returns the existing nodes, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeIdx, &NodeProperties)> {
        self.by_name
            .values()
            .filter_map(|at| self.properties(*at).map(|facts| (*at, facts)))
    }

    /// Returns the number of existing nodes.
    pub(crate) fn node_count(&self) -> u32 {
        self.node_count
    }

    /// Returns the greatest index plus one.
    pub(crate) fn index_bound(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of changes of node properties so far.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Returns the nodes whose properties have changed since a version.
    pub(crate) fn changed_since(&self, version: u64) -> impl Iterator<Item = NodeIdx> {
        (0_usize..)
            .zip(&self.entries)
            .filter(move |(_, entry)| entry.changed > version)
            .map(|(at, _)| NodeIdx::of(at))
    }

    /// Returns the capacity of all nodes together, for each resource that any node has had. None:
    /// it has not changed since the last call.
    pub(crate) fn take_changed_totals(
        &mut self,
    ) -> Option<impl Iterator<Item = (ResourceIdx, i128)>> {
        std::mem::take(&mut self.totals_changed).then(|| self.ledger.totals())
    }

    pub(crate) fn column(&self, resource: ResourceIdx) -> Option<&ResourceColumn> {
        self.ledger.column(resource)
    }

    pub(crate) fn allocatable(&self, resource: ResourceIdx, at: NodeIdx) -> i64 {
        self.ledger.allocatable(resource, at)
    }

    pub(crate) fn free(&self, resource: ResourceIdx, at: NodeIdx) -> i64 {
        self.ledger.free(resource, at)
    }

    /// Returns the usage by placed gangs, and by other pods.
    pub(crate) fn usage(&self, resource: ResourceIdx, at: NodeIdx) -> (i128, i128) {
        self.ledger.usage(resource, at)
    }

    /// Returns the resources that the node lists.
    pub(crate) fn listed_resources(&self, at: NodeIdx) -> &[ResourceIdx] {
        self.entries
            .get(at.at())
            .map_or(&[], |e| &e.listed_resources)
    }

    /// Returns the kinds of the existing nodes.
    pub(crate) fn kinds(&self) -> &NodeKinds {
        &self.kinds
    }

    /// Devices that any node has or had.
    pub(crate) fn devices(&self) -> &[ResourceIdx] {
        &self.devices
    }

    fn find_or_insert(&mut self, name: &NodeName) -> NodeIdx {
        if let Some(at) = self.find(name) {
            return at;
        }
        let entry = NodeEntry {
            name: name.clone(),
            properties: None,
            added: Time::default(),
            listed_resources: SmallVec::new(),
            hold_count: 0,
            // A signature that knows a former node at this index must check this node.
            changed: self.version,
            stale: false,
        };
        let at = match self.vacant.pop() {
            Some(at) => {
                if let Some(slot) = self.entries.get_mut(at.at()) {
                    let stale = slot.stale;
                    *slot = NodeEntry { stale, ..entry };
                }
                at
            }
            None => {
                self.entries.push(entry);
                self.ledger.grow(self.entries.len());
                NodeIdx::of(self.entries.len().saturating_sub(1))
            }
        };
        self.by_name.insert(name.clone(), at);
        self.index.insert(name.as_str(), at.number());
        at
    }

    fn forget_unless_held(&mut self, at: NodeIdx) {
        let Some(entry) = self.entries.get(at.at()) else {
            return;
        };
        if entry.properties.is_none() && entry.hold_count == 0 && self.find(&entry.name) == Some(at)
        {
            self.index.remove(entry.name.as_str(), at.number());
            self.by_name.remove(&entry.name);
            self.vacant.push(at);
        }
    }

    fn set_properties(&mut self, at: NodeIdx, facts: Option<NodeProperties>) -> bool {
        let next = self.version.saturating_add(1);
        let Some(entry) = self.entries.get_mut(at.at()) else {
            return false;
        };
        if entry.properties == facts {
            return false;
        }
        match (&entry.properties, &facts) {
            (None, Some(_)) => {
                self.node_count = self.node_count.saturating_add(1);
                self.unranked = true;
            }
            (Some(_), None) => self.node_count = self.node_count.saturating_sub(1),
            _ => {}
        }
        entry.properties = facts;
        entry.changed = next;
        let labels = entry.properties.as_ref().map(|facts| &facts.labels);
        self.domains.update_node(at, &entry.name, labels);
        self.version = next;
        true
    }

    fn set_listed_resources(&mut self, at: NodeIdx, offers: &[(ResourceIdx, i64)]) -> bool {
        let before = self.listed_resources(at).to_vec();
        let now: SmallVec<[ResourceIdx; 4]> = offers.iter().map(|(r, _)| *r).collect();
        // A resource newly listed with 0 is also a change.
        let mut changed = before != *now;
        for resource in before.iter().filter(|r| !now.contains(r)) {
            self.ledger.set_allocatable(*resource, at, 0);
        }
        for (resource, amount) in offers {
            changed |= self.ledger.allocatable(*resource, at) != *amount;
            self.ledger.set_allocatable(*resource, at, *amount);
        }
        for (share, device) in self.shares.share_kinds() {
            let all = self.ledger.allocatable(device, at);
            self.ledger
                .set_allocatable(share, at, all.saturating_mul(WHOLE_DEVICE));
        }
        if let Some(entry) = self.entries.get_mut(at.at()) {
            entry.listed_resources = now;
        }
        changed
    }
}
