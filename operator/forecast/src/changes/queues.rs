//! Changes of queues.

use trellis_api::queue::QueueSpec;
use trellis_api::visibility::{ChangedQueue, ChangedQuota};
use trellis_api::{Quantity, rules};
use trellis_gang::engine::{base_units, to_queue_stop};
use trellis_scheduler::{Queue, QueueName, Quota, ResourceName, Weight};

use super::ChangedCluster;
use crate::InvalidChange;

impl ChangedCluster {
    pub(super) fn change_queue(&mut self, change: &ChangedQueue) -> Result<(), InvalidChange> {
        let mut queue = self.queue("name", &change.name)?.clone();
        for (at, quota) in change.quotas.iter().enumerate() {
            let changed = change_quota(&mut queue, quota);
            changed.map_err(|error| error.below(&format!("quotas[{at}]")))?;
        }
        if let Some(priority) = change.priority {
            queue.priority = priority;
        }
        if let Some(weight) = &change.weight {
            queue.weight = parse_weight(weight)?;
        }
        if let Some(stop) = change.stop_policy {
            queue.stop = to_queue_stop(stop);
        }
        self.engine.apply_queue(queue.clone());
        self.queues.insert(queue.name.clone(), queue);
        Ok(())
    }

    /// Returns the queue of that name.
    pub(super) fn queue(&self, field: &str, name: &str) -> Result<&Queue, InvalidChange> {
        let queue = self.queues.get(&QueueName::new(name));
        queue.ok_or_else(|| {
            let message = format!("no queue is named {name:?}: `trellis queue` lists them");
            InvalidChange::new(field, message)
        })
    }
}

fn change_quota(queue: &mut Queue, change: &ChangedQuota) -> Result<(), InvalidChange> {
    let resource = ResourceName::new(change.resource.as_str());
    let flavors = queue
        .resource_groups
        .iter_mut()
        .flat_map(|group| &mut group.flavors);
    let mut found: Vec<(String, &mut Quota)> = flavors
        .filter_map(|flavor| {
            let name = flavor.flavor.to_string();
            Some((name, flavor.quotas.get_mut(&resource)?))
        })
        .collect();
    if found.is_empty() {
        let message = format!(
            "queue {} has no quota of {resource}: name a resource of its quotas",
            queue.name
        );
        return Err(InvalidChange::new("resource", message));
    }
    let names: Vec<String> = found.iter().map(|(name, _)| name.clone()).collect();
    let names = names.join(", ");
    if let Some(flavor) = &change.flavor {
        found.retain(|(name, _)| name == flavor);
    }
    let message = match found.as_mut_slice() {
        [(_, quota)] => return set_amounts(quota, change),
        [] => format!("the quota of {resource} has the flavors {names}: name one of them"),
        _ => format!("{resource} has quotas of several flavors: name one of {names}"),
    };
    Err(InvalidChange::new("flavor", message))
}

fn set_amounts(quota: &mut Quota, change: &ChangedQuota) -> Result<(), InvalidChange> {
    let units = |field: &str, amount: &Quantity| {
        to_units(&change.resource, amount).map_err(|why| InvalidChange::new(field, why))
    };
    if let Some(nominal) = &change.nominal {
        quota.nominal = units("nominal", nominal)?;
    }
    if let Some(limit) = &change.borrowing_limit {
        quota.borrowing_limit = Some(units("borrowingLimit", limit)?);
    }
    if let Some(limit) = &change.lending_limit {
        quota.lending_limit = Some(units("lendingLimit", limit)?);
    }
    Ok(())
}

/// Converts an amount into base units.
pub(super) fn to_units(resource: &str, quantity: &Quantity) -> Result<i64, String> {
    let amount = quantity.amount();
    let amount = amount.map_err(|error| format!("the amount {quantity} of {resource}: {error}"))?;
    let units = base_units(resource, amount);
    match units {
        0.. => Ok(units),
        _ => Err(format!(
            "the amount {quantity} of {resource} must not be negative"
        )),
    }
}

fn parse_weight(weight: &Quantity) -> Result<Weight, InvalidChange> {
    let valid = rules::weight(weight, &());
    valid.map_err(|error| InvalidChange::new("weight", format!("{weight} {error}")))?;
    let spec = QueueSpec {
        weight: Some(weight.clone()),
        ..QueueSpec::default()
    };
    Ok(Weight::from_thousandths(spec.weight_thousandths()))
}
