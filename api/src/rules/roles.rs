//! Rules on the roles of task groups and the number of pods, as frameworks require them.

use super::Rule;
use crate::job::{Framework, Role, TaskGroup};

/// Largest number of pods of a job whose framework has a hostfile. The size of the hostfile depends
/// on names that this rule does not know: the compiler detects one that exceeds a ConfigMap (1 MiB,
/// `too_long`).
pub const MAX_HOSTS: u32 = 4096;
/// Largest number of pods of a TensorFlow job. Even with the longest names, TF_CONFIG is then
/// shorter than the longest variable in Linux (MAX_ARG_STRLEN, 128 KiB).
pub const MAX_TENSORFLOW_PODS: u32 = 512;

/// Only one pod has rank 0.
pub const ONE_COORDINATOR: Rule = Rule::new(
    "self.taskGroups.filter(g, has(g.role) && g.role in ['Coordinator', 'Launcher']).size() <= 1",
    "at most one task group may have the role Coordinator or Launcher: the first of its pods has rank 0",
);
/// At least one group trains.
pub const SOME_WORKER: Rule = Rule::new(
    "self.taskGroups.exists(g, !has(g.role) || g.role in ['Worker', 'Coordinator', 'Launcher'])",
    "at least one task group must have the role Worker, Coordinator or Launcher: servers and evaluators have nobody to work for",
);
/// Roles that exist only in one framework.
pub const ROLE_OF_FRAMEWORK: Rule = Rule::new(
    "self.taskGroups.all(g, !has(g.role) || ((g.role != 'Launcher' || (has(self.framework) && self.framework == 'MPI')) && (g.role != 'Server' || (has(self.framework) && self.framework == 'TensorFlow'))))",
    "role Launcher is for framework MPI, and role Server for framework TensorFlow: set that framework, or another role",
);
/// mpirun runs in exactly one pod.
pub const ONE_LAUNCHER: Rule = Rule::new(
    "!has(self.framework) || self.framework != 'MPI' || (self.taskGroups.exists_one(g, has(g.role) && g.role == 'Launcher') && self.taskGroups.all(g, !has(g.role) || (g.role != 'Coordinator' && (g.role != 'Launcher' || !has(g.replicas) || g.replicas == 1))))",
    "framework MPI needs one task group of role Launcher, of one replica, where mpirun runs, and none of role Coordinator",
);
/// Tasks that TensorFlow accepts in its cluster (`multi_worker_util._validate_cluster_spec`).
pub const TENSORFLOW_TASKS: Rule = Rule::new(
    "!has(self.framework) || self.framework != 'TensorFlow' || (self.taskGroups.filter(g, has(g.role) && g.role == 'Evaluator').size() <= 1 && self.taskGroups.all(g, !has(g.role) || !(g.role in ['Coordinator', 'Evaluator']) || !has(g.replicas) || g.replicas == 1))",
    "TensorFlow has one chief and one evaluator at most: let one task group at most be the Evaluator, and give Coordinator and Evaluator one replica",
);
/// [`MAX_HOSTS`].
pub const HOSTS: Rule = Rule::new(
    "!has(self.framework) || !(self.framework in ['DeepSpeed', 'MPI']) || self.taskGroups.map(g, has(g.replicas) ? g.replicas : 1).sum() <= 4096",
    "with framework DeepSpeed or MPI the replicas of all task groups together must be at most 4096, so that their hostfile fits into a ConfigMap: use torchrun with framework PyTorch for more",
);
/// [`MAX_TENSORFLOW_PODS`].
pub const TENSORFLOW_PODS: Rule = Rule::new(
    "!has(self.framework) || self.framework != 'TensorFlow' || self.taskGroups.map(g, has(g.replicas) ? g.replicas : 1).sum() <= 512",
    "with framework TensorFlow the replicas of all task groups together must be at most 512, so that TF_CONFIG fits into a variable: use framework None for more",
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

/// [`ONE_LAUNCHER`].
pub fn one_launcher(framework: Framework) -> impl FnOnce(&Vec<TaskGroup>, &()) -> garde::Result {
    move |groups, ()| {
        let of = |role: Role| groups.iter().filter(move |g| g.role() == role);
        let one = of(Role::Launcher).count() == 1
            && of(Role::Launcher).all(|g| g.replicas() == 1)
            && of(Role::Coordinator).next().is_none();
        ONE_LAUNCHER.check(framework != Framework::MPI || one)
    }
}

/// [`TENSORFLOW_TASKS`].
pub fn tensorflow_tasks(
    framework: Framework,
) -> impl FnOnce(&Vec<TaskGroup>, &()) -> garde::Result {
    move |groups, ()| {
        let evaluators = groups.iter().filter(|g| g.role() == Role::Evaluator);
        let single = |g: &TaskGroup| {
            !matches!(g.role(), Role::Coordinator | Role::Evaluator) || g.replicas() == 1
        };
        TENSORFLOW_TASKS.check(
            framework != Framework::TensorFlow
                || (evaluators.count() <= 1 && groups.iter().all(single)),
        )
    }
}

/// [`HOSTS`] and [`TENSORFLOW_PODS`].
pub fn pods_of_framework(
    framework: Framework,
) -> impl FnOnce(&Vec<TaskGroup>, &()) -> garde::Result {
    move |groups, ()| {
        let total = groups
            .iter()
            .fold(0_i64, |sum, g| sum.saturating_add(g.replicas.unwrap_or(1)));
        match framework {
            Framework::DeepSpeed | Framework::MPI => HOSTS.check(total <= i64::from(MAX_HOSTS)),
            Framework::TensorFlow => TENSORFLOW_PODS.check(total <= i64::from(MAX_TENSORFLOW_PODS)),
            Framework::PyTorch | Framework::JAX | Framework::None => Ok(()),
        }
    }
}
