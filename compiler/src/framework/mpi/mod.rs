//! MPI: mpirun in the launcher starts processes in the workers by ssh, with a key of the job's own.
//! Sets variables for Open MPI to 4 (ORTE) and from 5 (PRRTE), Intel MPI and MPICH (Hydra): each
//! reads its own and ignores the rest.

mod files;
mod ssh_key;

use trellis_api::framework::mpi::SSH_PORT;
use trellis_api::job::{Role, TaskGroup};
use trellis_api::names;

use super::{
    FrameworkEnvironment, FrameworkPort, HOSTFILE, HOSTS_PATH, InjectedCommand, Injection,
    MountedFiles, NOTHING, Program,
};
use crate::environment::TrellisVariable;
use crate::gang_facts::GangFacts;

/// Mount path of the key.
const KEY_PATH: &str = "/etc/trellis/ssh";
/// Name of the hostfile that says `host:N`, as Intel MPI and MPICH read it.
const HYDRA_HOSTFILE: &str = "hostfile.hydra";
/// File names of the scripts next to the hostfile.
const SSH_SCRIPT: &str = "ssh";
const SSHD_SCRIPT: &str = "sshd";

pub(super) const ENVIRONMENT: FrameworkEnvironment = FrameworkEnvironment {
    inject,
    files: Some(files::config_map_files),
    key: Some(ssh_key::ssh_key_secret),
    ..NOTHING
};

fn inject(gang: &GangFacts<'_>, group: &TaskGroup) -> Injection {
    let file = |name: &str| format!("{HOSTS_PATH}/{name}");
    let mut variables = vec![
        TrellisVariable::fixed("TRELLIS_HOSTFILE", file(HOSTFILE)),
        TrellisVariable::fixed("OMPI_MCA_orte_default_hostfile", file(HOSTFILE)),
        // Otherwise Open MPI cuts host names at the first dot.
        TrellisVariable::fixed("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
        TrellisVariable::fixed("OMPI_MCA_plm_rsh_agent", file(SSH_SCRIPT)),
        TrellisVariable::fixed("PRTE_MCA_prte_default_hostfile", file(HOSTFILE)),
        TrellisVariable::fixed("PRTE_MCA_plm_ssh_agent", file(SSH_SCRIPT)),
        TrellisVariable::fixed("I_MPI_HYDRA_HOST_FILE", file(HYDRA_HOSTFILE)),
        TrellisVariable::fixed("I_MPI_HYDRA_BOOTSTRAP", "ssh"),
        TrellisVariable::fixed("I_MPI_HYDRA_BOOTSTRAP_EXEC", file(SSH_SCRIPT)),
        TrellisVariable::fixed("HYDRA_HOST_FILE", file(HYDRA_HOSTFILE)),
        TrellisVariable::fixed("HYDRA_LAUNCHER", "ssh"),
        TrellisVariable::fixed("HYDRA_LAUNCHER_EXEC", file(SSH_SCRIPT)),
    ];
    if group.role() == Role::Launcher && group.gpus() == 0 {
        // An image made for GPUs asks for all of the node's, and some runtimes obey.
        variables.push(TrellisVariable::fixed("NVIDIA_VISIBLE_DEVICES", ""));
    }
    let command = match group.role() {
        Role::Worker => InjectedCommand::Fallback(Program {
            command: vec![file(SSHD_SCRIPT)],
            ..Program::default()
        }),
        _ => InjectedCommand::Unchanged,
    };
    Injection {
        variables,
        ports: vec![FrameworkPort {
            name: "ssh",
            number: SSH_PORT,
        }],
        files: vec![
            MountedFiles::hosts(gang, Some(0o555)),
            MountedFiles::Key {
                name: names::ssh_secret_name(gang.job.name(), gang.job.uid()),
                path: KEY_PATH,
            },
        ],
        command,
    }
}
