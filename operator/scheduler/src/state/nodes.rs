//! Nodes: what they are, what they have, what is used of it.

use std::collections::BTreeMap;

use super::ledger::{Column, Ledger};
use super::packing_index::{self, PackingIndex};
use super::shape::Demand;
use super::{Catalog, NodeIdx, ResourceIdx};
use crate::ids::NodeName;
use crate::node::{Node, Taint};

/// What constraints look at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<Taint>,
    pub(crate) ready: bool,
    pub(crate) unschedulable: bool,
}

/// A node, or the name of one that is not there (any more) while pods are on it.
#[derive(Debug)]
struct Entry {
    name: NodeName,
    facts: Option<Facts>,
    /// What it has some of.
    offers: Vec<ResourceIdx>,
    /// Pods and plans that name it.
    holds: u32,
    /// The version in which its facts last changed.
    changed: u64,
}

/// All nodes.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    by_name: BTreeMap<NodeName, NodeIdx>,
    entries: Vec<Entry>,
    vacant: Vec<NodeIdx>,
    present: u32,
    version: u64,
    ledger: Ledger,
    /// Devices that a node has or had some of.
    devices: Vec<ResourceIdx>,
    cpu: Option<ResourceIdx>,
    /// At least what the largest node has of cores.
    most_cores: i64,
    /// By device; None is for pods without any.
    packing: BTreeMap<Option<ResourceIdx>, PackingIndex>,
    /// Each node's place in the order of names.
    ranks: Vec<u32>,
    /// Nodes have come: ranks and packing are to be made anew.
    unranked: bool,
}

impl Nodes {
    /// Takes a node as it is now. Says whether anything changed.
    pub(crate) fn apply(&mut self, node: Node, catalog: &mut Catalog) -> bool {
        let at = self.find_or_insert(&node.name);
        let facts = Facts {
            labels: node.labels,
            taints: node.taints,
            ready: node.ready,
            unschedulable: node.unschedulable,
        };
        self.cpu = Some(catalog.cpu());
        let mut offers = Vec::new();
        for (name, amount) in node.allocatable.iter() {
            offers.push((catalog.pin(name), amount));
        }
        for (resource, _) in &offers {
            if catalog.is_device(*resource) && !self.devices.contains(resource) {
                self.devices.push(*resource);
                self.packing
                    .insert(Some(*resource), PackingIndex::default());
                self.unranked = true;
            }
        }
        let changed = self.set_facts(at, Some(facts)) | self.set_offers(at, &offers);
        self.reindex(at);
        changed
    }

    /// Forgets a node. What runs on it is remembered until it is gone too.
    pub(crate) fn delete(&mut self, name: &NodeName) -> bool {
        let Some(at) = self.find(name) else {
            return false;
        };
        let changed = self.set_offers(at, &[]) | self.set_facts(at, None);
        self.reindex(at);
        self.forget_unless_held(at);
        changed
    }

    /// Keeps the node's index for as long as it is not unheld.
    pub(crate) fn hold(&mut self, name: &NodeName) -> NodeIdx {
        let at = self.find_or_insert(name);
        self.hold_again(at);
        at
    }

    /// One hold more of a node that is held or there.
    pub(crate) fn hold_again(&mut self, at: NodeIdx) {
        if let Some(entry) = self.entries.get_mut(at.at()) {
            entry.holds = entry.holds.saturating_add(1);
        }
    }

    /// Gives up a hold.
    pub(crate) fn unhold(&mut self, at: NodeIdx) {
        if let Some(entry) = self.entries.get_mut(at.at()) {
            entry.holds = entry.holds.saturating_sub(1);
        }
        self.forget_unless_held(at);
    }

    /// Adds (or with negative `times` takes back) what so many pods use; `held`
    /// where they are a placed gang's.
    pub(crate) fn charge(&mut self, at: NodeIdx, demand: &Demand, times: i64, held: bool) {
        for (resource, need) in demand {
            let used = i128::from(*need).saturating_mul(i128::from(times));
            self.ledger
                .add(*resource, at, used, if held { used } else { 0 });
        }
        self.reindex(at);
    }

    /// So many pods on the node become (or with negative `times` are no longer) a placed gang's.
    pub(crate) fn set_held(&mut self, at: NodeIdx, demand: &Demand, times: i64) {
        for (resource, need) in demand {
            let held = i128::from(*need).saturating_mul(i128::from(times));
            self.ledger.add(*resource, at, 0, held);
        }
    }

    pub(crate) fn find(&self, name: &NodeName) -> Option<NodeIdx> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn name(&self, at: NodeIdx) -> &NodeName {
        static NOWHERE: std::sync::LazyLock<NodeName> =
            std::sync::LazyLock::new(|| NodeName::new(""));
        self.entries.get(at.at()).map_or(&NOWHERE, |e| &e.name)
    }

    /// Its place in the order of names, among nodes that were there when
    /// [`Nodes::rank`] was last called.
    pub(crate) fn rank_of(&self, at: NodeIdx) -> u32 {
        self.ranks.get(at.at()).copied().unwrap_or(u32::MAX)
    }

    /// None where the node is not there.
    pub(crate) fn facts(&self, at: NodeIdx) -> Option<&Facts> {
        self.entries.get(at.at())?.facts.as_ref()
    }

    /// Nodes that are there, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeIdx, &Facts)> {
        self.by_name
            .values()
            .filter_map(|at| self.facts(*at).map(|facts| (*at, facts)))
    }

    /// How many nodes are there.
    pub(crate) fn present(&self) -> u32 {
        self.present
    }

    /// One more than the greatest index.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Counts the changes of facts.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Nodes whose facts have changed since.
    pub(crate) fn changed_since(&self, version: u64) -> impl Iterator<Item = NodeIdx> {
        (0_usize..)
            .zip(&self.entries)
            .filter(move |(_, entry)| entry.changed > version)
            .map(|(at, _)| NodeIdx::of(at))
    }

    /// What all nodes have together, of each resource that any has had some of.
    pub(crate) fn totals(&self) -> impl Iterator<Item = (ResourceIdx, i128)> {
        self.ledger.totals()
    }

    pub(crate) fn column(&self, resource: ResourceIdx) -> Option<&Column> {
        self.ledger.column(resource)
    }

    pub(crate) fn allocatable(&self, resource: ResourceIdx, at: NodeIdx) -> i64 {
        self.ledger.allocatable(resource, at)
    }

    pub(crate) fn free(&self, resource: ResourceIdx, at: NodeIdx) -> i64 {
        self.ledger.free(resource, at)
    }

    /// What placed gangs hold, and what other pods use.
    pub(crate) fn held(&self, resource: ResourceIdx, at: NodeIdx) -> (i128, i128) {
        self.ledger.held(resource, at)
    }

    /// What the node has some of.
    pub(crate) fn offers(&self, at: NodeIdx) -> &[ResourceIdx] {
        self.entries.get(at.at()).map_or(&[], |e| &e.offers)
    }

    /// Devices that a node has or had some of.
    pub(crate) fn devices(&self) -> &[ResourceIdx] {
        &self.devices
    }

    /// Nodes that may have room for a pod, in the order in which packing wants
    /// them: tightest first. All that have room are among them.
    pub(crate) fn walk(
        &self,
        device: Option<ResourceIdx>,
        devices: i64,
        cores: i64,
    ) -> impl Iterator<Item = NodeIdx> {
        // A node that has the cores has them free, and is no larger than the largest.
        let cores = packing_index::fraction(cores, self.most_cores);
        let devices = device.map_or(0, |_| u32::try_from(devices).unwrap_or(u32::MAX));
        self.packing
            .get(&device)
            .into_iter()
            .flat_map(move |index| index.walk(devices, cores))
    }

    /// Makes the order of packing anew where nodes have come. Before any walk.
    pub(crate) fn rank(&mut self) {
        if !std::mem::take(&mut self.unranked) {
            return;
        }
        self.packing.entry(None).or_default();
        for index in self.packing.values_mut() {
            index.clear();
        }
        self.ranks.clear();
        self.ranks.resize(self.entries.len(), 0);
        for (rank, at) in (0_u32..).zip(self.by_name.values()) {
            if let Some(slot) = self.ranks.get_mut(at.at()) {
                *slot = rank;
            }
        }
        self.most_cores = 0;
        let all: Vec<NodeIdx> = self.by_name.values().copied().collect();
        for at in all {
            self.reindex(at);
        }
    }

    fn reindex(&mut self, at: NodeIdx) {
        if self.unranked {
            return;
        }
        let there = self.facts(at).is_some();
        let rank = self.ranks.get(at.at()).copied().unwrap_or(0);
        if let Some(cpu) = self.cpu {
            self.most_cores = self.most_cores.max(self.ledger.allocatable(cpu, at));
        }
        for (device, index) in &mut self.packing {
            let key = packing_index::key(&self.ledger, at, *device, self.cpu, &self.devices);
            index.place(at, rank, key.filter(|_| there));
        }
    }

    fn find_or_insert(&mut self, name: &NodeName) -> NodeIdx {
        if let Some(at) = self.find(name) {
            return at;
        }
        let entry = Entry {
            name: name.clone(),
            facts: None,
            offers: Vec::new(),
            holds: 0,
            // Whoever has seen a former node in this place must look again.
            changed: self.version,
        };
        let at = match self.vacant.pop() {
            Some(at) => {
                if let Some(slot) = self.entries.get_mut(at.at()) {
                    *slot = entry;
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
        at
    }

    fn forget_unless_held(&mut self, at: NodeIdx) {
        let Some(entry) = self.entries.get(at.at()) else {
            return;
        };
        if entry.facts.is_none() && entry.holds == 0 && self.by_name.get(&entry.name) == Some(&at) {
            self.by_name.remove(&entry.name);
            self.vacant.push(at);
        }
    }

    fn set_facts(&mut self, at: NodeIdx, facts: Option<Facts>) -> bool {
        let next = self.version.saturating_add(1);
        let Some(entry) = self.entries.get_mut(at.at()) else {
            return false;
        };
        if entry.facts == facts {
            return false;
        }
        match (&entry.facts, &facts) {
            (None, Some(_)) => {
                self.present = self.present.saturating_add(1);
                self.unranked = true;
            }
            (Some(_), None) => self.present = self.present.saturating_sub(1),
            _ => {}
        }
        entry.facts = facts;
        entry.changed = next;
        self.version = next;
        true
    }

    fn set_offers(&mut self, at: NodeIdx, offers: &[(ResourceIdx, i64)]) -> bool {
        let before = self.offers(at).to_vec();
        let mut changed = false;
        for resource in before
            .iter()
            .filter(|r| !offers.iter().any(|(o, _)| o == *r))
        {
            self.ledger.set_allocatable(*resource, at, 0);
            changed = true;
        }
        for (resource, amount) in offers {
            changed |= self.ledger.allocatable(*resource, at) != *amount;
            self.ledger.set_allocatable(*resource, at, *amount);
        }
        if let Some(entry) = self.entries.get_mut(at.at()) {
            entry.offers = offers.iter().map(|(resource, _)| *resource).collect();
        }
        changed
    }
}
