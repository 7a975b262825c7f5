//! The queues that borrow a resource that another queue lacks.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, btree_set};

use super::amounts::FlavorResource;
use super::availability::ResourceOffer;
use super::tree::QuotaTree;
use super::tree::quota_arithmetic::{OverQuotaChild, QuotaCell};
use crate::ids::QueueName;
use crate::state::QueueIdx;

/// A queue that borrows a resource that another queue lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Borrower {
    pub(crate) queue: QueueName,
    /// Units that it holds beyond its nominal quota, in base units. The amount that each queue
    /// above it borrows, up to a queue that both share, is an upper limit.
    pub(crate) borrowed: i128,
}

/// A branch that the search has not visited yet. The branch with the largest bound comes first.
struct BorrowBranch<'a> {
    /// An upper bound of the amounts in the branch.
    bound: i128,
    name: &'a QueueName,
    rest: BranchRest<'a>,
}

enum BranchRest<'a> {
    /// The amount that the queue itself borrows.
    Own,
    /// The amounts that queues borrow at or below this child, and at or below the children after
    /// it.
    Child(QueueIdx, btree_set::Iter<'a, OverQuotaChild>),
}

impl BorrowBranch<'_> {
    fn rank(&self) -> (i128, Reverse<&QueueName>, bool) {
        let itself = matches!(self.rest, BranchRest::Own);
        (self.bound, Reverse(self.name), itself)
    }
}

impl Ord for BorrowBranch<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for BorrowBranch<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for BorrowBranch<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for BorrowBranch<'_> {}

/// Returns the branch of these children of a queue, which borrows at most `most`.
fn child_branch<'a>(
    mut all: btree_set::Iter<'a, OverQuotaChild>,
    most: i128,
) -> Option<BorrowBranch<'a>> {
    let first = all.next()?;
    Some(BorrowBranch {
        bound: most.min(first.borrowed.0),
        name: &first.name,
        rest: BranchRest::Child(first.queue, all),
    })
}

/// Returns the branch of the amount that a queue itself borrows.
fn own_branch<'a>(name: &'a QueueName, cell: &QuotaCell, most: i128) -> Option<BorrowBranch<'a>> {
    let most = most.min(cell.borrowed()).min(cell.counted_own());
    let rest = BranchRest::Own;
    (most > 0).then_some(BorrowBranch {
        bound: most,
        name,
        rest,
    })
}

impl QuotaTree {
    /// Returns the queues that borrow the resource that a queue lacks for `need` more. These queues
    /// hold more than their quota, and so does each queue between them and the shared one. The
    /// queue itself may be among them. The result has at most `count` queues: those that borrow
    /// most. It leaves out queues whose release would not help because of a borrowing limit below.
    ///
    /// Each result costs the depth of the tree.
    pub(crate) fn borrowers(
        &self,
        queue: QueueIdx,
        what: FlavorResource,
        need: i128,
        count: usize,
    ) -> Vec<Borrower> {
        let mut borrowers = Vec::new();
        if self.offer(queue, what) != ResourceOffer::Quota {
            return borrowers;
        }
        let sources = self.quota_sources(queue, what, need);
        let mut heap: BinaryHeap<BorrowBranch<'_>> = sources
            .iter()
            .filter_map(|(_, _, cell)| child_branch(cell.over_quota.iter(), i128::MAX))
            .collect();
        if let (Some(node), false) = (self.node(queue), sources.is_empty()) {
            heap.extend(own_branch(&node.name, node.cell(what), i128::MAX));
        }
        while borrowers.len() < count
            && let Some(BorrowBranch {
                bound: most,
                name,
                rest,
            }) = heap.pop()
        {
            let BranchRest::Child(child, others) = rest else {
                borrowers.push(Borrower {
                    queue: name.clone(),
                    borrowed: most,
                });
                continue;
            };
            heap.extend(child_branch(others, most));
            // Queues on the path have their own entry in `sources`.
            let on_the_way = sources.iter().any(|(_, at, _)| *at == child);
            if let Some(node) = self.node(child).filter(|_| !on_the_way) {
                let cell = node.cell(what);
                heap.extend(own_branch(name, cell, most));
                heap.extend(child_branch(cell.over_quota.iter(), most));
            }
        }
        borrowers
    }
}
