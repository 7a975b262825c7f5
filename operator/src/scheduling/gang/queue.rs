//! Queues, flavors and topologies in the engine's words, and what a queue's
//! status says in Kubernetes'.

use trellis_api::job::TolerationEffect;
use trellis_api::quantity::Amount;
use trellis_api::queue::{
    self, BorrowWithinPolicy, QueueOrder, QueuePreemption, QueueSpec, QueueStatus, StopPolicy,
};
use trellis_api::{Quantity, ResourceFlavorSpec, TopologySpec};
use trellis_scheduler::{
    BorrowWithin, Decayed, Flavor, FlavorName, FlavorQuotas, Preemption, Queue, QueueMemory,
    QueueName, Quota, Reclaim, ResourceGroup, ResourceName, Stop, Taint, TaintEffect, Topology,
    TopologyName, Weight, WithinQueue,
};

use super::{base_units, seconds, time};
use crate::scheduling::constraints;

/// The engine's form of a queue.
#[must_use]
pub fn queue(name: &str, spec: &QueueSpec) -> Queue {
    let weight = spec.weight.and_then(|w| u32::try_from(w).ok());
    Queue {
        parent: spec.parent.as_deref().map(QueueName::new),
        weight: weight.map_or_else(Weight::default, Weight::from_thousandths),
        order: match spec.order.unwrap_or_default() {
            QueueOrder::Priority => trellis_scheduler::QueueOrder::Priority,
            QueueOrder::StrictFifo => trellis_scheduler::QueueOrder::StrictFifo,
        },
        resource_groups: spec.resource_groups.iter().map(resource_group).collect(),
        preemption: spec.preemption.as_ref().map(preemption).unwrap_or_default(),
        backfill: spec.backfill.unwrap_or(true),
        default_runtime: spec.default_runtime_seconds.map(seconds),
        max_min_runtime: spec.max_min_runtime_seconds.map(seconds),
        stop: match spec.stop.unwrap_or_default() {
            StopPolicy::None => Stop::None,
            StopPolicy::Hold => Stop::Hold,
            StopPolicy::HoldAndDrain => Stop::HoldAndDrain,
        },
        ..Queue::new(QueueName::new(name))
    }
}

fn preemption(of: &QueuePreemption) -> Preemption {
    let within = of.borrow_within.clone().unwrap_or_default();
    Preemption {
        within_queue: match of.within_queue.unwrap_or_default() {
            queue::WithinQueue::Never => WithinQueue::Never,
            queue::WithinQueue::LowerPriority => WithinQueue::LowerPriority,
            queue::WithinQueue::LowerOrNewerEqualPriority => WithinQueue::LowerOrNewerEqualPriority,
        },
        reclaim: match of.reclaim.unwrap_or_default() {
            queue::Reclaim::Never => Reclaim::Never,
            queue::Reclaim::LowerPriority => Reclaim::LowerPriority,
            queue::Reclaim::Any => Reclaim::Any,
        },
        borrow_within: match within.policy.unwrap_or_default() {
            BorrowWithinPolicy::Never => BorrowWithin::Never,
            BorrowWithinPolicy::LowerPriority => BorrowWithin::LowerPriority {
                max_priority: within.max_priority,
            },
        },
    }
}

fn resource_group(group: &trellis_api::queue::ResourceGroup) -> ResourceGroup {
    let flavors = group.flavors.iter().map(|flavor| FlavorQuotas {
        flavor: FlavorName::new(flavor.name.as_str()),
        quotas: flavor.quotas.iter().map(quota).collect(),
    });
    ResourceGroup {
        flavors: flavors.collect(),
    }
}

fn quota(quota: &trellis_api::queue::ResourceQuota) -> (ResourceName, Quota) {
    let name = quota.resource.as_str();
    // An unreadable amount is none: the queue stops itself, not another.
    let units = |q: &Quantity| base_units(name, q.amount().unwrap_or(Amount::ZERO)).max(0);
    let amounts = Quota {
        nominal: units(&quota.nominal),
        borrowing_limit: quota.borrowing_limit.as_ref().map(units),
        lending_limit: quota.lending_limit.as_ref().map(units),
    };
    (ResourceName::new(name), amounts)
}

/// What a queue's status remembers. None: nothing yet.
#[must_use]
pub fn memory(status: &QueueStatus) -> Option<QueueMemory> {
    let at = status.decayed_time.as_ref()?;
    let usage = status.decayed_usage.iter().filter_map(|line| {
        let name = line.resource.as_str();
        let (amount, parts) = (line.amount.amount().ok()?, Decayed::PER_UNIT);
        let thousandths = i128::from(amount.millis_up()?);
        let units = if name == "cpu" { 1 } else { 1000 };
        let parts = thousandths.checked_mul(parts)?.checked_div(units)?;
        Some((ResourceName::new(name), Decayed::from_parts(parts)))
    });
    Some(QueueMemory {
        at: time(at.0),
        usage: usage.collect(),
    })
}

/// Decayed usage as people write it: of devices to the thousandth.
#[must_use]
pub fn decayed(resource: &str, decayed: Decayed) -> Quantity {
    let per = if is_counted_in_thousandths(resource) {
        1000
    } else {
        1
    };
    let parts = decayed.as_parts().saturating_mul(per);
    let rounded = parts.checked_div(Decayed::PER_UNIT).unwrap_or(0);
    let rounded = i64::try_from(rounded).unwrap_or(i64::MAX);
    let amount = match (resource, per) {
        ("cpu", _) | (_, 1000) => Amount::from_millis(rounded),
        _ => Amount::from_units(rounded),
    };
    Quantity::new(amount.to_string())
}

/// Of cores the base unit is a thousandth already; of bytes a thousandth is nothing.
fn is_counted_in_thousandths(resource: &str) -> bool {
    !matches!(resource, "cpu" | "memory" | "ephemeral-storage")
}

/// The engine's form of a flavor.
#[must_use]
pub fn flavor(name: &str, spec: &ResourceFlavorSpec) -> Flavor {
    Flavor {
        name: FlavorName::new(name),
        node_labels: spec.node_labels.clone(),
        node_taints: spec
            .node_taints
            .iter()
            .map(|t| Taint {
                key: t.key.clone(),
                value: t.value.clone().unwrap_or_default(),
                effect: match t.effect {
                    TolerationEffect::NoSchedule => TaintEffect::NoSchedule,
                    TolerationEffect::PreferNoSchedule => TaintEffect::PreferNoSchedule,
                    TolerationEffect::NoExecute => TaintEffect::NoExecute,
                },
            })
            .collect(),
        tolerations: spec
            .tolerations
            .iter()
            .filter_map(|t| constraints::toleration(&trellis_compiler::toleration(t)))
            .collect(),
    }
}

/// The engine's form of a topology.
#[must_use]
pub fn topology(name: &str, spec: &TopologySpec) -> Topology {
    Topology {
        name: TopologyName::new(name),
        levels: spec.levels.clone(),
    }
}

/// A quantity of a resource, from base units: as people write it.
#[must_use]
pub fn quantity(resource: &str, base_units: i128) -> Quantity {
    let units = i64::try_from(base_units).unwrap_or(i64::MAX);
    let amount = if resource == "cpu" {
        Amount::from_millis(units)
    } else {
        Amount::from_units(units)
    };
    Quantity::new(amount.to_string())
}
