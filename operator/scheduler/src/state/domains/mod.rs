//! Topologies: each is a tree of domains over the existing nodes.

mod label_path;
mod layout;
mod tree;

pub(crate) use layout::Layout;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{NodeIdx, NodeLabels};
use crate::ids::{NodeName, TopologyName};
use crate::topology::{NODE_LEVEL, Topology, TopologyLevel};
use tree::TopologyTree;

/// All topologies.
#[derive(Debug, Default)]
pub(crate) struct TopologyDomains {
    trees: BTreeMap<TopologyName, TopologyTree>,
    /// The number of changes of layouts so far.
    version: u64,
}

/// A level of a topology.
#[derive(Clone, Debug)]
pub(crate) struct DomainLevel {
    pub(crate) layout: Arc<Layout>,
    /// 0 is the coarsest level.
    pub(crate) depth: usize,
}

impl TopologyDomains {
    /// Adds or replaces a topology. `nodes` are the existing nodes with their labels. Returns true
    /// if it changes anything.
    pub(crate) fn apply<'a>(
        &mut self,
        topology: Topology,
        nodes: impl Iterator<Item = (NodeIdx, &'a NodeName, &'a NodeLabels)>,
    ) -> bool {
        let before = self.trees.get(&topology.name);
        if before.is_some_and(|tree| tree.levels() == topology.levels) {
            return false;
        }
        let mut tree = TopologyTree::new(topology.levels);
        for (node, name, labels) in nodes {
            tree.update_node(node, name, Some(labels));
        }
        self.trees.insert(topology.name, tree);
        true
    }

    /// Returns true if the topology existed.
    pub(super) fn delete(&mut self, name: &TopologyName) -> bool {
        self.version = self.version.saturating_add(1);
        self.trees.remove(name).is_some()
    }

    /// Moves a node to the domains of its labels, or removes it if it is gone.
    pub(super) fn update_node(
        &mut self,
        node: NodeIdx,
        name: &NodeName,
        labels: Option<&NodeLabels>,
    ) {
        for tree in self.trees.values_mut() {
            tree.update_node(node, name, labels);
        }
    }

    /// Numbers the domains again if nodes were added, moved or removed.
    pub(crate) fn lay_out(&mut self) {
        for tree in self.trees.values_mut() {
            let changed = tree.lay_out();
            self.version = self.version.saturating_add(u64::from(changed));
        }
    }

    /// Returns the number of changes of layouts so far.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Returns the level of this name, in the first topology by name that has it. The layout is
    /// from the last call of [`TopologyDomains::lay_out`].
    pub(crate) fn find(&self, level: &str) -> Option<DomainLevel> {
        self.trees.values().find_map(|tree| {
            let depth = tree.depth(level)?;
            let layout = tree.layout();
            Some(DomainLevel { layout, depth })
        })
    }

    /// Returns the depth of another level in the topology in which [`TopologyDomains::find`] finds
    /// a level.
    pub(crate) fn find_in_same_topology(&self, level: &str, other: &str) -> Option<usize> {
        let mut trees = self.trees.values();
        let tree = trees.find(|tree| tree.depth(level).is_some())?;
        tree.depth(other)
    }

    /// Returns a level in the topology in which [`TopologyDomains::find`] finds the level `outer`.
    pub(crate) fn find_beside(&self, outer: &str, level: &str) -> Option<DomainLevel> {
        let outer = self.find(outer)?;
        let depth = self.find_in_topology_of(&outer, level)?;
        Some(DomainLevel { depth, ..outer })
    }

    /// Returns the depth of a level in the topology of a level that was found.
    pub(crate) fn find_in_topology_of(&self, found: &DomainLevel, level: &str) -> Option<usize> {
        self.tree_of(found)?.depth(level)
    }

    fn tree_of(&self, found: &DomainLevel) -> Option<&TopologyTree> {
        let mut trees = self.trees.values();
        trees.find(|tree| Arc::ptr_eq(&tree.layout(), &found.layout))
    }

    /// Returns the layout of the topology with the most levels in which all these nodes are in
    /// domains; of equal topologies, the first by name. None: there is no such level.
    pub(crate) fn find_covering<N: Iterator<Item = NodeIdx>>(
        &self,
        nodes: impl Fn() -> N,
    ) -> Option<Arc<Layout>> {
        let trees = self
            .trees
            .iter()
            .filter(|(name, _)| name.as_str() != NODE_LEVEL);
        let layouts = trees.map(|(_, tree)| tree.layout()).filter_map(|layout| {
            let covers = |depth: &usize| nodes().all(|node| layout.domain(*depth, node).is_some());
            let covered = (0..layout.depths()).take_while(covers).count();
            (covered > 0).then_some((covered, layout))
        });
        // Among equal elements, `max_by_key` would take the last.
        let finest = layouts.reduce(|best, next| if next.0 > best.0 { next } else { best });
        finest.map(|(_, layout)| layout)
    }

    /// Returns the name of a level that [`TopologyDomains::find`] has found.
    pub(crate) fn level_name(&self, level: &DomainLevel) -> String {
        let found = self
            .tree_of(level)
            .and_then(|tree| tree.levels().get(level.depth));
        found.map_or_else(String::new, |level| level.name.clone())
    }

    /// Returns the keys of the labels whose values name a domain of the level: those of coarser
    /// levels first, its own last.
    pub(crate) fn level_labels(&self, level: &str) -> Vec<String> {
        let found = self.trees.values().find_map(|tree| {
            let depth = tree.depth(level)?;
            tree.levels().get(..=depth)
        });
        let levels = found.unwrap_or_default().iter();
        levels.map(|level| level.node_label.clone()).collect()
    }

    /// Returns all topologies, by name.
    pub(crate) fn topologies(&self) -> impl Iterator<Item = Topology> {
        self.trees.iter().map(|(name, tree)| Topology {
            name: name.clone(),
            levels: tree.levels().to_vec(),
        })
    }

    /// Returns all topologies, by name, each with its levels and its layout.
    pub(crate) fn layouts(
        &self,
    ) -> impl Iterator<Item = (&TopologyName, &[TopologyLevel], Arc<Layout>)> {
        let trees = self.trees.iter();
        trees.map(|(name, tree)| (name, tree.levels(), tree.layout()))
    }

    /// Returns the names of all levels, each once, except the level of single nodes: by name of the
    /// topology, and from coarse to fine.
    pub(crate) fn level_names(&self) -> Vec<String> {
        let mut levels: Vec<String> = Vec::new();
        for TopologyLevel { name, .. } in self.trees.values().flat_map(TopologyTree::levels) {
            if name != NODE_LEVEL && !levels.contains(name) {
                levels.push(name.clone());
            }
        }
        levels
    }
}
