//! Predicts the volumes that the claims of planned jobs would be bound to.
//! The operator binds claims before it creates the first pod.

use std::sync::Arc;

use trellis_gang::JobHold;
use trellis_gang::key::Key;
use trellis_gang::observed::{SELECTED_NODE, SlimClaimRef};
use trellis_gang::requirements::binding::{
    BindingCandidates, BindingFailure, BindingStep, ClaimMounts, choose_volumes, collect_mounts,
};
use trellis_scheduler::Placement;

use super::planned_job::PlannedJob;
use super::snapshot::ClusterSnapshot;

/// Adds the claim bindings to each job that would run.
/// A job waits if its claims cannot be bound on its planned nodes. Earlier jobs may have taken the
/// volumes, or no volume is reachable there.
pub(super) fn bind_claims(planned: &mut [PlannedJob], snapshot: &mut ClusterSnapshot) {
    for job in planned {
        let (Some(compiled), Ok(place)) = (&job.compiled, &job.place) else {
            continue;
        };
        let mounts = collect_mounts(
            compiled,
            &Default::default(),
            pods_by_group(&place.placement),
        );
        match choose_steps(&job.key, &mounts, snapshot) {
            Ok(steps) => {
                job.claims = steps.iter().filter_map(describe_step).collect();
                for (claim, step) in &steps {
                    apply_step(&Key::new(&job.key.namespace, claim), step, snapshot);
                }
            }
            Err(stuck) => job.place = Err(JobHold::waiting(stuck.reason, stuck.message)),
        }
    }
}

/// Records the binding, so that later jobs see it.
fn apply_step(key: &Key, step: &BindingStep, snapshot: &mut ClusterSnapshot) {
    let Some(claim) = snapshot.claims.as_mut().and_then(|all| all.get_mut(key)) else {
        return;
    };
    let claim = Arc::make_mut(claim);
    match step {
        BindingStep::Bound | BindingStep::Wait => {}
        BindingStep::BindVolume(volume) => {
            if let Some(volume) = snapshot.volumes.get_mut(volume) {
                let volume = Arc::make_mut(volume);
                volume.spec.claim_ref = Some(SlimClaimRef {
                    namespace: key.namespace.to_string(),
                    name: key.name.to_string(),
                    uid: claim.metadata.uid.clone(),
                });
                // A claim in a file may have no namespace.
                claim.metadata.namespace = Some(key.namespace.to_string());
            }
        }
        BindingStep::Provision(node) => {
            let annotations = claim.metadata.annotations.get_or_insert_default();
            annotations.insert(SELECTED_NODE.to_owned(), node.clone());
        }
    }
}

fn pods_by_group(placement: &Placement) -> impl Iterator<Item = (&str, &str, u64)> {
    placement.groups().iter().flat_map(|group| {
        let runs = group.runs.iter();
        runs.map(|(node, count)| (group.group.as_str(), node.as_str(), u64::from(*count)))
    })
}

fn choose_steps(
    job: &Key,
    mounts: &ClaimMounts,
    snapshot: &ClusterSnapshot,
) -> Result<Vec<(String, BindingStep)>, BindingFailure> {
    // Without any claims in the input, every node can reach them.
    match snapshot.claims {
        None => Ok(Vec::new()),
        Some(_) => choose_volumes(
            mounts,
            &BindingCandidates::from_storage(&snapshot.storage(&job.namespace), mounts),
        ),
    }
}

fn describe_step((claim, step): &(String, BindingStep)) -> Option<String> {
    match step {
        BindingStep::Bound | BindingStep::Wait => None,
        BindingStep::BindVolume(volume) => Some(format!("{claim}: bound to volume {volume}")),
        BindingStep::Provision(node) => Some(format!("{claim}: provisioned for node {node}")),
    }
}
