//! The configured queues, and the quota that gangs hold. The engine always charges a whole gang.

mod charges;
mod holders;
mod leaving_quota;
mod lifted_charge;
mod offered_groups;
mod quota_checks;
mod sums;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::flavors::Flavors;
use super::pending_gangs::OrderKey;
use crate::gang::Gang;
use crate::ids::{FlavorName, QueueName};
use crate::queue::{Flavor, PreemptionPolicy, Queue, QueueOrder, QueueStop};
use crate::quota::{
    Demand, FlavorIdx, FlavorResource, NextGang, QueueConfig, QuotaTree, RememberedUsage,
    TurnOrder, UsageDecay, UsageLag,
};
use crate::state::{Catalog, Interner, QueueIdx, ResourceIdx};
use crate::time::Time;
use holders::QueueHolders;
use leaving_quota::LeavingQuota;
pub(crate) use leaving_quota::NominatedRoom;
pub(crate) use lifted_charge::LiftedCharge;
use sums::QueueSums;

/// All queues.
#[derive(Debug)]
pub(crate) struct Queues {
    tree: QuotaTree,
    configs: BTreeMap<QueueName, Queue>,
    /// Grows with each change of a queue or flavor.
    config_version: u64,
    holders: BTreeMap<QueueName, QueueHolders>,
    /// The charges of gangs.
    charges: Interner<Demand>,
    flavors: Flavors,
    /// The quota that non-preemptible gangs hold, by queue.
    non_preemptible: QueueSums,
    /// Quota that surplus holds, by queue.
    surplus: QueueSums,
    /// The queues that the engine drains.
    drains: BTreeSet<QueueName>,
    leaving: LeavingQuota,
}

impl Queues {
    pub(crate) fn new(catalog: &Catalog, decay: UsageDecay) -> Self {
        let mut flavors = Flavors::default();
        // The default flavor gets number 0. It needs no definition.
        flavors.intern(&FlavorName::default());
        Self {
            tree: QuotaTree::new(catalog.pods(), decay),
            configs: BTreeMap::new(),
            config_version: 0,
            holders: BTreeMap::new(),
            charges: Interner::default(),
            flavors,
            non_preemptible: QueueSums::default(),
            surplus: QueueSums::default(),
            drains: BTreeSet::new(),
            leaving: LeavingQuota::default(),
        }
    }

    pub(crate) fn flavors(&self) -> &Flavors {
        &self.flavors
    }

    /// Returns the number of a flavor, assigned at the first call.
    pub(crate) fn intern_flavor(&mut self, flavor: &FlavorName) -> FlavorIdx {
        self.flavors.intern(flavor)
    }

    pub(crate) fn tree(&self) -> &QuotaTree {
        &self.tree
    }

    /// Advances the time.
    pub(crate) fn advance(&mut self, now: Time) {
        self.tree.advance(now);
    }

    /// Restores the past usage of a queue.
    pub(crate) fn restore_memory(&mut self, name: &QueueName, remembered: &RememberedUsage) {
        if let Some(at) = self.tree.find(name) {
            self.tree.restore_memory(at, remembered);
        }
    }

    /// Returns the queue configurations, by name.
    pub(crate) fn configs(&self) -> impl Iterator<Item = &Queue> {
        self.configs.values()
    }

    /// Replaces the past usage that queues remember.
    pub(crate) fn restore_lags(&mut self, lags: impl IntoIterator<Item = UsageLag>) {
        self.tree.restore_lags(lags);
    }

    /// Sets the capacity of a resource. A share is usage divided by capacity.
    pub(crate) fn set_capacity(&mut self, resource: ResourceIdx, capacity: i128) {
        self.tree.set_capacity(resource, capacity);
    }

    /// Adds or replaces a queue. Returns true if the configuration changes.
    pub(crate) fn apply(&mut self, queue: Queue, catalog: &mut Catalog) -> bool {
        if self.configs.get(&queue.name) == Some(&queue) {
            return false;
        }
        let mut quotas = BTreeMap::new();
        for offered in queue.resource_groups.iter().flat_map(|g| &g.flavors) {
            let flavor = self.flavors.intern(&offered.flavor);
            for (name, quota) in &offered.quotas {
                let resource = catalog.pin(name);
                quotas.insert(FlavorResource { flavor, resource }, *quota);
            }
        }
        let member = QueueConfig {
            parent: queue.parent.clone(),
            weight: queue.weight,
            priority: queue.priority,
            group_fault: offered_groups::find_fault(&queue.resource_groups),
            quotas: (!queue.resource_groups.is_empty()).then_some(quotas),
        };
        self.tree.apply(&queue.name, member);
        if queue.stop == QueueStop::HoldAndDrain {
            self.drains.insert(queue.name.clone());
        } else {
            self.drains.remove(&queue.name);
        }
        self.configs.insert(queue.name.clone(), queue);
        self.start_version(true)
    }

    /// Removes a queue. The quota that its gangs hold stays charged.
    pub(crate) fn delete(&mut self, name: &QueueName) -> bool {
        self.tree.delete(name);
        self.drains.remove(name);
        let existed = self.configs.remove(name).is_some();
        self.start_version(existed)
    }

    /// Adds or replaces a flavor. Returns true if the definition changes.
    pub(crate) fn apply_flavor(&mut self, flavor: Flavor) -> bool {
        let changed = self.flavors.apply(flavor);
        self.start_version(changed)
    }

    /// Removes the definition of a flavor. Returns true if there was one.
    pub(crate) fn delete_flavor(&mut self, flavor: &FlavorName) -> bool {
        let existed = self.flavors.delete(flavor);
        self.start_version(existed)
    }

    /// Returns the version of queues and flavors. Results from another version are invalid.
    pub(crate) fn config_version(&self) -> u64 {
        self.config_version
    }

    fn start_version(&mut self, changed: bool) -> bool {
        self.config_version = self.config_version.saturating_add(u64::from(changed));
        changed
    }

    pub(crate) fn order(&self, name: &QueueName) -> QueueOrder {
        self.configs
            .get(name)
            .map_or_else(QueueOrder::default, |queue| queue.order)
    }

    /// Returns true if any queue of its tree has quotas.
    pub(crate) fn is_limited(&self, name: &QueueName) -> bool {
        let at = self.tree.find(name);
        at.is_some_and(|at| self.tree.is_limited(at))
    }

    /// Returns the quota that non-preemptible gangs of a queue hold.
    pub(crate) fn non_preemptible(&self, name: &QueueName, what: FlavorResource) -> i128 {
        self.non_preemptible.amount(name, what)
    }

    /// Returns the queues of which surplus holds quota, with the amounts.
    pub(crate) fn surplus(
        &self,
    ) -> impl Iterator<Item = (&QueueName, &BTreeMap<FlavorResource, i128>)> {
        self.surplus.iter()
    }

    /// Returns true if surplus holds any quota.
    pub(crate) fn has_surplus(&self) -> bool {
        self.surplus.iter().next().is_some()
    }

    /// Returns the configuration of a queue.
    pub(crate) fn config(&self, name: &QueueName) -> Option<&Queue> {
        self.configs.get(name)
    }

    /// Returns the preemption policy of a queue.
    pub(crate) fn preemption_policy(&self, name: &QueueName) -> Option<PreemptionPolicy> {
        self.configs.get(name).map(|queue| queue.preemption)
    }

    /// Returns the longest time for which a gang of a queue is safe from preemption.
    pub(crate) fn max_min_runtime(&self, name: &QueueName) -> Option<Duration> {
        self.configs.get(name)?.max_min_runtime
    }

    /// Returns the draining queues that still have holders.
    pub(crate) fn draining_queues(&self) -> Vec<QueueName> {
        let held = |name: &&QueueName| self.holders.contains_key(*name);
        self.drains.iter().filter(held).cloned().collect()
    }

    /// Returns [`QuotaTree::borrows`] as if the queue had no surplus.
    pub(crate) fn borrows_without_surplus(&mut self, queue: QueueIdx, demand: &Demand) -> bool {
        let name = self.tree.name(queue);
        let held = name.and_then(|name| self.surplus.get(name));
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

    /// Returns true if a demand would fit without the queue's own usage. Leaves the queues
    /// unchanged.
    pub(crate) fn would_fit_alone(&mut self, queue: QueueIdx, demand: &Demand) -> bool {
        let held = demand
            .iter()
            .map(|(what, _)| (what, self.tree.own_usage(queue, what)));
        let held: Vec<_> = held.collect();
        let less: Vec<_> = held.iter().map(|(w, n)| (*w, n.saturating_neg())).collect();
        self.tree.shift(queue, &less);
        let fits = self.tree.fits(queue, demand);
        self.tree.shift(queue, &held);
        fits
    }

    /// See [`QuotaTree::shift`].
    pub(crate) fn shift(&mut self, queue: QueueIdx, amounts: &[(FlavorResource, i128)]) {
        self.tree.shift(queue, amounts);
    }

    /// Does the same with each amount multiplied by `times`.
    pub(crate) fn shift_times(
        &mut self,
        queue: QueueIdx,
        amounts: impl Iterator<Item = (FlavorResource, i128)>,
        times: i128,
    ) {
        self.tree.shift_times(queue, amounts, times);
    }

    /// Returns the name that quota signals of a queue use: its root. A quota change below a root
    /// may affect every queue of its tree.
    pub(crate) fn root(&self, name: &QueueName) -> QueueName {
        let root = self.tree.find(name).and_then(|at| self.tree.root(at));
        root.unwrap_or(name).clone()
    }

    /// Returns the index of a queue from which gangs may start.
    pub(crate) fn leaf(&self, name: &QueueName) -> Option<QueueIdx> {
        let at = self.tree.find(name)?;
        (self.tree.is_leaf(at) && self.tree.fault(at).is_none()).then_some(at)
    }

    /// Returns the entry in the order of turns for a gang that is the next to start in its queue.
    pub(crate) fn next_gang(&self, gang: &Gang, demand: &Demand) -> NextGang {
        let policy = self
            .preemption_policy(&gang.queue)
            .filter(|_| gang.preempts);
        let policy = policy.filter(|_| !gang.surplus).unwrap_or_default();
        NextGang {
            demand: demand.clone(),
            submitted: gang.submitted,
            released: Demand::default(),
            priority: gang.priority,
            preempts: policy.borrow_within,
        }
    }

    /// Adds the next gang of a queue to the order of turns.
    pub(crate) fn rank(&self, order: &mut TurnOrder, queue: QueueIdx, next: NextGang) {
        // Surplus gives back its quota whenever a gang needs it.
        let name = self.tree.name(queue);
        let surplus = name.and_then(|name| self.surplus.get(name));
        let surplus = surplus.into_iter().flatten();
        let surplus = surplus.map(|(what, amount)| (*what, *amount));
        let given_back = next.released.iter().chain(surplus).collect();
        order.insert(
            &self.tree,
            queue,
            NextGang {
                released: given_back,
                ..next
            },
        );
    }

    /// True if a gang comes before the other gang. Surplus comes after all other gangs. In one
    /// queue, the queue order decides; between queues, their turns decide.
    pub(crate) fn is_before(
        &self,
        gang: &Gang,
        demand: &Demand,
        other: &Gang,
        other_demand: &Demand,
    ) -> bool {
        if gang.surplus != other.surplus {
            return other.surplus;
        }
        if gang.queue == other.queue {
            return OrderKey::for_gang(gang) < OrderKey::for_gang(other);
        }
        let Some(queue) = self.leaf(&gang.queue) else {
            return false;
        };
        let Some(other_queue) = self.leaf(&other.queue) else {
            return true;
        };
        let mut order = TurnOrder::default();
        let next = self.next_gang(gang, demand);
        self.rank(&mut order, queue, next);
        let next = self.next_gang(other, other_demand);
        self.rank(&mut order, other_queue, next);
        order.first(self.tree()) == Some(queue)
    }
}
