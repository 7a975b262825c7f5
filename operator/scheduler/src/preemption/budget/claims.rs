//! Claims of the preemptor on the quota that each queue holds.

use std::collections::BTreeMap;

use super::{QuotaBudget, add_amount};
use crate::queueing::Queues;
use crate::quota::{ClaimKind, ClaimTerms, Demand, FlavorResource, QuotaClaim};
use crate::state::{QueueIdx, ResourceIdx};

/// The usage from which claims are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum UsageView {
    /// Usage without surplus. So a queue does not lose gangs because its surplus makes it a
    /// borrower.
    Gangs,
    /// Usage of gangs and surplus.
    Everything,
}

impl QuotaBudget<'_> {
    /// Adds resources of which the nodes have too little. Claims then apply to them, as well as to
    /// the missing quota. Returns true if any of the resources is new.
    pub(crate) fn add_scarce_resources(
        &mut self,
        resources: impl Iterator<Item = ResourceIdx>,
    ) -> bool {
        let scarce = self.scarce_resources.get_or_insert_with(Vec::new);
        let before = scarce.len();
        for resource in resources {
            if !scarce.contains(&resource) {
                scarce.push(resource);
            }
        }
        let more = scarce.len() > before;
        if more {
            self.forget_claims();
        }
        more
    }

    /// Returns the claim on the gangs of a queue, without the victims so far.
    pub(crate) fn claim(&mut self, queues: &mut Queues, holder: QueueIdx) -> Option<QuotaClaim> {
        let view = match self.surplus.is_empty() {
            true => UsageView::Everything,
            false => UsageView::Gangs,
        };
        self.claim_in_view(queues, holder, view)
    }

    /// Returns the claim on the surplus of a queue. It covers at least as much as the claim on its
    /// gangs.
    pub(crate) fn claim_on_surplus(
        &mut self,
        queues: &mut Queues,
        holder: QueueIdx,
    ) -> Option<QuotaClaim> {
        let of_gangs = self.claim(queues, holder);
        match of_gangs {
            Some(claimed) if claimed.terms.kind == ClaimKind::Owed => of_gangs,
            _ => {
                let of_all = self.claim_in_view(queues, holder, UsageView::Everything);
                of_all.or(of_gangs)
            }
        }
    }

    /// Computes the claims on all of these queues together, and so removes the surplus from the
    /// tree only once.
    pub(crate) fn compute_claims(
        &mut self,
        queues: &mut Queues,
        holders: impl Iterator<Item = QueueIdx>,
    ) {
        if self.surplus.is_empty() {
            return;
        }
        self.apply_changes(queues);
        self.shift_surplus(queues, -1);
        for holder in holders {
            self.compute_claim(queues, holder, UsageView::Gangs);
        }
        self.shift_surplus(queues, 1);
    }

    fn claim_in_view(
        &mut self,
        queues: &mut Queues,
        holder: QueueIdx,
        view: UsageView,
    ) -> Option<QuotaClaim> {
        if let Some(known) = self.claims.get(&(holder, view)) {
            let valid = known.is_none_or(|(claimed, until)| {
                self.released_amount(claimed.flavor_resource) < until
            });
            if valid {
                return known.map(|(claimed, _)| claimed);
            }
        }
        self.apply_changes(queues);
        if view == UsageView::Gangs {
            self.shift_surplus(queues, -1);
        }
        let claimed = self.compute_claim(queues, holder, view);
        if view == UsageView::Gangs {
            self.shift_surplus(queues, 1);
        }
        claimed
    }

    /// Computes the claim on a queue. The usage in the tree must already match the view.
    fn compute_claim(
        &mut self,
        queues: &Queues,
        holder: QueueIdx,
        view: UsageView,
    ) -> Option<QuotaClaim> {
        let lacks = |what| self.is_scarce(what);
        let claimed = self.claim_lacking(queues, holder, lacks);
        let known = claimed.map(|claimed| {
            // If the resource is new, counts its released amounts from now on.
            add_amount(&mut self.released, claimed.flavor_resource, 0);
            let left = self.released_amount(claimed.flavor_resource);
            (claimed, left.saturating_add(claimed.remaining))
        });
        self.claims.insert((holder, view), known);
        claimed
    }

    /// Returns the claim on a queue if these resources are short.
    fn claim_lacking(
        &self,
        queues: &Queues,
        holder: QueueIdx,
        lacks: impl Fn(FlavorResource) -> bool,
    ) -> Option<QuotaClaim> {
        let tree = queues.tree();
        match self.shares_fairly {
            true => tree.claim_with_share(self.queue, self.demand, holder, lacks),
            false => tree.claim(self.queue, self.demand, holder, lacks),
        }
    }

    /// Returns true if quota or the nodes have too little of the resource. Before any shortage is
    /// known, the function returns true for every resource.
    fn is_scarce(&self, what: FlavorResource) -> bool {
        let scarce = self.scarce_resources.as_deref().unwrap_or(&[]);
        let is_known = !scarce.is_empty() || !self.initially_missing.is_empty();
        let owed = || self.initially_missing.iter().any(|(w, _)| *w == what);
        !is_known || owed() || scarce.contains(&what.resource)
    }

    /// Returns true if the queue would borrow some of the quota that it lacks, without the victims
    /// so far and without surplus.
    pub(crate) fn borrows_missing_quota(&mut self, queues: &mut Queues) -> bool {
        if let Some(borrows) = self.borrows {
            return borrows;
        }
        self.apply_changes(queues);
        let lacking = self.demand.iter().filter(|(what, _)| self.is_scarce(*what));
        let lacking: Demand = lacking.collect();
        self.shift_surplus(queues, -1);
        let borrows = queues.tree().borrows(self.queue, &lacking);
        self.shift_surplus(queues, 1);
        self.borrows = Some(borrows);
        borrows
    }

    /// Returns true if another queue would still have the larger share if a gang with this charge
    /// came back to it.
    pub(crate) fn has_larger_share(
        &mut self,
        queues: &mut Queues,
        holder: QueueIdx,
        charge: &Demand,
    ) -> bool {
        self.apply_changes(queues);
        self.shift_surplus(queues, -1);
        queues.shift_times(holder, charge.iter(), 1);
        let tree = queues.tree();
        let larger = tree.larger_share(self.queue, self.demand, holder).is_some();
        queues.shift_times(holder, charge.iter(), -1);
        self.shift_surplus(queues, 1);
        larger
    }

    /// Drops the claims and the value of `borrows`, so that the next call computes them again.
    pub(super) fn forget_claims(&mut self) {
        self.claims.clear();
        self.borrows = None;
    }

    /// Returns true if another queue still owes the queue the quota that it holds, without the
    /// victims so far.
    pub(crate) fn is_owed(&mut self, queues: &mut Queues, holder: QueueIdx) -> bool {
        self.apply_changes(queues);
        let lacking = self.demand.iter().filter(|(what, _)| self.is_scarce(*what));
        let lacking: Demand = lacking.collect();
        queues.tree().is_owed(self.queue, &lacking, holder)
    }

    /// Returns the best claim on each of these queues that any one short resource would give, after
    /// `own` of the preemptor's own queue has left.
    pub(crate) fn best_claims(
        &mut self,
        queues: &mut Queues,
        own: &[(FlavorResource, i128)],
        holders: impl Iterator<Item = QueueIdx>,
    ) -> BTreeMap<QueueIdx, ClaimTerms> {
        self.apply_changes(queues);
        queues.shift_times(self.queue, own.iter().copied(), -1);
        self.shift_surplus(queues, -1);
        let best = |holder| {
            let claims = self.demand.iter().filter_map(|(one, _)| {
                let claim = self.claim_lacking(queues, holder, |what| what == one)?;
                Some(claim.terms)
            });
            let best = claims.min_by_key(|terms| terms.kind)?;
            Some((holder, best))
        };
        let claims = holders.filter_map(best).collect();
        self.shift_surplus(queues, 1);
        queues.shift(self.queue, own);
        claims
    }

    /// Adds the surplus, multiplied by `times`, to the usage in the tree.
    fn shift_surplus(&self, queues: &mut Queues, times: i128) {
        for (queue, held) in &self.surplus {
            queues.shift_times(*queue, held.iter().copied(), times);
        }
    }

    fn released_amount(&self, what: FlavorResource) -> i128 {
        let found = self.released.iter().find(|(w, _)| *w == what);
        found.map_or(0, |(_, left)| *left)
    }
}
