//! Rules on pods outside the gang: pods above `minReplicas`, and BestEffort groups.

use super::rule::Rule;
use crate::job::{Role, TaskGroup};

/// Smallest number of pods of an elastic group.
pub const MIN_REPLICAS: Rule = Rule::new(
    "!has(self.minReplicas) || (self.minReplicas >= 1 && self.minReplicas <= (has(self.replicas) ? self.replicas : 1))",
    "minReplicas must be 1 at least and replicas at most: the gang is minReplicas pods, and those above come and go with the room that there is",
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
/// [`MIN_REPLICAS`].
pub fn min_replicas(group: &TaskGroup) -> impl FnOnce(&Option<i64>, &()) -> garde::Result {
    let most = group.replicas.unwrap_or(1);
    move |min, ()| MIN_REPLICAS.check(min.is_none_or(|min| (1..=most).contains(&min)))
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
