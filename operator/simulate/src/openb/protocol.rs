//! Runs an openb workload with the protocol of its paper.

use trellis_scheduler::{
    Constraints, Decision, Engine, Gang, GangId, GroupName, Node, NodeName, NodeSelectorOperator,
    NodeSelectorRequirement, NodeSelectorTerm, Queue, QueueName, ResourceName, Resources,
    TaskGroup, Time,
};

use super::arrivals::draw_arrivals;
use super::trace::{OpenbNode, OpenbPod, OpenbTrace, WHOLE_GPU};
use crate::summary::SimulationSummary;

const GPU: &str = "nvidia.com/gpu";
const MODEL: &str = "nvidia.com/gpu.product";
const QUEUE: &str = "openb";
/// The protocol does not limit the pods of a node.
const UNLIMITED_PODS: i64 = 1 << 32;

/// Submits pods until they have requested `load` times the GPUs of the cluster. Each pod is a gang
/// of one pod. The engine sees each pod only when it arrives.
#[must_use]
pub fn run_trace(trace: &OpenbTrace, load: f64, seed: u64) -> SimulationSummary {
    let gpu = ResourceName::new(GPU);
    let share = ResourceName::share_of(&gpu);
    let mut engine = Engine::new();
    engine.apply_queue(Queue::new(QueueName::new(QUEUE)));
    for machine in &trace.nodes {
        engine.apply_node(to_node(machine));
    }
    let arrivals = draw_arrivals(trace, load, seed);
    let (mut arrived, mut allocated) = (0_i64, 0_i64);
    let mut placed = 0_usize;
    for (number, pod) in (0_i64..).zip(&arrivals) {
        arrived = arrived.saturating_add(pod.gpu_demand());
        let gang = to_gang(number, pod, &share);
        let id = gang.id.clone();
        engine.apply_gang(gang);
        let decisions = engine.cycle(Time::from_millis(number));
        let starts = |d: &Decision| matches!(d, Decision::Place { .. });
        if decisions.iter().any(starts) {
            placed = placed.saturating_add(1);
            allocated = allocated.saturating_add(pod.gpu_demand());
        } else {
            engine.delete_gang(&id);
        }
    }
    let percent = |gpus: i64| 100.0 * gpus as f64 / (trace.capacity().max(1)) as f64;
    SimulationSummary {
        jobs: arrivals.len(),
        placed,
        arrived_gpu_percent: Some(percent(arrived)),
        allocated_gpu_percent: percent(allocated),
        ..SimulationSummary::default()
    }
}

fn to_node(machine: &OpenbNode) -> Node {
    let allocatable = Resources::new()
        .with("cpu", machine.cpu_milli)
        .with("memory", mib_to_bytes(machine.memory_mib))
        .with("pods", UNLIMITED_PODS)
        .with(GPU, machine.gpus);
    Node {
        labels: [(MODEL.to_owned(), machine.model.clone())].into(),
        ..Node::new(NodeName::new(machine.name.as_str()), allocatable)
    }
}

fn mib_to_bytes(mib: i64) -> i64 {
    mib.saturating_mul(1 << 20)
}

fn to_gang(number: i64, pod: &OpenbPod, share: &ResourceName) -> Gang {
    let mut request = Resources::new()
        .with("cpu", pod.cpu_milli)
        .with("memory", mib_to_bytes(pod.memory_mib));
    if pod.gpu_milli == WHOLE_GPU {
        request = request.with(GPU, pod.gpus);
    } else if pod.gpus > 0 {
        request.set(share.clone(), pod.gpu_milli);
    }
    let mut constraints = Constraints::default();
    if !pod.models.is_empty() {
        constraints.required.push(NodeSelectorTerm {
            match_expressions: vec![NodeSelectorRequirement {
                key: MODEL.to_owned(),
                operator: NodeSelectorOperator::In,
                values: pod.models.clone(),
            }],
            match_fields: vec![],
        });
    }
    let prefix = format!("{}-{number}", pod.name);
    let group = TaskGroup {
        constraints,
        ..TaskGroup::new(GroupName::new("pod"), 1, request, prefix)
    };
    // A pod may arrive several times, so its name needs a number.
    let id = GangId::new(format!("openb/{}-{number}", pod.name));
    Gang {
        submitted: Time::from_millis(number),
        ..Gang::new(id, QueueName::new(QUEUE), vec![group])
    }
}
