//! Rules on what a task group waits for.

use std::collections::BTreeSet;

use super::Rule;
use crate::job::{Dependency, DependencyState, SuccessPolicy, TaskGroup, TrainingJobSpec};

/// Who waits stands after who is waited for: so none wait for each other (as in JobSet, KEP-672).
/// To say it in CEL is beyond the API server's cost budget.
pub const DEPENDS_ON_EARLIER: Rule = Rule::new(
    "true",
    "a task group may depend only on task groups that stand before it in taskGroups: name one of those, or put it after them",
);
/// What may never come is not waited for.
pub const DEPENDS_ON_GANG: Rule = Rule::new(
    "self.taskGroups.all(g, !has(g.dependsOn) || g.dependsOn.all(d, self.taskGroups.all(h, h.name != d.group || !has(h.gang) || h.gang)))",
    "nothing can depend on a task group with gang: false, which may never come: leave out one of the two",
);

/// Stages come one after the other, each whole: so what is there at a time is one gang, and what
/// is placed next needs no room beside it. To say it in CEL is beyond the API server's cost budget.
pub const DEPENDS_ON_STAGE: Rule = Rule::new(
    "true",
    "a task group that waits for another to be Complete must wait so for all whose success is that of their stage: those of its gang, or with success.policy Leader that of rank 0; add the others to its dependsOn",
);

/// A group is named once: the list is a map in the CRD, so the API server says it there.
pub const UNIQUE_DEPENDENCIES: Rule = Rule::new("true", "must name each task group once");

/// [`UNIQUE_DEPENDENCIES`].
pub fn unique_dependencies(dependencies: &[Dependency], _: &()) -> garde::Result {
    let names: BTreeSet<_> = dependencies.iter().map(|d| d.group.as_str()).collect();
    UNIQUE_DEPENDENCIES.holds(names.len() == dependencies.len())
}

/// [`DEPENDS_ON_EARLIER`].
pub fn depends_on_earlier(groups: &[TaskGroup], _: &()) -> garde::Result {
    let is_earlier = |(at, group): (usize, &TaskGroup)| {
        let earlier = groups.get(..at).unwrap_or_default();
        let is_there = |name: &str| earlier.iter().any(|g| g.name == name);
        group.depends_on.iter().all(|d| is_there(&d.group))
    };
    DEPENDS_ON_EARLIER.holds(groups.iter().enumerate().all(is_earlier))
}

/// [`DEPENDS_ON_GANG`].
pub fn depends_on_gang(groups: &[TaskGroup], _: &()) -> garde::Result {
    let outside = |name: &str| groups.iter().any(|g| g.name == name && !g.is_in_gang());
    let named = groups.iter().flat_map(|g| &g.depends_on);
    DEPENDS_ON_GANG.holds(!named.map(|d| d.group.as_str()).any(outside))
}

/// [`DEPENDS_ON_STAGE`].
pub fn depends_on_stage(
    spec: &TrainingJobSpec,
) -> impl FnOnce(&Vec<TaskGroup>, &()) -> garde::Result {
    move |groups, ()| DEPENDS_ON_STAGE.holds(waits_for_whole_stages(spec, groups))
}

fn waits_for_whole_stages(spec: &TrainingJobSpec, groups: &[TaskGroup]) -> bool {
    let stages = spec.stage_of_groups();
    let with_stages = || groups.iter().zip(stages.iter().copied());
    with_stages().all(|(group, stage)| {
        let completes = |name: &str| {
            let on = |d: &Dependency| d.group == name && d.on() == DependencyState::Complete;
            group.depends_on.iter().any(on)
        };
        // Who waits for one of its own stage waits for what that one waits for.
        let named = |other: &TaskGroup| group.depends_on.iter().any(|d| d.group == other.name);
        if stage == 1 || with_stages().any(|(other, of)| of == stage && named(other)) {
            return true;
        }
        let before = spec.of_stage(stage.saturating_sub(1));
        match before.success_policy() {
            SuccessPolicy::Leader => before.leader_group().is_none_or(completes),
            SuccessPolicy::All | SuccessPolicy::Any => {
                let mut gang = before.task_groups.iter().filter(|g| g.is_in_gang());
                gang.all(|g| completes(&g.name))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::{TrainingJob, ValidatedJob};
    use serde_json::{Value, json};

    /// What is wrong with a job of these groups: name, fields beside, and who is to be Complete
    /// before.
    fn wrong(spec: Value, groups: &[(&str, Value, &[&str])]) -> String {
        let groups: Vec<Value> = groups
            .iter()
            .map(|(name, fields, after)| {
                let after = after.iter().map(|g| json!({"group": g, "on": "Complete"}));
                let mut group = json!({"name": name, "image": "i",
                    "resources": {"cpu": 1, "memory": "1Gi"},
                    "dependsOn": after.collect::<Vec<_>>()});
                for (key, value) in fields.as_object().unwrap() {
                    group[key] = value.clone();
                }
                group
            })
            .collect();
        let mut spec = spec;
        spec["taskGroups"] = json!(groups);
        let job = json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "j"}, "spec": spec});
        let job: TrainingJob = serde_json::from_value(job).unwrap();
        match ValidatedJob::try_from(job) {
            Ok(_) => String::new(),
            Err(violations) => violations.to_string(),
        }
    }

    #[test]
    fn who_waits_for_a_part_of_a_stage_is_told_to_wait_for_all_of_it() {
        let of = |last: &[&str]| {
            wrong(
                json!({}),
                &[
                    ("a", json!({}), &[]),
                    ("b", json!({}), &[]),
                    ("c", json!({}), last),
                ],
            )
        };
        assert_eq!(of(&["a", "b"]), "");
        assert!(of(&["a"]).starts_with("spec.taskGroups: a task group that waits for another"));
        // Who is not of the gang may never come, and nobody waits for it.
        let board = wrong(
            json!({}),
            &[
                ("a", json!({}), &[]),
                ("board", json!({"gang": false}), &[]),
                ("c", json!({}), &["a"]),
            ],
        );
        assert_eq!(board, "");
        // Through one of its own stage it waits for the same.
        let chain = wrong(
            json!({}),
            &[
                ("a", json!({}), &[]),
                ("b", json!({}), &["a"]),
                ("c", json!({"dependsOn": [{"group": "b"}]}), &[]),
            ],
        );
        assert_eq!(chain, "");
    }

    #[test]
    fn where_one_succeeds_for_all_that_one_is_waited_for() {
        let mpi = |after: &[&str]| {
            wrong(
                json!({"framework": "MPI"}),
                &[
                    ("get", json!({}), &[]),
                    ("run", json!({"role": "Launcher"}), &["get"]),
                    ("worker", json!({}), &["get"]),
                    // Of a stage without a Launcher the framework is None.
                    ("look", json!({}), after),
                ],
            )
        };
        assert_eq!(mpi(&["run"]), "");
        assert!(mpi(&["worker"]).contains("must wait so for all"));
    }

    #[test]
    fn each_stage_is_a_job_of_its_own() {
        let alone = wrong(
            json!({}),
            &[
                ("a", json!({}), &[]),
                ("board", json!({"gang": false}), &["a"]),
            ],
        );
        assert!(
            alone.starts_with("spec.taskGroups: stage 2 of 2 (board): "),
            "{alone}"
        );
        // A rule may name groups of other stages.
        let rules = json!({"restart": {"rules": [{"groups": ["b"], "action": "Fail"}]}});
        let named = wrong(rules, &[("a", json!({}), &[]), ("b", json!({}), &["a"])]);
        assert_eq!(named, "");
    }
}
