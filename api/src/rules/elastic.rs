//! Rules on pods outside the gang: pods above `minReplicas`, and BestEffort groups.

use super::Rule;
use crate::job::{Framework, Role, TaskGroup};

/// Smallest number of pods of an elastic group.
pub const MIN_REPLICAS: Rule = Rule::new(
    "!has(self.minReplicas) || (self.minReplicas >= 1 && self.minReplicas <= (has(self.replicas) ? self.replicas : 1))",
    "minReplicas must be 1 at least and replicas at most: the gang is minReplicas pods, and those above come and go with the room that there is",
);
/// Only some frameworks can change the number of processes while they run.
pub const ELASTIC_FRAMEWORK: Rule = Rule::new(
    "!has(self.framework) || self.framework in ['PyTorch', 'None'] || self.taskGroups.all(g, !has(g.minReplicas) || g.minReplicas == (has(g.replicas) ? g.replicas : 1))",
    "minReplicas below replicas is for framework PyTorch or None: the others start with a fixed number of processes; leave minReplicas out",
);
/// A job never depends on pods outside the gang.
pub const OUTSIDE_GANG: Rule = Rule::new(
    "self.taskGroups.all(g, !has(g.membership) || g.membership == 'Gang' || (!has(g.minReplicas) && (!has(g.role) || g.role in ['Worker', 'Evaluator'])))",
    "a task group with membership: BestEffort comes when there is room, and may never: it can have no minReplicas, and its role only be Worker or Evaluator",
);
/// A job contains a gang.
pub const SOME_GANG: Rule = Rule::new(
    "self.taskGroups.exists(g, (!has(g.membership) || g.membership == 'Gang') && (!has(g.role) || g.role in ['Worker', 'Coordinator', 'Launcher']))",
    "at least one task group of role Worker, Coordinator or Launcher must be part of the gang: leave out membership: BestEffort on one",
);
/// Some frameworks name all processes before the first one starts, so they need the whole gang.
pub const OUTSIDE_GANG_FRAMEWORK: Rule = Rule::new(
    "!has(self.framework) || !(self.framework in ['MPI', 'DeepSpeed', 'TensorFlow']) || self.taskGroups.all(g, !has(g.membership) || g.membership == 'Gang')",
    "membership: BestEffort is not for framework MPI, DeepSpeed or TensorFlow, whose host lists name every pod: leave it out, or run those pods as a job of their own",
);

/// [`MIN_REPLICAS`].
pub fn min_replicas(group: &TaskGroup) -> impl FnOnce(&Option<i64>, &()) -> garde::Result {
    let most = group.replicas.unwrap_or(1);
    move |min, ()| MIN_REPLICAS.check(min.is_none_or(|min| (1..=most).contains(&min)))
}

/// [`ELASTIC_FRAMEWORK`].
pub fn elastic_framework(
    framework: Framework,
) -> impl FnOnce(&Vec<TaskGroup>, &()) -> garde::Result {
    move |groups, ()| {
        let may = matches!(framework, Framework::PyTorch | Framework::None);
        ELASTIC_FRAMEWORK.check(may || !groups.iter().any(TaskGroup::is_elastic))
    }
}

/// [`OUTSIDE_GANG`].
pub fn outside_gang(groups: &[TaskGroup], _: &()) -> garde::Result {
    let may = |group: &TaskGroup| {
        let role = matches!(group.role(), Role::Worker | Role::Evaluator);
        group.is_in_gang() || (role && group.min_replicas.is_none())
    };
    OUTSIDE_GANG.check(groups.iter().all(may))
}

/// [`SOME_GANG`]. [`super::SOME_WORKER`] checks that a group trains at all.
pub fn some_gang(groups: &[TaskGroup], _: &()) -> garde::Result {
    let trains = |group: &&TaskGroup| !matches!(group.role(), Role::Server | Role::Evaluator);
    let mut training = groups.iter().filter(trains).peekable();
    SOME_GANG.check(training.peek().is_none() || training.any(TaskGroup::is_in_gang))
}

/// [`OUTSIDE_GANG_FRAMEWORK`].
pub fn outside_gang_framework(
    framework: Framework,
) -> impl FnOnce(&Vec<TaskGroup>, &()) -> garde::Result {
    move |groups, ()| {
        let lists = matches!(
            framework,
            Framework::MPI | Framework::DeepSpeed | Framework::TensorFlow
        );
        OUTSIDE_GANG_FRAMEWORK.check(!lists || groups.iter().all(TaskGroup::is_in_gang))
    }
}
