//! Ray: a cluster of the job's own. The head runs the driver, and workers join it.

use super::reserved_env::ReservedEnv;
use super::{FrameworkSpec, groups_of_role};
use crate::job::Role;

/// Address of the cluster.
const ENV: ReservedEnv = reserved_env!("Ray", ["Ray"], [], ["RAY_ADDRESS"]);

pub(super) const SPEC: FrameworkSpec = FrameworkSpec {
    name: "Ray",
    leader: Some(Role::Coordinator),
    ends_with_leader: true,
    leader_service: true,
    is_elastic: true,
    fixes_max_replicas: false,
    // Default of `ray start --port`.
    port: Some(6379),
    env: Some(&ENV),
    rules: &[
        group_rule!(
            "Ray",
            "(self.taskGroups.exists_one(g, has(g.role) && g.role == 'Coordinator') && self.taskGroups.all(g, !has(g.role) || g.role != 'Coordinator' || !has(g.replicas) || g.replicas == 1))",
            "framework Ray needs one task group of role Coordinator, of one replica: the head, whose command is the driver",
            |groups| {
                let heads = || groups_of_role(groups, Role::Coordinator);
                heads().count() == 1 && heads().all(|group| group.replicas() == 1)
            }
        ),
        group_rule!(
            "Ray",
            "self.taskGroups.all(g, !has(g.membership) || g.membership == 'Gang')",
            "in framework Ray no group can have membership: BestEffort: give the workers minReplicas, and those above it join when there is room",
            |groups| groups.iter().all(crate::job::TaskGroup::is_in_gang)
        ),
    ],
};
