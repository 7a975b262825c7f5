//! The claims of a queue on quota that another queue holds.

use super::amounts::{Demand, FlavorResource};
use super::availability::ResourceOffer;
use super::fair_share::share::FairShare;
use super::tree::{QuotaTree, TreeNode};
use crate::ids::QueueName;
use crate::state::QueueIdx;

/// The reason why a queue may claim quota from another queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClaimKind {
    /// The demand is within the guarantee of the claiming queue, and the other queue holds more
    /// than its own guarantee.
    Owed,
    /// The claiming queue would borrow too.
    Borrowing,
}

/// The terms of a claim on a queue. The policies decide which gangs may be victims on these terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClaimTerms {
    pub(crate) kind: ClaimKind,
    /// The share of borrowed quota of the other queue, if it is larger than the share that the
    /// claiming queue would have. None also if the claim was computed without shares.
    pub(crate) larger_share: Option<FairShare>,
}

/// A claim on a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuotaClaim {
    pub(crate) terms: ClaimTerms,
    /// The resource that the other queue borrows.
    pub(crate) flavor_resource: FlavorResource,
    /// The claim holds until gangs have given back this much of the resource.
    pub(crate) remaining: i128,
}

impl QuotaClaim {
    const fn without_share(
        kind: ClaimKind,
        flavor_resource: FlavorResource,
        remaining: i128,
    ) -> Self {
        Self {
            terms: ClaimTerms {
                kind,
                larger_share: None,
            },
            flavor_resource,
            remaining,
        }
    }
}

impl QuotaTree {
    /// Returns the claim of a queue with a demand on the quota that another queue holds now. There
    /// is a claim if the other queue borrows one of the resources, and so does each queue above it,
    /// up to the lowest queue that both share. A queue without any limit has no guarantee. A queue
    /// whose demand is within its own quota may therefore claim from it, even without a shared
    /// root.
    ///
    /// `lacks` returns true for the resources that are short. Borrowing of other resources does not
    /// count, for either queue.
    pub(crate) fn claim(
        &self,
        asker: QueueIdx,
        demand: &Demand,
        holder: QueueIdx,
        lacks: impl Fn(FlavorResource) -> bool,
    ) -> Option<QuotaClaim> {
        let Some(common) = self.lowest_above_both(asker, holder) else {
            return self.claim_outside(asker, demand, holder, lacks);
        };
        let borrowed = |what: FlavorResource| -> i128 {
            // If the queue no longer offers a resource, all that it holds of it is borrowed.
            if self.offer(holder, what) == ResourceOffer::NoLimit {
                return 0;
            }
            let below = self.path(holder).take_while(|(at, _)| *at != common);
            let mut chain = below.map(|(_, node)| node.cell(what)).peekable();
            let own = chain.peek().map_or(0, |cell| cell.counted_own());
            chain.fold(own, |least, cell| least.min(cell.borrowed()))
        };
        let wanted = demand.iter().filter(|(what, _)| lacks(*what));
        let most = wanted.map(|(what, _)| (borrowed(what), what));
        let (left, what) = most.max().filter(|(left, _)| *left > 0)?;
        let lacking: Demand = demand.iter().filter(|(what, _)| lacks(*what)).collect();
        let owed = self.owing_queues(asker, &lacking).contains(&common);
        let kind = if owed {
            ClaimKind::Owed
        } else {
            ClaimKind::Borrowing
        };
        Some(QuotaClaim::without_share(kind, what, left))
    }

    /// Returns the same claim with the share of the other queue. In a tree without quotas, a queue
    /// borrows all that it holds.
    pub(crate) fn claim_with_share(
        &self,
        asker: QueueIdx,
        demand: &Demand,
        holder: QueueIdx,
        lacks: impl Fn(FlavorResource) -> bool,
    ) -> Option<QuotaClaim> {
        let unlimited = || {
            let lacking = demand.iter().filter(|(what, _)| lacks(*what));
            let held = lacking.map(|(what, _)| (self.own_usage(holder, what), what));
            let (held, what) = held.max().filter(|(held, _)| *held > 0)?;
            (!self.is_limited(asker)).then_some(QuotaClaim::without_share(
                ClaimKind::Borrowing,
                what,
                held,
            ))
        };
        let claim = self
            .claim(asker, demand, holder, &lacks)
            .or_else(unlimited)?;
        let larger_share = self.larger_share(asker, demand, holder);
        Some(QuotaClaim {
            terms: ClaimTerms {
                larger_share,
                ..claim.terms
            },
            ..claim
        })
    }

    fn claim_outside(
        &self,
        asker: QueueIdx,
        demand: &Demand,
        holder: QueueIdx,
        lacks: impl Fn(FlavorResource) -> bool,
    ) -> Option<QuotaClaim> {
        let named = |(what, _): &(FlavorResource, i128)| what.resource != self.pods;
        let lacking: Demand = demand.iter().filter(|(what, _)| lacks(*what)).collect();
        let limited = |(what, _)| self.offer(asker, what) == ResourceOffer::Quota;
        if !lacking.iter().filter(named).any(limited) || self.borrows(asker, &lacking) {
            return None;
        }
        let unlimited = |(what, _): &(FlavorResource, i128)| {
            self.offer(holder, *what) == ResourceOffer::NoLimit
        };
        let (what, _) = lacking.iter().filter(named).find(unlimited)?;
        Some(QuotaClaim::without_share(ClaimKind::Owed, what, i128::MAX))
    }

    /// Returns the quota that is guaranteed to a queue. None: it has no quota of the resource.
    pub(crate) fn guaranteed(&self, queue: QueueIdx, what: FlavorResource) -> Option<i128> {
        let has = self.offer(queue, what) == ResourceOffer::Quota;
        has.then(|| self.node(queue).map_or(0, |node| node.cell(what).subtree()))
    }

    /// Returns, for a queue and each queue above it, by how much it would exceed its quota with
    /// `need` more. Negative: quota is left.
    pub(crate) fn excess_by_level(
        &self,
        queue: QueueIdx,
        what: FlavorResource,
        need: i128,
    ) -> impl Iterator<Item = i128> {
        let is_exempt = |node: &TreeNode| {
            node.counts_only_if_named(what, self.pods) && node.cell(what).quota.is_none()
        };
        let is_exempt = self.node(queue).is_some_and(is_exempt);
        let need = if is_exempt { 0 } else { need };
        self.path(queue).scan(need, move |need, (_, node)| {
            let cell = node.cell(what);
            let beyond = cell.usage().saturating_add(*need);
            *need = cell.beyond_local(*need, cell.usage());
            Some(beyond.saturating_sub(cell.subtree()))
        })
    }

    /// Returns the units charged to a queue itself.
    pub(crate) fn own_usage(&self, queue: QueueIdx, what: FlavorResource) -> i128 {
        self.node(queue).map_or(0, |node| node.cell(what).own)
    }

    /// Returns true if any queue of its tree has quotas.
    pub(crate) fn is_limited(&self, queue: QueueIdx) -> bool {
        let root = self.path(queue).last();
        root.is_some_and(|(_, root)| root.queues_with_quotas > 0)
    }

    /// Returns, for each resource of a demand, the queues from this one up that hold more than
    /// their quota. A queue without any limit is in the result if it holds some of the resource.
    pub(crate) fn queues_over_quota(
        &self,
        queue: &QueueName,
        demand: &Demand,
    ) -> Vec<(FlavorResource, QueueIdx)> {
        let mut over = Vec::new();
        let Some(queue) = self.find(queue) else {
            return over;
        };
        for (what, _) in demand.iter() {
            match self.offer(queue, what) {
                ResourceOffer::Nothing => {}
                ResourceOffer::NoLimit if what.resource == self.pods => {}
                ResourceOffer::NoLimit => {
                    let held = self
                        .node(queue)
                        .map_or(0, |node| node.cell(what).counted_own());
                    over.extend((held > 0).then_some((what, queue)));
                }
                ResourceOffer::Quota => {
                    let path = self.path(queue);
                    let path = path.filter(|(_, node)| node.cell(what).borrowed() > 0);
                    over.extend(path.map(|(at, _)| (what, at)));
                }
            }
        }
        over
    }

    /// Charges these amounts to a queue for a short time. Negative amounts reduce the charge. The
    /// caller must undo it. The memory of past usage stays unchanged.
    pub(crate) fn shift(&mut self, queue: QueueIdx, amounts: &[(FlavorResource, i128)]) {
        self.shift_times(queue, amounts.iter().copied(), 1);
    }

    /// Does the same with each amount multiplied by `times`.
    pub(crate) fn shift_times(
        &mut self,
        queue: QueueIdx,
        amounts: impl Iterator<Item = (FlavorResource, i128)>,
        times: i128,
    ) {
        for (what, amount) in amounts {
            let amount = amount.saturating_mul(times);
            self.change_cell(queue, what, |cell| {
                cell.own = cell.own.saturating_add(amount);
            });
        }
    }
}
