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
    if !group.role().is_in_world() {
        return Injection::default();
    }
    let address = || Value::Fixed(gang.leader_address.clone());
    let port = || Value::Fixed(MASTER_PORT.to_string());
    let world_size = || Value::Fixed(gang.world_size.to_string());
    let processes = group.gpus().max(1).to_string();

    let mut variables = vec![
        Variable::new("PET_NNODES", world_size()),
        Variable::new("PET_NPROC_PER_NODE", Value::Fixed(processes)),
        Variable::new("PET_NODE_RANK", Value::Rank),
        Variable::new("PET_MASTER_ADDR", address()),
        Variable::new("PET_MASTER_PORT", port()),
        Variable::new("MASTER_ADDR", address()),
        Variable::new("MASTER_PORT", port()),
    ];
    // With several processes in any pod, ranks count processes: torchrun sets
    // them, and a number of ours would only be wrong.
    if gang.one_process_a_pod {
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
