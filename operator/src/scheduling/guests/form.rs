//! Guest gangs in the engine's words.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use trellis_api::PodGroupSpec;
use trellis_scheduler::{
    Gang, GroupName, NodeName, Placement, PodKey, QueueName, ResourceName, Resources, TaskGroup,
    TopologyRequest,
};

use super::asks::Asks;
use crate::key::Key;
use crate::scheduling::gang;

/// When a guest gang is placed, and where not.
#[derive(Clone, Debug, Default)]
pub struct Ticket {
    /// Not placed before.
    pub not_before: Option<Timestamp>,
    /// Nodes that it keeps away from.
    pub excluded: Vec<String>,
    /// It had to make room before.
    pub preempted: bool,
    /// Of one that came after its gang: where that is, by the label of the level that it must be
    /// in.
    pub near: Option<(String, String)>,
    /// Which of the gang's places it is to be.
    pub place: u64,
}

/// The name of a group of pods that ask for the same.
#[must_use]
pub fn group_name(number: usize) -> String {
    format!("g{number}")
}

fn prefix(unit: &Key, place: u64, group: &str) -> String {
    format!("{}/{place}/{group}", unit.name)
}

/// The engine's name of a pod: not its own, which says nothing of its group. `place` tells it from
/// pods of the gang's places before, which may be there still.
#[must_use]
pub fn pod_key(unit: &Key, place: u64, group: &str, index: usize) -> PodKey {
    let prefix = prefix(unit, place, group);
    PodKey::new(format!("{}/{prefix}-{index}", unit.namespace))
}

/// True if the engine's name of a pod is of that gang, in whichever of its places.
#[must_use]
pub fn is_name_of(unit: &Key, name: &PodKey) -> bool {
    let rest = name.as_str().strip_prefix(&*unit.namespace);
    let rest = rest.and_then(|rest| rest.strip_prefix('/')?.strip_prefix(&*unit.name));
    rest.is_some_and(|rest| rest.starts_with('/'))
}

/// What GPU-hours are counted of: the devices of which a pod has most.
fn device(request: &Resources) -> Option<ResourceName> {
    let devices = request.iter().filter(|(name, _)| is_device(name));
    let most = devices.max_by_key(|(_, units)| *units);
    most.map(|(name, _)| name.clone())
}

/// True if it is an extended resource, which has a domain in its name: a device.
pub(super) fn is_device(resource: &ResourceName) -> bool {
    let name = resource.as_str();
    name.contains('/') && !name.starts_with("hugepages-")
}

/// A guest gang that waits. `group`: what its PodGroup says.
#[must_use]
pub fn waiting(unit: &Key, group: Option<&PodGroupSpec>, asks: &Asks, ticket: &Ticket) -> Gang {
    let groups = asks.groups.iter().enumerate().map(|(number, alike)| {
        let name = group_name(number);
        let mut constraints = alike.constraints.clone();
        constraints.node_selector.extend(ticket.near.clone());
        TaskGroup {
            device: device(&alike.request),
            constraints,
            topology: alike.one_node.then(TopologyRequest::one_node),
            ..TaskGroup::new(
                GroupName::new(name.as_str()),
                u32::try_from(alike.pods.len()).unwrap_or(u32::MAX),
                alike.request.clone(),
                prefix(unit, ticket.place, &name),
            )
        }
    });
    let excluded = ticket.excluded.iter().map(|n| NodeName::new(n.as_str()));
    let runtime = asks
        .active_seconds
        .map(|active| gang::seconds(active.saturating_add(asks.grace)));
    Gang {
        priority: asks.priority,
        submitted: gang::time(asks.submitted),
        not_before: ticket.not_before.map(gang::time),
        excluded_nodes: excluded.collect(),
        topology: match asks.one_node {
            true => Some(TopologyRequest::one_node()),
            false => group.and_then(topology),
        },
        preempted: ticket.preempted,
        preemptible: group.and_then(|g| g.preemptible).unwrap_or(true),
        min_runtime: gang::seconds(group.and_then(|g| g.min_runtime_seconds).unwrap_or(0)),
        runtime,
        grace: gang::seconds(asks.grace),
        draws: asks.limits.draws(),
        ..Gang::new(
            gang::id(unit),
            QueueName::new(asks.queue.as_str()),
            groups.collect(),
        )
    }
}

fn topology(group: &PodGroupSpec) -> Option<TopologyRequest> {
    group.topology.as_ref().map(gang::topology_request)
}

/// A pod that has its node, or to which it is promised.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// The pod.
    pub pod: Key,
    /// Its uid.
    pub uid: String,
    /// Its node.
    pub node: String,
    /// What it holds there.
    pub request: Resources,
    /// Seconds that it is given to stop.
    pub grace: i64,
    /// True once it is bound.
    pub bound: bool,
}

/// True if these are the same pods in the same place, bound by now or not.
#[must_use]
pub fn is_same(one: &[Held], other: &[Held]) -> bool {
    let of = |held: &Held| (held.uid.clone(), held.node.clone(), held.request.clone());
    one.iter().map(of).eq(other.iter().map(of))
}

/// What a guest gang has, whoever gave it.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The gang, as the engine is to know it.
    pub gang: Gang,
    /// Where it is.
    pub placement: Placement,
    /// The engine's names of its pods.
    pub names: BTreeMap<Key, PodKey>,
}

/// A guest gang that has its place: these pods, in that queue and with that priority.
#[must_use]
pub fn standing(
    unit: &Key,
    place: u64,
    group: Option<&PodGroupSpec>,
    (queue, priority): (&str, i32),
    grace: i64,
    held: &[Held],
) -> Standing {
    // Pods that hold the same are a group; those on one node follow each other.
    // Groups are numbered in the order in which they are met, as those of pods that ask are.
    let mut numbers: BTreeMap<&Resources, usize> = BTreeMap::new();
    let mut groups: Vec<(&Resources, BTreeMap<&str, Vec<&Key>>)> = Vec::new();
    for pod in held {
        let number = *numbers.entry(&pod.request).or_insert(groups.len());
        if number == groups.len() {
            groups.push((&pod.request, BTreeMap::new()));
        }
        if let Some((_, nodes)) = groups.get_mut(number) {
            nodes.entry(&pod.node).or_default().push(&pod.pod);
        }
    }
    let mut names = BTreeMap::new();
    let mut placement = Placement::new();
    let mut task_groups = Vec::with_capacity(groups.len());
    for (number, (request, nodes)) in groups.into_iter().enumerate() {
        let name = group_name(number);
        let mut index: usize = 0;
        let mut runs = Vec::with_capacity(nodes.len());
        for (node, pods) in nodes {
            runs.push((NodeName::new(node), u32::try_from(pods.len()).unwrap_or(0)));
            for pod in pods {
                names.insert(pod.clone(), pod_key(unit, place, &name, index));
                index = index.saturating_add(1);
            }
        }
        placement.push(GroupName::new(name.as_str()), runs);
        task_groups.push(TaskGroup {
            device: device(request),
            ..TaskGroup::new(
                GroupName::new(name.as_str()),
                u32::try_from(index).unwrap_or(0),
                request.clone(),
                prefix(unit, place, &name),
            )
        });
    }
    let gang = Gang {
        priority,
        topology: group.and_then(topology),
        preemptible: group.and_then(|g| g.preemptible).unwrap_or(true),
        min_runtime: gang::seconds(group.and_then(|g| g.min_runtime_seconds).unwrap_or(0)),
        grace: gang::seconds(grace),
        ..Gang::new(gang::id(unit), QueueName::new(queue), task_groups)
    };
    Standing {
        gang,
        placement,
        names,
    }
}
