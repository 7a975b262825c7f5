//! The charges of gangs: the quota that each gang holds of its queue.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Queues;
use super::holders::QueueHolder;
use crate::gang::Gang;
use crate::ids::QueueName;
use crate::quota::{Demand, FlavorResource};
use crate::state::{Catalog, GangIdx, ResourceIdx};

impl Queues {
    /// Charges a gang, even above quota. Pins its resources, because queues remember usage for
    /// longer than the gang exists. Returns the resources that a queue begins to borrow because of
    /// this charge.
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
        let before = self.tree.queues_over_quota(&gang.queue, &demand);
        self.tree.charge(&gang.queue, &demand);
        let now = self.tree.queues_over_quota(&gang.queue, &demand);
        let begins = now.into_iter().filter(|now| !before.contains(now));
        let begins = begins.map(|(what, _)| what).collect();
        let kept = !gang.preemptible && !gang.surplus;
        if kept {
            self.non_preemptible.add(&gang.queue, &demand);
        }
        if gang.surplus {
            self.surplus.add(&gang.queue, &demand);
        }
        let (charge, _) = self.charges.acquire(demand);
        let holders = self.holders.entry(gang.queue.clone()).or_default();
        holders.insert(QueueHolder {
            gang: at,
            priority: gang.priority,
            non_preemptible: kept,
            surplus: gang.surplus,
            charge,
            id: gang.id.clone(),
        });
        begins
    }

    /// Discharges a gang, and returns its charge.
    pub(crate) fn discharge(&mut self, name: &QueueName, gang: GangIdx) -> Demand {
        self.start_running(gang);
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
        if holder.non_preemptible {
            self.non_preemptible.remove(name, &charged);
        }
        if holder.surplus {
            self.surplus.remove(name, &charged);
        }
        self.tree.release(name, &charged);
        Arc::unwrap_or_clone(charged)
    }

    /// Returns the charge of a gang of a queue.
    pub(crate) fn gang_charge(&self, name: &QueueName, gang: GangIdx) -> Option<&Demand> {
        let number = self.holders.get(name)?.get(gang)?.charge;
        self.charge_by_number(number).map(|demand| &**demand)
    }

    /// Returns the charge of a gang of a queue as a shared reference.
    pub(crate) fn shared_charge(&self, name: &QueueName, gang: GangIdx) -> Option<Arc<Demand>> {
        let number = self.holders.get(name)?.get(gang)?.charge;
        self.charge_by_number(number).map(Arc::clone)
    }

    /// Returns the charge with this number.
    pub(crate) fn charge_by_number(&self, number: usize) -> Option<&Arc<Demand>> {
        self.charges.get(number)
    }

    /// Returns each queue with holders, and the number of gangs that hold its quota, without
    /// surplus.
    pub(crate) fn holders(&self) -> impl Iterator<Item = (&QueueName, usize)> {
        self.holders
            .iter()
            .map(|(queue, holders)| (queue, holders.gang_count()))
    }

    /// Returns the gangs that hold quota of a queue, with the number of each charge.
    pub(crate) fn holder_charges(
        &self,
        name: &QueueName,
    ) -> impl Iterator<Item = (GangIdx, usize)> {
        let holders = self.holders.get(name).into_iter();
        holders.flat_map(|h| h.iter().map(|holder| (holder.gang, holder.charge)))
    }

    /// Returns the surplus that holds quota of a queue, with the number of each charge.
    pub(crate) fn surplus_charges(
        &self,
        name: &QueueName,
    ) -> impl Iterator<Item = (GangIdx, usize)> {
        let holders = self.holders.get(name).into_iter();
        holders.flat_map(|h| h.surplus().map(|holder| (holder.gang, holder.charge)))
    }

    /// Returns the lowest priority among the gangs that hold quota of a queue.
    pub(crate) fn lowest_priority(&self, name: &QueueName) -> Option<i32> {
        self.holders.get(name)?.lowest_priority()
    }

    /// Returns the units of each resource that gangs of a queue hold.
    pub(crate) fn usage(&self, name: &QueueName) -> BTreeMap<ResourceIdx, i128> {
        let mut usage: BTreeMap<ResourceIdx, i128> = BTreeMap::new();
        let demands = self
            .holder_charges(name)
            .filter_map(|(_, at)| self.charge_by_number(at));
        for (what, amount) in demands.flat_map(|demand| demand.iter()) {
            let sum = usage.entry(what.resource).or_default();
            *sum = sum.saturating_add(amount);
        }
        usage
    }
}
