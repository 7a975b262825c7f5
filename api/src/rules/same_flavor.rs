//! The rule on task groups that get the same flavor.

use super::rule::Rule;
use crate::job::TaskGroup;

/// The scheduler chooses flavors together only for groups that it places together. A CEL expression
/// cannot tell stages apart; validation in Rust checks each stage separately.
pub const SAME_FLAVOR: Rule = Rule::new(
    "true",
    "sameFlavorAs must name another task group of the same stage, and neither may have membership: BestEffort: correct the name, or leave out sameFlavorAs",
);

/// [`SAME_FLAVOR`], with the name of the task group that breaks it.
pub fn same_flavor(groups: &[TaskGroup], _: &()) -> garde::Result {
    for group in groups {
        let Some(named) = &group.same_flavor_as else {
            continue;
        };
        let other = groups.iter().find(|other| other.name == *named);
        let problem = match other {
            _ if !group.is_in_gang() => "has membership: BestEffort".to_owned(),
            _ if *named == group.name => "names itself".to_owned(),
            None => format!("names {named:?}, which is no task group of the stage"),
            Some(other) if !other.is_in_gang() => {
                format!("names {named:?}, which has membership: BestEffort")
            }
            Some(_) => continue,
        };
        return SAME_FLAVOR.violated(&format!("task group {:?} {problem}", group.name));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{TrainingJob, ValidatedJob};

    /// Returns the violations of a job with these fields of its groups `leader`, `worker` and `last`.
    /// The last group is the second stage.
    fn violations(leader: Value, worker: Value, last: Value) -> String {
        let after = json!(["leader", "worker"].map(|g| json!({"group": g, "status": "Complete"})));
        let group = |name: &str, fields: Value| -> Value {
            let mut group = json!({"name": name, "image": "i",
                "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}});
            let fields = fields.as_object().unwrap().clone();
            group.as_object_mut().unwrap().extend(fields);
            group
        };
        let mut last = group("last", last);
        last["dependsOn"] = after;
        let job: TrainingJob = serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "j"},
            "spec": {"taskGroups": [group("leader", leader), group("worker", worker), last]},
        }))
        .unwrap();
        let violations = ValidatedJob::try_from(job).err();
        violations.map(|v| v.to_string()).unwrap_or_default()
    }

    #[test]
    fn group_shares_its_flavor_with_another_group_of_its_stage() {
        let named = |name: &str| json!({"sameFlavorAs": name});
        let none = || json!({});
        assert_eq!(violations(named("worker"), none(), none()), "");
        assert_eq!(violations(named("worker"), named("leader"), none()), "");
        for (leader, worker, last, problem) in [
            (
                named("leader"),
                none(),
                none(),
                r#"task group "leader" names itself"#,
            ),
            (
                named("wrker"),
                none(),
                none(),
                r#"task group "leader" names "wrker", which is no task group of the stage"#,
            ),
            (
                none(),
                none(),
                named("worker"),
                r#"task group "last" names "worker", which is no task group of the stage"#,
            ),
        ] {
            let message = violations(leader, worker, last);
            assert!(message.contains(SAME_FLAVOR.message()), "{message}");
            assert!(message.contains(problem), "{message}");
        }
    }

    #[test]
    fn groups_outside_the_gang_share_no_flavor() {
        let best_effort = json!({"membership": "BestEffort"});
        let names = json!({"sameFlavorAs": "worker"});
        let other = violations(names, best_effort, json!({}));
        let problem = r#"task group "leader" names "worker", which has membership: BestEffort"#;
        assert!(other.contains(problem), "{other}");
        let own = json!({"membership": "BestEffort", "sameFlavorAs": "leader"});
        let own = violations(json!({}), own, json!({}));
        assert!(
            own.contains(r#"task group "worker" has membership: BestEffort"#),
            "{own}"
        );
    }
}
