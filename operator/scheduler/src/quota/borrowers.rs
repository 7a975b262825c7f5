//! The queues that borrow what another queue lacks.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, btree_set};

use super::amounts::FlavorResource;
use super::availability::ResourceOffer;
use super::cell::{OverQuotaChild, QuotaCell};
use super::tree::{QueueIdx, QuotaTree};
use crate::ids::QueueName;

/// A queue that borrows what another queue lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Borrower {
    pub(crate) queue: QueueName,
    /// Units that it holds beyond its nominal quota, limited by what each queue above it borrows,
    /// up to a queue that both share; in base units.
    pub(crate) borrowed: i128,
}

/// A branch that is still to be visited; the largest come first.
struct BorrowBranch<'a> {
    /// An upper bound of the amounts in the branch.
    bound: i128,
    name: &'a QueueName,
    rest: BranchRest<'a>,
}

enum BranchRest<'a> {
    /// The branch is what the queue itself borrows.
    Own,
    /// The branch is what is borrowed below this child, and the children after it.
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

/// The branch of these children of a queue, which borrows at most `most`.
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

/// The branch of what a queue itself borrows.
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
    /// The queues that borrow what a queue lacks for `need` more: they hold more than their quota,
    /// and so does each queue between them and the shared one. The queue itself may be among them.
    /// Returns at most `count` queues, those that borrow most. Queues whose release would not help,
    /// because a borrowing limit below is in the way, are left out.
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
            // Queues on the path are sources of their own.
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
