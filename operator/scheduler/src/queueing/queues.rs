//! Queues as they are configured, and what gangs hold of their quota. A gang is
//! charged whole.

mod aside;
mod holders;
mod leaving;
mod offered;
mod quota;
mod sums;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::flavors::Flavors;
use crate::gang::Gang;
use crate::ids::{FlavorName, QueueName};
use crate::queue::{BorrowWithin, Preemption, Queue, QueueOrder, Stop};
use crate::quota::{
    Decay, Demand, FlavorResource, Lag, Member, Next, Order, QueueIdx, Remembered, Tree,
};
use crate::state::{Catalog, GangIdx, Interner, ResourceIdx};
use crate::time::Time;
pub(crate) use aside::Aside;
use holders::{Holder, Holders};
pub(crate) use leaving::FollowerRoom;
use leaving::Leaving;
use sums::Sums;

/// All queues.
#[derive(Debug)]
pub(crate) struct Queues {
    tree: Tree,
    configs: BTreeMap<QueueName, Queue>,
    holders: BTreeMap<QueueName, Holders>,
    /// What gangs are charged.
    charges: Interner<Demand>,
    flavors: Flavors,
    /// What those of each queue hold that are not preemptible.
    kept: Sums,
    /// What is surplus holds of each queue.
    surplus: Sums,
    /// Queues that are drained.
    drains: BTreeSet<QueueName>,
    leaving: Leaving,
}

impl Queues {
    pub(crate) fn new(catalog: &Catalog, decay: Decay) -> Self {
        let mut flavors = Flavors::default();
        // The first number is that of the flavor that needs no definition.
        flavors.number(&FlavorName::default());
        Self {
            tree: Tree::new(catalog.pods(), decay),
            configs: BTreeMap::new(),
            holders: BTreeMap::new(),
            charges: Interner::default(),
            flavors,
            kept: Sums::default(),
            surplus: Sums::default(),
            drains: BTreeSet::new(),
            leaving: Leaving::default(),
        }
    }

    pub(crate) fn flavors(&self) -> &Flavors {
        &self.flavors
    }

    pub(crate) fn flavors_mut(&mut self) -> &mut Flavors {
        &mut self.flavors
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// It is so late now.
    pub(crate) fn advance(&mut self, now: Time) {
        self.tree.advance(now);
    }

    /// What a queue had held at some time.
    pub(crate) fn recall(&mut self, name: &QueueName, remembered: &Remembered) {
        if let Some(at) = self.tree.find(name) {
            self.tree.recall(at, remembered);
        }
    }

    /// The queues as they are configured, by name.
    pub(crate) fn configs(&self) -> impl Iterator<Item = &Queue> {
        self.configs.values()
    }

    /// What queues remember takes the place of what they do.
    pub(crate) fn restore_lags(&mut self, lags: impl IntoIterator<Item = Lag>) {
        self.tree.restore_lags(lags);
    }

    /// What there is of a resource, by which shares are measured.
    pub(crate) fn set_capacity(&mut self, resource: ResourceIdx, capacity: i128) {
        self.tree.set_capacity(resource, capacity);
    }

    /// Takes a queue as it is now. Says whether anything changed.
    pub(crate) fn apply(&mut self, queue: Queue, catalog: &mut Catalog) -> bool {
        if self.configs.get(&queue.name) == Some(&queue) {
            return false;
        }
        let mut quotas = BTreeMap::new();
        for offered in queue.resource_groups.iter().flat_map(|g| &g.flavors) {
            let flavor = self.flavors.number(&offered.flavor);
            for (name, quota) in &offered.quotas {
                let resource = catalog.pin(name);
                quotas.insert(FlavorResource { flavor, resource }, *quota);
            }
        }
        let member = Member {
            parent: queue.parent.clone(),
            weight: queue.weight,
            unusable: offered::fault(&queue.resource_groups),
            quotas: (!queue.resource_groups.is_empty()).then_some(quotas),
        };
        self.tree.apply(&queue.name, member);
        if queue.stop == Stop::HoldAndDrain {
            self.drains.insert(queue.name.clone());
        } else {
            self.drains.remove(&queue.name);
        }
        self.configs.insert(queue.name.clone(), queue);
        true
    }

    /// Forgets a queue; what is held of it is remembered.
    pub(crate) fn delete(&mut self, name: &QueueName) -> bool {
        self.tree.delete(name);
        self.drains.remove(name);
        self.configs.remove(name).is_some()
    }

    pub(crate) fn order(&self, name: &QueueName) -> QueueOrder {
        self.configs
            .get(name)
            .map_or_else(QueueOrder::default, |queue| queue.order)
    }

    /// Charges a gang, whatever the quota says. The resources are pinned: what queues
    /// remember outlives the gang. Tells of what somebody borrows from now on who
    /// did not.
    pub(crate) fn charge(
        &mut self,
        at: GangIdx,
        gang: &Gang,
        demand: Demand,
        catalog: &mut Catalog,
    ) -> Vec<FlavorResource> {
        for (what, _) in demand.iter() {
            catalog.pin(&catalog.name(what.resource));
        }
        let before = self.tree.lenders(&gang.queue, &demand);
        self.tree.charge(&gang.queue, &demand);
        let now = self.tree.lenders(&gang.queue, &demand);
        let begins = now.into_iter().filter(|now| !before.contains(now));
        let begins = begins.map(|(what, _)| what).collect();
        let kept = !gang.preemptible && !gang.surplus;
        if kept {
            self.kept.add(&gang.queue, &demand);
        }
        if gang.surplus {
            self.surplus.add(&gang.queue, &demand);
        }
        let (charge, _) = self.charges.acquire(demand);
        let holders = self.holders.entry(gang.queue.clone()).or_default();
        holders.insert(Holder {
            gang: at,
            priority: gang.priority,
            kept,
            surplus: gang.surplus,
            charge,
            id: gang.id.clone(),
        });
        begins
    }

    /// Whether any queue of its tree names quotas.
    pub(crate) fn is_limited(&self, name: &QueueName) -> bool {
        let at = self.tree.find(name);
        at.is_some_and(|at| self.tree.is_limited(at))
    }

    /// What those of a queue hold that are not preemptible.
    pub(crate) fn kept(&self, name: &QueueName, what: FlavorResource) -> i128 {
        self.kept.amount(name, what)
    }

    /// The queues of which surplus holds something, with what it holds.
    pub(crate) fn surplus(
        &self,
    ) -> impl Iterator<Item = (&QueueName, &BTreeMap<FlavorResource, i128>)> {
        self.surplus.iter()
    }

    /// Whether surplus holds anything.
    pub(crate) fn has_surplus(&self) -> bool {
        self.surplus.iter().next().is_some()
    }

    /// What a gang holds of a queue.
    pub(crate) fn held(&self, name: &QueueName, gang: GangIdx) -> Option<&Demand> {
        let number = self.holders.get(name)?.get(gang)?.charge;
        self.charged(number).map(|demand| &**demand)
    }

    /// The same, to be kept for a while.
    pub(crate) fn charge_of(&self, name: &QueueName, gang: GangIdx) -> Option<Arc<Demand>> {
        let number = self.holders.get(name)?.get(gang)?.charge;
        self.charged(number).map(Arc::clone)
    }

    /// How a queue is configured.
    pub(crate) fn config(&self, name: &QueueName) -> Option<&Queue> {
        self.configs.get(name)
    }

    /// Takes the charge of a gang back; returns it.
    pub(crate) fn discharge(&mut self, name: &QueueName, gang: GangIdx) -> Demand {
        self.has_come(gang);
        let Some(holders) = self.holders.get_mut(name) else {
            return Demand::default();
        };
        let Some(holder) = holders.remove(gang) else {
            return Demand::default();
        };
        if holders.len() == 0 {
            self.holders.remove(name);
        }
        let charged = self.charges.get(holder.charge).map(Arc::clone);
        let charged = charged.unwrap_or_default();
        self.charges.release(holder.charge);
        if holder.kept {
            self.kept.take(name, &charged);
        }
        if holder.surplus {
            self.surplus.take(name, &charged);
        }
        self.tree.release(name, &charged);
        Arc::unwrap_or_clone(charged)
    }

    /// How many gangs hold some of each queue of which anyone does; surplus is not
    /// counted.
    pub(crate) fn holders(&self) -> impl Iterator<Item = (&QueueName, usize)> {
        self.holders
            .iter()
            .map(|(queue, holders)| (queue, holders.gangs()))
    }

    /// The gangs that hold some of a queue, and the number of what each is charged.
    pub(crate) fn held_by(&self, name: &QueueName) -> impl Iterator<Item = (GangIdx, usize)> {
        let holders = self.holders.get(name).into_iter();
        holders.flat_map(|h| h.iter().map(|holder| (holder.gang, holder.charge)))
    }

    /// The same of what is surplus.
    pub(crate) fn surplus_of(&self, name: &QueueName) -> impl Iterator<Item = (GangIdx, usize)> {
        let holders = self.holders.get(name).into_iter();
        holders.flat_map(|h| h.surplus().map(|holder| (holder.gang, holder.charge)))
    }

    /// What is charged by that number.
    pub(crate) fn charged(&self, number: usize) -> Option<&Arc<Demand>> {
        self.charges.get(number)
    }

    /// The lowest priority of a gang that holds some of a queue.
    pub(crate) fn lowest_priority(&self, name: &QueueName) -> Option<i32> {
        self.holders.get(name)?.lowest_priority()
    }

    /// Whom the gangs of a queue may preempt.
    pub(crate) fn preemption(&self, name: &QueueName) -> Option<Preemption> {
        self.configs.get(name).map(|queue| queue.preemption)
    }

    /// The longest time for which a gang of a queue is safe.
    pub(crate) fn max_min_runtime(&self, name: &QueueName) -> Option<Duration> {
        self.configs.get(name)?.max_min_runtime
    }

    /// Queues that are being drained and of which something is held.
    pub(crate) fn draining(&self) -> Vec<QueueName> {
        let held = |name: &&QueueName| self.holders.contains_key(*name);
        self.drains.iter().filter(held).cloned().collect()
    }

    /// As [`Tree::borrows`], as if there were no surplus in the queue.
    pub(crate) fn borrows_but_surplus(&mut self, queue: QueueIdx, demand: &Demand) -> bool {
        let name = self.tree.name(queue);
        let held = name.and_then(|name| self.surplus.of(name));
        let less: Vec<_> = held
            .into_iter()
            .flatten()
            .map(|(what, amount)| (*what, amount.saturating_neg()))
            .collect();
        self.tree.shift(queue, &less);
        let borrows = self.tree.borrows(queue, demand);
        let back: Vec<_> = less
            .into_iter()
            .map(|(w, n)| (w, n.saturating_neg()))
            .collect();
        self.tree.shift(queue, &back);
        borrows
    }

    /// True if a queue could be given a demand if it held nothing itself. The queues are
    /// as before.
    pub(crate) fn would_fit_alone(&mut self, queue: QueueIdx, demand: &Demand) -> bool {
        let held = demand
            .iter()
            .map(|(what, _)| (what, self.tree.own(queue, what)));
        let held: Vec<_> = held.collect();
        let less: Vec<_> = held.iter().map(|(w, n)| (*w, n.saturating_neg())).collect();
        self.tree.shift(queue, &less);
        let fits = self.tree.fits(queue, demand);
        self.tree.shift(queue, &held);
        fits
    }

    /// As [`Tree::shift`].
    pub(crate) fn shift(&mut self, queue: QueueIdx, amounts: &[(FlavorResource, i128)]) {
        self.tree.shift(queue, amounts);
    }

    /// What gangs hold of a queue.
    pub(crate) fn usage(&self, name: &QueueName) -> BTreeMap<ResourceIdx, i128> {
        let mut usage: BTreeMap<ResourceIdx, i128> = BTreeMap::new();
        let demands = self.held_by(name).filter_map(|(_, at)| self.charged(at));
        for (what, amount) in demands.flat_map(|demand| demand.iter()) {
            let sum = usage.entry(what.resource).or_default();
            *sum = sum.saturating_add(amount);
        }
        usage
    }

    /// The name by which quota that is taken or given back is signalled: whatever
    /// happens below one root may matter to all of it.
    pub(crate) fn root(&self, name: &QueueName) -> QueueName {
        let root = self.tree.find(name).and_then(|at| self.tree.root(at));
        root.unwrap_or(name).clone()
    }

    /// The number of a queue from which gangs may start.
    pub(crate) fn leaf(&self, name: &QueueName) -> Option<QueueIdx> {
        let at = self.tree.find(name)?;
        (self.tree.is_leaf(at) && self.tree.misconfigured(at).is_none()).then_some(at)
    }

    /// A gang that would start next in its queue.
    pub(crate) fn next(&self, gang: &Gang, demand: &Demand) -> Next {
        let policy = self.preemption(&gang.queue).filter(|_| gang.preempts);
        let preempts_up_to = match policy.map(|policy| policy.borrow_within) {
            Some(BorrowWithin::LowerPriority { max_priority }) => {
                let lower = gang.priority.saturating_sub(1);
                Some(max_priority.map_or(lower, |most| most.min(lower)))
            }
            Some(BorrowWithin::Never) | None => None,
        };
        Next {
            demand: demand.clone(),
            submitted: gang.submitted,
            given_back: Demand::default(),
            priority: gang.priority,
            preempts_up_to: preempts_up_to.filter(|_| !gang.surplus),
        }
    }

    /// The gang that would start next in a queue takes its turn.
    pub(crate) fn rank(&self, order: &mut Order, queue: QueueIdx, next: Next) {
        // Surplus is given back whenever a gang asks for it.
        let name = self.tree.name(queue);
        let surplus = name.and_then(|name| self.surplus.of(name));
        let surplus = surplus.into_iter().flatten();
        let surplus = surplus.map(|(what, amount)| (*what, *amount));
        let given_back = next.given_back.iter().chain(surplus).collect();
        order.insert(&self.tree, queue, Next { given_back, ..next });
    }
}
