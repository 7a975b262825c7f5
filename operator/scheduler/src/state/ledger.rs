//! Capacity and usage of nodes: one column per resource, one row per node.

use std::collections::BTreeMap;

use super::{NodeIdx, ResourceIdx};

/// The columns. A column exists for each resource that a node has advertised. `spill` keeps the
/// usage of other resources, which pods may name freely, and the part of a sum beyond 64 bits. So
/// nothing wraps, every charge can be undone exactly, and a pod cannot create a column for a
/// hundred thousand nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeLedger {
    columns: Vec<Option<ResourceColumn>>,
    spill: BTreeMap<(ResourceIdx, NodeIdx), NodeSums>,
    nodes: usize,
}

/// One resource over all nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceColumn {
    allocatable: Vec<i64>,
    used: Vec<i64>,
    used_by_gangs: Vec<i64>,
    total: i128,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct NodeSums {
    /// Usage by all pods.
    used: i128,
    /// Usage by pods of placed gangs.
    used_by_gangs: i128,
}

fn clamp(sum: i128) -> i64 {
    i64::try_from(sum).unwrap_or(if sum < 0 { i64::MIN } else { i64::MAX })
}

fn cell(cells: &[i64], node: NodeIdx) -> i64 {
    cells.get(node.at()).copied().unwrap_or(0)
}

/// Stores as much of the sum in the cell as fits, and returns the rest.
fn store(cells: &mut [i64], node: NodeIdx, sum: i128) -> i128 {
    let Some(cell) = cells.get_mut(node.at()) else {
        return sum;
    };
    *cell = clamp(sum);
    sum.saturating_sub(i128::from(*cell))
}

impl ResourceColumn {
    pub(crate) fn allocatable(&self, node: NodeIdx) -> i64 {
        cell(&self.allocatable, node)
    }

    /// Returns the free capacity; negative if the node shrank below its usage.
    pub(crate) fn free(&self, node: NodeIdx) -> i64 {
        cell(&self.allocatable, node).saturating_sub(cell(&self.used, node))
    }

    /// Returns the capacity of all nodes together.
    pub(crate) fn total(&self) -> i128 {
        self.total
    }

    fn grow(&mut self, nodes: usize) {
        self.allocatable.resize(nodes, 0);
        self.used.resize(nodes, 0);
        self.used_by_gangs.resize(nodes, 0);
    }
}

impl NodeLedger {
    /// Makes room for this many nodes.
    pub(crate) fn grow(&mut self, nodes: usize) {
        self.nodes = nodes;
        for column in self.columns.iter_mut().flatten() {
            column.grow(nodes);
        }
    }

    pub(crate) fn column(&self, resource: ResourceIdx) -> Option<&ResourceColumn> {
        self.columns.get(resource.at())?.as_ref()
    }

    /// Returns the capacity of all nodes together, by resource.
    pub(crate) fn totals(&self) -> impl Iterator<Item = (ResourceIdx, i128)> {
        let columns = self.columns.iter().enumerate();
        columns.filter_map(|(at, column)| Some((ResourceIdx::of(at), column.as_ref()?.total())))
    }

    pub(crate) fn allocatable(&self, resource: ResourceIdx, node: NodeIdx) -> i64 {
        self.column(resource).map_or(0, |c| c.allocatable(node))
    }

    pub(crate) fn free(&self, resource: ResourceIdx, node: NodeIdx) -> i64 {
        self.column(resource).map_or_else(
            || clamp(self.spilled(resource, node).used.saturating_neg()),
            |c| c.free(node),
        )
    }

    /// Returns the usage by pods of placed gangs, and by other pods.
    pub(crate) fn usage(&self, resource: ResourceIdx, node: NodeIdx) -> (i128, i128) {
        let sums = self.sums(resource, node);
        (
            sums.used_by_gangs,
            sums.used.saturating_sub(sums.used_by_gangs),
        )
    }

    /// Sets the capacity of a node. Creates the column for the first node that has any.
    pub(crate) fn set_allocatable(&mut self, resource: ResourceIdx, node: NodeIdx, amount: i64) {
        if amount != 0 {
            self.open_column(resource);
        }
        let Some(column) = self.columns.get_mut(resource.at()).and_then(Option::as_mut) else {
            return;
        };
        if let Some(cell) = column.allocatable.get_mut(node.at()) {
            let before = std::mem::replace(cell, amount);
            column.total = column
                .total
                .saturating_sub(i128::from(before))
                .saturating_add(i128::from(amount));
        }
    }

    /// Adds to the usage, and to the part that placed gangs hold.
    pub(crate) fn add(&mut self, resource: ResourceIdx, node: NodeIdx, used: i128, held: i128) {
        let before = self.sums(resource, node);
        self.set_sums(
            resource,
            node,
            NodeSums {
                used: before.used.saturating_add(used),
                used_by_gangs: before.used_by_gangs.saturating_add(held),
            },
        );
    }

    fn spilled(&self, resource: ResourceIdx, node: NodeIdx) -> NodeSums {
        if self.spill.is_empty() {
            return NodeSums::default();
        }
        self.spill
            .get(&(resource, node))
            .copied()
            .unwrap_or_default()
    }

    fn sums(&self, resource: ResourceIdx, node: NodeIdx) -> NodeSums {
        let spilled = self.spilled(resource, node);
        self.column(resource).map_or(spilled, |c| NodeSums {
            used: spilled.used.saturating_add(i128::from(cell(&c.used, node))),
            used_by_gangs: spilled
                .used_by_gangs
                .saturating_add(i128::from(cell(&c.used_by_gangs, node))),
        })
    }

    fn set_sums(&mut self, resource: ResourceIdx, node: NodeIdx, sums: NodeSums) {
        let rest = match self.columns.get_mut(resource.at()) {
            Some(Some(column)) => NodeSums {
                used: store(&mut column.used, node, sums.used),
                used_by_gangs: store(&mut column.used_by_gangs, node, sums.used_by_gangs),
            },
            _ => sums,
        };
        if rest != NodeSums::default() {
            self.spill.insert((resource, node), rest);
        } else if !self.spill.is_empty() {
            self.spill.remove(&(resource, node));
        }
    }

    fn open_column(&mut self, resource: ResourceIdx) {
        let at = resource.at();
        if self.columns.len() <= at {
            self.columns.resize_with(at.saturating_add(1), || None);
        }
        let nodes = self.nodes;
        let Some(slot @ None) = self.columns.get_mut(at) else {
            return;
        };
        let mut column = ResourceColumn::default();
        column.grow(nodes);
        *slot = Some(column);
        let until = (ResourceIdx::of(at.saturating_add(1)), NodeIdx::of(0));
        let waiting: Vec<_> = self
            .spill
            .range((resource, NodeIdx::of(0))..until)
            .map(|((_, node), sums)| (*node, *sums))
            .collect();
        for (node, sums) in waiting {
            self.spill.remove(&(resource, node));
            self.set_sums(resource, node, sums);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const R: ResourceIdx = ResourceIdx(0);
    const N: NodeIdx = NodeIdx(0);

    fn ledger() -> NodeLedger {
        let mut ledger = NodeLedger::default();
        ledger.grow(1);
        ledger
    }

    #[test]
    fn usage_before_a_node_advertises_a_resource_counts_afterwards() {
        let mut ledger = ledger();
        ledger.add(R, N, 3, 1);
        assert!(ledger.column(R).is_none(), "a pod makes no column");
        assert_eq!(ledger.free(R, N), -3);
        ledger.set_allocatable(R, N, 8);
        assert_eq!(ledger.free(R, N), 5);
        assert_eq!(ledger.usage(R, N), (1, 2));
        assert!(ledger.spill.is_empty());
    }

    #[test]
    fn sums_past_64_bits_can_be_released() {
        let mut ledger = ledger();
        ledger.set_allocatable(R, N, 8);
        let huge = i128::from(i64::MAX);
        for _ in 0..3 {
            ledger.add(R, N, huge, 0);
        }
        assert!(ledger.free(R, N) < 0);
        ledger.add(R, N, huge.saturating_mul(-3), 0);
        assert_eq!(ledger.free(R, N), 8);
        assert!(ledger.spill.is_empty());
    }

    #[test]
    fn node_may_shrink_below_its_usage() {
        let mut ledger = ledger();
        ledger.set_allocatable(R, N, 8);
        ledger.add(R, N, 8, 8);
        ledger.set_allocatable(R, N, 0);
        assert_eq!(ledger.free(R, N), -8);
        assert_eq!(ledger.column(R).map(ResourceColumn::total), Some(0));
    }
}
