//! Converts placed external gangs into the engine's form.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use trellis_api::PodGroupSpec;
use trellis_scheduler::{
    FlavorName, Gang, GroupFlavors, GroupName, NodeName, Placement, PodKey, QueueName,
    ResourceName, Resources, TaskGroup,
};

use super::engine_gang::{gpu_hours_device, group_name, pod_key, pod_prefix, topology_request};
use crate::engine;
use crate::key::Key;
use crate::observed::{ExternalPod, FlavorsByResource};

/// A pod that has its node, or whose node the plan reserves.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedPod {
    /// The pod.
    pub pod: Key,
    /// The pod's uid.
    pub uid: String,
    /// The pod's node.
    pub node: String,
    /// Resources that the pod holds there.
    pub request: Resources,
    /// Flavors of those resources.
    pub flavors: FlavorsByResource,
    /// The group of the plan that the pod is in. None if it fits any group with the same resources.
    pub group: Option<String>,
    /// When the pod was created.
    pub created: Option<Timestamp>,
    /// Termination grace period of the pod, in seconds.
    pub grace: i64,
    /// Longest run time of the pod, in seconds.
    pub active_seconds: Option<i64>,
    /// True once the pod is bound.
    pub is_bound: bool,
}

impl PlacedPod {
    /// Returns the pod on that node, with these flavors.
    #[must_use]
    pub fn new(pod: Key, there: &ExternalPod, node: String, flavors: FlavorsByResource) -> Self {
        Self {
            pod,
            uid: there.uid.clone(),
            node,
            request: there.request.clone(),
            flavors,
            group: None,
            created: there.created,
            grace: there.grace.into(),
            active_seconds: there.active_seconds,
            is_bound: there.is_bound(),
        }
    }

    /// Returns the fields that distinguish one place from another.
    fn placement_fields(&self) -> (&str, &str, &Resources, &FlavorsByResource) {
        (&self.uid, &self.node, &self.request, &self.flavors)
    }
}

/// Returns true if both lists have the same pods in the same places, whether bound or not.
#[must_use]
pub fn is_same_placement(one: &[PlacedPod], other: &[PlacedPod]) -> bool {
    one.iter()
        .map(PlacedPod::placement_fields)
        .eq(other.iter().map(PlacedPod::placement_fields))
}

/// The place of an external gang, from Trellis or another scheduler.
#[derive(Clone, Debug)]
pub struct PlacedExternalGang {
    /// The gang in the engine's form.
    pub gang: Gang,
    /// Nodes of the gang's pods.
    pub placement: Placement,
    /// The flavors of the gang, if its plan records them.
    pub flavors: Vec<GroupFlavors>,
    /// The engine's names of the gang's pods.
    pub pod_names: BTreeMap<Key, PodKey>,
}

/// Properties that the pods of one group share.
type SharedProperties<'a> = (Option<&'a str>, &'a Resources, &'a FlavorsByResource);

/// The shared properties of a group, and its pods by node.
type AlikePlacedPods<'a> = (SharedProperties<'a>, BTreeMap<&'a str, Vec<&'a Key>>);

/// Returns a placed external gang with these pods, in that queue and with that priority.
#[must_use]
pub fn to_placed_gang(
    unit: &Key,
    place: u64,
    group: Option<&PodGroupSpec>,
    (queue, priority): (&str, i32),
    placed: &[PlacedPod],
) -> PlacedExternalGang {
    let mut names = BTreeMap::new();
    let mut placement = Placement::new();
    let mut task_groups = Vec::new();
    let mut flavors = Vec::new();
    for (number, ((_, request, pod_flavors), nodes)) in
        group_alike_pods(placed).into_iter().enumerate()
    {
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
        if !pod_flavors.is_empty() {
            let pod_flavors = pod_flavors.iter();
            flavors.push(GroupFlavors {
                group: GroupName::new(name.as_str()),
                flavors: pod_flavors
                    .map(|(r, f)| (ResourceName::new(r.as_str()), FlavorName::new(f.as_str())))
                    .collect(),
            });
        }
        task_groups.push(TaskGroup {
            device: gpu_hours_device(request),
            ..TaskGroup::new(
                GroupName::new(name.as_str()),
                u32::try_from(index).unwrap_or(0),
                request.clone(),
                pod_prefix(unit, place, &name),
            )
        });
    }
    let grace = placed.iter().map(|pod| pod.grace).max().unwrap_or(0);
    // A gang with a pod that may run forever holds its place forever.
    let active: Option<Vec<i64>> = placed.iter().map(|pod| pod.active_seconds).collect();
    let runtime = active.and_then(|all| all.into_iter().max());
    let newest = placed.iter().filter_map(|pod| pod.created).max();
    let gang = Gang {
        priority,
        submitted: engine::to_engine_time(newest.unwrap_or_default()),
        topology: group.and_then(topology_request),
        preemptible: group.is_none_or(|g| g.is_preemptible()),
        min_runtime: engine::to_duration(group.and_then(|g| g.min_runtime_seconds).unwrap_or(0)),
        runtime: runtime.map(|active| engine::to_duration(active.saturating_add(grace))),
        grace: engine::to_duration(grace),
        ..Gang::new(engine::gang_id(unit), QueueName::new(queue), task_groups)
    };
    PlacedExternalGang {
        gang,
        placement,
        flavors,
        pod_names: names,
    }
}

/// Groups pods with equal properties. The groups are numbered in the order of their first pods, as
/// the groups of a waiting gang are.
fn group_alike_pods(placed: &[PlacedPod]) -> Vec<AlikePlacedPods<'_>> {
    let mut numbers: BTreeMap<SharedProperties<'_>, usize> = BTreeMap::new();
    let mut groups: Vec<AlikePlacedPods<'_>> = Vec::new();
    for pod in placed {
        let alike = (pod.group.as_deref(), &pod.request, &pod.flavors);
        let number = *numbers.entry(alike).or_insert(groups.len());
        if number == groups.len() {
            groups.push((alike, BTreeMap::new()));
        }
        if let Some((_, nodes)) = groups.get_mut(number) {
            nodes.entry(&pod.node).or_default().push(&pod.pod);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::external::{engine_gang, pod_gang_key, pod_group_gang_key};

    fn placed_pod(name: &str, node: &str, cpu: i64) -> PlacedPod {
        PlacedPod {
            pod: Key::new("ns", name),
            uid: name.to_owned(),
            node: node.to_owned(),
            request: Resources::new().with("cpu", cpu),
            flavors: FlavorsByResource::new(),
            group: None,
            created: None,
            grace: 30,
            active_seconds: None,
            is_bound: true,
        }
    }

    #[test]
    fn engine_pod_names_of_one_node_are_consecutive() {
        let pods = [
            placed_pod("a", "n", 1),
            placed_pod("b", "m", 1),
            placed_pod("c", "n", 2),
            placed_pod("d", "n", 1),
        ];
        let key = pod_group_gang_key(&Key::new("ns", "g"));
        let placed = to_placed_gang(&key, 3, None, ("q", 5), &pods);
        let gang = &placed.gang;
        let counts: Vec<_> = gang.groups.iter().map(|g| g.count).collect();
        assert_eq!(counts, [3, 1]);
        let cpu = ResourceName::new("cpu");
        assert_eq!(gang.groups[1].request.get(&cpu), 2);
        let name = |pod: &str| placed.pod_names[&Key::new("ns", pod)].as_str().to_owned();
        assert_eq!(
            ["a", "b", "c", "d"].map(name),
            ["g0-1", "g0-0", "g1-0", "g0-2"].map(|suffix| format!("ns/PodGroup/g/3/{suffix}"))
        );
        // The engine computes the same name.
        assert_eq!(gang.pod_key(&gang.groups[0], 2).as_str(), name("d"));
        assert_eq!(placed.placement.iter().count(), 4);
    }

    #[test]
    fn engine_pod_name_belongs_to_one_gang() {
        let key = pod_group_gang_key(&Key::new("ns", "g"));
        let placed = to_placed_gang(&key, 3, None, ("q", 5), &[placed_pod("a", "n", 1)]);
        let name = &placed.pod_names[&Key::new("ns", "a")];
        assert!(engine_gang::is_pod_of_gang(&key, name));
        let longer_name = pod_group_gang_key(&Key::new("ns", "g0"));
        assert!(!engine_gang::is_pod_of_gang(&longer_name, name));
        let single_pod = pod_gang_key(&Key::new("ns", "a"));
        assert!(!engine_gang::is_pod_of_gang(&single_pod, name));
    }

    #[test]
    fn placement_is_the_same_before_and_after_the_binding() {
        let bound = [placed_pod("a", "n", 1)];
        let unbound = bound.clone().map(|pod| PlacedPod {
            is_bound: false,
            ..pod
        });
        assert!(is_same_placement(&bound, &unbound));
    }
}
