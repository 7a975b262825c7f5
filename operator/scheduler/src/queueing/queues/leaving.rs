//! Quota of leaving gangs. The charge of a victim passes to its preemptor at once, so that no other
//! gang plans with it; but the victim's pods run on for their grace period, and the preemptor's do
//! not run yet. There are therefore two counts: the tree counts how things will be, and this module
//! counts what runs. A gang that starts must fit both. So the running gangs never exceed quota, and
//! no gang takes what a preemptor's victims leave.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Queues;
use super::sums::Sums;
use crate::ids::{GangId, QueueName};
use crate::quota::{Demand, FlavorResource, QueueIdx};
use crate::state::GangIdx;

/// A charge of a gang that runs but is not in the tree, or that is in the tree but does not run
/// yet.
#[derive(Debug)]
struct Charge {
    queue: QueueName,
    id: GangId,
    demand: Arc<Demand>,
}

/// The difference between what runs and what the tree counts.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// Gangs that still run, but hold nothing in the tree.
    leaving: Charges,
    /// Gangs that are charged in the tree, but do not run yet.
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

/// The room that quota has for a charged gang that waits for leaving gangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FollowerRoom {
    /// The gang fits beside what runs.
    Now,
    /// The gang fits once the leaving gangs are gone.
    Later,
    /// The gang does not fit even then, because of other gangs that wait for leaving ones.
    Never,
}

/// Amounts to be charged for a moment, by queue.
pub(super) type Shift = Vec<(QueueIdx, Vec<(FlavorResource, i128)>)>;

impl Queues {
    /// A gang that has just been discharged of `of` runs on for its grace period.
    pub(crate) fn leaves(&mut self, gang: GangIdx, id: &GangId, queue: &QueueName, of: &Demand) {
        let charge = Charge {
            queue: queue.clone(),
            id: id.clone(),
            demand: Arc::new(of.clone()),
        };
        self.leaving.leaving.insert(gang, charge);
    }

    /// The gang no longer runs, or is charged again. Returns what it held.
    pub(crate) fn has_left(&mut self, gang: GangIdx) -> Option<Arc<Demand>> {
        Some(self.leaving.leaving.remove(gang)?.demand)
    }

    /// Quota that a leaving gang still holds.
    pub(crate) fn left_by(&self, gang: GangIdx) -> Option<Arc<Demand>> {
        let charge = self.leaving.leaving.gangs.get(&gang)?;
        Some(Arc::clone(&charge.demand))
    }

    /// A charged gang waits for leaving gangs, and does not run yet.
    pub(crate) fn follows(&mut self, gang: GangIdx, id: &GangId, queue: &QueueName) {
        if let Some(demand) = self.charge_of(queue, gang) {
            let (queue, id) = (queue.clone(), id.clone());
            let charge = Charge { queue, id, demand };
            self.leaving.coming.insert(gang, charge);
        }
    }

    /// The gang runs from now on, or is no longer charged. Returns its charge.
    pub(crate) fn has_come(&mut self, gang: GangIdx) -> Option<Arc<Demand>> {
        Some(self.leaving.coming.remove(gang)?.demand)
    }

    /// The leaving gangs of a queue, by name, with what they hold.
    pub(super) fn leavers(
        &self,
        queue: &QueueName,
        what: FlavorResource,
    ) -> impl Iterator<Item = (GangId, i128)> {
        let leaving = self.leaving.leaving.gangs.values();
        let leaving = leaving.filter(move |charge| charge.queue == *queue);
        leaving.map(move |charge| (charge.id.clone(), charge.demand.amount(what)))
    }

    /// Quota of its queue that each leaving gang holds.
    pub(crate) fn held_by_leavers(&self) -> Vec<(GangIdx, QueueIdx, Arc<Demand>)> {
        let all = self.leaving.leaving.gangs.iter();
        let found = all.filter_map(|(gang, charge)| {
            let queue = self.tree.find(&charge.queue)?;
            Some((*gang, queue, Arc::clone(&charge.demand)))
        });
        found.collect()
    }

    /// The room that its queue has for a charged gang that waits for leaving gangs.
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

    /// The shift that turns the tree into a count of what runs, for the resources of a demand.
    /// Empty if no gang is leaving.
    pub(super) fn to_what_runs(&self, queue: QueueIdx, demand: &Demand) -> Shift {
        let Leaving { leaving, coming } = &self.leaving;
        if leaving.gangs.is_empty() {
            return Shift::new();
        }
        let mut shift = self.shift_of(queue, demand, &leaving.sums, 1);
        shift.extend(self.shift_of(queue, demand, &coming.sums, -1));
        shift
    }

    /// True if so much is available that the demand fits whichever gangs are leaving.
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

    /// The sums below the root of a queue, times `times`.
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

    /// Charges the shift, times `times`.
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

    /// The state of a gang in the two counts.
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
            // All of the gangs leave again.
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
