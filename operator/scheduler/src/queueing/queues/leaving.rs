//! Quota of those who leave. What a gang was charged passes at once to the one that
//! follows it, so that nobody else plans with it; but its pods run on for their grace,
//! and the other's are not there yet. So there are two counts: the tree's, of how things
//! will be, and this one, of what runs. Who starts must fit both: at no time does more
//! run than quota allows, and nobody takes what another's victims leave.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Queues;
use super::sums::Sums;
use crate::ids::{GangId, QueueName};
use crate::quota::{Demand, FlavorResource, QueueIdx};
use crate::state::GangIdx;

/// A charge that the tree does not count, or counts too early.
#[derive(Debug)]
struct Charge {
    queue: QueueName,
    id: GangId,
    demand: Arc<Demand>,
}

/// How what runs differs from what the tree counts.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// They run still, and hold nothing in the tree.
    leaving: Charges,
    /// They hold it there, and do not run yet.
    coming: Charges,
}

/// Charges, and their sums by queue.
#[derive(Debug, Default)]
struct Charges {
    gangs: BTreeMap<GangIdx, Charge>,
    sums: Sums,
}

impl Charges {
    fn insert(&mut self, gang: GangIdx, charge: Charge) {
        self.remove(gang);
        self.sums.add(&charge.queue, &charge.demand);
        self.gangs.insert(gang, charge);
    }

    fn remove(&mut self, gang: GangIdx) -> Option<Charge> {
        let charge = self.gangs.remove(&gang)?;
        self.sums.take(&charge.queue, &charge.demand);
        Some(charge)
    }
}

/// Whether quota lets a gang run that is charged, and follows others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FollowerRoom {
    /// It fits beside what runs.
    Now,
    /// It will, once others have left.
    Later,
    /// It would be too much even then, beside others that follow.
    Never,
}

/// What is to be charged for a moment, by queue.
pub(super) type Shift = Vec<(QueueIdx, Vec<(FlavorResource, i128)>)>;

impl Queues {
    /// A gang that has just been discharged of that runs on for its grace.
    pub(crate) fn leaves(&mut self, gang: GangIdx, id: &GangId, queue: &QueueName, of: &Demand) {
        let charge = Charge {
            queue: queue.clone(),
            id: id.clone(),
            demand: Arc::new(of.clone()),
        };
        self.leaving.leaving.insert(gang, charge);
    }

    /// It runs no longer, or holds its charge again; returns what it held.
    pub(crate) fn has_left(&mut self, gang: GangIdx) -> Option<Arc<Demand>> {
        Some(self.leaving.leaving.remove(gang)?.demand)
    }

    /// What one holds still that leaves.
    pub(crate) fn left_by(&self, gang: GangIdx) -> Option<Arc<Demand>> {
        let charge = self.leaving.leaving.gangs.get(&gang)?;
        Some(Arc::clone(&charge.demand))
    }

    /// A gang that is charged follows others, and does not run yet.
    pub(crate) fn follows(&mut self, gang: GangIdx, id: &GangId, queue: &QueueName) {
        if let Some(demand) = self.charge_of(queue, gang) {
            let (queue, id) = (queue.clone(), id.clone());
            let charge = Charge { queue, id, demand };
            self.leaving.coming.insert(gang, charge);
        }
    }

    /// It runs from now on, or is charged no longer; returns what it is charged.
    pub(crate) fn has_come(&mut self, gang: GangIdx) -> Option<Arc<Demand>> {
        Some(self.leaving.coming.remove(gang)?.demand)
    }

    /// Those of a queue that leave, by name, with what they hold.
    pub(super) fn leavers(
        &self,
        queue: &QueueName,
        what: FlavorResource,
    ) -> impl Iterator<Item = (GangId, i128)> {
        let leaving = self.leaving.leaving.gangs.values();
        let leaving = leaving.filter(move |charge| charge.queue == *queue);
        leaving.map(move |charge| (charge.id.clone(), charge.demand.amount(what)))
    }

    /// What those who leave hold, each of its queue.
    pub(crate) fn held_by_leavers(&self) -> Vec<(GangIdx, QueueIdx, Arc<Demand>)> {
        let all = self.leaving.leaving.gangs.iter();
        let found = all.filter_map(|(gang, charge)| {
            let queue = self.tree.find(&charge.queue)?;
            Some((*gang, queue, Arc::clone(&charge.demand)))
        });
        found.collect()
    }

    /// Whether its queue has room for one that is charged and follows others.
    pub(crate) fn room_of_follower(&mut self, gang: GangIdx) -> FollowerRoom {
        let Some(charge) = self.leaving.coming.gangs.get(&gang) else {
            return FollowerRoom::Now;
        };
        let demand = Arc::clone(&charge.demand);
        let Some(queue) = self.tree.find(&charge.queue) else {
            return FollowerRoom::Now;
        };
        let own = demand.iter();
        let own = own.map(|(what, amount)| (what, amount.saturating_neg()));
        let others = vec![(queue, own.collect())];
        if !self.fits_with(&others, queue, &demand) {
            return FollowerRoom::Never;
        }
        let Leaving { leaving, coming } = &self.leaving;
        let mut runs = self.shift_of(queue, &demand, &leaving.sums, 1);
        runs.extend(self.shift_of(queue, &demand, &coming.sums, -1));
        match self.fits_with(&runs, queue, &demand) {
            true => FollowerRoom::Now,
            false => FollowerRoom::Later,
        }
    }

    fn fits_with(&mut self, shift: &Shift, queue: QueueIdx, demand: &Demand) -> bool {
        self.shift_by(shift, 1);
        let fits = self.tree.fits(queue, demand);
        self.shift_by(shift, -1);
        fits
    }

    /// What makes the tree that of what runs, as far as it matters to a demand. Empty
    /// where nobody leaves.
    pub(super) fn to_what_runs(&self, queue: QueueIdx, demand: &Demand) -> Shift {
        let Leaving { leaving, coming } = &self.leaving;
        if leaving.gangs.is_empty() {
            return Shift::new();
        }
        let mut shift = self.shift_of(queue, demand, &leaving.sums, 1);
        shift.extend(self.shift_of(queue, demand, &coming.sums, -1));
        shift
    }

    /// Whether there is so much of a demand that it fits whoever leaves.
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

    /// Sums below the root of a queue, so many times.
    fn shift_of(&self, queue: QueueIdx, demand: &Demand, sums: &Sums, times: i128) -> Shift {
        let root = self.tree.root(queue);
        let held = sums.iter().filter_map(|(name, held)| {
            let at = self.tree.find(name)?;
            let held = held.iter().filter(|(what, _)| demand.amount(**what) > 0);
            let held = held.map(|(what, amount)| (*what, amount.saturating_mul(times)));
            Some((at, held.collect()))
        });
        held.filter(|(at, _)| self.tree.root(*at) == root).collect()
    }

    /// Charges that so many times.
    pub(super) fn shift_by(&mut self, shift: &Shift, times: i128) {
        for (queue, amounts) in shift {
            let amounts = amounts.iter();
            let amounts: Vec<(FlavorResource, i128)> = amounts
                .map(|(what, amount)| (*what, amount.saturating_mul(times)))
                .collect();
            self.tree.shift(*queue, &amounts);
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
    use crate::quota::{Decay, FlavorIdx, Quota};
    use crate::state::Catalog;

    const NAMES: [&str; 3] = ["all", "a", "b"];

    /// What a gang of a queue is to the counts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Is {
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

    struct Counts {
        queues: Queues,
        catalog: Catalog,
    }

    impl Counts {
        fn new(quotas: &[Quota]) -> Self {
            let mut catalog = Catalog::default();
            let mut queues = Queues::new(&catalog, Decay::half_life(0));
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
            let flavor = FlavorIdx::of(0);
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
        fn both_counts_are_those_of_a_tree_that_knows_nothing_else(
            quotas in prop::collection::vec(any_quota(), 3),
            gangs in prop::collection::vec((1..3_usize, 1..9_i64, 0..3_u8), 0..9),
            asks in (1..3_usize, 1..12_i64),
        ) {
            let of = |n: u8| [Is::Running, Is::Leaving, Is::Coming][usize::from(n)];
            let mut both = Counts::new(&quotas);
            let (mut runs, mut will) = (Counts::new(&quotas), Counts::new(&quotas));
            for (at, (queue, amount, is)) in gangs.iter().enumerate() {
                let (number, gang) = both.charge(at, *queue, *amount);
                match of(*is) {
                    Is::Running => {}
                    Is::Leaving => {
                        let held = both.queues.discharge(&gang.queue, number);
                        both.queues.leaves(number, &gang.id, &gang.queue, &held);
                    }
                    Is::Coming => both.queues.follows(number, &gang.id, &gang.queue),
                }
                if of(*is) != Is::Coming {
                    runs.charge(at, *queue, *amount);
                }
                if of(*is) != Is::Leaving {
                    will.charge(at, *queue, *amount);
                }
            }
            let demand = both.demand(asks.1);
            let leaf = both.leaf(asks.0);
            let fits = |counts: &Counts| counts.queues.tree.fits(counts.leaf(asks.0), &demand);
            let any_leaves = gangs.iter().any(|(.., is)| of(*is) == Is::Leaving);
            let shift = both.queues.to_what_runs(leaf, &demand);
            let now = both.queues.fits_with(&shift, leaf, &demand);
            prop_assert_eq!(now, if any_leaves { fits(&runs) } else { fits(&will) });
            prop_assert_eq!(fits(&both), fits(&will), "everything is as before");
            if both.queues.has_plenty(leaf, &demand) && fits(&will) {
                prop_assert!(now, "plenty is enough");
            }
            let name = QueueName::new(NAMES[asks.0]);
            let told = both.queues.admit(&name, &demand, &both.catalog);
            prop_assert_eq!(told.is_ok(), fits(&will) && (fits(&runs) || !any_leaves));
            // All of them come and go.
            for (at, (queue, ..)) in gangs.iter().enumerate() {
                let number = GangIdx::of(at);
                both.queues.has_left(number);
                both.queues.discharge(&QueueName::new(NAMES[*queue]), number);
            }
            let empty = Counts::new(&quotas);
            prop_assert!(both.queues.leaving.leaving.gangs.is_empty());
            prop_assert!(both.queues.leaving.coming.gangs.is_empty());
            prop_assert!(both.queues.leaving.coming.sums.iter().next().is_none());
            prop_assert_eq!(fits(&both), fits(&empty));
        }
    }
}
