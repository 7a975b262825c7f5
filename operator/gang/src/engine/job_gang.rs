//! Converts a compiled job into a gang of the engine, and its surplus into gangs of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use trellis_api::TrainingJobSpec;
use trellis_api::job::PlacementPolicy;
use trellis_api::pod_group::Plan;
use trellis_api::topology::Closeness;
use trellis_compiler::{CompiledGroup, CompiledJob};
use trellis_scheduler::{
    Constraints, FlavorName, Gang, GroupName, LabelDomain, NodeName, PlacementStrategy, QueueName,
    ResourceName, TaskGroup, TopologyRequest,
};

use super::names::{SurplusUnit, gang_id, surplus_gang_id};
use super::split_world::merge_split_world;
use super::topology::{prefers_slices, to_level_request, to_slices};
use super::units::{to_duration, to_engine_time};
use crate::admitted_pod::AdmittedPod;
use crate::key::Key;
use crate::requirements::volumes::{self, VolumeRequirements};

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
    /// Values of the label of nodes that GKE has added for this job alone.
    pub exclusive_node_values: Vec<String>,
    /// The denial message of each flavor of which a policy denies new nodes to the job.
    pub denied_flavors: BTreeMap<String, String>,
}

/// Returns the engine's form of a compiled job. `actual` holds the pods after admission, by group,
/// where they are known.
#[must_use]
pub fn gang_from_job(
    job: &CompiledJob,
    state: &AttemptState,
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
    let share_one_node =
        volumes::must_share_node(&state.volumes, members.iter().map(|(_, a)| &a.claims));
    let groups = members
        .into_iter()
        .map(|(group, admitted)| to_task_group(job, group, admitted, state));
    let spec = job.job().spec();
    let world = spec.world_groups().map(|group| group.name.as_str());
    let groups = merge_split_world(spec.topology.as_ref(), world, groups.collect()).into_iter();
    // All slices are on one node if all pods are.
    let groups = groups.map(|group| match share_one_node {
        true => TaskGroup {
            slices: Vec::new(),
            ..group
        },
        false => group,
    });
    let groups = groups.collect();
    let excluded = state
        .excluded_nodes
        .iter()
        .map(|n| NodeName::new(n.as_str()));
    Gang {
        priority: job.priority(),
        submitted: to_engine_time(state.submitted),
        not_before: state.not_before.map(to_engine_time),
        excluded_nodes: excluded.collect(),
        strategy: match spec.placement() {
            PlacementPolicy::Pack => PlacementStrategy::Pack,
            PlacementPolicy::Spread => PlacementStrategy::Spread,
        },
        topology: match share_one_node {
            true => Some(TopologyRequest::one_node()),
            false => spec.topology.as_ref().and_then(to_level_request),
        },
        preemptible: spec.is_preemptible(),
        preempts: !state.never_preempts,
        preempted: state.preempted,
        provisions: true,
        denied_flavors: state
            .denied_flavors
            .iter()
            .map(|(flavor, message)| (FlavorName::new(flavor.as_str()), message.clone()))
            .collect(),
        min_runtime: to_duration(spec.min_runtime_seconds.unwrap_or(0)),
        runtime: longest_hold_time(spec),
        grace: to_duration(spec.grace_period_seconds()),
        ..Gang::new(gang_id(&key), QueueName::new(job.queue()), groups)
    }
}

/// Returns the engine's form of a surplus pod or of a slice outside the gang, with the flavors that
/// the plan gave to its gang. None if the job has no such group.
#[must_use]
pub fn gang_from_surplus_unit(
    job: &CompiledJob,
    state: &AttemptState,
    actual: &BTreeMap<String, AdmittedPod>,
    plan: &Plan,
    unit: &SurplusUnit,
) -> Option<Gang> {
    let key = Key::new(job.job().namespace(), job.job().name());
    let group = job.groups().iter().find(|g| g.name() == unit.group)?;
    let admitted = actual.get(group.name()).cloned();
    let admitted = admitted.unwrap_or_else(|| AdmittedPod::from_group(group));
    let planned = plan.groups.iter().find(|g| g.name == unit.group);
    let planned_flavors: BTreeSet<&String> =
        planned.iter().flat_map(|g| g.flavors.values()).collect();
    let spec = job.job().spec();
    let indexes = unit.indexes(spec.group(&unit.group)?);
    let pods = TaskGroup {
        count: indexes.end.saturating_sub(indexes.start),
        starts: vec![indexes.start],
        ..to_task_group(job, group, admitted, state)
    };
    // A single pod needs no topology request. The driver restricts it to the domain of its gang.
    let is_slice = pods.count > 1;
    let pods = match is_slice {
        true => pods,
        false => TaskGroup {
            topology: None,
            slices: Vec::new(),
            ..pods
        },
    };
    let topology = spec.topology.as_ref().filter(|_| is_slice);
    let flavors = match planned_flavors.is_empty() {
        true => pods.flavors.clone(),
        false => planned_flavors
            .into_iter()
            .map(|f| FlavorName::new(f.as_str()))
            .collect(),
    };
    let excluded = state
        .excluded_nodes
        .iter()
        .map(|n| NodeName::new(n.as_str()));
    Some(Gang {
        priority: job.priority(),
        surplus: true,
        submitted: to_engine_time(state.submitted),
        excluded_nodes: excluded.collect(),
        topology: topology.and_then(to_level_request),
        grace: to_duration(spec.grace_period_seconds()),
        ..Gang::new(
            surplus_gang_id(&key, unit),
            QueueName::new(job.queue()),
            vec![TaskGroup { flavors, ..pods }],
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

fn to_task_group(
    job: &CompiledJob,
    group: &CompiledGroup,
    admitted: AdmittedPod,
    state: &AttemptState,
) -> TaskGroup {
    let spec = job
        .job()
        .spec()
        .task_groups
        .iter()
        .find(|g| g.name == group.name());
    let closeness = spec.and_then(|g| g.topology.as_ref());
    let device = spec
        .filter(|g| g.gpus() > 0)
        .map(|g| ResourceName::new(g.gpu_resource()));
    let flavors = spec.iter().flat_map(|g| &g.flavors);
    let claims = admitted.claims.iter();
    let ephemeral_volumes = admitted.ephemeral_claims.keys().filter_map(|volume| {
        let group_volume = (group.name().to_owned(), volume.clone());
        state.volumes.ephemeral.get(&group_volume)
    });
    let volumes = claims.filter_map(|c| state.volumes.claims.get(c));
    let volumes = volumes.chain(ephemeral_volumes);
    // A single pod is on one node anyway.
    let one_node = group.gang_size() > 1 && volumes.clone().any(|mounted| mounted.one_node);
    let mut volumes: Vec<_> = volumes
        .flat_map(|mounted| &mounted.node_terms)
        .cloned()
        .collect();
    // Sorted and deduplicated, so that gangs with equal volumes share one scan of the nodes.
    volumes.sort_unstable();
    volumes.dedup();
    let own_nodes = state
        .exclusive_node_values
        .iter()
        .map(|value| super::node::own_node_toleration(value));
    let constraints = Constraints {
        volumes,
        kept_out: state
            .closed_domains
            .get(group.name())
            .cloned()
            .unwrap_or_default(),
        tolerations: own_nodes.chain(admitted.constraints.tolerations).collect(),
        ..admitted.constraints
    };
    TaskGroup {
        device,
        flavors: flavors.map(|f| FlavorName::new(f.as_str())).collect(),
        same_flavor_as: spec
            .and_then(|group| group.same_flavor_as.as_deref())
            .map(GroupName::new),
        constraints,
        topology: match one_node {
            true => Some(TopologyRequest::one_node()),
            false => closeness.and_then(to_level_request),
        },
        balanced: closeness.is_some_and(Closeness::is_balanced),
        // All slices are on one node if all pods are.
        slices: match closeness.filter(|_| !one_node) {
            Some(closeness) => to_slices(closeness, group.gang_size()),
            None => Vec::new(),
        },
        prefers_slices: closeness.is_some_and(prefers_slices),
        ..TaskGroup::new(
            GroupName::new(group.name()),
            group.gang_size(),
            admitted.request,
            format!("{}-{}", job.job().name(), group.name()),
        )
    }
}
