//! CPU and memory for each GPU, as a queue or the queues above it state them.

use std::borrow::Borrow;
use std::collections::BTreeSet;

use trellis_api::pod_group::Plan;
use trellis_api::{QueueResources, TrainingQueue};

/// Returns the amounts for each GPU of a queue. Each amount comes from the queue itself, or from
/// the nearest queue above it that has the amount.
///
/// The search ends at a queue that does not exist, because its amounts would take precedence over
/// those of the queues above it.
pub fn find_queue_resources<Q: Borrow<TrainingQueue>>(
    queue: &TrainingQueue,
    get: impl Fn(&str) -> Option<Q>,
) -> QueueResources {
    let name = |queue: &TrainingQueue| queue.metadata.name.clone().unwrap_or_default();
    let own_resources = |queue: &TrainingQueue| {
        QueueResources::from_queue(&name(queue), queue.spec.resources_per_gpu.as_ref())
    };
    let mut resources = own_resources(queue);
    // Queues may name each other as parents.
    let mut visited = BTreeSet::from([name(queue)]);
    let mut parent = queue.spec.parent_name.clone();
    while let Some(ancestor) = parent.filter(|parent| visited.insert(parent.clone())) {
        let Some(ancestor) = get(&ancestor) else {
            break;
        };
        resources = resources.or(own_resources(ancestor.borrow()));
        parent = ancestor.borrow().spec.parent_name.clone();
    }
    resources
}

/// Returns the amounts with which a gang was placed. A placed gang keeps them. Changed amounts
/// apply to its next attempt.
pub fn placed_resources(plan: &Plan) -> QueueResources {
    let queue = plan.queue.as_deref().unwrap_or_default();
    QueueResources::from_queue(queue, plan.resources_per_gpu.as_ref())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn queue(name: &str, parent: Option<&str>, per_gpu: Value) -> TrainingQueue {
        serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
            "metadata": {"name": name}, "spec": {"parentName": parent, "resourcesPerGPU": per_gpu},
        }))
        .unwrap()
    }

    /// Returns the CPU and memory of the first queue, as `amount@queue`.
    fn find_amounts(queues: &[TrainingQueue]) -> [Option<String>; 2] {
        let get = |name: &str| {
            let mut queues = queues.iter();
            queues.find(|q| q.metadata.name.as_deref() == Some(name))
        };
        let resources = find_queue_resources(&queues[0], get);
        [resources.cpu, resources.memory].map(|a| a.map(|a| format!("{}@{}", a.quantity, a.queue)))
    }

    #[test]
    fn amount_per_gpu_comes_from_the_nearest_queue_with_a_value() {
        let root = queue("root", None, json!({"cpu": 12, "memory": "128Gi"}));
        let middle = queue("middle", Some("root"), Value::Null);
        let team = queue("team", Some("middle"), json!({"cpu": 8}));
        let some = |text: &str| Some(text.to_owned());
        let chain = [team.clone(), middle.clone(), root];
        assert_eq!(find_amounts(&chain), [some("8@team"), some("128Gi@root")]);
        assert_eq!(
            find_amounts(&chain[1..]),
            [some("12@root"), some("128Gi@root")]
        );
        // A queue that does not exist ends the search.
        assert_eq!(find_amounts(&[team, middle]), [some("8@team"), None]);
    }

    #[test]
    fn search_ends_when_queues_are_parents_of_each_other() {
        let a = queue("a", Some("b"), json!({}));
        let b = queue("b", Some("a"), json!({"cpu": 1}));
        assert_eq!(find_amounts(&[a, b]), [Some("1@b".to_owned()), None]);
    }
}
