//! JAX: one process a pod, which sees all devices of the pod.
//!
//! `jax.distributed.initialize` reads JAX_COORDINATOR_ADDRESS itself, and the other two
//! are for the program to pass on (docs/frameworks/jax.md).

use trellis_api::framework::jax::COORDINATOR_PORT;
use trellis_api::job::TaskGroup;

use super::{FrameworkEnvironment, FrameworkPort, Injection, NOTHING};
use crate::environment::{TrellisVariable, VariableValue};
use crate::gang_facts::GangFacts;

pub(super) const ENVIRONMENT: FrameworkEnvironment = FrameworkEnvironment { inject, ..NOTHING };

fn inject(gang: &GangFacts<'_>, _: &TaskGroup) -> Injection {
    let address = format!("{}:{COORDINATOR_PORT}", gang.leader_address);
    Injection {
        variables: vec![
            TrellisVariable::fixed("JAX_COORDINATOR_ADDRESS", address),
            TrellisVariable::fixed("JAX_NUM_PROCESSES", gang.world_size.to_string()),
            TrellisVariable::new("JAX_PROCESS_ID", VariableValue::Rank),
        ],
        ports: vec![FrameworkPort {
            name: "coordinator",
            number: COORDINATOR_PORT,
        }],
        ..Injection::default()
    }
}
