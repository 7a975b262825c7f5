//! JAX: one process in each pod.

use super::FrameworkSpec;
use super::reserved_env::ReservedEnv;

/// Rendezvous of the processes.
const ENV: ReservedEnv = reserved_env!(
    "JAX",
    ["JAX"],
    [],
    [
        "JAX_COORDINATOR_ADDRESS",
        "JAX_NUM_PROCESSES",
        "JAX_PROCESS_ID"
    ]
);

/// Port of process 0, as in Kubeflow's JAXJob.
pub const COORDINATOR_PORT: i32 = 6666;

pub(super) const SPEC: FrameworkSpec = FrameworkSpec {
    name: "JAX",
    leader: None,
    is_elastic: false,
    fixes_max_replicas: false,
    port: Some(COORDINATOR_PORT),
    env: Some(&ENV),
    rules: &[fixed_size!("JAX")],
};
