//! Rules on the dependencies of task groups.

use std::collections::BTreeSet;

use super::rule::Rule;
use crate::job::{Dependency, DependencyStatus, SuccessPolicy, TaskGroup, TrainingJobSpec};

/// A task group depends only on earlier ones, so cycles are impossible (as in JobSet, KEP-672). A
/// CEL expression would exceed the API server's cost budget.
pub const DEPENDS_ON_EARLIER: Rule = Rule::new(
    "true",
    "a task group may depend only on task groups that stand before it in taskGroups: name one of those, or put it after them",
);
/// No group depends on a group that may never start.
pub const DEPENDS_ON_GANG: Rule = Rule::new(
    "self.taskGroups.all(g, !has(g.dependsOn) || g.dependsOn.all(d, self.taskGroups.all(h, h.name != d.group || !has(h.membership) || h.membership == 'Gang')))",
    "nothing can depend on a task group with membership: BestEffort, which may never come: leave out one of the two",
);

/// Stages follow each other as a whole: at any time the job is one gang, and the next stage needs
/// no room in addition. A CEL expression would exceed the API server's cost budget.
pub const DEPENDS_ON_STAGE: Rule = Rule::new(
    "true",
    "a task group that waits for another to be Complete must wait so for all whose success is that of their stage: those of its gang, or with success.policy Leader that of rank 0; add the others to its dependsOn",
);

/// Dependencies have different groups. In the CRD the list is a map, so the API server checks this.
pub const UNIQUE_DEPENDENCIES: Rule = Rule::new("true", "must name each task group once");

/// [`UNIQUE_DEPENDENCIES`].
pub fn unique_dependencies(dependencies: &[Dependency], _: &()) -> garde::Result {
    let names: BTreeSet<_> = dependencies.iter().map(|d| d.group.as_str()).collect();
    UNIQUE_DEPENDENCIES.check(names.len() == dependencies.len())
}

/// [`DEPENDS_ON_EARLIER`], with the name of the wrong group.
pub fn depends_on_earlier(groups: &[TaskGroup], _: &()) -> garde::Result {
    for (at, group) in groups.iter().enumerate() {
        let before = |name: &str| groups.iter().take(at).any(|g| g.name == name);
        let Some(wrong) = group.depends_on.iter().find(|d| !before(&d.group)) else {
            continue;
        };
        let (waits, dependency) = (&group.name, &wrong.group);
        let how = match groups.iter().any(|g| g.name == *dependency) {
            _ if dependency == waits => "names itself".to_owned(),
            true => format!("names {dependency:?}, which stands after it"),
            false => format!("names {dependency:?}, which is no task group of the job"),
        };
        return DEPENDS_ON_EARLIER.violated(&format!("task group {waits:?} {how}"));
    }
    Ok(())
}

/// [`DEPENDS_ON_GANG`].
pub fn depends_on_gang(groups: &[TaskGroup], _: &()) -> garde::Result {
    let outside = |name: &str| groups.iter().any(|g| g.name == name && !g.is_in_gang());
    let dependency = groups.iter().flat_map(|g| &g.depends_on);
    DEPENDS_ON_GANG.check(!dependency.map(|d| d.group.as_str()).any(outside))
}

/// [`DEPENDS_ON_STAGE`], with the name of the missing group.
pub fn depends_on_stage(
    spec: &TrainingJobSpec,
) -> impl FnOnce(&Vec<TaskGroup>, &()) -> garde::Result {
    move |groups, ()| {
        let Some((waits, missing)) = find_partial_wait(spec, groups) else {
            return Ok(());
        };
        let how = format!("task group {waits:?} does not wait for {missing:?}");
        DEPENDS_ON_STAGE.violated(&how)
    }
}

/// Returns a group that waits for only a part of a stage, and a group of that stage that it omits.
fn find_partial_wait(spec: &TrainingJobSpec, groups: &[TaskGroup]) -> Option<(String, String)> {
    let stages = spec.group_stages();
    let with_stages = || groups.iter().zip(stages.iter().copied());
    with_stages().find_map(|(group, stage)| {
        let completes = |name: &str| {
            let of = |d: &Dependency| d.group == name && d.status() == DependencyStatus::Complete;
            group.depends_on.iter().any(of)
        };
        // A group that waits for another group of its own stage inherits that group's dependencies.
        let dependency = |other: &TaskGroup| group.depends_on.iter().any(|d| d.group == other.name);
        if stage == 1 || with_stages().any(|(other, of)| of == stage && dependency(other)) {
            return None;
        }
        let before = spec.for_stage(stage.saturating_sub(1));
        let decides: Vec<&str> = match before.success_policy() {
            SuccessPolicy::Leader => before.leader_group().into_iter().collect(),
            SuccessPolicy::All | SuccessPolicy::Any => {
                let gang = before.task_groups.iter().filter(|g| g.is_in_gang());
                gang.map(|g| g.name.as_str()).collect()
            }
        };
        let missing = decides.into_iter().find(|name| !completes(name))?;
        Some((group.name.clone(), missing.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TrainingJob, ValidatedJob};
    use serde_json::{Value, json};

    /// Returns the violations of a job with these groups: name, additional fields, and the groups
    /// that must be Complete before.
    fn violations_of_groups(spec: Value, groups: &[(&str, Value, &[&str])]) -> String {
        let groups: Vec<Value> = groups
            .iter()
            .map(|(name, fields, after)| {
                let after = after
                    .iter()
                    .map(|g| json!({"group": g, "status": "Complete"}));
                let mut group = json!({"name": name, "image": "i",
                    "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
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
    fn group_that_waits_for_part_of_a_stage_is_refused() {
        let of = |last: &[&str]| {
            violations_of_groups(
                json!({}),
                &[
                    ("a", json!({}), &[]),
                    ("b", json!({}), &[]),
                    ("c", json!({}), last),
                ],
            )
        };
        assert_eq!(of(&["a", "b"]), "");
        let part = of(&["a"]);
        assert!(part.starts_with("spec.taskGroups: a task group that waits for another"));
        assert!(
            part.ends_with(r#"; task group "c" does not wait for "b""#),
            "{part}"
        );
        // A BestEffort group may never start, so no group needs to wait for it.
        let board = violations_of_groups(
            json!({}),
            &[
                ("a", json!({}), &[]),
                ("board", json!({"membership": "BestEffort"}), &[]),
                ("c", json!({}), &["a"]),
            ],
        );
        assert_eq!(board, "");
        // A group inherits the dependencies of the group in its own stage.
        let chain = violations_of_groups(
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
    fn dependency_on_itself_or_a_later_group_is_refused() {
        let of = |first: &[&str]| {
            violations_of_groups(json!({}), &[("a", json!({}), first), ("b", json!({}), &[])])
        };
        for (first, how) in [
            (&["a"], r#"task group "a" names itself"#),
            (&["b"], r#"task group "a" names "b", which stands after it"#),
            (
                &["B"],
                r#"task group "a" names "B", which is no task group of the job"#,
            ),
        ] {
            let message = of(first);
            assert!(message.contains(DEPENDS_ON_EARLIER.message()), "{message}");
            assert!(message.contains(how), "{message}");
        }
    }

    #[test]
    fn group_may_wait_for_the_launcher_of_a_stage_alone() {
        let mpi = |after: &[&str]| {
            violations_of_groups(
                json!({"framework": "MPI"}),
                &[
                    ("get", json!({}), &[]),
                    ("run", json!({"role": "Launcher"}), &["get"]),
                    ("worker", json!({}), &["get"]),
                    // A stage without a Launcher has framework None.
                    ("look", json!({}), after),
                ],
            )
        };
        assert_eq!(mpi(&["run"]), "");
        assert!(mpi(&["worker"]).contains("must wait so for all"));
    }

    #[test]
    fn each_stage_is_validated_as_a_job() {
        let alone = violations_of_groups(
            json!({}),
            &[
                ("a", json!({}), &[]),
                ("board", json!({"membership": "BestEffort"}), &["a"]),
            ],
        );
        assert!(
            alone.starts_with("spec.taskGroups: stage 2 of 2 (board): "),
            "{alone}"
        );
        // Restart rules may name groups of other stages.
        let rules = json!({"restart": {"rules": [{"groups": ["b"], "action": "Fail"}]}});
        let dependency =
            violations_of_groups(rules, &[("a", json!({}), &[]), ("b", json!({}), &["a"])]);
        assert_eq!(dependency, "");
    }
}
