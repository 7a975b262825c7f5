//! Takes back the volumes that a rolled-back plan gave to unbound claims. Other gangs may need
//! these volumes, and the gang may get another place.

use std::collections::BTreeSet;

use kube::Resource;
use serde_json::{Value, json};
use tracing::{info, warn};
use trellis_api::names;
use trellis_gang::key::Key;
use trellis_gang::observed::{BOUND_BY_CONTROLLER, SELECTED_NODE, SlimClaim, SlimVolume};
use trellis_gang::requirements::binding::is_reserved_for;

use super::Committer;
use crate::commands::WriteError;
use crate::task_outcome::TaskOutcome;

impl Committer {
    /// Takes back the volumes that the plan with this hash gave to claims of the job. A bound claim
    /// stays bound.
    pub(crate) async fn unbind_job_claims(&self, job: &Key, plan: &str) -> Result<(), TaskOutcome> {
        let Some(written) = self.context.cache.jobs.get(job) else {
            return Ok(());
        };
        let claims = self.context.cache.job_claims(&written);
        self.unbind_claims(&job.namespace, &claims, plan).await
    }

    /// Takes back the volumes that the plan gave to these claims.
    pub(super) async fn unbind_claims(
        &self,
        namespace: &str,
        claims: &BTreeSet<String>,
        plan: &str,
    ) -> Result<(), TaskOutcome> {
        for name in claims {
            let key = Key::new(namespace, name);
            let claim = self.context.cache.claims.get(&key);
            let Some(claim) = claim.filter(|claim| claim.is_free()) else {
                continue;
            };
            if claim.plan() == Some(plan) {
                let annotations = json!({SELECTED_NODE: null, names::PLAN: null});
                self.clear_selected_node(&key, &claim, annotations).await?;
            }
            let volumes = self.context.cache.volumes.all().into_iter();
            for volume in volumes.filter(|v| v.plan() == Some(plan) && is_reserved_for(v, &claim)) {
                self.take_back_volume(&volume).await?;
            }
        }
        Ok(())
    }

    async fn clear_selected_node(
        &self,
        key: &Key,
        claim: &SlimClaim,
        annotations: Value,
    ) -> Result<(), TaskOutcome> {
        let patch = json!({"metadata": {
            "uid": claim.metadata.uid,
            "resourceVersion": claim.metadata.resource_version,
            "annotations": annotations,
        }});
        let path = SlimClaim::url_path(&(), Some(&key.namespace));
        let written = self
            .commands
            .patch_as(&path, &key.name, names::SCHEDULER_MANAGER, &patch)
            .await;
        match written {
            Ok(claim) => self.context.apply_written_claim(key, claim),
            Err(error) => check_release_error(error)?,
        }
        Ok(())
    }

    async fn take_back_volume(&self, volume: &SlimVolume) -> Result<(), TaskOutcome> {
        let patch = json!({
            "metadata": {
                "uid": volume.metadata.uid,
                "resourceVersion": volume.metadata.resource_version,
                "annotations": {BOUND_BY_CONTROLLER: null, names::PLAN: null},
            },
            "spec": {"claimRef": null},
        });
        let path = SlimVolume::url_path(&(), None);
        let written = self
            .commands
            .patch_as(&path, volume.name(), names::SCHEDULER_MANAGER, &patch)
            .await;
        match written {
            Ok(updated) => {
                info!(volume = volume.name(), "the volume is taken back");
                self.context
                    .apply_written_volume(&Key::new("", volume.name()), updated);
            }
            Err(error) => check_release_error(error)?,
        }
        Ok(())
    }
}

/// Decides whether a failed release matters. A deleted object needs no release. A release that the
/// API server refuses must not block the gang's next try.
fn check_release_error(error: WriteError) -> Result<(), TaskOutcome> {
    match error {
        WriteError::NotFound(_) => Ok(()),
        WriteError::Refused { message, .. } => {
            warn!(why = %message, "what a claim was bound with is not taken back");
            Ok(())
        }
        error => Err(error.into()),
    }
}
