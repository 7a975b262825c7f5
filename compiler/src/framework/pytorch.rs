//! PyTorch: torchrun's settings and the rendezvous of `torch.distributed`.
//!
//! torchrun takes every option that is not on its command line from the
//! variable `PET_<OPTION>` (`torch.distributed.argparse_util.env`), so that
//! `command: [torchrun, train.py]` is all that people write.

use trellis_api::framework::pytorch::MASTER_PORT;
use trellis_api::job::TaskGroup;

use super::{FrameworkEnvironment, FrameworkPort, Injection, NOTHING};
use crate::environment::{TrellisVariable, VariableValue};
use crate::gang_facts::GangFacts;

pub(super) const ENVIRONMENT: FrameworkEnvironment = FrameworkEnvironment { inject, ..NOTHING };

pub(super) fn inject(gang: &GangFacts<'_>, group: &TaskGroup) -> Injection {
    let address = || VariableValue::Fixed(gang.leader_address.clone());
    let port = || VariableValue::Fixed(MASTER_PORT.to_string());
    let world_size = || VariableValue::Fixed(gang.world_size.to_string());
    let processes = group.gpus().max(1).to_string();

    let mut variables = match gang.is_elastic() {
        true => rendezvous(gang).to_vec(),
        false => vec![TrellisVariable::new("PET_NNODES", world_size())],
    };
    variables.push(TrellisVariable::new(
        "PET_NPROC_PER_NODE",
        VariableValue::Fixed(processes),
    ));
    if !gang.is_elastic() {
        variables.extend([
            TrellisVariable::new("PET_NODE_RANK", VariableValue::Rank),
            TrellisVariable::new("PET_MASTER_ADDR", address()),
            TrellisVariable::new("PET_MASTER_PORT", port()),
        ]);
    }
    variables.extend([
        TrellisVariable::new("MASTER_ADDR", address()),
        TrellisVariable::new("MASTER_PORT", port()),
    ]);
    // With several processes in any pod, ranks count processes; in elastic jobs they are not known
    // in advance. torchrun sets them in both cases, and a number from Trellis would be wrong.
    if gang.one_process_per_pod && !gang.is_elastic() {
        variables.push(TrellisVariable::new("RANK", VariableValue::Rank));
        variables.push(TrellisVariable::new("WORLD_SIZE", world_size()));
    }
    Injection {
        variables,
        ports: vec![FrameworkPort {
            name: "rendezvous",
            number: MASTER_PORT,
        }],
        ..Injection::default()
    }
}

/// Elastic pods meet at rank 0, which keeps the member list (torchrun's backend c10d) and assigns
/// their ranks. torchrun then ignores `PET_NODE_RANK`, `PET_MASTER_ADDR` and `PET_MASTER_PORT`.
fn rendezvous(gang: &GangFacts<'_>) -> [TrellisVariable; 5] {
    let nodes = format!("{}:{}", gang.min_world_size, gang.world_size);
    let endpoint = format!("{}:{MASTER_PORT}", gang.leader_address);
    // When a member leaves, torchrun fails in the remaining ones too and must restart there; its
    // default is no restart.
    let restart = gang.job.spec().restart.clone().unwrap_or_default();
    [
        TrellisVariable::fixed("PET_MAX_RESTARTS", restart.limit().to_string()),
        TrellisVariable::fixed("PET_NNODES", nodes),
        TrellisVariable::fixed("PET_RDZV_BACKEND", "c10d"),
        TrellisVariable::fixed("PET_RDZV_ENDPOINT", endpoint),
        // Unique to the job, because another job's pod may get the same address later.
        TrellisVariable::fixed("PET_RDZV_ID", gang.job.name()),
    ]
}
