//! Converts between Kubernetes objects and the engine's types.

mod plan;
mod queue;
mod surplus_pod_id;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use trellis_api::job::PlacementPolicy;
use trellis_api::pod_group::{Plan, PodGroupMember, VictimReason};
use trellis_api::reason::Reason;
use trellis_api::{PodGroup, TrainingJobSpec};
use trellis_compiler::{CompiledGroup, CompiledJob};
use trellis_scheduler::{
    Constraints, Engine, FlavorName, Gang, GangId, GroupName, LabelDomain, Node, NodeName,
    PlacementStrategy, PodKey, QueueName, ResourceName, Resources, Taint, TaintEffect, TaskGroup,
    Time, TopologyRequest, WaitReason,
};

use super::admitted_pod::AdmittedPod;
use super::volumes::{self, VolumeRequirements};
use super::{constraints, resource_request};
use crate::key::Key;
use crate::observed::{SlimNode, UnhealthyRules};
use crate::resource_request::quantity_units;
pub use plan::{flavors_from_plan, placement_from_plan};
pub use queue::{
    decayed_quantity, restore_decayed_usage, to_engine_flavor, to_engine_queue, to_engine_topology,
    to_quantity,
};
pub use surplus_pod_id::{
    SurplusPodId, parse_gang_id, surplus_gang_id, surplus_pod_key, victim_key,
};

/// State of a gang's attempt that its spec does not hold.
#[derive(Clone, Debug, Default)]
pub struct AttemptState {
    /// Submission time, which orders the queue.
    pub submitted: Timestamp,
    /// Earliest time of the placement.
    pub not_before: Option<Timestamp>,
    /// True if the gang was preempted before.
    pub preempted: bool,
    /// True if the gang does not preempt gangs of lower priority.
    pub never_preempts: bool,
    /// Nodes that the gang avoids.
    pub excluded_nodes: Vec<String>,
    /// Node requirements of the volumes that the gang mounts.
    pub volumes: VolumeRequirements,
    /// Label domains that anti-affinity of other pods closes to the gang's pods, by group.
    pub closed_domains: BTreeMap<String, BTreeSet<LabelDomain>>,
}

/// Returns the engine's name of a gang.
#[must_use]
pub fn gang_id(job: &Key) -> GangId {
    GangId::new(job.to_string())
}

/// Returns the job of an engine gang.
#[must_use]
pub fn job_key(id: &GangId) -> Key {
    parse_gang_id(id).0
}

/// Returns the engine's name of a pod.
#[must_use]
pub fn pod_key(pod: &Key) -> PodKey {
    PodKey::new(pod.to_string())
}

/// Returns the engine's time.
#[must_use]
pub fn to_engine_time(at: Timestamp) -> Time {
    Time::from_millis(at.as_millisecond())
}

/// Returns the engine's form of a compiled job. `actual` holds the pods after admission, by group,
/// where they are known.
#[must_use]
pub fn gang_from_job(
    job: &CompiledJob,
    ticket: &AttemptState,
    actual: &BTreeMap<String, AdmittedPod>,
) -> Gang {
    let key = Key::new(job.job().namespace(), job.job().name());
    let members = job.groups().iter().filter(|group| group.gang_size() > 0);
    let members = members.map(|group| {
        let admitted = actual.get(group.name()).cloned();
        (
            group,
            admitted.unwrap_or_else(|| AdmittedPod::from_group(group)),
        )
    });
    let members: Vec<_> = members.collect();
    let together =
        volumes::must_share_node(&ticket.volumes, members.iter().map(|(_, a)| &a.claims));
    let groups = members
        .into_iter()
        .map(|(group, admitted)| to_task_group(job, group, admitted, ticket))
        .collect();
    let excluded = ticket
        .excluded_nodes
        .iter()
        .map(|n| NodeName::new(n.as_str()));
    let spec = job.job().spec();
    Gang {
        priority: job.priority(),
        submitted: to_engine_time(ticket.submitted),
        not_before: ticket.not_before.map(to_engine_time),
        excluded_nodes: excluded.collect(),
        strategy: match spec.placement() {
            PlacementPolicy::Pack => PlacementStrategy::Pack,
            PlacementPolicy::Spread => PlacementStrategy::Spread,
        },
        topology: match together {
            true => Some(TopologyRequest::one_node()),
            false => spec.topology.as_ref().and_then(to_topology_request),
        },
        preemptible: spec.is_preemptible(),
        preempts: !ticket.never_preempts,
        preempted: ticket.preempted,
        min_runtime: to_duration(spec.min_runtime_seconds.unwrap_or(0)),
        runtime: longest_hold_time(spec),
        grace: to_duration(spec.grace_period_seconds()),
        ..Gang::new(gang_id(&key), QueueName::new(job.queue()), groups)
    }
}

/// Returns the engine's form of a surplus pod of an elastic group, with the flavors that the plan
/// gave to its gang. None if the job has no such group.
#[must_use]
pub fn gang_from_surplus_pod(
    job: &CompiledJob,
    ticket: &AttemptState,
    actual: &BTreeMap<String, AdmittedPod>,
    plan: &Plan,
    member: &SurplusPodId,
) -> Option<Gang> {
    let key = Key::new(job.job().namespace(), job.job().name());
    let group = job.groups().iter().find(|g| g.name() == member.group)?;
    let admitted = actual.get(group.name()).cloned();
    let admitted = admitted.unwrap_or_else(|| AdmittedPod::from_group(group));
    let given = plan.groups.iter().find(|g| g.name == member.group);
    let given: BTreeSet<&String> = given.iter().flat_map(|g| g.flavors.values()).collect();
    let pod = TaskGroup {
        count: 1,
        first: member.index,
        topology: None,
        ..to_task_group(job, group, admitted, ticket)
    };
    let flavors = match given.is_empty() {
        true => pod.flavors.clone(),
        false => given
            .into_iter()
            .map(|f| FlavorName::new(f.as_str()))
            .collect(),
    };
    let excluded = ticket
        .excluded_nodes
        .iter()
        .map(|n| NodeName::new(n.as_str()));
    Some(Gang {
        priority: job.priority(),
        surplus: true,
        submitted: to_engine_time(ticket.submitted),
        excluded_nodes: excluded.collect(),
        grace: to_duration(job.job().spec().grace_period_seconds()),
        ..Gang::new(
            surplus_gang_id(&key, member),
            QueueName::new(job.queue()),
            vec![TaskGroup { flavors, ..pod }],
        )
    })
}

/// Returns the longest time for which a gang holds its place: it starts, runs and stops. None if it
/// may run forever.
fn longest_hold_time(spec: &TrainingJobSpec) -> Option<Duration> {
    let deadlines = spec.deadlines.as_ref()?;
    let active = to_duration(deadlines.active_seconds?);
    let startup = to_duration(deadlines.startup_seconds());
    let grace = to_duration(spec.grace_period_seconds());
    Some(startup.saturating_add(active).saturating_add(grace))
}

/// Converts seconds. Negative values count as zero.
pub(super) fn to_duration(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// Returns the engine's form of a topology request. None if it names no level, which validation
/// rejects.
pub(super) fn to_topology_request(
    request: &trellis_api::topology::TopologyRequest,
) -> Option<TopologyRequest> {
    match (&request.required, &request.preferred) {
        (Some(level), preferred) => Some(TopologyRequest::Required {
            level: level.clone(),
            preferred: preferred.clone(),
        }),
        (None, Some(level)) => Some(TopologyRequest::preferred(level)),
        (None, None) => None,
    }
}

/// Returns a gang as its PodGroup describes it: enough to charge its place and to decide which
/// gangs may preempt it. Changes by admission, constraints, run time and position in the queue are
/// unknown.
#[must_use]
pub fn gang_from_pod_group(job: &Key, group: &PodGroup) -> Gang {
    let request = |member: &PodGroupMember| -> Resources {
        let amounts = member.resources.iter().map(|(name, quantity)| {
            let units = quantity_units(name, quantity);
            (ResourceName::new(name.as_str()), units)
        });
        amounts.collect()
    };
    let member = |member: &PodGroupMember| TaskGroup {
        device: member.gpu_resource.as_deref().map(ResourceName::new),
        topology: member.topology.as_ref().and_then(to_topology_request),
        ..TaskGroup::new(
            GroupName::new(member.name.as_str()),
            u32::try_from(member.count).unwrap_or(0),
            request(member),
            format!("{}-{}", job.name, member.name),
        )
    };
    let spec = &group.spec;
    // A placed gang has the values of its plan: the spec may have been edited since.
    let plan = group.status.as_ref().and_then(|s| s.plan.as_ref());
    let queue = plan.and_then(|p| p.queue.as_deref());
    let queue = QueueName::new(queue.unwrap_or(&spec.queue_name));
    let groups = spec.groups.iter().map(member).collect();
    Gang {
        priority: plan.and_then(|p| p.priority).unwrap_or(spec.priority()),
        topology: spec.topology.as_ref().and_then(to_topology_request),
        preemptible: spec.is_preemptible(),
        min_runtime: to_duration(spec.min_runtime_seconds.unwrap_or(0)),
        grace: to_duration(spec.grace_period_seconds()),
        ..Gang::new(gang_id(job), queue, groups)
    }
}

fn to_task_group(
    job: &CompiledJob,
    group: &CompiledGroup,
    admitted: AdmittedPod,
    ticket: &AttemptState,
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
    let of_pods = admitted.ephemeral_claims.keys().filter_map(|volume| {
        let own = (group.name().to_owned(), volume.clone());
        ticket.volumes.ephemeral.get(&own)
    });
    let volumes = claims.filter_map(|c| ticket.volumes.claims.get(c));
    let volumes = volumes.chain(of_pods);
    let one_node = volumes.clone().any(|mounted| mounted.one_node);
    let mut volumes: Vec<_> = volumes
        .flat_map(|mounted| &mounted.node_terms)
        .cloned()
        .collect();
    // Sorted and deduplicated, so that gangs with equal volumes share one scan of the nodes.
    volumes.sort_unstable();
    volumes.dedup();
    let constraints = Constraints {
        volumes,
        kept_out: ticket
            .closed_domains
            .get(group.name())
            .cloned()
            .unwrap_or_default(),
        ..admitted.constraints
    };
    TaskGroup {
        device,
        flavors: flavors.map(|f| FlavorName::new(f.as_str())).collect(),
        constraints,
        topology: match one_node {
            true => Some(TopologyRequest::one_node()),
            false => spec
                .and_then(|g| g.topology.as_ref())
                .and_then(to_topology_request),
        },
        ..TaskGroup::new(
            GroupName::new(group.name()),
            group.gang_size(),
            admitted.request,
            format!("{}-{}", job.job().name(), group.name()),
        )
    }
}

/// Returns the engine's form of a node, with all its allocatable resources.
#[must_use]
pub fn to_engine_node(node: &SlimNode, unhealthy: &UnhealthyRules) -> Node {
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
                // A taint with an unknown effect keeps pods away.
                effect: constraints::parse_effect(&t.effect).unwrap_or(TaintEffect::NoSchedule),
            })
            .collect(),
        ready: node.is_ready(),
        unschedulable: node.spec.unschedulable,
        unhealthy: unhealthy.unhealthy_reason(node),
        ..Node::new(
            NodeName::new(name),
            resource_request::node_allocatable(node),
        )
    }
}

/// Returns why another gang preempts this one, in the words of the API. None if no gang does.
#[must_use]
pub fn to_preemption_reason(because: trellis_scheduler::PreemptionReason) -> Option<VictimReason> {
    match because {
        trellis_scheduler::PreemptionReason::LaterInQueue => Some(VictimReason::LaterInQueue),
        trellis_scheduler::PreemptionReason::Surplus => Some(VictimReason::Surplus),
        trellis_scheduler::PreemptionReason::Borrows => Some(VictimReason::Borrows),
        trellis_scheduler::PreemptionReason::LowerPriority => Some(VictimReason::LowerPriority),
        trellis_scheduler::PreemptionReason::Drained => None,
    }
}

/// Returns why a gang waits, and when it starts if room is reserved for it.
#[must_use]
pub(super) fn append_reservation(engine: &Engine, id: &GangId, message: String) -> String {
    match engine.reservation(id).map(|kept| kept.start) {
        Some(Some(start)) => {
            format!(
                "{message}; it is next for room, and starts at {start} at the latest if what runs ends when it should"
            )
        }
        Some(None) => format!(
            "{message}; it is next for room; when it starts is not known, so that others keep off \
             its place only once it has waited for 10 minutes"
        ),
        None => message,
    }
}

/// Returns the reason in the words of the API.
#[must_use]
pub fn to_api_reason(reason: WaitReason) -> Reason {
    match reason {
        WaitReason::QueueNotFound => Reason::QueueNotFound,
        WaitReason::QueueStopped => Reason::QueueStopped,
        WaitReason::QueueMisconfigured => Reason::QueueMisconfigured,
        WaitReason::BackingOff => Reason::BackingOff,
        WaitReason::BehindHead => Reason::BehindHead,
        WaitReason::TopologyNotFound => Reason::TopologyNotFound,
        WaitReason::FlavorNotFound => Reason::FlavorNotFound,
        WaitReason::ExceedsQuota => Reason::ExceedsQuota,
        WaitReason::QuotaExceeded => Reason::QuotaExceeded,
        WaitReason::QuotaPolicyExceeded => Reason::QuotaPolicyExceeded,
        WaitReason::NodesAvoided => Reason::NodesAvoided,
        WaitReason::NoMatchingNodes => Reason::NoMatchingNodes,
        WaitReason::ExceedsCluster => Reason::ExceedsCluster,
        WaitReason::ExceedsTopology => Reason::ExceedsTopology,
        WaitReason::InsufficientCapacity => Reason::InsufficientCapacity,
        WaitReason::TopologyFragmented => Reason::TopologyFragmented,
        WaitReason::Fragmented => Reason::Fragmented,
        WaitReason::Reserved => Reason::Reserved,
    }
}

#[cfg(test)]
mod tests;
