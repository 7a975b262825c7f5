//! One topology: its nodes by the path of their labels.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::label_path::{LabelPath, LabelValue};
use super::layout::Layout;
use crate::ids::NodeName;
use crate::state::{NodeIdx, NodeLabels};
use crate::topology::{NODE_LEVEL, TopologyLevel};

/// A topology and its nodes, kept up to date as nodes change.
#[derive(Debug, Default)]
pub(super) struct TopologyTree {
    levels: Vec<TopologyLevel>,
    nodes: BTreeMap<(LabelPath, NodeName), NodeIdx>,
    /// The label path by node.
    paths: Vec<Option<LabelPath>>,
    layout: Arc<Layout>,
    /// True if the layout is out of date.
    stale: bool,
}

impl TopologyTree {
    pub(super) fn new(levels: Vec<TopologyLevel>) -> Self {
        Self {
            levels,
            stale: true,
            ..Self::default()
        }
    }

    /// Returns its levels, coarse to fine.
    pub(super) fn levels(&self) -> &[TopologyLevel] {
        &self.levels
    }

    /// Returns the depth of the level of this name; 0 is the coarsest.
    pub(super) fn depth(&self, level: &str) -> Option<usize> {
        self.levels.iter().position(|known| known.name == level)
    }

    pub(super) fn update_node(
        &mut self,
        node: NodeIdx,
        name: &NodeName,
        labels: Option<&NodeLabels>,
    ) {
        let path = labels.map(|labels| self.make_path(name, labels));
        let path = path.map(|path| self.shared_path(path));
        if self.paths.len() <= node.at() {
            self.paths.resize(node.at().saturating_add(1), None);
        }
        let Some(slot) = self.paths.get_mut(node.at()) else {
            return;
        };
        if *slot == path {
            return;
        }
        if let Some(before) = std::mem::replace(slot, path.clone()) {
            self.nodes.remove(&(before, name.clone()));
        }
        if let Some(path) = path {
            self.nodes.insert((path, name.clone()), node);
        }
        self.stale = true;
    }

    /// Returns the path of a node with the same labels, if there is one.
    fn shared_path(&self, path: LabelPath) -> LabelPath {
        let first = (path, NodeName::new(""));
        let same = self.nodes.range(&first..).next();
        match same.filter(|((same, _), _)| *same == first.0) {
            Some(((same, _), _)) => Arc::clone(same),
            None => first.0,
        }
    }

    fn make_path(&self, name: &NodeName, labels: &NodeLabels) -> LabelPath {
        let mut missing = false;
        let label = |level: &TopologyLevel| match labels.get(&level.node_label) {
            _ if level.name == NODE_LEVEL => LabelValue::Value(name.as_str().into()),
            Some(value) if !missing => LabelValue::Value(Arc::clone(value)),
            _ => {
                missing = true;
                LabelValue::Missing
            }
        };
        self.levels.iter().map(label).collect()
    }

    /// Returns true if the layout was out of date.
    pub(super) fn lay_out(&mut self) -> bool {
        let was_stale = std::mem::take(&mut self.stale);
        if was_stale {
            let nodes = self.nodes.iter().map(|((path, _), node)| (path, *node));
            self.layout = Arc::new(Layout::new(self.levels.len(), nodes));
        }
        was_stale
    }

    pub(super) fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.layout)
    }
}
