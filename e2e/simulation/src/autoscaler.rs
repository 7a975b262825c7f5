//! An autoscaler. It acts as Karpenter does for pods that no scheduler finds a node for.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::access::{Access, Target};
use crate::cluster::{self, GPUS};
use crate::random::RandomSequence;
use crate::script::AutoscalerScript;
use crate::time::VirtualTime;

/// Time in which further pods may appear before nodes are bought.
const BATCH: Duration = Duration::from_secs(1);
/// Time from the registration of a node until it is ready, at most.
const LONGEST_START: u64 = 5_000;
/// Time from the taint of an empty node until it is removed. A pod that comes meanwhile keeps it.
const VALIDATION: Duration = Duration::from_secs(5);
/// Time after which the pod garbage collector removes a pod whose node is gone.
const QUARANTINE: Duration = Duration::from_secs(40);
/// The taint of a node that is about to be removed.
const DISRUPTED: &str = "karpenter.sh/disrupted";

/// Work on new nodes, to be done later. A node has a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AutoscalerWork {
    /// Looks at all pods and nodes.
    Look,
    Register(u32),
    MakeReady(u32),
    Remove(u32),
}

/// The state of a new node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NewNode {
    /// It is bought, and not ready.
    Coming,
    /// It is ready, and has had no pod since a time.
    Ready { idle_since: Option<VirtualTime> },
    /// It is about to be removed.
    Leaving,
}

/// Room for further pods.
struct Room {
    node: Option<u32>,
    gpus: u64,
    is_used: bool,
}

#[derive(Debug)]
pub(crate) struct Autoscaler {
    script: AutoscalerScript,
    random: RandomSequence,
    has_look: bool,
    /// Number of nodes that were ever bought.
    bought: u32,
    nodes: BTreeMap<u32, NewNode>,
    /// Pods whose nodes are gone, by namespace and name, with the time at which that was seen.
    orphans: BTreeMap<(String, String), VirtualTime>,
}

impl Autoscaler {
    pub(crate) fn new(seed: u64, script: AutoscalerScript) -> Self {
        Self {
            script,
            random: RandomSequence::new(seed, "new nodes"),
            has_look: false,
            bought: 0,
            nodes: BTreeMap::new(),
            orphans: BTreeMap::new(),
        }
    }

    /// Returns the number of nodes that were ever bought.
    pub(crate) fn bought(&self) -> u32 {
        self.bought
    }

    /// Takes in a change of a kind. Returns when to look at the cluster.
    pub(crate) fn notice(&mut self, plural: &str) -> Option<(Duration, AutoscalerWork)> {
        let concerns = matches!(plural, "pods" | "nodes");
        (concerns && !self.has_look).then(|| self.look_after(BATCH))
    }

    fn look_after(&mut self, delay: Duration) -> (Duration, AutoscalerWork) {
        self.has_look = true;
        (delay, AutoscalerWork::Look)
    }

    /// Does the work. Returns what follows.
    pub(crate) fn act(
        &mut self,
        work: AutoscalerWork,
        now: VirtualTime,
        access: &mut Access<'_>,
    ) -> Vec<(Duration, AutoscalerWork)> {
        match work {
            AutoscalerWork::Look => self.look(now, access),
            AutoscalerWork::Register(number) => {
                let node = cluster::node(&node_name(number), self.script.gpus);
                access.create(&node).expect("its name is new");
                let start = self.random.log_uniform_millis(20, LONGEST_START);
                vec![(start, AutoscalerWork::MakeReady(number))]
            }
            AutoscalerWork::MakeReady(number) => {
                set_taints(number, &Value::Null, access);
                self.nodes
                    .insert(number, NewNode::Ready { idle_since: None });
                Vec::new()
            }
            AutoscalerWork::Remove(number) => {
                if has_pods(&node_name(number), access) {
                    set_taints(number, &Value::Null, access);
                    self.nodes
                        .insert(number, NewNode::Ready { idle_since: None });
                } else {
                    access.delete(&node_target(number), None);
                    self.nodes.remove(&number);
                }
                Vec::new()
            }
        }
    }

    /// Buys nodes for pods without room, and gives up idle nodes.
    fn look(
        &mut self,
        now: VirtualTime,
        access: &mut Access<'_>,
    ) -> Vec<(Duration, AutoscalerWork)> {
        self.has_look = false;
        let mut next = Vec::new();
        let mut rooms = self.rooms(access);
        for gpus in pending_pods(access) {
            if let Some(room) = rooms.iter_mut().find(|room| room.gpus >= gpus) {
                room.gpus -= gpus;
                room.is_used = true;
            } else if self.nodes.len() < self.script.stock as usize
                && let Some(rest) = u64::from(self.script.gpus).checked_sub(gpus)
            {
                let number = self.bought;
                self.bought += 1;
                self.nodes.insert(number, NewNode::Coming);
                let arrival = self
                    .random
                    .log_uniform_millis(500, self.script.arrival.max(501));
                next.push((arrival, AutoscalerWork::Register(number)));
                rooms.push(Room {
                    node: Some(number),
                    gpus: rest,
                    is_used: true,
                });
            }
        }
        let mut waits = self.give_up_idle_nodes(now, &rooms, access, &mut next);
        waits = earliest(waits, self.collect_orphans(now, access));
        if let Some(wait) = waits {
            next.push(self.look_after(wait.max(BATCH)));
        }
        next
    }

    /// Returns the room on the nodes that exist and on those that come.
    fn rooms(&self, access: &Access<'_>) -> Vec<Room> {
        let numbers: BTreeMap<String, u32> = self
            .nodes
            .keys()
            .map(|number| (node_name(*number), *number))
            .collect();
        let is_coming = |number: &u32| self.nodes[number] == NewNode::Coming;
        let mut rooms = Vec::new();
        for node in access.list(&cluster::NODES) {
            let number = numbers.get(node.name()).copied();
            let spec = &node.value()["spec"];
            let is_open = spec["unschedulable"] != true && spec["taints"].is_null();
            if is_open && !number.as_ref().is_some_and(is_coming) {
                let used: u64 = pods_on(node.name(), access).map(gpus_of).sum();
                let all = quantity(&node.value()["status"]["allocatable"][GPUS]);
                rooms.push(Room {
                    node: number,
                    gpus: all.saturating_sub(used),
                    is_used: false,
                });
            }
        }
        let coming = self.nodes.keys().filter(|number| is_coming(number));
        rooms.extend(coming.map(|number| Room {
            node: Some(*number),
            gpus: self.script.gpus.into(),
            is_used: false,
        }));
        rooms
    }

    /// Taints the nodes that were idle for too long. Returns when the next one may be.
    fn give_up_idle_nodes(
        &mut self,
        now: VirtualTime,
        rooms: &[Room],
        access: &mut Access<'_>,
        next: &mut Vec<(Duration, AutoscalerWork)>,
    ) -> Option<Duration> {
        let longest = Duration::from_secs(self.script.removal_seconds);
        let mut wait = None;
        for (number, node) in &mut self.nodes {
            let NewNode::Ready { idle_since } = node else {
                continue;
            };
            let is_wanted = rooms
                .iter()
                .any(|room| room.node == Some(*number) && room.is_used);
            if is_wanted || has_pods(&node_name(*number), access) {
                *idle_since = None;
                continue;
            }
            let idle = now.since(*idle_since.get_or_insert(now));
            if idle < longest {
                wait = earliest(wait, Some(longest - idle));
                continue;
            }
            *node = NewNode::Leaving;
            set_taints(
                *number,
                &json!([{"key": DISRUPTED, "effect": "NoSchedule"}]),
                access,
            );
            next.push((VALIDATION, AutoscalerWork::Remove(*number)));
        }
        wait
    }

    /// Removes the pods whose nodes are gone, as the pod garbage collector does. Returns when the
    /// next one is due.
    fn collect_orphans(&mut self, now: VirtualTime, access: &mut Access<'_>) -> Option<Duration> {
        let nodes: Vec<String> = access
            .list(&cluster::NODES)
            .map(|node| node.name().to_owned())
            .collect();
        let orphans = access.list(&cluster::PODS).filter(|pod| {
            let node = pod.value()["spec"]["nodeName"].as_str();
            node.is_some_and(|node| !nodes.iter().any(|name| name == node))
        });
        let orphans = orphans.map(|pod| {
            let key = (pod.namespace().to_owned(), pod.name().to_owned());
            (key, pod.uid().to_owned())
        });
        let orphans: BTreeMap<_, _> = orphans.collect();
        self.orphans.retain(|key, _| orphans.contains_key(key));
        let mut wait = None;
        for (key, uid) in orphans {
            let since = *self.orphans.entry(key.clone()).or_insert(now);
            let passed = now.since(since);
            if passed < QUARANTINE {
                wait = earliest(wait, Some(QUARANTINE - passed));
                continue;
            }
            let target = Target::namespaced("api/v1", "pods", &key.0, &key.1);
            access.patch_status(&target, &json!({"phase": "Failed"}));
            access.delete_now(&target, &uid);
        }
        wait
    }
}

fn earliest(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}

fn node_name(number: u32) -> String {
    format!("new-{number}")
}

fn node_target(number: u32) -> Target {
    Target::cluster_wide("api/v1", "nodes", &node_name(number))
}

fn set_taints(number: u32, taints: &Value, access: &mut Access<'_>) {
    let patched = access.patch(&node_target(number), &json!({"spec": {"taints": taints}}));
    patched.expect("the node exists");
}

fn pods_on<'a>(node: &'a str, access: &'a Access<'_>) -> impl Iterator<Item = &'a Value> {
    let pods = access.list(&cluster::PODS).map(|pod| pod.value());
    pods.filter(move |pod| {
        let phase = pod["status"]["phase"].as_str();
        pod["spec"]["nodeName"] == node && !matches!(phase, Some("Succeeded" | "Failed"))
    })
}

fn has_pods(node: &str, access: &Access<'_>) -> bool {
    pods_on(node, access).next().is_some()
}

/// Returns the GPUs of the pods that wait for nodes, also of those that are being deleted: Karpenter
/// buys nodes for them, too.
fn pending_pods(access: &Access<'_>) -> Vec<u64> {
    let is_unschedulable = |condition: &Value| {
        condition["type"] == "PodScheduled"
            && condition["status"] == "False"
            && condition["reason"] == "Unschedulable"
    };
    let pods = access.list(&cluster::PODS).map(|pod| pod.value());
    let pending = pods.filter(|pod| {
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        pod["status"]["phase"] == "Pending"
            && pod["spec"]["nodeName"].is_null()
            && conditions.any(is_unschedulable)
    });
    pending.map(gpus_of).collect()
}

fn gpus_of(pod: &Value) -> u64 {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    containers
        .map(|container| quantity(&container["resources"]["limits"][GPUS]))
        .sum()
}

fn quantity(amount: &Value) -> u64 {
    amount
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}
