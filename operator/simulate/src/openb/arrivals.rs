//! The arrivals of pods, in order.

use super::trace::{OpenbPod, OpenbTrace};
use crate::random::Random;

/// Returns all pods in random order. Random pods arrive again until the pods request `load` times
/// the capacity; if they request more, random pods are removed. The generator differs from the
/// paper's, so the same seed gives another order.
pub(super) fn draw_arrivals(trace: &OpenbTrace, load: f64, seed: u64) -> Vec<&OpenbPod> {
    let mut random = Random::new(seed);
    let mut pods: Vec<&OpenbPod> = trace.pods.iter().collect();
    random.shuffle(&mut pods);
    let demand = |sum: i64, pod: &&OpenbPod| sum.saturating_add(pod.gpu_demand());
    let mut sum = pods.iter().fold(0, demand);
    if sum == 0 {
        return pods;
    }
    let target = load * trace.capacity() as f64;
    if (sum as f64) < target {
        while (sum as f64) < target {
            let Some(pod) = trace.pods.get(random.next_below(trace.pods.len())) else {
                break;
            };
            sum = demand(sum, &pod);
            pods.push(pod);
        }
    } else {
        while sum as f64 > target && !pods.is_empty() {
            let pod = pods.remove(random.next_below(pods.len()));
            sum = sum.saturating_sub(pod.gpu_demand());
        }
    }
    pods
}
