//! How many pods of a group a node holds.

use smallvec::SmallVec;

use crate::state::{Column, GroupShape, NodeIdx, Nodes};

/// What of a node counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// What is free now.
    Free,
    /// All of it, as if no pod were there.
    Empty,
}

impl Room {
    /// How much of it there is; never negative.
    pub(crate) fn of(self, column: &Column, node: NodeIdx) -> i64 {
        match self {
            Self::Free => column.free(node).max(0),
            Self::Empty => column.allocatable(node).max(0),
        }
    }
}

/// The columns that a group needs, found once.
pub(crate) struct Fit<'a> {
    /// None: a resource that no node has.
    columns: Option<SmallVec<[(&'a Column, i64); 6]>>,
    room: Room,
}

impl<'a> Fit<'a> {
    pub(crate) fn new(nodes: &'a Nodes, group: &GroupShape, room: Room) -> Self {
        let columns = group
            .demand
            .iter()
            .map(|(resource, need)| Some((nodes.column(*resource)?, *need)))
            .collect();
        Self { columns, room }
    }

    /// How many pods the node holds, at most so many.
    pub(crate) fn pods(&self, node: NodeIdx, most: u32) -> u32 {
        let Some(columns) = &self.columns else {
            return 0;
        };
        let mut pods = i64::from(most);
        for (column, need) in columns {
            let room = self.room.of(column, node);
            // One division a resource is what this loop costs: only where it tells more.
            if need.checked_mul(pods).is_none_or(|needs| needs > room) {
                pods = room.checked_div(*need).unwrap_or(0);
            }
            if pods == 0 {
                return 0;
            }
        }
        u32::try_from(pods).unwrap_or(0)
    }
}
