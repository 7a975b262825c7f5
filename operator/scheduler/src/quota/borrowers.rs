//! Who borrows what a queue lacks.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, btree_set};

use super::amounts::FlavorResource;
use super::cell::{Cell, Over};
use super::room::Offer;
use super::tree::{QueueIdx, Tree};
use crate::ids::QueueName;

/// A queue that holds what another lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Borrower {
    pub(crate) queue: QueueName,
    /// What it holds beyond its nominal quota, as far as the queues above it, up to
    /// one that the other is below too, hold more than theirs; in base units.
    pub(crate) borrowed: i128,
}

/// What is still to be looked at, the largest first.
struct Next<'a> {
    /// Nothing that comes of this is more.
    most: i128,
    name: &'a QueueName,
    rest: Rest<'a>,
}

enum Rest<'a> {
    /// It is what the queue itself borrows.
    Itself,
    /// It is what is borrowed below this child, and those after it.
    Child(QueueIdx, btree_set::Iter<'a, Over>),
}

impl Next<'_> {
    fn rank(&self) -> (i128, Reverse<&QueueName>, bool) {
        let itself = matches!(self.rest, Rest::Itself);
        (self.most, Reverse(self.name), itself)
    }
}

impl Ord for Next<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Next<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Next<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Next<'_> {}

/// The first of these children, and those after it, of a queue that lets no more
/// than that through.
fn children<'a>(mut all: btree_set::Iter<'a, Over>, most: i128) -> Option<Next<'a>> {
    let first = all.next()?;
    Some(Next {
        most: most.min(first.borrowed.0),
        name: &first.name,
        rest: Rest::Child(first.queue, all),
    })
}

/// What a queue itself borrows.
fn itself<'a>(name: &'a QueueName, cell: &Cell, most: i128) -> Option<Next<'a>> {
    let most = most.min(cell.borrowed()).min(cell.counted());
    let rest = Rest::Itself;
    (most > 0).then_some(Next { most, name, rest })
}

impl Tree {
    /// Who holds what a queue lacks for `need` more: the queues that hold more than
    /// their quota by way of queues that all do, the queue itself among them. At
    /// most `count` of them, those that borrow most. Whose giving back would not
    /// help, because a borrowing limit stands in the way below, is left out.
    ///
    /// Costs the depth of the tree for each that is told.
    pub(crate) fn borrowers(
        &self,
        queue: QueueIdx,
        what: FlavorResource,
        need: i128,
        count: usize,
    ) -> Vec<Borrower> {
        let mut borrowers = Vec::new();
        if self.offer(queue, what) != Offer::Quota {
            return borrowers;
        }
        let sources = self.sources(queue, what, need);
        let mut heap: BinaryHeap<Next<'_>> = sources
            .iter()
            .filter_map(|(_, _, cell)| children(cell.over.iter(), i128::MAX))
            .collect();
        if let (Some(node), false) = (self.node(queue), sources.is_empty()) {
            heap.extend(itself(&node.name, node.cell(what), i128::MAX));
        }
        while borrowers.len() < count
            && let Some(Next { most, name, rest }) = heap.pop()
        {
            let Rest::Child(child, others) = rest else {
                borrowers.push(Borrower {
                    queue: name.clone(),
                    borrowed: most,
                });
                continue;
            };
            heap.extend(children(others, most));
            // Those on the way are sources of their own.
            let on_the_way = sources.iter().any(|(_, at, _)| *at == child);
            if let Some(node) = self.node(child).filter(|_| !on_the_way) {
                let cell = node.cell(what);
                heap.extend(itself(name, cell, most));
                heap.extend(children(cell.over.iter(), most));
            }
        }
        borrowers
    }
}
