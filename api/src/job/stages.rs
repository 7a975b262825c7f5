//! Stages of a job: the task groups that exist together. The groups of one stage form a gang and a
//! world of their own. Groups that wait for them to be Complete form the next stage.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{DependencyStatus, Role, TaskGroup, TrainingJobSpec};

/// Returns the stage of each group, from 1, in the order of the spec. A dependency on a group that
/// appears later in the spec is ignored; validation refuses it.
fn compute_group_stages(groups: &[TaskGroup]) -> Vec<u32> {
    let mut known: BTreeMap<&str, u32> = BTreeMap::new();
    let mut stages = Vec::with_capacity(groups.len());
    for group in groups {
        let after = group.depends_on.iter().filter_map(|dependency| {
            let stage = *known.get(dependency.group.as_str())?;
            Some(match dependency.status() {
                DependencyStatus::Ready => stage,
                DependencyStatus::Complete => stage.saturating_add(1),
            })
        });
        let stage = after.max().unwrap_or(1);
        known.insert(&group.name, stage);
        stages.push(stage);
    }
    stages
}

impl TrainingJobSpec {
    /// Returns the number of stages: 1 if no group waits for another group to be Complete.
    ///
    /// ```
    /// use trellis_api::TrainingJobSpec;
    /// let spec: TrainingJobSpec = serde_json::from_value(serde_json::json!({"taskGroups": [
    ///     {"name": "prepare", "image": "i", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}},
    ///     {"name": "train", "image": "i", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
    ///         "dependsOn": [{"group": "prepare", "status": "Complete"}]},
    /// ]}))?;
    /// assert_eq!(spec.stage_count(), 2);
    /// let second = spec.for_stage(2);
    /// assert_eq!(second.task_groups.len(), 1);
    /// assert_eq!(second.task_groups[0].name, "train");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn stage_count(&self) -> u32 {
        if !self.has_stages() {
            return 1;
        }
        let stages = compute_group_stages(&self.task_groups);
        stages.into_iter().max().unwrap_or(1)
    }

    /// True if a group waits for another group to be Complete. Most jobs have no such group.
    fn has_stages(&self) -> bool {
        let mut on = self.task_groups.iter().flat_map(|g| &g.depends_on);
        on.any(|dependency| dependency.status() == DependencyStatus::Complete)
    }

    /// Returns the stage of each group, from 1, in the order of the spec.
    #[must_use]
    pub fn group_stages(&self) -> Vec<u32> {
        compute_group_stages(&self.task_groups)
    }

    /// Returns the spec that applies during a stage: only its groups, without their dependencies on
    /// earlier stages. A number above the last stage gives the last stage. A stage without
    /// the leader that the framework needs has framework None.
    #[must_use]
    pub fn for_stage(&self, stage: u32) -> Cow<'_, Self> {
        if !self.has_stages() {
            return Cow::Borrowed(self);
        }
        let stages = compute_group_stages(&self.task_groups);
        let last = stages.iter().copied().max().unwrap_or(1);
        let stage = stage.clamp(1, last);
        let own = self.task_groups.iter().zip(stages);
        let mut groups: Vec<TaskGroup> = own
            .filter(|(_, of)| *of == stage)
            .map(|(group, _)| group.clone())
            .collect();
        let names: Vec<String> = groups.iter().map(|group| group.name.clone()).collect();
        for group in &mut groups {
            group.depends_on.retain(|d| names.contains(&d.group));
        }
        let has_role = |role: Role| groups.iter().any(|group| group.role() == role);
        let leader = self.framework().spec().leader;
        let framework = self
            .framework
            .filter(|_| leader.is_none_or(|leader| has_role(leader.role)));
        Cow::Owned(Self {
            framework,
            task_groups: groups,
            ..self.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::job::Framework;

    /// Name, role and dependencies.
    type Group<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

    fn spec(framework: &str, groups: &[Group<'_>]) -> TrainingJobSpec {
        let groups: Vec<_> = groups
            .iter()
            .map(|(name, role, on)| {
                let on = on
                    .iter()
                    .map(|(group, on)| json!({"group": group, "status": on}));
                json!({"name": name, "role": role, "image": "i",
                    "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}, "dependsOn": on.collect::<Vec<_>>()})
            })
            .collect();
        serde_json::from_value(json!({"framework": framework, "taskGroups": groups})).unwrap()
    }

    #[test]
    fn group_that_depends_on_completion_is_in_a_later_stage() {
        let spec = spec(
            "None",
            &[
                ("a", "Worker", &[]),
                ("b", "Worker", &[("a", "Ready")]),
                ("c", "Worker", &[("a", "Complete"), ("b", "Complete")]),
                ("d", "Worker", &[("c", "Ready"), ("a", "Ready")]),
                ("e", "Worker", &[("d", "Complete"), ("c", "Complete")]),
            ],
        );
        assert_eq!(spec.group_stages(), [1, 1, 2, 2, 3]);
        assert_eq!(spec.stage_count(), 3);
        let second = spec.for_stage(2);
        let second: Vec<_> = second
            .task_groups
            .iter()
            .map(|g| (g.name.as_str(), g.depends_on.len()))
            .collect();
        // Dependencies on the earlier stage are gone.
        assert_eq!(second, [("c", 0), ("d", 1)]);
        let names = |stage| {
            let spec = spec.for_stage(stage);
            let names: Vec<_> = spec.task_groups.iter().map(|g| g.name.clone()).collect();
            names
        };
        assert_eq!(names(1), ["a", "b"]);
        assert_eq!(names(0), ["a", "b"]);
        assert_eq!(names(9), ["e"]);
    }

    #[test]
    fn job_with_one_stage_is_unchanged_for_that_stage() {
        let spec = spec(
            "None",
            &[("a", "Worker", &[]), ("b", "Worker", &[("a", "Ready")])],
        );
        assert!(matches!(spec.for_stage(1), Cow::Borrowed(_)));
    }

    #[test]
    fn stage_without_launcher_has_no_mpi_framework() {
        let spec = spec(
            "MPI",
            &[
                ("get", "Worker", &[]),
                ("worker", "Worker", &[("get", "Complete")]),
                ("run", "Launcher", &[("get", "Complete")]),
            ],
        );
        assert_eq!(spec.for_stage(1).framework(), Framework::None);
        assert_eq!(spec.for_stage(2).framework(), Framework::MPI);
    }
}
