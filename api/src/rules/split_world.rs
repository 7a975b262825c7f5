//! Rules on a job that is split as a whole: in slices, or evenly.

use super::rule::Rule;
use super::slices::{check_bound, describe_rest};
use crate::job::{TaskGroup, TrainingJobSpec};
use crate::topology::Closeness;

/// Slices of one size make up the world. CEL cannot tell stages apart, each of which is a world.
pub const SLICES_OF_WORLD: Rule = Rule::new(
    "true",
    "the world size must be a multiple of pods of the first layer, because all slices have the same size: change pods or replicas, or use atMost",
);
/// A job that is split as a whole has one row of pods that are alike. Evaluators and groups outside the
/// gang are not part of it.
pub const SPLIT_WORLD: Rule = Rule::new(
    "true",
    "slices and balanced of a job need task groups that request the same for each pod, and have neither topology nor minReplicas of their own: make them alike, or move slices and balanced to a task group",
);
/// [`SPLIT_WORLD`], [`SLICES_OF_WORLD`] and [`SLICE_BOUND`](super::SLICE_BOUND).
pub fn slices_of_job(
    job: &TrainingJobSpec,
) -> impl FnOnce(&Option<Closeness>, &()) -> garde::Result + '_ {
    |topology, ()| {
        let Some(topology) = topology.as_ref().filter(|topology| topology.splits()) else {
            return Ok(());
        };
        if let Some(details) = describe_unlike_groups(job) {
            return SPLIT_WORLD.violated(&details);
        }
        let pods = ("the world size", job.world_size());
        let Some(first) = topology.slices.first() else {
            return Ok(());
        };
        if let Some(details) = describe_rest(pods, first) {
            return SLICES_OF_WORLD.violated(&details);
        }
        check_bound(pods, &topology.slices, &job.slice_sizes())
    }
}

/// Describes the first group that keeps the pods of the world from being one row. None: they are one.
fn describe_unlike_groups(job: &TrainingJobSpec) -> Option<String> {
    let first = job.world_groups().next()?;
    job.world_groups().find_map(|group| {
        let name = &group.name;
        if group.topology.is_some() {
            return Some(format!("task group {name:?} has topology"));
        }
        if group.is_elastic() {
            return Some(format!("task group {name:?} has minReplicas"));
        }
        let field = differing_field(first, group)?;
        Some(format!(
            "task groups {:?} and {name:?} differ in {field}",
            first.name
        ))
    })
}

/// Returns the first field in which the requests of two groups' pods differ.
fn differing_field(one: &TaskGroup, other: &TaskGroup) -> Option<&'static str> {
    let fields = [
        ("gpus", one.gpus() == other.gpus()),
        ("gpuResource", one.gpu_resource() == other.gpu_resource()),
        ("resources", one.resources == other.resources),
        ("flavors", one.flavors == other.flavors),
        ("nodeSelector", one.node_selector == other.node_selector),
        ("affinity", one.affinity == other.affinity),
        ("tolerations", one.tolerations == other.tolerations),
    ];
    let mut fields = fields.into_iter();
    fields.find(|(_, same)| !same).map(|(field, _)| field)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{TrainingJob, ValidatedJob};

    /// Returns the job of a master and seven workers with this topology and these fields of the workers.
    fn violations(topology: Value, workers: &Value) -> String {
        let group = |name: &str, fields: &Value| {
            let mut group = json!({"name": name, "image": "i", "gpus": 8,
                "resources": {"limits": {"cpu": 8, "memory": "1Gi"}}});
            let fields = fields.as_object().unwrap().clone();
            group.as_object_mut().unwrap().extend(fields);
            group
        };
        let master = group("master", &json!({"role": "Coordinator"}));
        let mut worker = group("worker", &json!({"replicas": 7}));
        worker
            .as_object_mut()
            .unwrap()
            .extend(workers.as_object().unwrap().clone());
        let evaluator = group("evaluator", &json!({"role": "Evaluator", "gpus": 1}));
        let job: TrainingJob = serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "j"},
            "spec": {"framework": "PyTorch", "topology": topology,
                "taskGroups": [worker, master, evaluator]},
        }))
        .unwrap();
        let violations = ValidatedJob::try_from(job).err();
        violations.map(|v| v.to_string()).unwrap_or_default()
    }

    fn slices(layer: &Value) -> Value {
        json!({"slices": [layer]})
    }

    #[test]
    fn slices_of_a_job_count_all_pods_of_the_world() {
        let none = json!({});
        for layer in [
            json!({"level": "rack", "pods": 4}),
            json!({"level": "rack", "atMost": 5}),
        ] {
            assert_eq!(violations(slices(&layer), &none), "", "{layer}");
        }
        let of_workers = slices(&json!({"level": "rack", "pods": 7}));
        let message = violations(of_workers, &none);
        assert!(message.contains("spec.topology"), "{message}");
        assert!(
            message.ends_with("the world size is 8 and pods is 7, so 7 or 14 pods fit"),
            "{message}"
        );
        let bound = slices(&json!({"level": "rack", "atMost": 4}));
        let message = violations(bound, &json!({"replicas": 12}));
        assert!(
            message
                .ends_with("the world size is 13: 12 gives slices of 4, and 14 gives slices of 2"),
            "{message}"
        );
    }

    #[test]
    fn task_groups_of_a_split_job_request_the_same() {
        let layer = slices(&json!({"level": "rack", "pods": 4}));
        let even = json!({"preferred": "rack", "balanced": true});
        for (workers, problem) in [
            (
                json!({"gpus": 4}),
                r#"task groups "master" and "worker" differ in gpus"#,
            ),
            (
                json!({"resources": {"limits": {"cpu": 9, "memory": "1Gi"}}}),
                r#"task groups "master" and "worker" differ in resources"#,
            ),
            (
                json!({"nodeSelector": {"pool": "a"}}),
                r#"task groups "master" and "worker" differ in nodeSelector"#,
            ),
            (
                json!({"topology": {"required": "rack"}}),
                r#"task group "worker" has topology"#,
            ),
            (
                json!({"minReplicas": 3}),
                r#"task group "worker" has minReplicas"#,
            ),
        ] {
            for topology in [layer.clone(), even.clone()] {
                let message = violations(topology, &workers);
                assert!(message.contains(SPLIT_WORLD.message()), "{message}");
                assert!(message.ends_with(problem), "{message}");
            }
            let whole = json!({"required": "block"});
            assert_eq!(violations(whole, &workers), "", "{workers}");
        }
    }
}
