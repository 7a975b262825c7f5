//! From Kubernetes' words to the engine's, and back.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use trellis_api::PodGroup;
use trellis_api::job::TolerationEffect;
use trellis_api::pod_group::{Plan, PodGroupMember};
use trellis_api::quantity::Amount;
use trellis_api::queue::{QueueOrder, QueueSpec, QueueStatus, StopPolicy};
use trellis_api::reason::Reason;
use trellis_api::{Quantity, ResourceFlavorSpec};
use trellis_compiler::{CompiledGroup, CompiledJob};
use trellis_scheduler::{
    Constraints, Decayed, Flavor, FlavorName, FlavorQuotas, Gang, GangId, GroupName, LabelDomain,
    Node, NodeName, Placement, PodKey, Queue, QueueMemory, QueueName, Quota, ResourceGroup,
    ResourceName, Resources, Stop, Taint, TaintEffect, TaskGroup, Time, WaitReason, Weight,
};

use super::admitted::Admitted;
use super::volumes::Volumes;
use super::{constraints, request};
use crate::key::Key;
use crate::watch::{SlimNode, Unhealthy};

/// When a gang is placed, beside what it is.
#[derive(Clone, Debug, Default)]
pub struct Ticket {
    /// Its place in the queue.
    pub submitted: Timestamp,
    /// Not placed before.
    pub not_before: Option<Timestamp>,
    /// Nodes that it keeps away from.
    pub excluded: Vec<String>,
    /// Where the volumes of the claims that it mounts are.
    pub volumes: Volumes,
    /// What anti-affinity of other pods keeps its pods out of, by group.
    pub kept_out: BTreeMap<String, BTreeSet<LabelDomain>>,
}

/// The engine's name of a gang.
#[must_use]
pub fn id(job: &Key) -> GangId {
    GangId::new(job.to_string())
}

/// The job of an engine's gang.
#[must_use]
pub fn job_of(id: &GangId) -> Key {
    let (namespace, name) = id.as_str().split_once('/').unwrap_or(("", id.as_str()));
    Key::new(namespace, name)
}

/// The engine's name of a pod.
#[must_use]
pub fn pod_key(pod: &Key) -> PodKey {
    PodKey::new(pod.to_string())
}

/// The engine's time.
#[must_use]
pub fn time(at: Timestamp) -> Time {
    Time::from_millis(at.as_millisecond())
}

/// The engine's form of a compiled job. `actual` is what admission makes of a
/// pod, by group, where that is known.
#[must_use]
pub fn gang(job: &CompiledJob, ticket: &Ticket, actual: &BTreeMap<String, Admitted>) -> Gang {
    let key = Key::new(job.job().namespace(), job.job().name());
    let groups = job
        .groups()
        .iter()
        .map(|group| {
            let admitted = actual
                .get(group.name())
                .cloned()
                .unwrap_or_else(|| Admitted::unchanged(group));
            task_group(job, group, admitted, ticket)
        })
        .collect();
    let excluded = ticket.excluded.iter().map(|n| NodeName::new(n.as_str()));
    Gang {
        priority: job.priority(),
        submitted: time(ticket.submitted),
        not_before: ticket.not_before.map(time),
        excluded_nodes: excluded.collect(),
        ..Gang::new(id(&key), QueueName::new(job.queue()), groups)
    }
}

/// A gang as its PodGroup says it: enough to charge a place that it has
/// already. What admission added to its pods, their constraints and the
/// gang's place in the queue are not in there.
#[must_use]
pub fn of_pod_group(job: &Key, group: &PodGroup) -> Gang {
    let request = |member: &PodGroupMember| -> Resources {
        let amounts = member.resources.iter().map(|(name, quantity)| {
            // What is no quantity fills the node, as in `request`.
            let units = quantity
                .amount()
                .map_or(i64::MAX, |amount| base_units(name, amount).max(0));
            (ResourceName::new(name.as_str()), units)
        });
        amounts.collect()
    };
    // Its flavors are known by its nodes.
    let member = |member: &PodGroupMember| {
        TaskGroup::new(
            GroupName::new(member.name.as_str()),
            u32::try_from(member.count).unwrap_or(0),
            request(member),
            format!("{}-{}", job.name, member.name),
        )
    };
    let queue = QueueName::new(group.spec.queue.as_str());
    let groups = group.spec.groups.iter().map(member).collect();
    Gang {
        priority: group.spec.priority,
        ..Gang::new(id(job), queue, groups)
    }
}

/// What one pod of the group asks for before admission has had its say.
#[must_use]
pub fn request_of(group: &CompiledGroup) -> Resources {
    group
        .request()
        .iter()
        .map(|(name, amount)| (ResourceName::new(name.as_str()), base_units(name, *amount)))
        .collect()
}

fn base_units(resource: &str, amount: Amount) -> i64 {
    let units = if resource == "cpu" {
        amount.millis_up()
    } else {
        amount.units_up()
    };
    units.unwrap_or(i64::MAX)
}

fn task_group(
    job: &CompiledJob,
    group: &CompiledGroup,
    admitted: Admitted,
    ticket: &Ticket,
) -> TaskGroup {
    let spec = job
        .job()
        .spec()
        .task_groups
        .iter()
        .find(|g| g.name == group.name());
    let device = spec
        .filter(|g| g.gpus() > 0)
        .map(|g| ResourceName::new(g.gpu_resource()));
    let flavors = spec.iter().flat_map(|g| &g.flavors);
    let claims = admitted.claims.iter();
    let mut volumes: Vec<_> = claims
        .filter_map(|c| ticket.volumes.get(c))
        .flatten()
        .cloned()
        .collect();
    // The same for all who mount the like: the engine looks at the nodes once.
    volumes.sort_unstable();
    volumes.dedup();
    let constraints = Constraints {
        volumes,
        kept_out: ticket
            .kept_out
            .get(group.name())
            .cloned()
            .unwrap_or_default(),
        ..admitted.constraints
    };
    TaskGroup {
        device,
        flavors: flavors.map(|f| FlavorName::new(f.as_str())).collect(),
        constraints,
        ..TaskGroup::new(
            GroupName::new(group.name()),
            group.replicas(),
            admitted.request,
            format!("{}-{}", job.job().name(), group.name()),
        )
    }
}

/// The engine's form of a node, with all that it offers.
#[must_use]
pub fn node(node: &SlimNode, unhealthy: &Unhealthy) -> Node {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    Node {
        labels: node.metadata.labels.clone().unwrap_or_default(),
        taints: node
            .spec
            .taints
            .iter()
            .map(|t| Taint {
                key: t.key.clone(),
                value: t.value.clone().unwrap_or_default(),
                // An effect that we do not know keeps pods away.
                effect: constraints::effect(&t.effect).unwrap_or(TaintEffect::NoSchedule),
            })
            .collect(),
        ready: node.is_ready(),
        unschedulable: node.spec.unschedulable,
        unhealthy: unhealthy.why(node),
        ..Node::new(NodeName::new(name), request::of_node(node))
    }
}

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
        stop: match spec.stop.unwrap_or_default() {
            StopPolicy::None => Stop::None,
            StopPolicy::Hold => Stop::Hold,
        },
        ..Queue::new(QueueName::new(name))
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
        tolerations: Vec::new(),
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

/// The placement that a plan wrote down.
#[must_use]
pub fn placement(plan: &Plan) -> Placement {
    let mut placement = Placement::new();
    let mut groups: Vec<(&str, Vec<(NodeName, u32)>)> = Vec::new();
    for a in &plan.assignments {
        let run = (
            NodeName::new(a.node.as_str()),
            u32::try_from(a.count).unwrap_or(0),
        );
        match groups.last_mut() {
            Some((group, runs)) if *group == a.group => runs.push(run),
            _ => groups.push((a.group.as_str(), vec![run])),
        }
    }
    for (group, runs) in groups {
        placement.push(GroupName::new(group), runs);
    }
    placement
}

/// The reason in the words of the API.
#[must_use]
pub fn reason(reason: WaitReason) -> Reason {
    match reason {
        WaitReason::QueueNotFound => Reason::QueueNotFound,
        WaitReason::QueueStopped => Reason::QueueStopped,
        WaitReason::QueueMisconfigured => Reason::QueueMisconfigured,
        WaitReason::BackingOff => Reason::BackingOff,
        WaitReason::BehindHead => Reason::BehindHead,
        WaitReason::FlavorNotFound => Reason::FlavorNotFound,
        WaitReason::ExceedsQuota => Reason::ExceedsQuota,
        WaitReason::QuotaExceeded => Reason::QuotaExceeded,
        WaitReason::NodesAvoided => Reason::NodesAvoided,
        WaitReason::NoMatchingNodes => Reason::NoMatchingNodes,
        WaitReason::ExceedsCluster => Reason::ExceedsCluster,
        WaitReason::InsufficientCapacity => Reason::InsufficientCapacity,
        WaitReason::Fragmented => Reason::Fragmented,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduling::fixtures::run;

    #[test]
    fn a_pod_group_says_all_that_a_place_is_charged_by() {
        let wish = run(1);
        let job = wish.run().unwrap().job.compiled();
        let whole = gang(job, &Ticket::default(), &BTreeMap::new());
        let told = of_pod_group(&Key::new("team-a", "llm"), job.pod_group());
        assert_eq!(
            (&told.id, &told.queue, told.priority),
            (&whole.id, &whole.queue, whole.priority)
        );
        let charged = |gang: &Gang| -> Vec<_> {
            let of = |g: &TaskGroup| {
                (
                    g.name.clone(),
                    g.count,
                    g.request.clone(),
                    g.pod_prefix.clone(),
                )
            };
            gang.groups.iter().map(of).collect()
        };
        assert_eq!(charged(&told), charged(&whole));
    }
}
