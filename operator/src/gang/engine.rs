//! From Kubernetes' words to the engine's, and back.

mod member;
mod planned;
mod queue;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use trellis_api::job::PlacementPolicy;
use trellis_api::pod_group::{Because, Plan, PodGroupMember};
use trellis_api::quantity::Amount;
use trellis_api::reason::Reason;
use trellis_api::{PodGroup, TrainingJobSpec};
use trellis_compiler::{CompiledGroup, CompiledJob};
use trellis_scheduler::{
    Constraints, Engine, FlavorName, Gang, GangId, GroupName, LabelDomain, Node, NodeName, PodKey,
    QueueName, ResourceName, Resources, Strategy, Taint, TaintEffect, TaskGroup, Time,
    TopologyRequest, WaitReason,
};

use super::admitted::Admitted;
use super::volumes::{self, Volumes};
use super::{constraints, request};
use crate::gang::key::Key;
use crate::gang::observed::{SlimNode, Unhealthy};
pub use member::{Member, leaver, surplus_id, surplus_key, whose};
pub use planned::{flavors, placement};
pub use queue::{decayed, flavor, memory, quantity, queue, topology};

/// When a gang is placed, beside what it is.
#[derive(Clone, Debug, Default)]
pub struct Ticket {
    /// Its place in the queue.
    pub submitted: Timestamp,
    /// Not placed before.
    pub not_before: Option<Timestamp>,
    /// It had to make room before.
    pub preempted: bool,
    /// It has nobody leave by its priority.
    pub never_preempts: bool,
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
    whose(id).0
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
    let members = job.groups().iter().filter(|group| group.gang_size() > 0);
    let members = members.map(|group| {
        let admitted = actual.get(group.name()).cloned();
        (
            group,
            admitted.unwrap_or_else(|| Admitted::unchanged(group)),
        )
    });
    let members: Vec<_> = members.collect();
    let together = volumes::together(&ticket.volumes, members.iter().map(|(_, a)| &a.claims));
    let groups = members
        .into_iter()
        .map(|(group, admitted)| task_group(job, group, admitted, ticket))
        .collect();
    let excluded = ticket.excluded.iter().map(|n| NodeName::new(n.as_str()));
    let spec = job.job().spec();
    Gang {
        priority: job.priority(),
        submitted: time(ticket.submitted),
        not_before: ticket.not_before.map(time),
        excluded_nodes: excluded.collect(),
        strategy: match spec.placement() {
            PlacementPolicy::Pack => Strategy::Pack,
            PlacementPolicy::Spread => Strategy::Spread,
        },
        topology: match together {
            true => Some(TopologyRequest::one_node()),
            false => spec.topology.as_ref().and_then(topology_request),
        },
        preemptible: spec.is_preemptible(),
        preempts: !ticket.never_preempts,
        preempted: ticket.preempted,
        min_runtime: seconds(spec.min_runtime_seconds.unwrap_or(0)),
        runtime: runtime(spec),
        grace: seconds(spec.grace_period_seconds()),
        ..Gang::new(id(&key), QueueName::new(job.queue()), groups)
    }
}

/// The engine's form of a pod beyond the gang of a compiled job: of an elastic group, with the
/// flavors that its gang was given by this plan. None: the job has no such group.
#[must_use]
pub fn surplus(
    job: &CompiledJob,
    ticket: &Ticket,
    actual: &BTreeMap<String, Admitted>,
    plan: &Plan,
    member: &Member,
) -> Option<Gang> {
    let key = Key::new(job.job().namespace(), job.job().name());
    let group = job.groups().iter().find(|g| g.name() == member.group)?;
    let admitted = actual.get(group.name()).cloned();
    let admitted = admitted.unwrap_or_else(|| Admitted::unchanged(group));
    let given = plan.groups.iter().find(|g| g.name == member.group);
    let given: BTreeSet<&String> = given.iter().flat_map(|g| g.flavors.values()).collect();
    let pod = TaskGroup {
        count: 1,
        first: member.index,
        topology: None,
        ..task_group(job, group, admitted, ticket)
    };
    let flavors = match given.is_empty() {
        true => pod.flavors.clone(),
        false => given
            .into_iter()
            .map(|f| FlavorName::new(f.as_str()))
            .collect(),
    };
    let excluded = ticket.excluded.iter().map(|n| NodeName::new(n.as_str()));
    Some(Gang {
        priority: job.priority(),
        surplus: true,
        submitted: time(ticket.submitted),
        excluded_nodes: excluded.collect(),
        grace: seconds(job.job().spec().grace_period_seconds()),
        ..Gang::new(
            surplus_id(&key, member),
            QueueName::new(job.queue()),
            vec![TaskGroup { flavors, ..pod }],
        )
    })
}

/// How long a gang holds its place at most: it starts, runs and stops. None
/// where it may run for ever.
fn runtime(spec: &TrainingJobSpec) -> Option<Duration> {
    let deadlines = spec.deadlines.as_ref()?;
    let active = seconds(deadlines.active_seconds?);
    let startup = seconds(deadlines.startup_seconds());
    let grace = seconds(spec.grace_period_seconds());
    Some(startup.saturating_add(active).saturating_add(grace))
}

/// What is less than nothing is nothing.
pub(super) fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// The engine's form of a request for closeness. None: it names no level, which validation refuses.
pub(super) fn topology_request(
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

/// A gang as its PodGroup says it: enough to charge a place that it has
/// already, and to say who may take it away. What admission added to its pods,
/// their constraints, how long it runs and its place in the queue are not in
/// there.
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
    let member = |member: &PodGroupMember| TaskGroup {
        device: member.gpu_resource.as_deref().map(ResourceName::new),
        topology: member.topology.as_ref().and_then(topology_request),
        ..TaskGroup::new(
            GroupName::new(member.name.as_str()),
            u32::try_from(member.count).unwrap_or(0),
            request(member),
            format!("{}-{}", job.name, member.name),
        )
    };
    let spec = &group.spec;
    // Of a place, what it was had with: the spec may have been edited since.
    let plan = group.status.as_ref().and_then(|s| s.plan.as_ref());
    let queue = plan.and_then(|p| p.queue.as_deref());
    let queue = QueueName::new(queue.unwrap_or(&spec.queue_name));
    let groups = spec.groups.iter().map(member).collect();
    Gang {
        priority: plan.and_then(|p| p.priority).unwrap_or(spec.priority()),
        topology: spec.topology.as_ref().and_then(topology_request),
        preemptible: spec.is_preemptible(),
        min_runtime: seconds(spec.min_runtime_seconds.unwrap_or(0)),
        grace: seconds(spec.grace_period_seconds()),
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
    let of_pods = admitted.ephemeral.keys().filter_map(|volume| {
        let own = (group.name().to_owned(), volume.clone());
        ticket.volumes.ephemeral.get(&own)
    });
    let volumes = claims.filter_map(|c| ticket.volumes.claims.get(c));
    let volumes = volumes.chain(of_pods);
    let one_node = volumes.clone().any(|mounted| mounted.one_node);
    let mut volumes: Vec<_> = volumes
        .flat_map(|mounted| &mounted.reach)
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
        topology: match one_node {
            true => Some(TopologyRequest::one_node()),
            false => spec
                .and_then(|g| g.topology.as_ref())
                .and_then(topology_request),
        },
        ..TaskGroup::new(
            GroupName::new(group.name()),
            group.gang_size(),
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

/// Why a gang is asked by another to leave, in the words of the API. None: by no other.
#[must_use]
pub fn because(because: trellis_scheduler::Because) -> Option<Because> {
    match because {
        trellis_scheduler::Because::LaterInQueue => Some(Because::LaterInQueue),
        trellis_scheduler::Because::Surplus => Some(Because::Surplus),
        trellis_scheduler::Because::Borrows => Some(Because::Borrows),
        trellis_scheduler::Because::LowerPriority => Some(Because::LowerPriority),
        trellis_scheduler::Because::Drained => None,
    }
}

/// Why a gang waits, and when that ends if room is kept for it.
#[must_use]
pub(super) fn with_reservation(engine: &Engine, id: &GangId, message: String) -> String {
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

/// The reason in the words of the API.
#[must_use]
pub fn reason(reason: WaitReason) -> Reason {
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
