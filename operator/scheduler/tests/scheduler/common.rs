//! Helpers for nodes, gangs and the reports of an engine.

use trellis_scheduler::{
    Decision, Engine, Gang, GangId, GroupName, Node, NodeName, Placement, PodKey, Queue, QueueName,
    QueueStop, Quota, ResourceName, Resources, Taint, TaintEffect, TaskGroup, Time,
    WaitExplanation, WaitReason,
};

pub const GPU: &str = "nvidia.com/gpu";
pub const GI: i64 = 1 << 30;

pub fn ms(millis: i64) -> Time {
    Time::from_millis(millis)
}

/// Returns a node with this many GPUs, 96 cores and 1000Gi.
pub fn gpu_node(name: &str, gpus: i64) -> Node {
    node(
        name,
        cpu(96)
            .with("memory", 1000 * GI)
            .with("pods", 110)
            .with(GPU, gpus),
    )
}

/// Returns a node without devices, with 64 cores and 256Gi.
pub fn cpu_node(name: &str) -> Node {
    node(name, cpu(64).with("memory", 256 * GI).with("pods", 110))
}

pub fn node(name: &str, allocatable: Resources) -> Node {
    Node::new(NodeName::new(name), allocatable)
}

pub fn label(mut node: Node, key: &str, value: &str) -> Node {
    node.labels.insert(key.to_owned(), value.to_owned());
    node
}

pub fn taint(mut node: Node, key: &str, effect: TaintEffect) -> Node {
    node.taints.push(Taint {
        key: key.to_owned(),
        value: String::new(),
        effect,
    });
    node
}

pub fn cpu(cores: i64) -> Resources {
    Resources::new().with("cpu", cores * 1000)
}

pub fn gpu(cores: i64, gpus: i64) -> Resources {
    cpu(cores).with(GPU, gpus)
}

pub fn group(name: &str, count: u32, request: Resources) -> TaskGroup {
    TaskGroup::new(GroupName::new(name), count, request, name.to_owned())
}

/// Returns a gang in queue `default`, submitted at 0. Its pods are `team/<name>-<group>-<index>`.
pub fn gang(name: &str, groups: Vec<TaskGroup>) -> Gang {
    let prefixed = |g: TaskGroup| TaskGroup {
        pod_prefix: format!("{name}-{}", g.name),
        ..g
    };
    let groups = groups.into_iter().map(prefixed).collect();
    Gang::new(id(name), QueueName::new("default"), groups)
}

/// Returns a gang of workers.
pub fn workers(name: &str, count: u32, request: Resources) -> Gang {
    gang(name, vec![group("worker", count, request)])
}

pub fn id(name: &str) -> GangId {
    GangId::new(format!("team/{name}"))
}

pub fn worker_key(gang: &str, index: u32) -> PodKey {
    PodKey::new(format!("team/{gang}-worker-{index}"))
}

/// Returns a queue with these quotas on every node. Without quotas it may use all that the nodes
/// have.
pub fn queue(name: &str, quota: Option<&[(&str, i64)]>) -> Queue {
    let queue = Queue::new(QueueName::new(name));
    let Some(quota) = quota else { return queue };
    queue.with_quotas(quota.iter().map(|(resource, nominal)| {
        let quota = Quota {
            nominal: *nominal,
            ..Quota::default()
        };
        (ResourceName::new(*resource), quota)
    }))
}

/// Returns a queue `batch` with this stop state.
pub fn batch_queue(stop: QueueStop) -> Queue {
    Queue {
        stop,
        ..queue("batch", None)
    }
}

/// Returns an engine with these nodes and an open queue `default`.
pub fn engine(nodes: impl IntoIterator<Item = Node>) -> Engine {
    let mut engine = Engine::new();
    engine.apply_queue(queue("default", None));
    for node in nodes {
        engine.apply_node(node);
    }
    engine
}

/// Returns this many nodes of 8 GPUs, starting with `n00`.
pub fn gpu_nodes(count: usize) -> Vec<Node> {
    (0..count)
        .map(|i| gpu_node(&format!("n{i:02}"), 8))
        .collect()
}

pub fn apply_pod(engine: &mut Engine, key: &str, node: &str, request: Resources) {
    engine.apply_pod(PodKey::new(key), NodeName::new(node), request);
}

pub fn free_amount(engine: &Engine, node: &str, resource: &str) -> i64 {
    engine.free(&NodeName::new(node)).unwrap()[&ResourceName::new(resource)]
}

/// Returns the decisions of a cycle as short text, without namespaces: `+name` placed, `-name`
/// waiting, `!name victim ...` preempting, `~name` drained, `$name number flavor` provisioned,
/// `xname` no longer provisioned.
pub fn format_decisions(decisions: &[Decision]) -> Vec<String> {
    let short = |id: &GangId| id.as_str().trim_start_matches("team/").to_owned();
    decisions
        .iter()
        .filter(|d| !matches!(d, Decision::Reserve { .. }))
        .map(|d| match d {
            Decision::Reserve { gang, .. } => format!("*{}", short(gang)),
            Decision::Place { gang, .. } => format!("+{}", short(gang)),
            Decision::Wait { gang, explanation } => {
                format!("-{} {}", short(gang), explanation.reason)
            }
            Decision::Preempt { gang, victims, .. } => {
                let victims: Vec<String> = victims.iter().map(|v| short(&v.gang)).collect();
                format!("!{} {}", short(gang), victims.join(" "))
            }
            Decision::Drain { victim } => format!("~{}", short(&victim.gang)),
            Decision::Provision(request) => {
                let nodes = request.nodes.iter().map(|(f, n)| format!(" {n} {f}"));
                format!("${}{}", short(&request.gang), nodes.collect::<String>())
            }
            Decision::EndProvisioning { gang, is_late, .. } => {
                let why = if *is_late { "late" } else { "closed" };
                format!("x{} {why}", short(gang))
            }
        })
        .collect()
}

pub fn cycle(engine: &mut Engine) -> Vec<String> {
    format_decisions(&engine.cycle(ms(0)))
}

/// Returns a placement as text: `worker: a a b`.
pub fn format_placement(placement: &Placement) -> String {
    let groups = placement.groups().iter().map(|g| {
        let nodes = g.runs.iter().map(|(node, pods)| format!("{node}*{pods}"));
        format!("{}: {}", g.group, nodes.collect::<Vec<_>>().join(" "))
    });
    groups.collect::<Vec<_>>().join(", ")
}

/// Returns the placement that a gang would get.
pub fn trial_placement(engine: &mut Engine, gang: &Gang) -> String {
    format_placement(&engine.try_gang(gang, ms(0)).unwrap().placement)
}

/// Returns the explanation that a gang would get.
pub fn trial_explanation(engine: &mut Engine, gang: &Gang) -> WaitExplanation {
    engine.try_gang(gang, ms(0)).unwrap_err()
}

pub fn wait_reason(engine: &Engine, gang: &str) -> Option<WaitReason> {
    engine.explanation(&id(gang)).map(|c| c.reason)
}

/// Runs `usual` cases if `PROPTEST_CASES` is 256, proptest's default. Other values change the
/// number in proportion.
pub fn cases(usual: u32) -> proptest::test_runner::Config {
    let config = proptest::test_runner::Config::default();
    proptest::test_runner::Config {
        cases: (usual * config.cases / 256).max(1),
        max_shrink_iters: 20_000,
        ..config
    }
}
