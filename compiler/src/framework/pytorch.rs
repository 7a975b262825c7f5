//! PyTorch: torchrun's settings and the rendezvous of `torch.distributed`.
//!
//! torchrun takes every option that is not on its command line from the
//! variable `PET_<OPTION>` (`torch.distributed.argparse_util.env`), so that
//! `command: [torchrun, train.py]` is all that people write.

use trellis_api::job::TaskGroup;

use super::{FrameworkPort, Injection};
use crate::environment::{Value, Variable};
use crate::gang::Gang;

/// Where rank 0 listens: the default of torchrun's `--master-port`. Fixed, so
/// that no port of the user's becomes the rendezvous by its name.
const MASTER_PORT: i32 = 29500;

pub(super) fn inject(gang: &Gang<'_>, group: &TaskGroup) -> Injection {
    if !group.is_in_world() {
        return Injection::default();
    }
    let address = || Value::Fixed(gang.leader_address.clone());
    let port = || Value::Fixed(MASTER_PORT.to_string());
    let world_size = || Value::Fixed(gang.world_size.to_string());
    let processes = group.gpus().max(1).to_string();

    let mut variables = match gang.is_elastic() {
        true => rendezvous(gang).to_vec(),
        false => vec![Variable::new("PET_NNODES", world_size())],
    };
    variables.push(Variable::new("PET_NPROC_PER_NODE", Value::Fixed(processes)));
    if !gang.is_elastic() {
        variables.extend([
            Variable::new("PET_NODE_RANK", Value::Rank),
            Variable::new("PET_MASTER_ADDR", address()),
            Variable::new("PET_MASTER_PORT", port()),
        ]);
    }
    variables.extend([
        Variable::new("MASTER_ADDR", address()),
        Variable::new("MASTER_PORT", port()),
    ]);
    // With several processes in any pod, ranks count processes; in elastic jobs they are not known
    // in advance. torchrun sets them in both cases, and a number from Trellis would be wrong.
    if gang.one_process_a_pod && !gang.is_elastic() {
        variables.push(Variable::new("RANK", Value::Rank));
        variables.push(Variable::new("WORLD_SIZE", world_size()));
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
fn rendezvous(gang: &Gang<'_>) -> [Variable; 5] {
    let nodes = format!("{}:{}", gang.least_world_size, gang.world_size);
    let endpoint = format!("{}:{MASTER_PORT}", gang.leader_address);
    // When a member leaves, torchrun fails in the remaining ones too and must restart there; its
    // default is no restart.
    let restart = gang.job.spec().restart.clone().unwrap_or_default();
    [
        Variable::fixed("PET_MAX_RESTARTS", restart.limit().to_string()),
        Variable::fixed("PET_NNODES", nodes),
        Variable::fixed("PET_RDZV_BACKEND", "c10d"),
        Variable::fixed("PET_RDZV_ENDPOINT", endpoint),
        // Unique to the job, because another job's pod may get the same address later.
        Variable::fixed("PET_RDZV_ID", gang.job.name()),
    ]
}
