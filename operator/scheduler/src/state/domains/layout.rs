//! The nodes of a topology in a row. Every domain is a contiguous stretch of the row.

use std::ops::Range;
use std::sync::Arc;

use super::label_path::{LabelPath, LabelValue, common_depth, name_to_depth};
use crate::state::NodeIdx;

/// The node is in no domain.
const NO_DOMAIN: u32 = u32::MAX;

/// All existing nodes, ordered by their labels from coarse to fine, then by name. Nodes that lack a
/// label come after those that have it. The domains of each level are numbered in this order. The
/// layout does not store free capacity.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    nodes: Vec<NodeIdx>,
    /// The place in the row, by node.
    positions: Vec<u32>,
    /// The levels by depth, from coarse to fine.
    levels: Vec<LevelDomains>,
}

/// The domains of one level.
#[derive(Debug, Default)]
struct LevelDomains {
    /// The number of the domain, by place in the row.
    by_place: Vec<u32>,
    /// The first place of each domain, and the place after its last.
    stretches: Vec<(u32, u32)>,
    /// The labels of one node of each domain.
    paths: Vec<LabelPath>,
}

impl Layout {
    /// Lays out these nodes, given in order, with the labels of `depths` levels.
    pub(super) fn new<'a>(
        depths: usize,
        nodes: impl Iterator<Item = (&'a LabelPath, NodeIdx)>,
    ) -> Self {
        let mut layout = Self {
            levels: (0..depths).map(|_| LevelDomains::default()).collect(),
            ..Self::default()
        };
        let mut before: Option<&LabelPath> = None;
        for (place, (path, node)) in (0_u32..).zip(nodes) {
            let same = before.map_or(0, |before| common_depth(before, path));
            for (depth, level) in layout.levels.iter_mut().enumerate() {
                level.push(place, path, depth, same > depth);
            }
            layout.nodes.push(node);
            if layout.positions.len() <= node.at() {
                layout
                    .positions
                    .resize(node.at().saturating_add(1), NO_DOMAIN);
            }
            if let Some(slot) = layout.positions.get_mut(node.at()) {
                *slot = place;
            }
            before = Some(path);
        }
        layout
    }

    /// Returns the number of levels.
    pub(crate) fn depths(&self) -> usize {
        self.levels.len()
    }

    /// Returns all nodes, in the order of the row.
    pub(crate) fn nodes(&self) -> &[NodeIdx] {
        &self.nodes
    }

    /// Returns the place of a node in the row; nodes that do not exist come last.
    pub(crate) fn position(&self, node: NodeIdx) -> u32 {
        self.positions.get(node.at()).copied().unwrap_or(NO_DOMAIN)
    }

    /// Returns the number of a node's domain at a level. None: the node lacks a label.
    pub(crate) fn domain(&self, depth: usize, node: NodeIdx) -> Option<u32> {
        self.domain_at(depth, self.position(node))
    }

    /// Returns the number of the domain at a place in the row.
    pub(crate) fn domain_at(&self, depth: usize, place: u32) -> Option<u32> {
        let number = *self.levels.get(depth)?.by_place.get(place as usize)?;
        (number != NO_DOMAIN).then_some(number)
    }

    /// Returns the stretch of each domain of a level, in the order of their numbers.
    pub(crate) fn domains(&self, depth: usize) -> impl Iterator<Item = Range<usize>> {
        let stretches = self.levels.get(depth).map_or(&[][..], |l| &l.stretches);
        let places = stretches.iter();
        places.map(|(from, to)| *from as usize..*to as usize)
    }

    /// Returns the number and the stretch of each domain of a level that lies in a domain of a
    /// coarser level, or in the whole row.
    pub(crate) fn domains_in(
        &self,
        depth: usize,
        stretch: &Range<usize>,
    ) -> impl Iterator<Item = (usize, Range<usize>)> {
        let stretches = self.levels.get(depth).map_or(&[][..], |l| &l.stretches);
        let first = stretches.partition_point(|(from, _)| (*from as usize) < stretch.start);
        let end = stretch.end;
        let inside = stretches.iter().enumerate().skip(first);
        let inside = inside.map(|(at, (from, to))| (at, *from as usize..*to as usize));
        inside.take_while(move |(_, domain)| domain.end <= end)
    }

    /// Returns the nodes of a stretch.
    pub(crate) fn nodes_in(&self, places: Range<usize>) -> &[NodeIdx] {
        self.nodes.get(places).unwrap_or(&[])
    }

    /// Returns the number of domains of a level.
    pub(crate) fn domain_count(&self, depth: usize) -> usize {
        self.levels.get(depth).map_or(0, |l| l.stretches.len())
    }

    /// Returns the label values that identify a domain, coarse to fine: `block-1/rack-3`.
    pub(crate) fn name(&self, depth: usize, domain: usize) -> String {
        let path = self.levels.get(depth).and_then(|l| l.paths.get(domain));
        path.map_or_else(String::new, |path| name_to_depth(path, depth))
    }
}

impl LevelDomains {
    /// Adds the next node of the row. `same`: the node is in the domain of the previous node.
    fn push(&mut self, place: u32, path: &LabelPath, depth: usize, same: bool) {
        let end = place.saturating_add(1);
        if !matches!(path.get(depth), Some(LabelValue::Value(_))) {
            self.by_place.push(NO_DOMAIN);
            return;
        }
        match self.stretches.last_mut() {
            Some((_, last)) if same => *last = end,
            _ => {
                self.stretches.push((place, end));
                self.paths.push(Arc::clone(path));
            }
        }
        let domain = self.stretches.len().saturating_sub(1);
        self.by_place
            .push(u32::try_from(domain).unwrap_or(NO_DOMAIN));
    }
}
