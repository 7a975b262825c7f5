//! Tracks if quota admits a preemptor while victims leave and come back.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::ids::QueueName;
use crate::queueing::Queues;
use crate::quota::{ClaimKind, Demand, FlavorResource, QueueIdx, QuotaClaim};
use crate::state::ResourceIdx;

type QuotaAmounts = SmallVec<[(FlavorResource, i128); 4]>;

/// The quota check of a preemptor. It asks the queue tree as seldom as possible: a leaving gang
/// helps by at most its amount, and a returning gang hurts by at most its amount.
/// [`QuotaBudget::undo_changes`] undoes the changes that the tree has seen.
#[derive(Debug)]
pub(crate) struct QuotaBudget<'c> {
    queue: QueueIdx,
    demand: &'c Demand,
    /// Changes that the tree has not seen yet: queue, demand, and how often it came back (positive)
    /// or left (negative).
    pending_changes: Vec<(QueueIdx, &'c Demand, i64)>,
    /// Changes applied to the tree, to be undone at the end.
    applied_changes: BTreeMap<QueueIdx, QuotaAmounts>,
    /// Amounts that must still leave before the demand can fit. None: the demand fits.
    missing: Option<QuotaAmounts>,
    /// Amounts that may come back without asking the tree, while the demand fits.
    spare: QuotaAmounts,
    /// Demands that could not come back. A refusal is final.
    refused: Vec<(QueueIdx, &'c Demand)>,
    /// Amounts that gangs that are not preemptible have given up so far, by queue.
    non_preemptible_released: BTreeMap<QueueIdx, QuotaAmounts>,
    /// Resources of which the nodes have too little room. None: not computed yet.
    scarce_resources: Option<Vec<ResourceIdx>>,
    /// Amounts of quota that were missing at the start.
    initially_missing: QuotaAmounts,
    /// Amounts that have left in all, for the resources of known claims.
    released: QuotaAmounts,
    /// Amounts that placed surplus still holds, by queue.
    surplus: BTreeMap<QueueIdx, QuotaAmounts>,
    /// The claim on each queue, and how much may leave before the claim has to be computed again.
    claims: BTreeMap<(QueueIdx, UsageView), Option<(QuotaClaim, i128)>>,
    /// True if the queue would borrow some of what it lacks. None: not computed yet.
    borrows: Option<bool>,
}

/// The usage from which claims are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum UsageView {
    /// Usage without surplus: a queue does not have to give up gangs because its surplus makes it a
    /// borrower.
    Gangs,
    /// All that is held.
    Everything,
}

fn add_amount(amounts: &mut QuotaAmounts, what: FlavorResource, amount: i128) {
    match amounts.iter_mut().find(|(w, _)| *w == what) {
        Some((_, sum)) => *sum = sum.saturating_add(amount),
        None => amounts.push((what, amount)),
    }
}

impl<'c> QuotaBudget<'c> {
    /// The budget before any victim leaves.
    pub(crate) fn new(queues: &Queues, queue: QueueIdx, demand: &'c Demand) -> Self {
        let mut budget = Self {
            queue,
            demand,
            pending_changes: Vec::new(),
            applied_changes: BTreeMap::new(),
            missing: None,
            spare: QuotaAmounts::new(),
            refused: Vec::new(),
            non_preemptible_released: BTreeMap::new(),
            scarce_resources: None,
            initially_missing: QuotaAmounts::new(),
            released: QuotaAmounts::new(),
            surplus: BTreeMap::new(),
            claims: BTreeMap::new(),
            borrows: None,
        };
        budget.recompute_missing(queues);
        budget.initially_missing = budget.missing.clone().unwrap_or_default();
        for (name, held) in queues.surplus() {
            if let Some(at) = queues.tree().find(name) {
                let held = held.iter().map(|(what, amount)| (*what, *amount));
                budget.surplus.insert(at, held.collect());
            }
        }
        budget
    }

    /// True if quota admits the demand.
    pub(crate) fn admits_demand(&self) -> bool {
        self.missing.is_none()
    }

    /// Amounts that must still be given back before the demand can fit.
    pub(crate) fn missing_amounts(&self) -> impl Iterator<Item = (FlavorResource, i128)> + '_ {
        self.missing.iter().flatten().copied()
    }

    /// A gang leaves.
    pub(crate) fn release(&mut self, queues: &mut Queues, queue: QueueIdx, demand: &'c Demand) {
        self.note_change(queue, demand, -1);
        if queue == self.queue {
            // A claim that would have borrowed may have become one on what is owed.
            self.forget_claims();
        }
        for (what, left) in &mut self.released {
            *left = left.saturating_add(demand.amount(*what));
        }
        let Some(lacking) = &mut self.missing else {
            return;
        };
        for (what, least) in lacking.iter_mut() {
            *least = least.saturating_sub(demand.amount(*what));
        }
        if lacking.iter().all(|(_, least)| *least <= 0) {
            self.apply_changes(queues);
            self.recompute_missing(queues);
        }
    }

    /// A gang comes back if quota still admits the demand then. Returns true if it came back.
    pub(crate) fn try_return(
        &mut self,
        queues: &mut Queues,
        queue: QueueIdx,
        demand: &'c Demand,
    ) -> bool {
        let asked = |what: FlavorResource| self.demand.amount(what) > 0;
        let free = demand
            .iter()
            .filter(|(what, _)| asked(*what))
            .all(|(what, amount)| {
                self.spare
                    .iter()
                    .find(|(w, _)| *w == what)
                    .is_none_or(|(_, spare)| amount <= *spare)
            });
        if !free && self.was_refused(queue, demand) {
            return false;
        }
        self.note_change(queue, demand, 1);
        if free {
            for (what, spare) in &mut self.spare {
                *spare = spare.saturating_sub(demand.amount(*what));
            }
            return true;
        }
        self.apply_changes(queues);
        self.recompute_missing(queues);
        if self.admits_demand() {
            return true;
        }
        self.refused.push((queue, demand));
        self.release(queues, queue, demand);
        if !self.admits_demand() {
            self.apply_changes(queues);
            self.recompute_missing(queues);
        }
        false
    }

    /// Records a change that the tree has not seen.
    fn note_change(&mut self, queue: QueueIdx, demand: &'c Demand, times: i64) {
        match self.pending_changes.last_mut() {
            Some((of, like, sum)) if *of == queue && std::ptr::eq(*like, demand) => {
                *sum = sum.saturating_add(times);
            }
            _ => self.pending_changes.push((queue, demand, times)),
        }
    }

    /// True if a gang of the same queue with no larger demand was refused before.
    fn was_refused(&self, queue: QueueIdx, demand: &Demand) -> bool {
        let no_more = |refused: &Demand| {
            let mut all = refused.iter();
            all.all(|(what, n)| n <= demand.amount(what))
        };
        let mut refused = self.refused.iter();
        refused.any(|(of, refused)| *of == queue && no_more(refused))
    }

    /// The nodes have too little room of these resources: victims are claimed for them as well as
    /// for the quota that lacks. Returns true if any of the resources is new.
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

    /// A gang that is not preemptible has left, or, for negative `times`, has come back.
    pub(crate) fn count_non_preemptible(&mut self, queue: QueueIdx, demand: &Demand, times: i128) {
        let sums = self.non_preemptible_released.entry(queue).or_default();
        for (what, amount) in demand.iter() {
            add_amount(sums, what, amount.saturating_mul(times));
        }
    }

    /// True if the queue's quota covers its remaining gangs that are not preemptible, for the
    /// resources of the demand. A queue without quota has no guarantee against other queues.
    pub(crate) fn guarantees(
        &self,
        queues: &Queues,
        (name, queue): (&QueueName, QueueIdx),
        demand: &Demand,
    ) -> bool {
        let mut limited = false;
        for (what, _) in demand.iter() {
            let Some(quota) = queues.tree().guaranteed(queue, what) else {
                continue;
            };
            limited = true;
            let mut left = self
                .non_preemptible_released
                .get(&queue)
                .into_iter()
                .flatten();
            let left = left.find(|(w, _)| *w == what).map_or(0, |(_, left)| *left);
            if queues.non_preemptible(name, what).saturating_sub(left) > quota {
                return false;
            }
        }
        limited || queue == self.queue
    }

    /// Surplus has left, or, for negative `times`, has come back.
    pub(crate) fn count_surplus_released(&mut self, queue: QueueIdx, demand: &Demand, times: i128) {
        let sums = self.surplus.entry(queue).or_default();
        for (what, amount) in demand.iter() {
            add_amount(sums, what, amount.saturating_mul(times).saturating_neg());
        }
        if queue == self.queue {
            // A claim that would have borrowed may have become one on what is owed.
            self.forget_claims();
        }
    }

    /// The claim on the gangs of a queue, with the victims so far gone.
    pub(crate) fn claim(&mut self, queues: &mut Queues, holder: QueueIdx) -> Option<QuotaClaim> {
        let view = match self.surplus.is_empty() {
            true => UsageView::Everything,
            false => UsageView::Gangs,
        };
        self.claim_in_view(queues, holder, view)
    }

    /// The claim on the surplus of a queue: at least as much as the claim on its gangs.
    pub(crate) fn claim_on_surplus(
        &mut self,
        queues: &mut Queues,
        holder: QueueIdx,
    ) -> Option<QuotaClaim> {
        let of_gangs = self.claim(queues, holder);
        match of_gangs {
            Some(claimed) if claimed.kind == ClaimKind::Owed => of_gangs,
            _ => {
                let of_all = self.claim_in_view(queues, holder, UsageView::Everything);
                of_all.or(of_gangs)
            }
        }
    }

    /// Computes the claims on all of these queues at once: removing the surplus from the tree once
    /// serves them all.
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

    /// The tree must already show the view.
    fn compute_claim(
        &mut self,
        queues: &Queues,
        holder: QueueIdx,
        view: UsageView,
    ) -> Option<QuotaClaim> {
        let lacks = |what| self.is_scarce(what);
        let claimed = queues.tree().claim(self.queue, self.demand, holder, lacks);
        let known = claimed.map(|claimed| {
            // Counts what leaves from now on, if the resource is new.
            add_amount(&mut self.released, claimed.flavor_resource, 0);
            let left = self.released_amount(claimed.flavor_resource);
            (claimed, left.saturating_add(claimed.remaining))
        });
        self.claims.insert((holder, view), known);
        claimed
    }

    /// True if there is too little quota or room of the resource. Before any shortage is known
    /// every resource may be short.
    fn is_scarce(&self, what: FlavorResource) -> bool {
        let scarce = self.scarce_resources.as_deref().unwrap_or(&[]);
        let is_known = !scarce.is_empty() || !self.initially_missing.is_empty();
        let owed = || self.initially_missing.iter().any(|(w, _)| *w == what);
        !is_known || owed() || scarce.contains(&what.resource)
    }

    /// True if the queue would borrow some of what it lacks, with the victims so far gone and
    /// without surplus.
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

    /// Drops the claims and the borrowing answer, to be computed again.
    fn forget_claims(&mut self) {
        self.claims.clear();
        self.borrows = None;
    }

    /// True if the queue is still owed what another queue holds, with the victims so far gone.
    pub(crate) fn is_owed(&mut self, queues: &mut Queues, holder: QueueIdx) -> bool {
        self.apply_changes(queues);
        let lacking = self.demand.iter().filter(|(what, _)| self.is_scarce(*what));
        let lacking: Demand = lacking.collect();
        queues.tree().is_owed(self.queue, &lacking, holder)
    }

    /// The best claim on each of these queues that could turn out, whatever resource is short, once
    /// `own` of the preemptor's own queue has left.
    pub(crate) fn best_claims(
        &mut self,
        queues: &mut Queues,
        own: &[(FlavorResource, i128)],
        holders: impl Iterator<Item = QueueIdx>,
    ) -> BTreeMap<QueueIdx, ClaimKind> {
        self.apply_changes(queues);
        let less: QuotaAmounts = own.iter().map(|(w, n)| (*w, n.saturating_neg())).collect();
        queues.shift(self.queue, &less);
        self.shift_surplus(queues, -1);
        let claim = |holder| {
            let claim = queues.tree().best_claim(self.queue, self.demand, holder)?;
            Some((holder, claim))
        };
        let claims = holders.filter_map(claim).collect();
        self.shift_surplus(queues, 1);
        queues.shift(self.queue, own);
        claims
    }

    /// Changes the usage in the tree by `times` what surplus holds.
    fn shift_surplus(&self, queues: &mut Queues, times: i128) {
        for (queue, held) in &self.surplus {
            let held = held.iter();
            let amounts: QuotaAmounts = held
                .map(|(what, amount)| (*what, amount.saturating_mul(times)))
                .collect();
            queues.shift(*queue, &amounts);
        }
    }

    fn released_amount(&self, what: FlavorResource) -> i128 {
        let found = self.released.iter().find(|(w, _)| *w == what);
        found.map_or(0, |(_, left)| *left)
    }

    /// Undoes the changes that the tree has seen.
    pub(crate) fn undo_changes(self, queues: &mut Queues) {
        for (queue, mut amounts) in self.applied_changes {
            for (_, amount) in &mut amounts {
                *amount = amount.saturating_neg();
            }
            queues.shift(queue, &amounts);
        }
    }

    fn apply_changes(&mut self, queues: &mut Queues) {
        let mut untold: BTreeMap<QueueIdx, QuotaAmounts> = BTreeMap::new();
        for (queue, demand, times) in self.pending_changes.drain(..) {
            let sums = untold.entry(queue).or_default();
            for (what, amount) in demand.iter() {
                add_amount(sums, what, amount.saturating_mul(i128::from(times)));
            }
        }
        for (queue, amounts) in untold {
            queues.shift(queue, &amounts);
            let told = self.applied_changes.entry(queue).or_default();
            for (what, amount) in amounts {
                add_amount(told, what, amount);
            }
        }
    }

    /// Asks the tree, which must have seen all changes.
    fn recompute_missing(&mut self, queues: &Queues) {
        let tree = queues.tree();
        self.spare.clear();
        if tree.fits(self.queue, self.demand) {
            self.missing = None;
            for (what, needs) in self.demand.iter() {
                if let Some(available) = tree.available(self.queue, what) {
                    self.spare.push((what, available.saturating_sub(needs)));
                }
            }
            return;
        }
        let lacks = tree.shortages(self.queue, self.demand);
        let lacks = lacks
            .iter()
            .map(|lack| (lack.flavor_resource, lack.least_release()));
        self.missing = Some(lacks.collect());
    }
}
