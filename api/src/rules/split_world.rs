//! Rules on a job that is split as a whole: in slices, or evenly.

use super::rule::Rule;
use super::slices::{check_bound, describe_rest};
use crate::job::{TaskGroup, TrainingJobSpec};
use crate::topology::Closeness;

/// The world size is a multiple of the size of a slice. CEL cannot tell stages apart, and each stage is a
/// world.
pub const SLICES_OF_WORLD: Rule = Rule::new(
    "true",
    "the world size must be a multiple of pods of the first layer, because all slices have the same size: change pods or replicas, or use atMost",
);
/// All pods of a world that is split are alike. Evaluators and groups outside the gang are not part of
/// the world.
pub const SPLIT_WORLD: Rule = Rule::new(
    "true",
    "if the job has slices or balanced, all task groups of the world must request the same for each pod, without topology or minReplicas of their own: change these groups, or set slices or balanced on a task group instead",
);
/// External pods have no ranks.
pub const SPLIT_POD_GROUP: Rule = Rule::new(
    "!has(self.topology) || (has(self.groups) && size(self.groups) > 0) || (!has(self.topology.balanced) && (!has(self.topology.slices) || size(self.topology.slices) == 0))",
    "slices and balanced need ranks, which external pods do not have: remove them, or write a TrainingJob",
)
.for_field(".topology");

/// [`SPLIT_WORLD`], [`SLICES_OF_WORLD`] and [`SLICE_BOUND`](super::SLICE_BOUND).
pub fn slices_of_job(
    job: &TrainingJobSpec,
) -> impl FnOnce(&Option<Closeness>, &()) -> garde::Result + '_ {
    |topology, ()| {
        // Each stage is a world of its own, and is checked by itself.
        let is_one_world = job.stage_count() < 2;
        let split = topology.as_ref().filter(|topology| topology.splits());
        let Some(topology) = split.filter(|_| is_one_world) else {
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

/// Describes the first task group that prevents a split of the world. None: the world can be split.
fn describe_unlike_groups(job: &TrainingJobSpec) -> Option<String> {
    let world: Vec<&TaskGroup> = job.world_groups().collect();
    let first = world.first()?;
    world.iter().find_map(|group| {
        let name = &group.name;
        if group.topology.is_some() {
            return Some(format!("task group {name:?} has topology"));
        }
        if group.min_replicas.is_some() {
            return Some(format!("task group {name:?} has minReplicas"));
        }
        let named = group.same_flavor_as.as_ref();
        if named.is_some_and(|named| world.iter().all(|other| other.name != *named)) {
            return Some(format!(
                "sameFlavorAs of task group {name:?} names a group outside the world"
            ));
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
    let limits = |group: &TaskGroup| -> Vec<_> {
        let limits = group.resources.limits.iter();
        limits
            .map(|(name, quantity)| (name.clone(), quantity.amount().ok()))
            .collect()
    };
    let has_all = |one: &TaskGroup, other: &TaskGroup| {
        let mut own = one.tolerations.iter();
        own.all(|toleration| other.tolerations.contains(toleration))
    };
    let fields = [
        ("gpus", one.gpus() == other.gpus()),
        ("gpuResource", one.gpu_resource() == other.gpu_resource()),
        ("resources", limits(one) == limits(other)),
        ("flavors", one.flavors == other.flavors),
        ("nodeSelector", one.node_selector == other.node_selector),
        ("affinity", one.affinity == other.affinity),
        ("tolerations", has_all(one, other) && has_all(other, one)),
        ("podTemplate", one.pod_template == other.pod_template),
    ];
    let mut fields = fields.into_iter();
    fields.find(|(_, same)| !same).map(|(field, _)| field)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{TrainingJob, ValidatedJob};

    /// Returns a task group with these fields.
    fn group(name: &str, fields: &[&Value]) -> Value {
        let mut group = json!({"name": name, "image": "i",
            "resources": {"limits": {"cpu": 8, "memory": "1Gi"}}});
        for (field, value) in fields
            .iter()
            .filter_map(|fields| fields.as_object())
            .flatten()
        {
            group[field] = value.clone();
        }
        group
    }

    /// Returns the violations of a job.
    fn violations_of(spec: &Value) -> String {
        let job: TrainingJob = serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "j"},
            "spec": spec,
        }))
        .unwrap();
        let violations = ValidatedJob::try_from(job).err();
        violations.map(|v| v.to_string()).unwrap_or_default()
    }

    /// Returns the violations of a job with this topology, a master, an evaluator and seven workers.
    /// `workers` sets fields of the workers.
    fn violations(topology: Value, workers: &Value) -> String {
        violations_of(
            &json!({"framework": "PyTorch", "topology": topology, "taskGroups": [
                group("worker", &[&json!({"gpus": 8, "replicas": 7}), workers]),
                group("master", &[&json!({"gpus": 8, "role": "Coordinator"})]),
                group("evaluator", &[&json!({"gpus": 1, "role": "Evaluator"})]),
            ]}),
        )
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
            message.ends_with("the world size is 8 and pods is 7: change the world size to 7 or 14, or pods to a divisor of 8"),
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
            (
                json!({"minReplicas": 7}),
                r#"task group "worker" has minReplicas"#,
            ),
            (
                json!({"sameFlavorAs": "evaluator"}),
                r#"sameFlavorAs of task group "worker" names a group outside the world"#,
            ),
            (
                json!({"podTemplate": {"spec": {"hostNetwork": true}}}),
                r#"task groups "master" and "worker" differ in podTemplate"#,
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

    #[test]
    fn equal_requests_may_be_written_differently() {
        let layer = slices(&json!({"level": "rack", "pods": 4}));
        for workers in [
            json!({"resources": {"limits": {"cpu": "8000m", "memory": "1024Mi"}}}),
            json!({"resources": {"limits": {"cpu": 8, "memory": "1Gi"},
                "requests": {"cpu": 8, "memory": "1Gi"}}}),
            json!({"sameFlavorAs": "master"}),
        ] {
            assert_eq!(violations(layer.clone(), &workers), "", "{workers}");
        }
    }

    /// A stage of preparation has another size and other requests.
    #[test]
    fn each_stage_is_split_by_itself() {
        let of = |prepare: u32, workers: u32| {
            let after = json!([{"group": "prepare", "status": "Complete"}]);
            violations_of(
                &json!({"topology": slices(&json!({"level": "rack", "pods": 4})),
                "taskGroups": [
                    group("prepare", &[&json!({"replicas": prepare})]),
                    group("worker", &[&json!({"gpus": 8, "replicas": workers, "dependsOn": after})]),
                ]}),
            )
        };
        assert_eq!(of(4, 8), "");
        let message = of(4, 6);
        assert!(
            message.contains("the world size is 6 and pods is 4"),
            "{message}"
        );
        assert!(of(2, 8).contains("the world size is 2 and pods is 4"));
    }
}
