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

pub(super) const SPEC: FrameworkSpec = FrameworkSpec {
    name: "JAX",
    leader: None,
    is_elastic: false,
    fixes_max_replicas: false,
    // As in Kubeflow's JAXJob.
    port: Some(6666),
    env: Some(&ENV),
    rules: &[fixed_size!("JAX")],
};
