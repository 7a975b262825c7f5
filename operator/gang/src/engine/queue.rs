//! Converts queues and flavors into the engine's form, and the engine's usage into a queue's
//! status.

use trellis_api::job::TolerationEffect;
use trellis_api::quantity::Amount;
use trellis_api::queue::{
    self, BackfillPolicy, BorrowWithinCohortPolicy, ProvisioningTime, QueuePreemption,
    QueueProvisioning, QueueSpec, QueueStatus, QueueingStrategy, StopPolicy, WhenCanBorrow,
    WhenCanPreempt,
};
use trellis_api::resource_flavor::{FlavorProvisioning, NodeTaint};
use trellis_api::{Quantity, ResourceFlavorSpec};
use trellis_scheduler::{
    BorrowWithinPolicy, DecayedAmount, FairShareVictims, Flavor, FlavorGrowth, FlavorName,
    FlavorPolicy, FlavorQuotas, NodeTemplate, PreemptionPolicy, ProvisioningPolicy,
    ProvisioningScope, Queue, QueueMemory, QueueName, QueueStop, Quota, ReclaimPolicy,
    ResourceGroup, ResourceName, Resources, Taint, TaintEffect, Weight, WithinQueuePolicy,
};

use super::units::{to_duration, to_engine_time};
use crate::requirements::constraints;
use crate::requirements::resource_request::base_units;

/// Pods of a new node whose flavor does not state the number: the default of the kubelet.
const DEFAULT_PODS: i64 = 110;

/// Returns the engine's form of a queue.
#[must_use]
pub fn to_engine_queue(name: &str, spec: &QueueSpec) -> Queue {
    Queue {
        parent: spec.parent_name.as_deref().map(QueueName::new),
        weight: Weight::from_thousandths(spec.weight_thousandths()),
        priority: spec.priority.unwrap_or_default(),
        order: match spec.queueing_strategy.unwrap_or_default() {
            QueueingStrategy::BestEffortFifo => trellis_scheduler::QueueOrder::Priority,
            QueueingStrategy::StrictFifo => trellis_scheduler::QueueOrder::StrictFifo,
        },
        resource_groups: spec.resource_groups.iter().map(to_resource_group).collect(),
        flavor_policy: spec.flavor_policy.map(to_flavor_policy).unwrap_or_default(),
        preemption: spec
            .preemption
            .as_ref()
            .map(to_preemption)
            .unwrap_or_default(),
        backfill: spec.backfill_policy.unwrap_or_default() == BackfillPolicy::WithoutDelay,
        default_runtime: spec.default_runtime_seconds.map(to_duration),
        max_min_runtime: spec.max_min_runtime_seconds.map(to_duration),
        stop: to_queue_stop(spec.stop_policy.unwrap_or_default()),
        provisioning: spec
            .provisioning
            .as_ref()
            .map(to_provisioning_policy)
            .unwrap_or_default(),
        ..Queue::new(QueueName::new(name))
    }
}

/// Returns the engine's form of a stop state.
#[must_use]
pub const fn to_queue_stop(stop: StopPolicy) -> QueueStop {
    match stop {
        StopPolicy::None => QueueStop::None,
        StopPolicy::Hold => QueueStop::Hold,
        StopPolicy::HoldAndDrain => QueueStop::HoldAndDrain,
    }
}

fn to_provisioning_policy(spec: &QueueProvisioning) -> ProvisioningPolicy {
    ProvisioningPolicy {
        scope: match spec.order.unwrap_or_default() {
            queue::ProvisioningScope::Never => ProvisioningScope::Never,
            queue::ProvisioningScope::Nominal => ProvisioningScope::Nominal,
            queue::ProvisioningScope::Borrowing => ProvisioningScope::Borrowing,
        },
        after: to_duration(spec.after_seconds()),
        after_preemption: spec.when.unwrap_or_default() == ProvisioningTime::AfterPreemption,
    }
}

fn to_preemption(spec: &QueuePreemption) -> PreemptionPolicy {
    let within = spec.borrow_within_cohort.clone().unwrap_or_default();
    PreemptionPolicy {
        within_queue: match spec.within_cluster_queue.unwrap_or_default() {
            queue::WithinClusterQueue::Never => WithinQueuePolicy::Never,
            queue::WithinClusterQueue::LowerPriority => WithinQueuePolicy::LowerPriority,
            queue::WithinClusterQueue::LowerOrNewerEqualPriority => {
                WithinQueuePolicy::LowerOrNewerEqualPriority
            }
        },
        reclaim: match spec.reclaim_within_cohort.unwrap_or_default() {
            queue::ReclaimWithinCohort::Never => ReclaimPolicy::Never,
            queue::ReclaimWithinCohort::LowerPriority => ReclaimPolicy::LowerPriority,
            queue::ReclaimWithinCohort::Any => ReclaimPolicy::Any,
        },
        borrow_within: match within.policy.unwrap_or_default() {
            BorrowWithinCohortPolicy::Never => to_fair_share(spec.fair_share.unwrap_or_default()),
            BorrowWithinCohortPolicy::LowerPriority => BorrowWithinPolicy::LowerPriority {
                max_priority: within.max_priority_threshold,
            },
        },
    }
}

fn to_flavor_policy(spec: queue::FlavorPolicy) -> FlavorPolicy {
    FlavorPolicy {
        avoids_borrowing: spec.when_can_borrow == Some(WhenCanBorrow::TryNextFlavor),
        prefers_preemption: spec.when_can_preempt == Some(WhenCanPreempt::Preempt),
    }
}

fn to_fair_share(victims: queue::FairShareVictims) -> BorrowWithinPolicy {
    BorrowWithinPolicy::FairShare(match victims {
        queue::FairShareVictims::Never => return BorrowWithinPolicy::Never,
        queue::FairShareVictims::LowerPriority => FairShareVictims::LowerPriority,
        queue::FairShareVictims::LowerOrEqualPriority => FairShareVictims::LowerOrEqualPriority,
        queue::FairShareVictims::Any => FairShareVictims::Any,
    })
}

fn to_resource_group(group: &trellis_api::queue::ResourceGroup) -> ResourceGroup {
    let flavors = group.flavors.iter().map(|flavor| FlavorQuotas {
        flavor: FlavorName::new(flavor.name.as_str()),
        quotas: flavor.resources.iter().map(to_quota).collect(),
    });
    ResourceGroup {
        flavors: flavors.collect(),
    }
}

fn to_quota(quota: &trellis_api::queue::ResourceQuota) -> (ResourceName, Quota) {
    let name = quota.name.as_str();
    // An amount that does not parse counts as zero, so that the error stops only its own queue.
    let to_units = |amount: Amount| base_units(name, amount).max(0);
    let units = |q: &Quantity| to_units(q.amount().unwrap_or(Amount::ZERO));
    let amounts = Quota {
        nominal: to_units(quota.nominal_amount().unwrap_or(Amount::ZERO)),
        borrowing_limit: quota.borrowing_limit.as_ref().map(units),
        lending_limit: quota.lending_limit.as_ref().map(units),
    };
    (ResourceName::new(name), amounts)
}

/// Returns the decayed usage from a queue's status. None if none has been stored.
#[must_use]
pub fn restore_decayed_usage(status: &QueueStatus) -> Option<QueueMemory> {
    let at = status.internal.decayed_time.as_ref()?;
    let usage = status.internal.decayed_usage.iter().filter_map(|line| {
        let name = line.resource.as_str();
        let (amount, parts) = (line.amount.amount().ok()?, DecayedAmount::PER_UNIT);
        let thousandths = i128::from(amount.ceil_millis()?);
        let units = if name == "cpu" { 1 } else { 1000 };
        let parts = thousandths.checked_mul(parts)?.checked_div(units)?;
        Some((ResourceName::new(name), DecayedAmount::from_parts(parts)))
    });
    Some(QueueMemory {
        at: to_engine_time(at.0),
        usage: usage.collect(),
    })
}

/// Returns the decayed usage as a quantity, with thousandths for devices.
#[must_use]
pub fn decayed_quantity(resource: &str, decayed: DecayedAmount) -> Quantity {
    let scale = if is_counted_in_thousandths(resource) {
        1000
    } else {
        1
    };
    let parts = decayed.as_parts().saturating_mul(scale);
    let rounded = parts.checked_div(DecayedAmount::PER_UNIT).unwrap_or(0);
    let rounded = i64::try_from(rounded).unwrap_or(i64::MAX);
    let amount = match (resource, scale) {
        ("cpu", _) | (_, 1000) => Amount::from_millis(rounded),
        _ => Amount::from_units(rounded),
    };
    Quantity::new(amount.to_string())
}

/// Returns true for devices, whose usage is shown in thousandths. The base unit of cores is already
/// a thousandth, and thousandths of bytes do not matter.
fn is_counted_in_thousandths(resource: &str) -> bool {
    !matches!(resource, "cpu" | "memory" | "ephemeral-storage")
}

/// Returns the engine's form of a flavor's new nodes.
fn to_growth(growth: &FlavorProvisioning, flavor: &ResourceFlavorSpec) -> FlavorGrowth {
    let given = growth.node.allocatable.iter();
    let mut allocatable: Resources = given
        .map(|(name, amount)| {
            // Validation refuses an amount that does not parse. It counts as none.
            let amount = amount.amount().unwrap_or_default();
            (ResourceName::new(name.as_str()), base_units(name, amount))
        })
        .collect();
    let pods = ResourceName::new("pods");
    if !growth.node.allocatable.contains_key(pods.as_str()) {
        allocatable.set(pods, DEFAULT_PODS);
    }
    let labels = flavor.node_labels.iter().chain(&growth.node.labels);
    FlavorGrowth {
        node: NodeTemplate {
            labels: labels.map(|(k, v)| (k.clone(), v.clone())).collect(),
            taints: flavor.node_taints.iter().map(to_taint).collect(),
            allocatable,
        },
        max_nodes: u32::try_from(growth.max_nodes).unwrap_or(0),
        timeout: to_duration(growth.timeout_seconds()),
        idle: to_duration(growth.idle_seconds()),
        usual: None,
    }
}

pub(crate) fn to_taint(taint: &NodeTaint) -> Taint {
    Taint {
        key: taint.key.clone(),
        value: taint.value.clone().unwrap_or_default(),
        effect: match taint.effect {
            TolerationEffect::NoSchedule => TaintEffect::NoSchedule,
            TolerationEffect::PreferNoSchedule => TaintEffect::PreferNoSchedule,
            TolerationEffect::NoExecute => TaintEffect::NoExecute,
        },
    }
}

/// Returns the engine's form of a flavor.
#[must_use]
pub fn to_engine_flavor(name: &str, spec: &ResourceFlavorSpec) -> Flavor {
    Flavor {
        growth: spec
            .provisioning
            .as_ref()
            .map(|growth| to_growth(growth, spec)),
        name: FlavorName::new(name),
        node_labels: spec.node_labels.clone(),
        node_taints: spec.node_taints.iter().map(to_taint).collect(),
        tolerations: spec
            .tolerations
            .iter()
            .filter_map(|t| constraints::convert_toleration(&trellis_compiler::toleration(t)))
            .collect(),
    }
}
