//! Nodes: what they are, what they have, what is used of it.

mod charging;
mod domains;
mod sorting;

pub(crate) use charging::SavedShares;

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::classes::Classes;
use super::domains::Domains;
use super::index::Index;
use super::kinds::Kinds;
use super::labels::{Labels, Words};
use super::ledger::{Column, Ledger};
use super::profile::WHOLE;
use super::shares::Shares;
use super::{Catalog, NodeIdx, ResourceIdx, SignatureIdx};
use crate::ids::NodeName;
use crate::node::{Node, Taint};

/// What constraints look at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) labels: Labels,
    pub(crate) taints: Vec<Taint>,
    pub(crate) ready: bool,
    pub(crate) unschedulable: bool,
    pub(crate) unhealthy: Option<String>,
}

/// A node, or the name of one that is not there (any more) while pods are on it.
#[derive(Debug)]
struct Entry {
    name: NodeName,
    facts: Option<Facts>,
    /// What it has some of.
    offers: SmallVec<[ResourceIdx; 4]>,
    /// Pods and plans that name it.
    holds: u32,
    /// The version in which its facts last changed.
    changed: u64,
    /// It is to be sorted into its class.
    stale: bool,
}

/// All nodes.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// In the order of names; who looks for one asks `index`.
    by_name: BTreeMap<NodeName, NodeIdx>,
    index: Index,
    entries: Vec<Entry>,
    words: Words,
    vacant: Vec<NodeIdx>,
    present: u32,
    version: u64,
    ledger: Ledger,
    /// Devices that a node has or had some of.
    devices: Vec<ResourceIdx>,
    cpu: Option<ResourceIdx>,
    shares: Shares,
    kinds: Kinds,
    /// As of when they were last sorted.
    classes: Classes,
    /// The signatures that classes tell apart.
    lenses: Vec<SignatureIdx>,
    /// Nodes that have changed since they were last sorted.
    stale: Vec<NodeIdx>,
    /// Each node's place in the order of names.
    ranks: Vec<u32>,
    /// Nodes have come: ranks and classes are to be made anew.
    unranked: bool,
    domains: Domains,
}

impl Nodes {
    /// Takes a node as it is now. Says whether anything changed.
    pub(crate) fn apply(&mut self, node: Node, catalog: &mut Catalog) -> bool {
        let at = self.find_or_insert(&node.name);
        let facts = Facts {
            labels: self.words.labels(node.labels),
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
        let changed = self.set_facts(at, Some(facts)) | self.set_offers(at, &offers);
        self.kinds.put(at, Some(self.empty(at)));
        self.touch(at);
        changed
    }

    /// Forgets a node. What runs on it is remembered until it is gone too.
    pub(crate) fn delete(&mut self, name: &NodeName) -> bool {
        let Some(at) = self.find(name) else {
            return false;
        };
        let changed = self.set_offers(at, &[]) | self.set_facts(at, None);
        self.kinds.put(at, None);
        self.touch(at);
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

    pub(crate) fn find(&self, name: &NodeName) -> Option<NodeIdx> {
        let is = |number: u32| {
            let entry = self.entries.get(number as usize);
            entry.is_some_and(|entry| entry.name == *name)
        };
        let number = self.index.find(name.as_str(), is)?;
        Some(NodeIdx::of(number as usize))
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

    /// What kinds of nodes are there.
    pub(crate) fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// Devices that a node has or had some of.
    pub(crate) fn devices(&self) -> &[ResourceIdx] {
        &self.devices
    }

    fn find_or_insert(&mut self, name: &NodeName) -> NodeIdx {
        if let Some(at) = self.find(name) {
            return at;
        }
        let entry = Entry {
            name: name.clone(),
            facts: None,
            offers: SmallVec::new(),
            holds: 0,
            // Whoever has seen a former node in this place must look again.
            changed: self.version,
            stale: false,
        };
        let at = match self.vacant.pop() {
            Some(at) => {
                if let Some(slot) = self.entries.get_mut(at.at()) {
                    let stale = slot.stale;
                    *slot = Entry { stale, ..entry };
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
        if entry.facts.is_none() && entry.holds == 0 && self.find(&entry.name) == Some(at) {
            self.index.remove(entry.name.as_str(), at.number());
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
        let labels = entry.facts.as_ref().map(|facts| &facts.labels);
        self.domains.put(at, &entry.name, labels);
        self.version = next;
        true
    }

    fn set_offers(&mut self, at: NodeIdx, offers: &[(ResourceIdx, i64)]) -> bool {
        let before = self.offers(at).to_vec();
        let now: SmallVec<[ResourceIdx; 4]> = offers.iter().map(|(r, _)| *r).collect();
        // What is listed with 0 from now on says something too.
        let mut changed = before != *now;
        for resource in before.iter().filter(|r| !now.contains(r)) {
            self.ledger.set_allocatable(*resource, at, 0);
        }
        for (resource, amount) in offers {
            changed |= self.ledger.allocatable(*resource, at) != *amount;
            self.ledger.set_allocatable(*resource, at, *amount);
        }
        for (share, device) in self.shares.list() {
            let all = self.ledger.allocatable(device, at);
            self.ledger
                .set_allocatable(share, at, all.saturating_mul(WHOLE));
        }
        if let Some(entry) = self.entries.get_mut(at.at()) {
            entry.offers = now;
        }
        changed
    }
}
