//! Converts external gangs into the engine's form.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use trellis_api::PodGroupSpec;
use trellis_scheduler::{
    Gang, GroupName, NodeName, PodKey, QueueName, ResourceName, Resources, TaskGroup,
    TopologyRequest,
};

use super::external_request::ExternalRequest;
use crate::engine;
use crate::key::Key;
use crate::requirements::flavors::GangPlacement;

/// State of an external gang's attempt: when and where it may be placed.
#[derive(Clone, Debug, Default)]
pub struct ExternalAttemptState {
    /// Earliest time of the placement.
    pub not_before: Option<Timestamp>,
    /// Nodes that the gang avoids.
    pub excluded_nodes: Vec<String>,
    /// True if the gang was preempted before.
    pub preempted: bool,
    /// For a pod that joins its gang: labels of the topology domain of the gang.
    pub gang_domain_labels: BTreeMap<String, String>,
    /// Number of this place among the gang's places.
    pub place_number: u64,
}

/// Returns the name of a group of pods with equal requirements.
#[must_use]
pub fn group_name(number: usize) -> String {
    format!("g{number}")
}

/// Returns true if the place has as many pods in each group as the gang.
#[must_use]
pub fn placement_fits(asks: &ExternalRequest, place: &GangPlacement) -> bool {
    asks.groups.iter().enumerate().all(|(number, alike)| {
        let name = group_name(number);
        let mut placed = place.placement.groups().iter();
        let runs = placed.find(|g| g.group.as_str() == name).map(|g| &g.runs);
        let runs = runs.into_iter().flatten();
        let pods = runs.filter_map(|(_, pods)| usize::try_from(*pods).ok());
        pods.sum::<usize>() == alike.pods.len()
    })
}

pub(super) fn pod_prefix(unit: &Key, place: u64, group: &str) -> String {
    format!("{}/{place}/{group}", unit.name)
}

/// Returns the engine's name of a pod. It differs from the pod's own name, which does not contain
/// the group. `place` distinguishes it from pods of the gang's earlier places that may still exist.
#[must_use]
pub fn pod_key(unit: &Key, place: u64, group: &str, index: usize) -> PodKey {
    let prefix = pod_prefix(unit, place, group);
    PodKey::new(format!("{}/{prefix}-{index}", unit.namespace))
}

/// Returns true if the engine's pod name belongs to that gang, in any of its places.
#[must_use]
pub fn is_pod_of_gang(unit: &Key, name: &PodKey) -> bool {
    let rest = name.as_str().strip_prefix(&*unit.namespace);
    let rest = rest.and_then(|rest| rest.strip_prefix('/')?.strip_prefix(&*unit.name));
    rest.is_some_and(|rest| rest.starts_with('/'))
}

/// Returns the device that GPU-hours count: the device resource with the largest amount in a pod.
pub(super) fn gpu_hours_device(request: &Resources) -> Option<ResourceName> {
    let devices = request.iter().filter(|(name, _)| name.is_device());
    let most = devices.max_by_key(|(_, units)| *units);
    most.map(|(name, _)| name.clone())
}

/// Returns an external gang that waits. `group` is the spec of its PodGroup.
#[must_use]
pub fn pending_gang(
    unit: &Key,
    group: Option<&PodGroupSpec>,
    asks: &ExternalRequest,
    ticket: &ExternalAttemptState,
) -> Gang {
    let groups = asks.groups.iter().enumerate().map(|(number, alike)| {
        let name = group_name(number);
        let mut constraints = alike.constraints.clone();
        constraints.narrow_to(&ticket.gang_domain_labels);
        TaskGroup {
            device: gpu_hours_device(&alike.request),
            constraints,
            topology: alike.one_node.then(TopologyRequest::one_node),
            ..TaskGroup::new(
                GroupName::new(name.as_str()),
                u32::try_from(alike.pods.len()).unwrap_or(u32::MAX),
                alike.request.clone(),
                pod_prefix(unit, ticket.place_number, &name),
            )
        }
    });
    let excluded = ticket
        .excluded_nodes
        .iter()
        .map(|n| NodeName::new(n.as_str()));
    let runtime = asks
        .active_seconds
        .map(|active| engine::to_duration(active.saturating_add(asks.grace)));
    Gang {
        priority: asks.priority,
        submitted: engine::to_engine_time(asks.submitted),
        not_before: ticket.not_before.map(engine::to_engine_time),
        excluded_nodes: excluded.collect(),
        topology: match asks.one_node {
            true => Some(TopologyRequest::one_node()),
            false => group.and_then(topology_request),
        },
        preempts: asks.preempts,
        preempted: ticket.preempted,
        preemptible: group.is_none_or(|g| g.is_preemptible()),
        min_runtime: engine::to_duration(group.and_then(|g| g.min_runtime_seconds).unwrap_or(0)),
        runtime,
        grace: engine::to_duration(asks.grace),
        draws: asks.limits.to_draws(),
        ..Gang::new(
            engine::gang_id(unit),
            QueueName::new(asks.queue.as_str()),
            groups.collect(),
        )
    }
}

pub(super) fn topology_request(group: &PodGroupSpec) -> Option<TopologyRequest> {
    group.topology.as_ref().and_then(engine::to_level_request)
}
