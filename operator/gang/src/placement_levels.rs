//! How the ranks of a placed job follow a topology, for its status and for plans.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use trellis_api::job::{LevelPlacement, TaskGroup, TrainingJobSpec};
use trellis_api::pod_group::Plan;
use trellis_scheduler::{GroupName, NodeName, Placement, RankRing, RingGroup, Topology};

use crate::observed::{PodView, SlimNode};
use crate::{engine, plan_members};

/// Returns the placement of a gang with its surplus pods. `pods` are all pods of the job.
#[must_use]
pub fn placement_with_surplus<'a>(
    plan: &'a Plan,
    uid: &str,
    pods: impl Iterator<Item = &'a PodView>,
) -> Placement {
    let mut nodes: BTreeMap<&str, BTreeMap<u32, &str>> = BTreeMap::new();
    for (group, index, node) in plan_members(plan) {
        nodes.entry(group).or_default().insert(index, node);
    }
    let is_current = |pod: &&PodView| {
        let is_gone = pod.deleting || pod.phase.is_over();
        pod.job_uid == uid && pod.plan == plan.hash && !is_gone
    };
    for pod in pods.filter(is_current) {
        if let Some(node) = &pod.node {
            let of_group = nodes.entry(&pod.group).or_default();
            // The plan has the places of the gang's pods.
            of_group.entry(pod.index).or_insert(node);
        }
    }
    let groups = nodes.into_iter().map(|(group, nodes)| {
        let mut runs: Vec<(NodeName, u32)> = Vec::new();
        for node in nodes.into_values() {
            match runs.last_mut() {
                Some((last, pods)) if last.as_str() == node => *pods = pods.saturating_add(1),
                _ => runs.push((NodeName::new(node), 1)),
            }
        }
        (GroupName::new(group), runs)
    });
    groups.collect()
}

fn count_pods(runs: &[(NodeName, u32)]) -> u32 {
    let counts = runs.iter().map(|(_, pods)| *pods);
    counts.fold(0, u32::saturating_add)
}

/// Measures how the pods in the world of a job follow the topology by which they are ordered, by
/// level from coarse to fine. Empty: fewer than two pods, or no topology has domains for all nodes.
#[must_use]
pub fn placement_levels<N: Borrow<SlimNode>>(
    spec: &TrainingJobSpec,
    placement: &Placement,
    topologies: &[Topology],
    find_node: impl Fn(&str) -> Option<N>,
) -> Vec<LevelPlacement> {
    let groups: Vec<(&TaskGroup, &[(NodeName, u32)])> = spec
        .world_groups()
        .filter_map(|group| Some((group, placement.runs(&GroupName::new(group.name.as_str()))?)))
        .collect();
    let pods = groups.iter().map(|(_, runs)| count_pods(runs));
    if pods.fold(0, u32::saturating_add) < 2 || topologies.is_empty() {
        return Vec::new();
    }
    let request = spec.topology.as_ref();
    let ring = RankRing {
        topology: request.and_then(engine::to_level_request),
        groups: groups
            .into_iter()
            .map(|(group, runs)| to_ring_group(spec, group, runs))
            .collect(),
    };
    let labels = |node: &NodeName, keys: &BTreeSet<&str>| {
        let node = find_node(node.as_str());
        let labels = node
            .as_ref()
            .and_then(|node| node.borrow().metadata.labels.as_ref());
        let labels = labels.into_iter().flatten();
        let known = labels.filter(|(key, _)| keys.contains(key.as_str()));
        known
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let levels = ring.levels(topologies, labels).into_iter();
    levels
        .map(|level| LevelPlacement {
            level: level.level,
            domains: count(level.domains),
            crossings: count(level.crossings),
            least_crossings: count(level.least_crossings),
        })
        .collect()
}

fn to_ring_group(spec: &TrainingJobSpec, group: &TaskGroup, runs: &[(NodeName, u32)]) -> RingGroup {
    let request = group.topology.as_ref();
    // Only the levels of the slices count.
    let split = request.or(spec.topology.as_ref());
    let slices = split.map(|split| engine::to_slices(split, group.gang_size()));
    let nodes = runs.iter().filter(|(_, pods)| *pods > 0);
    RingGroup {
        topology: request.and_then(engine::to_level_request),
        slices: slices.unwrap_or_default(),
        nodes: nodes.map(|(node, _)| node.clone()).collect(),
    }
}

#[cfg(test)]
mod tests;
