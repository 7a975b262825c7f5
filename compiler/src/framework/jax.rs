//! JAX: one process a pod, which sees all devices of the pod.
//!
//! `jax.distributed.initialize` reads JAX_COORDINATOR_ADDRESS itself, and the other two
//! are for the program to pass on (docs/frameworks/jax.md).

use trellis_api::job::TaskGroup;

use super::{FrameworkPort, Injection};
use crate::environment::{Value, Variable};
use crate::gang::Gang;

/// Port of process 0, as in Kubeflow's JAXJob.
const COORDINATOR_PORT: i32 = 6666;

pub(super) fn inject(gang: &Gang<'_>, group: &TaskGroup) -> Injection {
    if !group.is_in_world() {
        return Injection::default();
    }
    let address = format!("{}:{COORDINATOR_PORT}", gang.leader_address);
    Injection {
        variables: vec![
            Variable::fixed("JAX_COORDINATOR_ADDRESS", address),
            Variable::fixed("JAX_NUM_PROCESSES", gang.world_size.to_string()),
            Variable::new("JAX_PROCESS_ID", Value::Rank),
        ],
        ports: vec![FrameworkPort {
            name: "coordinator",
            number: COORDINATOR_PORT,
        }],
        ..Injection::default()
    }
}
