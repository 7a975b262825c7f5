//! Predicts the volumes that the claims of planned jobs would be bound to. The operator binds claims
//! before it creates the first pod.

use trellis_api::visibility::PlannedClaim;
use trellis_compiler::CompiledJob;
use trellis_gang::JobHold;
use trellis_gang::requirements::binding::{
    BindingCandidates, BindingStep, Storage, choose_volumes, collect_mounts,
};
use trellis_scheduler::Placement;

use super::PlannedJob;

/// Chooses the next step of each claim that a placed job mounts, by the name of the claim.
///
/// # Errors
/// If the claims cannot be bound on the job's nodes: earlier jobs have taken the volumes, or no volume
/// is reachable there.
pub fn choose_steps(
    job: &CompiledJob,
    placement: &Placement,
    storage: &impl Storage,
) -> Result<Vec<(String, BindingStep)>, JobHold> {
    let mounts = collect_mounts(job, &Default::default(), pods_by_group(placement));
    let candidates = BindingCandidates::from_storage(storage, &mounts);
    choose_volumes(&mounts, &candidates)
        .map_err(|stuck| JobHold::waiting(stuck.reason, stuck.message))
}

/// Adds the claim bindings to each job that would run. A job waits if its claims cannot be bound.
///
/// `choose` returns the steps for the claims of a placed job. The jobs are asked in their order, so
/// that `choose` can take the volumes of earlier jobs away.
pub fn bind_claims(
    planned: &mut [PlannedJob],
    mut choose: impl FnMut(&CompiledJob, &Placement) -> Result<Vec<(String, BindingStep)>, JobHold>,
) {
    for job in planned {
        let (Some(compiled), Ok(place)) = (&job.compiled, &job.place) else {
            continue;
        };
        match choose(compiled, &place.placement) {
            Ok(steps) => job.claims = steps.into_iter().filter_map(planned_claim).collect(),
            Err(hold) => job.place = Err(hold),
        }
    }
}

fn pods_by_group(placement: &Placement) -> impl Iterator<Item = (&str, &str, u64)> {
    placement.groups().iter().flat_map(|group| {
        let runs = group.runs.iter();
        runs.map(|(node, count)| (group.group.as_str(), node.as_str(), u64::from(*count)))
    })
}

/// Returns None if the claim is bound, or is being bound.
fn planned_claim((claim, step): (String, BindingStep)) -> Option<PlannedClaim> {
    let (volume, node) = match step {
        BindingStep::Bound | BindingStep::Wait => return None,
        BindingStep::BindVolume(volume) => (Some(volume), None),
        BindingStep::Provision(node) => (None, Some(node)),
    };
    Some(PlannedClaim {
        claim,
        volume,
        node,
    })
}
