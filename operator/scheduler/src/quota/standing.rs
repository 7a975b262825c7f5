//! What the status of a queue says.

use super::amounts::FlavorResource;
use super::tree::{QueueIdx, Tree};

/// How a queue stands with one resource of one flavor, in base units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) what: FlavorResource,
    pub(crate) nominal: i128,
    /// Nominal quota, and what the queues below lend.
    pub(crate) quota: i128,
    /// What counts against that.
    pub(crate) usage: i128,
    /// What is held beyond it.
    pub(crate) borrowed: i128,
    /// What of it others may hold.
    pub(crate) lendable: i128,
    /// How much more it may be given now. None: it has no limit.
    pub(crate) available: Option<i128>,
}

impl Tree {
    /// How a queue stands with everything that it or those below it name or hold,
    /// in order.
    pub(crate) fn standings(&self, queue: QueueIdx) -> Vec<Standing> {
        let Some(node) = self.node(queue) else {
            return Vec::new();
        };
        // Where nothing is limited, or the queue does not count, nothing is borrowed.
        let limited = node.counts()
            && self
                .path(queue)
                .last()
                .is_some_and(|(_, root)| root.limiting > 0);
        let standing = |(what, cell): (&FlavorResource, &super::cell::Cell)| Standing {
            what: *what,
            nominal: cell.nominal(),
            quota: cell.subtree(),
            usage: cell.usage(),
            borrowed: if limited { cell.borrowed() } else { 0 },
            lendable: cell.subtree().saturating_sub(cell.local()),
            available: self.available(queue, *what),
        };
        node.cells.iter().map(standing).collect()
    }
}
