//! Tracks if quota admits a preemptor while the search removes victims and puts them back.

mod claims;

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::ids::QueueName;
use crate::queue::PreemptionPolicy;
use crate::queueing::Queues;
use crate::quota::{Demand, FlavorResource, QuotaClaim};
use crate::state::{QueueIdx, ResourceIdx};
use claims::UsageView;

type QuotaAmounts = SmallVec<[(FlavorResource, i128); 4]>;

/// The quota check of a preemptor. It queries the queue tree as seldom as possible: a leaving gang
/// frees at most its amount, and a returning gang takes at most its amount.
/// [`QuotaBudget::undo_changes`] undoes the changes in the tree.
#[derive(Debug)]
pub(crate) struct QuotaBudget<'c> {
    queue: QueueIdx,
    demand: &'c Demand,
    /// True if claims include the share of the other queue.
    shares_fairly: bool,
    /// Changes that are not in the tree yet: queue, demand, and how often it came back (positive)
    /// or left (negative).
    pending_changes: Vec<(QueueIdx, &'c Demand, i64)>,
    /// Changes in the tree. [`QuotaBudget::undo_changes`] undoes them at the end.
    applied_changes: BTreeMap<QueueIdx, QuotaAmounts>,
    /// Amounts that must still leave before the demand can fit. None: the demand fits.
    missing: Option<QuotaAmounts>,
    /// Amounts that may come back without a query of the tree, while the demand fits.
    spare: QuotaAmounts,
    /// Demands that could not come back. They stay refused.
    refused: Vec<(QueueIdx, &'c Demand)>,
    /// Amounts that non-preemptible victims have released so far, by queue.
    non_preemptible_released: BTreeMap<QueueIdx, QuotaAmounts>,
    /// Resources of which the nodes have too little. None: not computed yet.
    scarce_resources: Option<Vec<ResourceIdx>>,
    /// Amounts of quota that were missing at the start.
    initially_missing: QuotaAmounts,
    /// The total amounts that victims have released, for the resources of known claims.
    released: QuotaAmounts,
    /// Amounts that placed surplus still holds, by queue.
    surplus: BTreeMap<QueueIdx, QuotaAmounts>,
    /// The claim on each queue, and the value of `released` up to which the claim is valid.
    claims: BTreeMap<(QueueIdx, UsageView), Option<(QuotaClaim, i128)>>,
    /// True if the queue would borrow some of what it lacks. None: not computed yet.
    borrows: Option<bool>,
}

fn add_amount(amounts: &mut QuotaAmounts, what: FlavorResource, amount: i128) {
    match amounts.iter_mut().find(|(w, _)| *w == what) {
        Some((_, sum)) => *sum = sum.saturating_add(amount),
        None => amounts.push((what, amount)),
    }
}

impl<'c> QuotaBudget<'c> {
    /// Returns the budget before any victim leaves. `policy` decides if claims include shares.
    pub(crate) fn new(
        queues: &Queues,
        (queue, demand): (QueueIdx, &'c Demand),
        policy: PreemptionPolicy,
    ) -> Self {
        let mut budget = Self {
            queue,
            demand,
            shares_fairly: policy.shares_fairly(),
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

    /// Returns true if quota admits the demand.
    pub(crate) fn admits_demand(&self) -> bool {
        self.missing.is_none()
    }

    /// Returns the amounts that gangs must still give back before the demand can fit.
    pub(crate) fn missing_amounts(&self) -> impl Iterator<Item = (FlavorResource, i128)> + '_ {
        self.missing.iter().flatten().copied()
    }

    /// Releases the charge of a victim.
    pub(crate) fn release(&mut self, queues: &mut Queues, queue: QueueIdx, demand: &'c Demand) {
        self.note_change(queue, demand, -1);
        if queue == self.queue || self.shares_fairly {
            // A borrowing claim may have become an owed claim, and shares have changed.
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

    /// Puts a victim back if quota still admits the demand then. Returns true if the victim is
    /// back.
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

    /// Records a change that is not in the tree yet.
    fn note_change(&mut self, queue: QueueIdx, demand: &'c Demand, times: i64) {
        match self.pending_changes.last_mut() {
            Some((of, like, sum)) if *of == queue && std::ptr::eq(*like, demand) => {
                *sum = sum.saturating_add(times);
            }
            _ => self.pending_changes.push((queue, demand, times)),
        }
    }

    /// Returns true if a gang of the same queue with no larger demand was refused before.
    fn was_refused(&self, queue: QueueIdx, demand: &Demand) -> bool {
        let no_more = |refused: &Demand| {
            let mut all = refused.iter();
            all.all(|(what, n)| n <= demand.amount(what))
        };
        let mut refused = self.refused.iter();
        refused.any(|(of, refused)| *of == queue && no_more(refused))
    }

    /// Records that a non-preemptible gang has left or, for negative `times`, has come back.
    pub(crate) fn count_non_preemptible(&mut self, queue: QueueIdx, demand: &Demand, times: i128) {
        let sums = self.non_preemptible_released.entry(queue).or_default();
        for (what, amount) in demand.iter() {
            add_amount(sums, what, amount.saturating_mul(times));
        }
    }

    /// Returns true if the queue's quota covers its remaining non-preemptible gangs, for the
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

    /// Records that surplus has left or, for negative `times`, has come back.
    pub(crate) fn count_surplus_released(&mut self, queue: QueueIdx, demand: &Demand, times: i128) {
        let sums = self.surplus.entry(queue).or_default();
        for (what, amount) in demand.iter() {
            add_amount(sums, what, amount.saturating_mul(times).saturating_neg());
        }
        if queue == self.queue {
            // A borrowing claim may have become an owed claim.
            self.forget_claims();
        }
    }

    /// Undoes the changes in the tree.
    pub(crate) fn undo_changes(self, queues: &mut Queues) {
        for (queue, amounts) in self.applied_changes {
            queues.shift_times(queue, amounts.into_iter(), -1);
        }
    }

    fn apply_changes(&mut self, queues: &mut Queues) {
        let mut unapplied: BTreeMap<QueueIdx, QuotaAmounts> = BTreeMap::new();
        for (queue, demand, times) in self.pending_changes.drain(..) {
            let sums = unapplied.entry(queue).or_default();
            for (what, amount) in demand.iter() {
                add_amount(sums, what, amount.saturating_mul(i128::from(times)));
            }
        }
        for (queue, amounts) in unapplied {
            queues.shift(queue, &amounts);
            let applied = self.applied_changes.entry(queue).or_default();
            for (what, amount) in amounts {
                add_amount(applied, what, amount);
            }
        }
    }

    /// Queries the tree for the missing or spare amounts. All changes must already be in the tree.
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
