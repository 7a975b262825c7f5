//! Converts queues, flavors and topologies into the engine's form, and the engine's usage into a
//! queue's status.

use trellis_api::job::TolerationEffect;
use trellis_api::quantity::Amount;
use trellis_api::queue::{
    self, BackfillPolicy, BorrowWithinCohortPolicy, QueuePreemption, QueueSpec, QueueStatus,
    QueueingStrategy, StopPolicy,
};
use trellis_api::topology::{self, TopologySpec};
use trellis_api::{Quantity, ResourceFlavorSpec};
use trellis_scheduler::{
    BorrowWithin, Decayed, Flavor, FlavorName, FlavorQuotas, Preemption, Queue, QueueMemory,
    QueueName, Quota, Reclaim, ResourceGroup, ResourceName, Stop, Taint, TaintEffect, Topology,
    TopologyLevel, TopologyName, Weight, WithinQueue,
};

use super::{base_units, seconds, time};
use crate::constraints;

/// The engine's form of a queue.
#[must_use]
pub fn queue(name: &str, spec: &QueueSpec) -> Queue {
    Queue {
        parent: spec.parent_name.as_deref().map(QueueName::new),
        weight: Weight::from_thousandths(spec.weight_thousandths()),
        order: match spec.queueing_strategy.unwrap_or_default() {
            QueueingStrategy::BestEffortFifo => trellis_scheduler::QueueOrder::Priority,
            QueueingStrategy::StrictFifo => trellis_scheduler::QueueOrder::StrictFifo,
        },
        resource_groups: spec.resource_groups.iter().map(resource_group).collect(),
        preemption: spec.preemption.as_ref().map(preemption).unwrap_or_default(),
        backfill: spec.backfill_policy.unwrap_or_default() == BackfillPolicy::WithoutDelay,
        default_runtime: spec.default_runtime_seconds.map(seconds),
        max_min_runtime: spec.max_min_runtime_seconds.map(seconds),
        stop: match spec.stop_policy.unwrap_or_default() {
            StopPolicy::None => Stop::None,
            StopPolicy::Hold => Stop::Hold,
            StopPolicy::HoldAndDrain => Stop::HoldAndDrain,
        },
        ..Queue::new(QueueName::new(name))
    }
}

fn preemption(of: &QueuePreemption) -> Preemption {
    let within = of.borrow_within_cohort.clone().unwrap_or_default();
    Preemption {
        within_queue: match of.within_cluster_queue.unwrap_or_default() {
            queue::WithinClusterQueue::Never => WithinQueue::Never,
            queue::WithinClusterQueue::LowerPriority => WithinQueue::LowerPriority,
            queue::WithinClusterQueue::LowerOrNewerEqualPriority => {
                WithinQueue::LowerOrNewerEqualPriority
            }
        },
        reclaim: match of.reclaim_within_cohort.unwrap_or_default() {
            queue::ReclaimWithinCohort::Never => Reclaim::Never,
            queue::ReclaimWithinCohort::LowerPriority => Reclaim::LowerPriority,
            queue::ReclaimWithinCohort::Any => Reclaim::Any,
        },
        borrow_within: match within.policy.unwrap_or_default() {
            BorrowWithinCohortPolicy::Never => BorrowWithin::Never,
            BorrowWithinCohortPolicy::LowerPriority => BorrowWithin::LowerPriority {
                max_priority: within.max_priority_threshold,
            },
        },
    }
}

fn resource_group(group: &trellis_api::queue::ResourceGroup) -> ResourceGroup {
    let flavors = group.flavors.iter().map(|flavor| FlavorQuotas {
        flavor: FlavorName::new(flavor.name.as_str()),
        quotas: flavor.resources.iter().map(quota).collect(),
    });
    ResourceGroup {
        flavors: flavors.collect(),
    }
}

fn quota(quota: &trellis_api::queue::ResourceQuota) -> (ResourceName, Quota) {
    let name = quota.name.as_str();
    // An amount that does not parse counts as zero: the error stops only its own queue.
    let of_amount = |amount: Amount| base_units(name, amount).max(0);
    let units = |q: &Quantity| of_amount(q.amount().unwrap_or(Amount::ZERO));
    let amounts = Quota {
        nominal: of_amount(quota.nominal_amount().unwrap_or(Amount::ZERO)),
        borrowing_limit: quota.borrowing_limit.as_ref().map(units),
        lending_limit: quota.lending_limit.as_ref().map(units),
    };
    (ResourceName::new(name), amounts)
}

/// Decayed usage from a queue's status. None if none has been stored.
#[must_use]
pub fn memory(status: &QueueStatus) -> Option<QueueMemory> {
    let at = status.internal.decayed_time.as_ref()?;
    let usage = status.internal.decayed_usage.iter().filter_map(|line| {
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

/// Decayed usage as a quantity, with thousandths for devices.
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

/// Device usage is shown in thousandths. The base unit of cores is a thousandth already, and
/// thousandths of bytes do not matter.
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
        levels: spec.levels.iter().map(level).collect(),
    }
}

fn level(level: &topology::TopologyLevel) -> TopologyLevel {
    TopologyLevel {
        name: level.name().to_owned(),
        node_label: level.node_label.clone(),
    }
}

/// A quantity of a resource, converted from base units.
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
