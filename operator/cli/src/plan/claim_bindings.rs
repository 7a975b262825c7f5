//! Predicts the volumes that the claims of planned jobs would be bound to.
//! The operator binds claims before it creates the first pod.

use std::sync::Arc;

use trellis_gang::key::Key;
use trellis_gang::observed::{SELECTED_NODE, SlimClaimRef};
use trellis_gang::requirements::binding::BindingStep;
use trellis_plan::{PlannedJob, choose_steps};

use super::snapshot::ClusterSnapshot;

/// Adds the claim bindings to each job that would run. Later jobs see the bindings of earlier ones.
pub(super) fn bind_claims(planned: &mut [PlannedJob], snapshot: &mut ClusterSnapshot) {
    trellis_plan::bind_claims(planned, |job, placement| {
        // Without any claims in the input, every node can reach them.
        if snapshot.claims.is_none() {
            return Ok(Vec::new());
        }
        let namespace = job.job().namespace();
        let steps = choose_steps(job, placement, &snapshot.storage(namespace))?;
        for (claim, step) in &steps {
            apply_step(&Key::new(namespace, claim), step, snapshot);
        }
        Ok(steps)
    });
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
