//! Rules on the roles of task groups. Those of a single framework are in `crate::framework`.

use super::rule::Rule;
use crate::job::{Framework, Role, TaskGroup};

/// Only one pod has rank 0.
pub const ONE_COORDINATOR: Rule = Rule::new(
    "self.taskGroups.filter(g, has(g.role) && g.role in ['Coordinator', 'Launcher']).size() <= 1",
    "at most one task group may have the role Coordinator or Launcher: the first of its pods has rank 0",
);
/// At least one group trains.
pub const SOME_WORKER: Rule = Rule::new(
    "self.taskGroups.exists(g, !has(g.role) || g.role in ['Worker', 'Coordinator', 'Launcher'])",
    "at least one task group must have the role Worker, Coordinator or Launcher: servers and evaluators work for a group that trains",
);
/// Roles that exist only in one framework.
pub const ROLE_OF_FRAMEWORK: Rule = Rule::new(
    "self.taskGroups.all(g, !has(g.role) || ((g.role != 'Launcher' || (has(self.framework) && self.framework == 'MPI')) && (g.role != 'Server' || (has(self.framework) && self.framework == 'TensorFlow'))))",
    "role Launcher is for framework MPI, and role Server for framework TensorFlow: set that framework, or another role",
);
/// [`ONE_COORDINATOR`].
pub fn one_coordinator(groups: &[TaskGroup], _: &()) -> garde::Result {
    let leaders = groups.iter().filter(|g| g.role().has_rank_0());
    ONE_COORDINATOR.check(leaders.count() <= 1)
}

/// [`SOME_WORKER`]. [`super::GROUP_COUNT`] checks that there is a group at all.
pub fn some_worker(groups: &[TaskGroup], _: &()) -> garde::Result {
    let works = |g: &TaskGroup| !matches!(g.role(), Role::Server | Role::Evaluator);
    SOME_WORKER.check(groups.is_empty() || groups.iter().any(works))
}

/// [`ROLE_OF_FRAMEWORK`].
pub fn role_of_framework(
    framework: Framework,
) -> impl FnOnce(&Vec<TaskGroup>, &()) -> garde::Result {
    move |groups, ()| {
        ROLE_OF_FRAMEWORK.check(groups.iter().all(|group| match group.role() {
            Role::Launcher => framework == Framework::MPI,
            Role::Server => framework == Framework::TensorFlow,
            Role::Worker | Role::Coordinator | Role::Evaluator => true,
        }))
    }
}
