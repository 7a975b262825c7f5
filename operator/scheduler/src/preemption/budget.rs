//! Tracks if quota admits a preemptor while victims leave and come back.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::ids::QueueName;
use crate::queueing::Queues;
use crate::quota::{Claim, Claimed, Demand, FlavorResource, QueueIdx};
use crate::state::ResourceIdx;

type Amounts = SmallVec<[(FlavorResource, i128); 4]>;

/// The quota check of a preemptor. It asks the queue tree as seldom as possible: a leaving gang
/// helps by at most its amount, and a returning gang hurts by at most its amount. [`Budget::end`]
/// undoes the changes that the tree has seen.
#[derive(Debug)]
pub(crate) struct Budget<'c> {
    queue: QueueIdx,
    demand: &'c Demand,
    /// Changes that the tree has not seen yet: queue, demand, and how often it came back (positive)
    /// or left (negative).
    untold: Vec<(QueueIdx, &'c Demand, i64)>,
    /// Changes applied to the tree, to be undone at the end.
    told: BTreeMap<QueueIdx, Amounts>,
    /// Amounts that must still leave before the demand can fit. None: the demand fits.
    lacking: Option<Amounts>,
    /// Amounts that may come back without asking the tree, while the demand fits.
    spare: Amounts,
    /// Demands that could not come back. A refusal is final.
    refused: Vec<(QueueIdx, &'c Demand)>,
    /// Amounts that gangs that are not preemptible have given up so far, by queue.
    kept: BTreeMap<QueueIdx, Amounts>,
    /// Resources of which the nodes have too little room. None: not computed yet.
    scarce: Option<Vec<ResourceIdx>>,
    /// Amounts of quota that were missing at the start.
    owed: Amounts,
    /// Amounts that have left in all, for the resources of known claims.
    left: Amounts,
    /// Amounts that placed surplus still holds, by queue.
    surplus: BTreeMap<QueueIdx, Amounts>,
    /// The claim on each queue, and how much may leave before the claim has to be computed again.
    claims: BTreeMap<(QueueIdx, View), Option<(Claimed, i128)>>,
    /// True if the queue would borrow some of what it lacks. None: not computed yet.
    borrows: Option<bool>,
}

/// The usage from which claims are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum View {
    /// Usage without surplus: a queue does not have to give up gangs because its surplus makes it a
    /// borrower.
    Gangs,
    /// All that is held.
    Everything,
}

fn add(amounts: &mut Amounts, what: FlavorResource, amount: i128) {
    match amounts.iter_mut().find(|(w, _)| *w == what) {
        Some((_, sum)) => *sum = sum.saturating_add(amount),
        None => amounts.push((what, amount)),
    }
}

impl<'c> Budget<'c> {
    /// The budget before any victim leaves.
    pub(crate) fn new(queues: &Queues, queue: QueueIdx, demand: &'c Demand) -> Self {
        let mut budget = Self {
            queue,
            demand,
            untold: Vec::new(),
            told: BTreeMap::new(),
            lacking: None,
            spare: Amounts::new(),
            refused: Vec::new(),
            kept: BTreeMap::new(),
            scarce: None,
            owed: Amounts::new(),
            left: Amounts::new(),
            surplus: BTreeMap::new(),
            claims: BTreeMap::new(),
            borrows: None,
        };
        budget.look(queues);
        budget.owed = budget.lacking.clone().unwrap_or_default();
        for (name, held) in queues.surplus() {
            if let Some(at) = queues.tree().find(name) {
                let held = held.iter().map(|(what, amount)| (*what, *amount));
                budget.surplus.insert(at, held.collect());
            }
        }
        budget
    }

    /// True if quota admits the demand.
    pub(crate) fn does(&self) -> bool {
        self.lacking.is_none()
    }

    /// Amounts that must still be given back before the demand can fit.
    pub(crate) fn lacking(&self) -> impl Iterator<Item = (FlavorResource, i128)> + '_ {
        self.lacking.iter().flatten().copied()
    }

    /// A gang leaves.
    pub(crate) fn leaves(&mut self, queues: &mut Queues, queue: QueueIdx, demand: &'c Demand) {
        self.note(queue, demand, -1);
        if queue == self.queue {
            // A claim that would have borrowed may have become one on what is owed.
            self.forget_claims();
        }
        for (what, left) in &mut self.left {
            *left = left.saturating_add(demand.amount(*what));
        }
        let Some(lacking) = &mut self.lacking else {
            return;
        };
        for (what, least) in lacking.iter_mut() {
            *least = least.saturating_sub(demand.amount(*what));
        }
        if lacking.iter().all(|(_, least)| *least <= 0) {
            self.tell(queues);
            self.look(queues);
        }
    }

    /// A gang comes back if quota still admits the demand then. Returns true if it came back.
    pub(crate) fn returns(
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
        self.note(queue, demand, 1);
        if free {
            for (what, spare) in &mut self.spare {
                *spare = spare.saturating_sub(demand.amount(*what));
            }
            return true;
        }
        self.tell(queues);
        self.look(queues);
        if self.does() {
            return true;
        }
        self.refused.push((queue, demand));
        self.leaves(queues, queue, demand);
        if !self.does() {
            self.tell(queues);
            self.look(queues);
        }
        false
    }

    /// Records a change that the tree has not seen.
    fn note(&mut self, queue: QueueIdx, demand: &'c Demand, times: i64) {
        match self.untold.last_mut() {
            Some((of, like, sum)) if *of == queue && std::ptr::eq(*like, demand) => {
                *sum = sum.saturating_add(times);
            }
            _ => self.untold.push((queue, demand, times)),
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
    pub(crate) fn lacks_room(&mut self, resources: impl Iterator<Item = ResourceIdx>) -> bool {
        let scarce = self.scarce.get_or_insert_with(Vec::new);
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
    pub(crate) fn keeps_less(&mut self, queue: QueueIdx, demand: &Demand, times: i128) {
        let sums = self.kept.entry(queue).or_default();
        for (what, amount) in demand.iter() {
            add(sums, what, amount.saturating_mul(times));
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
            let mut left = self.kept.get(&queue).into_iter().flatten();
            let left = left.find(|(w, _)| *w == what).map_or(0, |(_, left)| *left);
            if queues.kept(name, what).saturating_sub(left) > quota {
                return false;
            }
        }
        limited || queue == self.queue
    }

    /// Surplus has left, or, for negative `times`, has come back.
    pub(crate) fn has_less_surplus(&mut self, queue: QueueIdx, demand: &Demand, times: i128) {
        let sums = self.surplus.entry(queue).or_default();
        for (what, amount) in demand.iter() {
            add(sums, what, amount.saturating_mul(times).saturating_neg());
        }
        if queue == self.queue {
            // A claim that would have borrowed may have become one on what is owed.
            self.forget_claims();
        }
    }

    /// The claim on the gangs of a queue, with the victims so far gone.
    pub(crate) fn claim(&mut self, queues: &mut Queues, holder: QueueIdx) -> Option<Claimed> {
        let view = match self.surplus.is_empty() {
            true => View::Everything,
            false => View::Gangs,
        };
        self.claim_by(queues, holder, view)
    }

    /// The claim on the surplus of a queue: at least as much as the claim on its gangs.
    pub(crate) fn claim_on_surplus(
        &mut self,
        queues: &mut Queues,
        holder: QueueIdx,
    ) -> Option<Claimed> {
        let of_gangs = self.claim(queues, holder);
        match of_gangs {
            Some(claimed) if claimed.claim == Claim::Owed => of_gangs,
            _ => {
                let of_all = self.claim_by(queues, holder, View::Everything);
                of_all.or(of_gangs)
            }
        }
    }

    /// Computes the claims on all of these queues at once: removing the surplus from the tree once
    /// serves them all.
    pub(crate) fn look_at_claims(
        &mut self,
        queues: &mut Queues,
        holders: impl Iterator<Item = QueueIdx>,
    ) {
        if self.surplus.is_empty() {
            return;
        }
        self.tell(queues);
        self.shift_surplus(queues, -1);
        for holder in holders {
            self.look_at_claim(queues, holder, View::Gangs);
        }
        self.shift_surplus(queues, 1);
    }

    fn claim_by(&mut self, queues: &mut Queues, holder: QueueIdx, view: View) -> Option<Claimed> {
        if let Some(known) = self.claims.get(&(holder, view)) {
            let valid = known.is_none_or(|(claimed, until)| self.left_of(claimed.what) < until);
            if valid {
                return known.map(|(claimed, _)| claimed);
            }
        }
        self.tell(queues);
        if view == View::Gangs {
            self.shift_surplus(queues, -1);
        }
        let claimed = self.look_at_claim(queues, holder, view);
        if view == View::Gangs {
            self.shift_surplus(queues, 1);
        }
        claimed
    }

    /// The tree must already show the view.
    fn look_at_claim(&mut self, queues: &Queues, holder: QueueIdx, view: View) -> Option<Claimed> {
        let lacks = |what| self.lacks(what);
        let claimed = queues.tree().claim(self.queue, self.demand, holder, lacks);
        let known = claimed.map(|claimed| {
            // Counts what leaves from now on, if the resource is new.
            add(&mut self.left, claimed.what, 0);
            let left = self.left_of(claimed.what);
            (claimed, left.saturating_add(claimed.left))
        });
        self.claims.insert((holder, view), known);
        claimed
    }

    /// True if there is too little quota or room of the resource. Before any shortage is known
    /// every resource may be short.
    fn lacks(&self, what: FlavorResource) -> bool {
        let scarce = self.scarce.as_deref().unwrap_or(&[]);
        let is_known = !scarce.is_empty() || !self.owed.is_empty();
        let owed = || self.owed.iter().any(|(w, _)| *w == what);
        !is_known || owed() || scarce.contains(&what.resource)
    }

    /// True if the queue would borrow some of what it lacks, with the victims so far gone and
    /// without surplus.
    pub(crate) fn borrows_what_lacks(&mut self, queues: &mut Queues) -> bool {
        if let Some(borrows) = self.borrows {
            return borrows;
        }
        self.tell(queues);
        let lacking = self.demand.iter().filter(|(what, _)| self.lacks(*what));
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
        self.tell(queues);
        let lacking = self.demand.iter().filter(|(what, _)| self.lacks(*what));
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
    ) -> BTreeMap<QueueIdx, Claim> {
        self.tell(queues);
        let less: Amounts = own.iter().map(|(w, n)| (*w, n.saturating_neg())).collect();
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
            let amounts: Amounts = held
                .map(|(what, amount)| (*what, amount.saturating_mul(times)))
                .collect();
            queues.shift(*queue, &amounts);
        }
    }

    fn left_of(&self, what: FlavorResource) -> i128 {
        let found = self.left.iter().find(|(w, _)| *w == what);
        found.map_or(0, |(_, left)| *left)
    }

    /// Undoes the changes that the tree has seen.
    pub(crate) fn end(self, queues: &mut Queues) {
        for (queue, mut amounts) in self.told {
            for (_, amount) in &mut amounts {
                *amount = amount.saturating_neg();
            }
            queues.shift(queue, &amounts);
        }
    }

    fn tell(&mut self, queues: &mut Queues) {
        let mut untold: BTreeMap<QueueIdx, Amounts> = BTreeMap::new();
        for (queue, demand, times) in self.untold.drain(..) {
            let sums = untold.entry(queue).or_default();
            for (what, amount) in demand.iter() {
                add(sums, what, amount.saturating_mul(i128::from(times)));
            }
        }
        for (queue, amounts) in untold {
            queues.shift(queue, &amounts);
            let told = self.told.entry(queue).or_default();
            for (what, amount) in amounts {
                add(told, what, amount);
            }
        }
    }

    /// Asks the tree, which must have seen all changes.
    fn look(&mut self, queues: &Queues) {
        let tree = queues.tree();
        self.spare.clear();
        if tree.fits(self.queue, self.demand) {
            self.lacking = None;
            for (what, needs) in self.demand.iter() {
                if let Some(available) = tree.available(self.queue, what) {
                    self.spare.push((what, available.saturating_sub(needs)));
                }
            }
            return;
        }
        let lacks = tree.lacks(self.queue, self.demand);
        let lacks = lacks.iter().map(|lack| (lack.what, lack.least_release()));
        self.lacking = Some(lacks.collect());
    }
}
