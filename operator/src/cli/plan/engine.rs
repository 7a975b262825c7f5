//! The engine as it stands before the jobs are planned: what the cluster has,
//! and what is taken of it.

use std::collections::BTreeSet;

use trellis_api::PodGroup;
use trellis_api::pod_group::PodGroupPhase;
use trellis_scheduler::{Engine, Node, NodeName};

use super::snapshot::Snapshot;
use crate::key::Key;
use crate::scheduling::{Feed, gang, reserve};
use crate::watch::{DaemonPods, PodView, SlimNode, SlimPod, Unhealthy};

/// An engine that knows of everything but the jobs that are planned: what they
/// hold already would be theirs again.
pub(super) fn engine(snapshot: &mut Snapshot, planned: &BTreeSet<Key>) -> Engine {
    let mut engine = Engine::new();
    for (name, queue) in snapshot.with_queues() {
        engine.apply_queue(gang::queue(name, &queue.spec));
    }
    for (name, flavor) in &snapshot.flavors {
        engine.apply_flavor(gang::flavor(name, &flavor.spec));
    }
    for node in nodes(snapshot) {
        engine.apply_node(node);
    }
    for (key, group) in &snapshot.pod_groups {
        if !planned.contains(key) {
            restore(&mut engine, snapshot, key, group);
        }
    }
    for (key, pod) in &snapshot.pods {
        let its_job = PodView::of(pod).map(|(job, _)| job);
        if !its_job.is_some_and(|job| planned.contains(&job)) {
            apply_pod(&mut engine, key, pod);
        }
    }
    engine
}

/// The nodes, without what DaemonSets will need of those that are Trellis' own.
fn nodes(snapshot: &Snapshot) -> Vec<Node> {
    let unhealthy = Unhealthy::default();
    let daemon_pods = DaemonPods::default();
    for (key, pod) in &snapshot.pods {
        daemon_pods.apply(key, pod);
    }
    let node = |(name, node): (&String, &SlimNode)| {
        let mut node = gang::node(node, &unhealthy);
        let sets = snapshot.daemon_sets.values();
        reserve::hold_back(&mut node, sets, |set| daemon_pods.is_on(set, name));
        node
    };
    snapshot.nodes.iter().map(node).collect()
}

fn apply_pod(engine: &mut Engine, key: &Key, pod: &SlimPod) {
    if let Feed::Pod {
        pod, node, request, ..
    } = Feed::pod(key.clone(), pod)
    {
        engine.apply_pod(gang::pod_key(&pod), NodeName::new(node), request);
    }
}

/// A gang that has its place holds its queue's quota, and the room of pods that
/// are still to be created.
fn restore(engine: &mut Engine, snapshot: &Snapshot, key: &Key, group: &PodGroup) {
    let Some(status) = &group.status else { return };
    let Some(plan) = &status.plan else { return };
    let phase = status.phase.unwrap_or_default();
    if matches!(phase, PodGroupPhase::Pending | PodGroupPhase::Finished) {
        return;
    }
    let restored = gang::of_pod_group(key, group);
    let over: Vec<_> = restored
        .groups
        .iter()
        .flat_map(|task_group| {
            (0..task_group.count).map(|index| restored.pod_key(task_group, index))
        })
        .filter(|pod| {
            let (namespace, name) = pod.as_str().split_once('/').unwrap_or_default();
            let there = snapshot.pods.get(&Key::new(namespace, name));
            // All of a placed gang's pods were created: who is not there has ended.
            there.map_or(phase != PodGroupPhase::Committing, |pod| {
                matches!(Feed::pod(key.clone(), pod), Feed::PodGone(_))
            })
        })
        .collect();
    engine.restore_gang(
        restored,
        gang::placement(plan),
        trellis_scheduler::Time::default(),
    );
    for pod in over {
        engine.drop_assumed(&pod);
    }
}
