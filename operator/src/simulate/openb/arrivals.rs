//! The pods that arrive, in order.

use super::read::{Pod, Trace};
use crate::simulate::random::Random;

/// All pods in random order; then, as long as they ask for less than `load`
/// times what there is of GPUs, random ones once more, and as long as they ask
/// for more, random ones less. The generator is ours: the paper's seeds give
/// other orders of the same kind.
pub(super) fn arrivals(trace: &Trace, load: f64, seed: u64) -> Vec<&Pod> {
    let mut random = Random::new(seed);
    let mut pods: Vec<&Pod> = trace.pods.iter().collect();
    random.shuffle(&mut pods);
    let demand = |sum: i64, pod: &&Pod| sum.saturating_add(pod.gpu_demand());
    let mut sum = pods.iter().fold(0, demand);
    if sum == 0 {
        return pods;
    }
    let target = load * trace.capacity() as f64;
    if (sum as f64) < target {
        while (sum as f64) < target {
            let Some(pod) = trace.pods.get(random.below(trace.pods.len())) else {
                break;
            };
            sum = demand(sum, &pod);
            pods.push(pod);
        }
    } else {
        while sum as f64 > target && !pods.is_empty() {
            let pod = pods.remove(random.below(pods.len()));
            sum = sum.saturating_sub(pod.gpu_demand());
        }
    }
    pods
}
