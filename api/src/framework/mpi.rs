//! MPI: mpirun in the launcher starts the processes in the workers.

use super::reserved_env::ReservedEnv;
use super::{FrameworkSpec, Leader, groups_of_role};
use crate::job::Role;

/// Host files and access to their hosts: for Open MPI up to 4 (ORTE), Open MPI from 5 (PRRTE),
/// Intel MPI and MPICH (Hydra). Also a variable that hides GPUs from a launcher without GPUs.
const ENV: ReservedEnv = reserved_env!(
    "MPI",
    ["MPI"],
    [],
    [
        "OMPI_MCA_orte_default_hostfile",
        "OMPI_MCA_orte_keep_fqdn_hostnames",
        "OMPI_MCA_plm_rsh_agent",
        "PRTE_MCA_prte_default_hostfile",
        "PRTE_MCA_plm_ssh_agent",
        "I_MPI_HYDRA_HOST_FILE",
        "I_MPI_HYDRA_BOOTSTRAP",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC",
        "HYDRA_HOST_FILE",
        "HYDRA_LAUNCHER",
        "HYDRA_LAUNCHER_EXEC",
        "NVIDIA_VISIBLE_DEVICES"
    ]
);

/// Port of sshd, which needs no privilege for it.
pub const SSH_PORT: i32 = 2222;

pub(super) const SPEC: FrameworkSpec = FrameworkSpec {
    name: "MPI",
    leader: Some(Leader {
        role: Role::Launcher,
        has_service: false,
    }),
    is_elastic: false,
    fixes_max_replicas: false,
    port: Some(SSH_PORT),
    env: Some(&ENV),
    rules: &[
        group_rule!(
            "MPI",
            "(self.taskGroups.exists_one(g, has(g.role) && g.role == 'Launcher') && self.taskGroups.all(g, !has(g.role) || (g.role != 'Coordinator' && (g.role != 'Launcher' || !has(g.replicas) || g.replicas == 1))))",
            "framework MPI needs one task group of role Launcher, of one replica, where mpirun runs, and none of role Coordinator",
            |groups| {
                let launchers = || groups_of_role(groups, Role::Launcher);
                launchers().count() == 1
                    && launchers().all(|group| group.replicas() == 1)
                    && groups_of_role(groups, Role::Coordinator).next().is_none()
            }
        ),
        max_pods!(
            "MPI",
            4096,
            "so that their hostfile fits into a ConfigMap: use torchrun with framework PyTorch for more"
        ),
        fixed_size!("MPI"),
        whole_gang!("MPI"),
    ],
};
