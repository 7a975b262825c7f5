//! Quota of leaving gangs. The charge of a victim passes to its preemptor at once, so that no other
//! gang can use it. But the victim's pods run until the end of their grace period, and the
//! preemptor's pods do not run yet. There are therefore two counts. The tree counts usage after all
//! victims have left, and this module counts running gangs. A gang that starts must fit both. So
//! the running gangs never exceed quota, and no other gang takes the quota that a preemptor's
//! victims leave.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Queues;
use super::sums::QueueSums;
use crate::ids::{GangId, QueueName};
use crate::quota::{Demand, FlavorResource};
use crate::state::{GangIdx, QueueIdx};

/// The charge of a gang in only one count: the gang runs but has no charge in the tree, or has a
/// charge in the tree but does not run yet.
#[derive(Debug)]
struct GangCharge {
    queue: QueueName,
    id: GangId,
    demand: Arc<Demand>,
}

/// The difference between the usage of running gangs and the usage in the tree.
#[derive(Debug, Default)]
pub(super) struct LeavingQuota {
    /// Gangs that still run, but have no charge in the tree.
    leaving: GangCharges,
    /// Gangs that have a charge in the tree, but do not run yet.
    nominated: GangCharges,
}

/// Charges, and their sums by queue.
#[derive(Debug, Default)]
struct GangCharges {
    gangs: BTreeMap<GangIdx, GangCharge>,
    sums: QueueSums,
}

impl GangCharges {
    fn insert(&mut self, gang: GangIdx, charge: GangCharge) {
        self.remove(gang);
        self.sums.add(&charge.queue, &charge.demand);
        self.gangs.insert(gang, charge);
    }

    fn remove(&mut self, gang: GangIdx) -> Option<GangCharge> {
        let charge = self.gangs.remove(&gang)?;
        self.sums.remove(&charge.queue, &charge.demand);
        Some(charge)
    }
}

/// When a charged gang that waits for leaving gangs fits into quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NominatedRoom {
    /// The gang fits beside the running gangs.
    Now,
    /// The gang fits after the leaving gangs are gone.
    Later,
    /// The gang does not fit even then, because of other gangs that wait for leaving gangs.
    Never,
}

/// Amounts that the caller charges for a short time, by queue.
pub(super) type QuotaShift = Vec<(QueueIdx, Vec<(FlavorResource, i128)>)>;

impl Queues {
    /// Records that a gang runs on for its grace period after the discharge of `of`.
    pub(crate) fn start_leaving(
        &mut self,
        gang: GangIdx,
        id: &GangId,
        queue: &QueueName,
        of: &Demand,
    ) {
        let charge = GangCharge {
            queue: queue.clone(),
            id: id.clone(),
            demand: Arc::new(of.clone()),
        };
        self.leaving.leaving.insert(gang, charge);
    }

    /// Records that a leaving gang no longer runs, or is charged again. Returns the quota that it
    /// held.
    pub(crate) fn finish_leaving(&mut self, gang: GangIdx) -> Option<Arc<Demand>> {
        Some(self.leaving.leaving.remove(gang)?.demand)
    }

    /// Returns the quota that a leaving gang still holds.
    pub(crate) fn leaving_charge(&self, gang: GangIdx) -> Option<Arc<Demand>> {
        let charge = self.leaving.leaving.gangs.get(&gang)?;
        Some(Arc::clone(&charge.demand))
    }

    /// Records that a charged gang waits for leaving gangs, and does not run yet.
    pub(crate) fn mark_nominated(&mut self, gang: GangIdx, id: &GangId, queue: &QueueName) {
        if let Some(demand) = self.shared_charge(queue, gang) {
            let (queue, id) = (queue.clone(), id.clone());
            let charge = GangCharge { queue, id, demand };
            self.leaving.nominated.insert(gang, charge);
        }
    }

    /// Records that a nominated gang runs from now on, or is no longer charged. Returns its charge.
    pub(crate) fn start_running(&mut self, gang: GangIdx) -> Option<Arc<Demand>> {
        Some(self.leaving.nominated.remove(gang)?.demand)
    }

    /// Returns the names of the leaving gangs of a queue, with the amount of the resource that each
    /// holds.
    pub(super) fn leaving_gangs(
        &self,
        queue: &QueueName,
        what: FlavorResource,
    ) -> impl Iterator<Item = (GangId, i128)> {
        let leaving = self.leaving.leaving.gangs.values();
        let leaving = leaving.filter(move |charge| charge.queue == *queue);
        leaving.map(move |charge| (charge.id.clone(), charge.demand.amount(what)))
    }

    /// Returns each leaving gang, with its queue and the quota that it holds.
    pub(crate) fn leaving_charges(&self) -> Vec<(GangIdx, QueueIdx, Arc<Demand>)> {
        let all = self.leaving.leaving.gangs.iter();
        let found = all.filter_map(|(gang, charge)| {
            let queue = self.tree.find(&charge.queue)?;
            Some((*gang, queue, Arc::clone(&charge.demand)))
        });
        found.collect()
    }

    /// Returns when a charged gang that waits for leaving gangs fits into the quota of its queue.
    pub(crate) fn nominated_room(&mut self, gang: GangIdx) -> NominatedRoom {
        let Some(charge) = self.leaving.nominated.gangs.get(&gang) else {
            return NominatedRoom::Now;
        };
        let demand = Arc::clone(&charge.demand);
        let Some(queue) = self.tree.find(&charge.queue) else {
            return NominatedRoom::Now;
        };
        let own = demand.iter();
        let own = own.map(|(what, amount)| (what, amount.saturating_neg()));
        let others = vec![(queue, own.collect())];
        if !self.fits_with(&others, queue, &demand) {
            return NominatedRoom::Never;
        }
        let LeavingQuota {
            leaving,
            nominated: coming,
        } = &self.leaving;
        let mut runs = self.quota_shift(queue, &demand, &leaving.sums, 1);
        runs.extend(self.quota_shift(queue, &demand, &coming.sums, -1));
        match self.fits_with(&runs, queue, &demand) {
            true => NominatedRoom::Now,
            false => NominatedRoom::Later,
        }
    }

    fn fits_with(&mut self, shift: &QuotaShift, queue: QueueIdx, demand: &Demand) -> bool {
        self.apply_shift(shift, 1);
        let fits = self.tree.fits(queue, demand);
        self.apply_shift(shift, -1);
        fits
    }

    /// Returns the shift that makes the tree count running gangs, for the resources of a demand.
    /// Empty if no gang is leaving.
    pub(super) fn shift_to_running(&self, queue: QueueIdx, demand: &Demand) -> QuotaShift {
        let LeavingQuota {
            leaving,
            nominated: coming,
        } = &self.leaving;
        if leaving.gangs.is_empty() {
            return QuotaShift::new();
        }
        let mut shift = self.quota_shift(queue, demand, &leaving.sums, 1);
        shift.extend(self.quota_shift(queue, demand, &coming.sums, -1));
        shift
    }

    /// Returns true if the demand fits beside the quota of all leaving gangs.
    pub(super) fn has_plenty(&self, queue: QueueIdx, demand: &Demand) -> bool {
        let leaving = &self.leaving.leaving;
        let plenty = |(what, needs): (FlavorResource, i128)| {
            let available = self.tree.available(queue, what);
            let leaves = leaving.sums.iter();
            let leaves = leaves.filter_map(|(_, held)| held.get(&what));
            let most = leaves.fold(needs, |sum, held| sum.saturating_add(*held));
            available.is_none_or(|available| available >= most)
        };
        leaving.gangs.is_empty() || demand.iter().all(plenty)
    }

    /// Returns the sums below the root of a queue, multiplied by `times`.
    fn quota_shift(
        &self,
        queue: QueueIdx,
        demand: &Demand,
        sums: &QueueSums,
        times: i128,
    ) -> QuotaShift {
        let root = self.tree.root(queue);
        let held = sums.iter().filter_map(|(name, held)| {
            let at = self.tree.find(name)?;
            let held = held.iter().filter(|(what, _)| demand.amount(**what) > 0);
            let held = held.map(|(what, amount)| (*what, amount.saturating_mul(times)));
            Some((at, held.collect()))
        });
        held.filter(|(at, _)| self.tree.root(*at) == root).collect()
    }

    /// Charges the shift, multiplied by `times`.
    pub(super) fn apply_shift(&mut self, shift: &QuotaShift, times: i128) {
        for (queue, amounts) in shift {
            let amounts = amounts.iter().map(|(what, amount)| (*what, *amount));
            self.tree.shift_times(*queue, amounts, times);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::gang::Gang;
    use crate::ids::ResourceName;
    use crate::queue::Queue;
    use crate::quota::{FlavorIdx, Quota, UsageDecay};
    use crate::state::Catalog;

    const NAMES: [&str; 3] = ["all", "a", "b"];

    /// The state of a gang in the two counts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum CountedState {
        Running,
        Leaving,
        Coming,
    }

    fn any_quota() -> impl Strategy<Value = Quota> {
        let limit = || prop::option::weighted(0.4, 0..9_i64);
        (0..20_i64, limit(), limit()).prop_map(|(nominal, borrowing_limit, lending_limit)| Quota {
            nominal,
            borrowing_limit,
            lending_limit,
        })
    }

    struct TwoTrees {
        queues: Queues,
        catalog: Catalog,
    }

    impl TwoTrees {
        fn new(quotas: &[Quota]) -> Self {
            let mut catalog = Catalog::default();
            let mut queues = Queues::new(&catalog, UsageDecay::with_half_life(0));
            for (name, quota) in NAMES.iter().zip(quotas) {
                let queue = Queue {
                    parent: (*name != "all").then(|| QueueName::new("all")),
                    ..Queue::new(QueueName::new(*name))
                };
                let quotas = [(ResourceName::new("gpu"), *quota)];
                queues.apply(queue.with_quotas(quotas), &mut catalog);
            }
            Self { queues, catalog }
        }

        fn demand(&mut self, amount: i64) -> Demand {
            let resource = self.catalog.pin(&ResourceName::new("gpu"));
            let flavor = FlavorIdx::from_index(0);
            let what = FlavorResource { flavor, resource };
            std::iter::once((what, i128::from(amount))).collect()
        }

        fn charge(&mut self, at: usize, queue: usize, amount: i64) -> (GangIdx, Gang) {
            let gang = Gang::new(
                GangId::new(format!("x/{at}")),
                QueueName::new(NAMES[queue]),
                vec![],
            );
            let demand = self.demand(amount);
            let number = GangIdx::of(at);
            self.queues.charge(number, &gang, demand, &mut self.catalog);
            (number, gang)
        }

        fn leaf(&self, queue: usize) -> QueueIdx {
            self.queues
                .tree
                .find(&QueueName::new(NAMES[queue]))
                .unwrap()
        }
    }

    proptest! {
        #[test]
        fn charged_and_running_usage_each_match_a_separate_tree(
            quotas in prop::collection::vec(any_quota(), 3),
            gangs in prop::collection::vec((1..3_usize, 1..9_i64, 0..3_u8), 0..9),
            asks in (1..3_usize, 1..12_i64),
        ) {
            let of = |n: u8| [CountedState::Running, CountedState::Leaving, CountedState::Coming][usize::from(n)];
            let mut both = TwoTrees::new(&quotas);
            let (mut runs, mut will) = (TwoTrees::new(&quotas), TwoTrees::new(&quotas));
            for (at, (queue, amount, is)) in gangs.iter().enumerate() {
                let (number, gang) = both.charge(at, *queue, *amount);
                match of(*is) {
                    CountedState::Running => {}
                    CountedState::Leaving => {
                        let held = both.queues.discharge(&gang.queue, number);
                        both.queues.start_leaving(number, &gang.id, &gang.queue, &held);
                    }
                    CountedState::Coming => both.queues.mark_nominated(number, &gang.id, &gang.queue),
                }
                if of(*is) != CountedState::Coming {
                    runs.charge(at, *queue, *amount);
                }
                if of(*is) != CountedState::Leaving {
                    will.charge(at, *queue, *amount);
                }
            }
            let demand = both.demand(asks.1);
            let leaf = both.leaf(asks.0);
            let fits = |counts: &TwoTrees| counts.queues.tree.fits(counts.leaf(asks.0), &demand);
            let any_leaves = gangs.iter().any(|(.., is)| of(*is) == CountedState::Leaving);
            let shift = both.queues.shift_to_running(leaf, &demand);
            let now = both.queues.fits_with(&shift, leaf, &demand);
            prop_assert_eq!(now, if any_leaves { fits(&runs) } else { fits(&will) });
            prop_assert_eq!(fits(&both), fits(&will), "everything is as before");
            if both.queues.has_plenty(leaf, &demand) && fits(&will) {
                prop_assert!(now, "plenty is enough");
            }
            let name = QueueName::new(NAMES[asks.0]);
            let result = both.queues.admit(&name, &demand, &both.catalog);
            prop_assert_eq!(result.is_ok(), fits(&will) && (fits(&runs) || !any_leaves));
            // All of the gangs leave again.
            for (at, (queue, ..)) in gangs.iter().enumerate() {
                let number = GangIdx::of(at);
                both.queues.finish_leaving(number);
                both.queues.discharge(&QueueName::new(NAMES[*queue]), number);
            }
            let empty = TwoTrees::new(&quotas);
            prop_assert!(both.queues.leaving.leaving.gangs.is_empty());
            prop_assert!(both.queues.leaving.nominated.gangs.is_empty());
            prop_assert!(both.queues.leaving.nominated.sums.iter().next().is_none());
            prop_assert_eq!(fits(&both), fits(&empty));
        }
    }
}
