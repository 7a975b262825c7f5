//! Claims of ephemeral volumes (KEP-1698). kube-controller-manager creates each after its pod. As
//! in kube-scheduler (`ephemeral.VolumeIsForPod`), a pod must not be bound if a claim of that name
//! belongs to another object: its kubelet would not start it.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PodSpec;
use trellis_api::Reason;

use crate::GangExplanation;
use crate::requirements::binding::Storage;

/// Returns the names of the pod's ephemeral claims.
pub fn claim_names(pod: &str, spec: &PodSpec) -> BTreeSet<String> {
    let volumes = spec.volumes.iter().flatten();
    let own = volumes.filter(|volume| volume.ephemeral.is_some());
    own.map(|volume| claim_name(pod, &volume.name)).collect()
}

/// Returns the name of the claim of a pod's ephemeral volume (`ephemeral.VolumeClaimName`).
pub fn claim_name(pod: &str, volume: &str) -> String {
    format!("{pod}-{volume}")
}

/// Checks that an ephemeral claim of the pod exists.
///
/// # Errors
/// Why the pod waits: the claim does not exist yet, or belongs to another object.
pub fn check_claim(
    pod: &str,
    uid: &str,
    claim: &str,
    storage: &impl Storage,
) -> Result<(), GangExplanation> {
    let waits = |problem: &str| {
        let message = format!(
            "pod {pod:?} waits for PersistentVolumeClaim {claim:?} of its ephemeral volume: {problem}"
        );
        Err(GangExplanation::waiting(Reason::ClaimNotBound, message))
    };
    let Some(there) = storage.claim(claim) else {
        return waits(
            "kube-controller-manager makes it, and events of the pod say why where it cannot",
        );
    };
    match there.pod() {
        Some(owner) if owner.uid == uid => {}
        Some(owner) if owner.name == pod => {
            return waits("that of the pod of this name before is not gone yet");
        }
        _ => {
            let message = format!(
                "PersistentVolumeClaim {claim:?} is there and is not pod {pod:?}'s, whose ephemeral volume bears that name: delete it, or rename the volume"
            );
            return Err(GangExplanation::waiting(Reason::NameConflict, message));
        }
    }
    match there.metadata.deletion_timestamp {
        Some(_) => waits("it is being deleted, and kube-controller-manager makes it anew"),
        None => Ok(()),
    }
}
