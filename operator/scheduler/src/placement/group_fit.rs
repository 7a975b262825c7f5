//! Counts how many pods of a group a node holds.

use smallvec::SmallVec;

use crate::state::{GroupShape, NodeIdx, Nodes, ResourceColumn, ResourceIdx, WHOLE_DEVICE};

/// The part of a node's capacity to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CapacityView {
    /// The capacity that is free now.
    Free,
    /// The whole capacity, as if the node ran no pods.
    Empty,
}

impl CapacityView {
    /// Returns the amount to count; never negative.
    pub(crate) fn amount(self, column: &ResourceColumn, node: NodeIdx) -> i64 {
        match self {
            Self::Free => column.free(node).max(0),
            Self::Empty => column.allocatable(node).max(0),
        }
    }
}

/// The columns that a group needs, from a single lookup.
pub(crate) struct GroupFit<'a> {
    /// None: no node has one of the resources.
    columns: Option<SmallVec<[(&'a ResourceColumn, i64); 6]>>,
    /// A share of one device: the device, and how many thousandths.
    share: Option<(ResourceIdx, i64)>,
    nodes: &'a Nodes,
    view: CapacityView,
}

impl<'a> GroupFit<'a> {
    pub(crate) fn new(nodes: &'a Nodes, group: &GroupShape, room: CapacityView) -> Self {
        let needs = nodes.needs(&group.demand);
        let columns: Option<SmallVec<_>> = group
            .demand
            .iter()
            .map(|(resource, need)| Some((nodes.column(*resource)?, *need)))
            .collect();
        Self {
            columns: columns.filter(|_| needs.is_some()),
            share: needs.and_then(|needs| needs.share),
            nodes,
            view: room,
        }
    }

    /// Returns how many pods fit on the node, at most `most`.
    pub(crate) fn count_fitting(&self, node: NodeIdx, most: u32) -> u32 {
        let Some(columns) = &self.columns else {
            return 0;
        };
        let mut pods = i64::from(most);
        for (column, need) in columns {
            let room = self.view.amount(column, node);
            // The division dominates the cost of this loop, so the loop divides only if that
            // changes the result.
            if need.checked_mul(pods).is_none_or(|needs| needs > room) {
                pods = room.checked_div(*need).unwrap_or(0);
            }
            if pods == 0 {
                return 0;
            }
        }
        u32::try_from(pods.min(self.count_shares(node))).unwrap_or(0)
    }

    /// Returns how many shares fit on the devices of the node.
    fn count_shares(&self, node: NodeIdx) -> i64 {
        let Some((device, share)) = self.share else {
            return i64::MAX;
        };
        let places = |left: i64| left.checked_div(share).unwrap_or(0);
        let whole = match self.view {
            CapacityView::Free => self.nodes.free(device, node),
            CapacityView::Empty => self.nodes.allocatable(device, node),
        };
        let whole = whole.max(0).saturating_mul(places(WHOLE_DEVICE));
        let open = self.nodes.shared_devices(node);
        let open = open.filter(|(d, _)| *d == device && self.view == CapacityView::Free);
        open.map(|(_, left)| places(left))
            .fold(whole, i64::saturating_add)
    }
}
