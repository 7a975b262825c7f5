//! The engine, by scripts of events.

use std::collections::BTreeMap;

use serde::Deserialize;
use trellis_scheduler::{
    Decision, Engine, Flavor, Gang, GangId, GroupName, Node, NodeName, PodKey, Queue, QueueName,
    Resources, Snapshot, TaskGroup, Time, Topology,
};

use crate::Target;

/// The target. A script is one JSON object in each line; lines that do not parse are skipped. After
/// each cycle, an engine that is restored from the state decides the same, and each placed gang is
/// whole.
pub const TARGET: Target = Target {
    check,
    words: &[
        "node",
        "deleteNode",
        "queue",
        "gang",
        "deleteGang",
        "retireGang",
        "releaseGang",
        "pod",
        "deletePod",
        "losePod",
        "cycle",
        "count",
        "request",
        "nvidia.com/gpu",
        "cpu",
        "pods",
        "priority",
        "preemptible",
        "4096",
        "n0",
        "n1",
        "a",
        "b",
        "{\"cycle\": 1000}\n",
        "{\"deleteGang\": \"team/w\"}\n",
    ],
    inputs_per_case: 32,
};

/// Largest number of pods of a gang, as in the API.
const MAX_PODS: u32 = 10_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Event {
    Node {
        name: NodeName,
        allocatable: Resources,
    },
    DeleteNode(NodeName),
    WholeNode(Node),
    Queue(QueueName),
    WholeQueue(Queue),
    DeleteQueue(QueueName),
    Flavor(Flavor),
    Topology(Topology),
    Gang(GangLine),
    DeleteGang(GangId),
    RetireGang(GangId),
    ReleaseGang(GangId),
    Pod {
        key: PodKey,
        node: NodeName,
        request: Resources,
    },
    DeletePod(PodKey),
    LosePod(PodKey),
    Cycle(i64),
}

/// A gang of one task group.
#[derive(Deserialize)]
struct GangLine {
    id: GangId,
    queue: QueueName,
    #[serde(default)]
    priority: i32,
    count: u32,
    request: Resources,
    #[serde(default)]
    preemptible: bool,
}

impl GangLine {
    fn into_gang(self) -> Gang {
        let prefix = format!(
            "{}-g",
            self.id.as_str().rsplit('/').next().unwrap_or_default()
        );
        let count = self.count.min(MAX_PODS);
        let group = TaskGroup::new(GroupName::new("g"), count, self.request, prefix);
        Gang {
            priority: self.priority,
            preemptible: self.preemptible,
            ..Gang::new(self.id, self.queue, vec![group])
        }
    }
}

fn check(input: &[u8]) {
    let Some(text) = crate::text(input) else {
        return;
    };
    let mut engine = Engine::new();
    let mut now = Time::default();
    let mut pods: BTreeMap<GangId, u64> = BTreeMap::new();
    let events = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    for event in events.take(64) {
        match event {
            Event::Node { name, allocatable } => engine.apply_node(Node::new(name, allocatable)),
            Event::WholeNode(node) => engine.apply_node(node),
            Event::DeleteNode(node) => engine.delete_node(&node),
            Event::Queue(name) => engine.apply_queue(Queue::new(name)),
            Event::WholeQueue(queue) => engine.apply_queue(queue),
            Event::DeleteQueue(queue) => engine.delete_queue(&queue),
            Event::Flavor(flavor) => engine.apply_flavor(flavor),
            Event::Topology(topology) => engine.apply_topology(topology),
            Event::Gang(line) => {
                let gang = line.into_gang();
                pods.insert(gang.id.clone(), gang.pod_count());
                engine.apply_gang(gang);
            }
            Event::DeleteGang(gang) => engine.delete_gang(&gang),
            Event::RetireGang(gang) => engine.retire_gang(&gang),
            Event::ReleaseGang(gang) => engine.release_gang(&gang, None),
            Event::Pod { key, node, request } => engine.apply_pod(key, node, request),
            Event::DeletePod(pod) => engine.delete_pod(&pod),
            Event::LosePod(pod) => engine.lose_pod(&pod),
            Event::Cycle(later) => {
                now = now.plus_millis(later.clamp(0, 86_400_000));
                check_cycle(&mut engine, now, &pods);
            }
        }
    }
    check_cycle(&mut engine, now, &pods);
}

fn check_cycle(engine: &mut Engine, now: Time, pods: &BTreeMap<GangId, u64>) {
    let snapshot = engine.snapshot();
    let text = serde_json::to_string(&snapshot).expect("a snapshot is JSON");
    let read: Snapshot = serde_json::from_str(&text).expect("a snapshot reads again");
    assert_eq!(read, snapshot);
    let mut twin = Engine::from_snapshot(&read);
    assert_eq!(
        twin.snapshot(),
        snapshot,
        "the restored engine has the same state"
    );
    let decisions = engine.cycle(now);
    assert_eq!(
        twin.cycle(now),
        decisions,
        "the restored engine decides the same"
    );
    assert_eq!(twin.snapshot(), engine.snapshot());
    for decision in &decisions {
        if let Decision::Place {
            gang, placement, ..
        } = decision
        {
            assert_eq!(placement.pod_count(), pods[gang], "{gang} is placed whole");
        }
    }
}
