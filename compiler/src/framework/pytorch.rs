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
    let world = World::of_group(gang, group);
    let mut variables = match &world {
        World::Elastic => rendezvous(gang).to_vec(),
        World::Fixed { size, .. } => vec![TrellisVariable::fixed("PET_NNODES", size.to_string())],
    };
    let processes = group.gpus().max(1).to_string();
    variables.push(TrellisVariable::fixed("PET_NPROC_PER_NODE", processes));
    if let World::Fixed { rank, .. } = &world {
        variables.extend([
            TrellisVariable::new("PET_NODE_RANK", rank.clone()),
            TrellisVariable::new("PET_MASTER_ADDR", world.leader(gang)),
            TrellisVariable::fixed("PET_MASTER_PORT", MASTER_PORT.to_string()),
        ]);
    }
    variables.extend([
        TrellisVariable::new("MASTER_ADDR", world.leader(gang)),
        TrellisVariable::fixed("MASTER_PORT", MASTER_PORT.to_string()),
    ]);
    // With several processes in any pod, ranks count processes; in elastic jobs they are not known
    // in advance. torchrun sets them in both cases, and a number from Trellis would be wrong.
    if let World::Fixed { size, rank, .. } = world
        && gang.one_process_per_pod
    {
        variables.push(TrellisVariable::new("RANK", rank));
        variables.push(TrellisVariable::fixed("WORLD_SIZE", size.to_string()));
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

/// The pods that torchrun connects.
enum World {
    /// The pods of the job that exist now. They find each other at rank 0.
    Elastic,
    /// A known number of pods: all of the job, or those of a slice.
    Fixed {
        size: u32,
        /// Rank of the pod in its world.
        rank: VariableValue,
        /// Address of rank 0 of a slice. None: the job's rank 0.
        slice_leader: Option<VariableValue>,
    },
}

impl World {
    fn of_group(gang: &GangFacts<'_>, group: &TaskGroup) -> Self {
        let spec = gang.job.spec();
        let slice = group.slice_sizes().first().copied();
        match slice.filter(|_| spec.has_replica_groups(group)) {
            Some(pods) => Self::Fixed {
                size: pods,
                rank: VariableValue::IndexInSlice(pods),
                slice_leader: Some(gang.slice_leader_address(group, pods)),
            },
            None if gang.is_elastic() => Self::Elastic,
            None => Self::Fixed {
                size: gang.world_size,
                rank: VariableValue::Rank,
                slice_leader: None,
            },
        }
    }

    fn leader(&self, gang: &GangFacts<'_>) -> VariableValue {
        match self {
            Self::Fixed {
                slice_leader: Some(address),
                ..
            } => address.clone(),
            _ => VariableValue::Fixed(gang.leader_address.clone()),
        }
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
