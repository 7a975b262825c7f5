//! TensorFlow: a cluster of chief, workers and parameter servers, and an evaluator beside it.

use super::reserved_env::ReservedEnv;
use super::{FrameworkSpec, groups_of_role};
use crate::job::Role;

/// TensorFlow's cluster and task.
const ENV: ReservedEnv = reserved_env!("TensorFlow", ["TensorFlow"], [], ["TF_CONFIG"]);

/// Port of every task, as in Kubeflow's TFJob.
pub const PORT: i32 = 2222;

pub(super) const SPEC: FrameworkSpec = FrameworkSpec {
    name: "TensorFlow",
    leader: None,
    is_elastic: false,
    fixes_max_replicas: false,
    port: Some(PORT),
    env: Some(&ENV),
    rules: &[
        // `multi_worker_util._validate_cluster_spec`.
        group_rule!(
            "TensorFlow",
            "(self.taskGroups.filter(g, has(g.role) && g.role == 'Evaluator').size() <= 1 && self.taskGroups.all(g, !has(g.role) || !(g.role in ['Coordinator', 'Evaluator']) || !has(g.replicas) || g.replicas == 1))",
            "TensorFlow has one chief and one evaluator at most: let one task group at most be the Evaluator, and give Coordinator and Evaluator one replica",
            |groups| {
                let single = |role| groups_of_role(groups, role).all(|g| g.replicas() == 1);
                groups_of_role(groups, Role::Evaluator).count() <= 1
                    && single(Role::Evaluator)
                    && single(Role::Coordinator)
            }
        ),
        // Even with the longest names, TF_CONFIG is then shorter than the longest variable in Linux
        // (MAX_ARG_STRLEN, 128 KiB).
        max_pods!(
            "TensorFlow",
            512,
            "so that TF_CONFIG fits into a variable: use framework None for more"
        ),
        fixed_size!("TensorFlow"),
        whole_gang!("TensorFlow"),
    ],
};
