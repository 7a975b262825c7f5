//! MPI: mpirun in the launcher starts processes in the workers by ssh, with a key of the job's own.
//! Sets variables for Open MPI to 4 (ORTE) and from 5 (PRRTE), Intel MPI and MPICH (Hydra): each
//! reads its own and ignores the rest.

mod files;
mod key;

use trellis_api::job::{Role, TaskGroup};
use trellis_api::names;

pub(super) use files::files;
pub(crate) use key::secret;

use super::{Files, FrameworkPort, HOSTFILE, HOSTS, Injection};
use crate::environment::Variable;
use crate::gang::Gang;

/// Mount path of the key.
const KEYS: &str = "/etc/trellis/ssh";
/// Where sshd listens: no privilege is needed for it.
const SSH_PORT: i32 = 2222;
/// Name of the hostfile that says `host:N`, as Intel MPI and MPICH read it.
const HYDRA_HOSTFILE: &str = "hostfile.hydra";
/// File names of the scripts next to the hostfile.
const SSH: &str = "ssh";
const SSHD: &str = "sshd";

pub(super) fn inject(gang: &Gang<'_>, group: &TaskGroup) -> Injection {
    if !group.is_in_world() {
        return Injection::default();
    }
    let file = |name: &str| format!("{HOSTS}/{name}");
    let mut variables = vec![
        Variable::fixed("TRELLIS_HOSTFILE", file(HOSTFILE)),
        Variable::fixed("OMPI_MCA_orte_default_hostfile", file(HOSTFILE)),
        // Otherwise Open MPI cuts host names at the first dot.
        Variable::fixed("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
        Variable::fixed("OMPI_MCA_plm_rsh_agent", file(SSH)),
        Variable::fixed("PRTE_MCA_prte_default_hostfile", file(HOSTFILE)),
        Variable::fixed("PRTE_MCA_plm_ssh_agent", file(SSH)),
        Variable::fixed("I_MPI_HYDRA_HOST_FILE", file(HYDRA_HOSTFILE)),
        Variable::fixed("I_MPI_HYDRA_BOOTSTRAP", "ssh"),
        Variable::fixed("I_MPI_HYDRA_BOOTSTRAP_EXEC", file(SSH)),
        Variable::fixed("HYDRA_HOST_FILE", file(HYDRA_HOSTFILE)),
        Variable::fixed("HYDRA_LAUNCHER", "ssh"),
        Variable::fixed("HYDRA_LAUNCHER_EXEC", file(SSH)),
    ];
    if group.role() == Role::Launcher && group.gpus() == 0 {
        // An image made for GPUs asks for all of the node's, and some runtimes obey.
        variables.push(Variable::fixed("NVIDIA_VISIBLE_DEVICES", ""));
    }
    let is_worker = group.role() == Role::Worker;
    Injection {
        variables,
        ports: vec![FrameworkPort {
            name: "ssh",
            number: SSH_PORT,
        }],
        files: vec![
            Files::Hosts {
                name: names::hosts(gang.job.name()),
                path: HOSTS,
                mode: Some(0o555),
            },
            Files::Key {
                name: names::ssh(gang.job.name(), gang.job.uid()),
                path: KEYS,
            },
        ],
        command: is_worker.then(|| file(SSHD)),
    }
}
