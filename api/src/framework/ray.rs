//! Ray: a cluster of the job's own. The head runs the driver, and workers join it.

use super::reserved_env::ReservedEnv;
use super::{FrameworkSpec, Leader, groups_of_role};
use crate::job::{DependencyStatus, Role};

/// Address of the cluster.
const ENV: ReservedEnv = reserved_env!("Ray", ["Ray"], [], ["RAY_ADDRESS"]);

/// Port of the head's global control service, by which pods find the cluster: the default of `ray
/// start --port`.
pub const GCS_PORT: i32 = 6379;
/// Port of the dashboard and of `ray job submit`, if the image has `ray[default]`.
pub const DASHBOARD_PORT: i32 = 8265;
/// Port for Ray Client, if the image has `ray[client]`.
pub const CLIENT_PORT: i32 = 10001;
/// Port of each pod's raylet. It is fixed, so that the kubelet can probe it.
pub const RAYLET_PORT: i32 = 6380;

pub(super) const SPEC: FrameworkSpec = FrameworkSpec {
    name: "Ray",
    leader: Some(Leader {
        role: Role::Coordinator,
        has_service: true,
    }),
    is_elastic: true,
    fixes_max_replicas: false,
    port: Some(GCS_PORT),
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
            "self.taskGroups.all(g, !has(g.role) || g.role != 'Coordinator' || !has(g.args) || has(g.command))",
            "the head of framework Ray runs its command as the driver, and args alone name no program: write the program into command",
            |groups| {
                groups_of_role(groups, Role::Coordinator)
                    .all(|head| head.args.is_empty() || !head.command.is_empty())
            }
        ),
        group_rule!(
            "Ray",
            "self.taskGroups.all(g, !has(g.role) || g.role != 'Coordinator' || !has(g.dependsOn) || g.dependsOn.all(d, has(d.status) && d.status == 'Complete'))",
            "in framework Ray the workers join the head, so the head cannot wait until they are ready: remove dependsOn from the Coordinator, or use status: Complete",
            |groups| {
                let mut needs =
                    groups_of_role(groups, Role::Coordinator).flat_map(|g| &g.depends_on);
                needs.all(|need| need.status() == DependencyStatus::Complete)
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
