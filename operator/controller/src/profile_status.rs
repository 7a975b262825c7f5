//! Writes the status of RuntimeProfiles: whether jobs can be compiled with them, or why not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use tracing::{debug, warn};
use trellis_api::runtime_profile::RuntimeProfileStatus;
use trellis_api::{Reason, RuntimeProfile, names};
use trellis_cache::Cache;
use trellis_dispatch::commands::{Commands, WriteError};
use trellis_gang::conditions::ConditionUpdate;
use trellis_gang::lookup::CachedProfile;
use trellis_gang::{lookup, patch};
use trellis_machine::clock;

/// Time between two rounds.
const UPDATE_INTERVAL: Duration = Duration::from_secs(2);
/// Longest message of a condition.
const MAX_MESSAGE_LENGTH: usize = 8_000;

/// Writes the status of profiles until the process ends.
pub async fn maintain_profile_status(cache: Arc<Cache>, commands: Commands) {
    cache.wait_synced().await;
    loop {
        let profiles = cache.profiles.all();
        for (name, profile) in &profiles {
            match write_status(&cache, &commands, name, profile, &profiles).await {
                // The watch shows the newer version before the next round.
                Ok(()) | Err(WriteError::Conflict(_) | WriteError::NotFound(_)) => {}
                Err(WriteError::Transient(error) | WriteError::Unanswered(error)) => {
                    debug!(profile = name, %error, "its status was not written");
                }
                Err(error) => warn!(profile = name, %error, "its status was not written"),
            }
        }
        tokio::time::sleep(UPDATE_INTERVAL).await;
    }
}

async fn write_status(
    cache: &Cache,
    commands: &Commands,
    name: &str,
    profile: &CachedProfile,
    profiles: &BTreeMap<String, CachedProfile>,
) -> Result<(), WriteError> {
    let Some(meta) = &profile.meta else {
        return Ok(());
    };
    let after = build_status(profile, profiles, clock::now());
    if profile.status == after {
        return Ok(());
    }
    let patch = json!({
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "status": patch::diff(&profile.status, &after),
    });
    let written: RuntimeProfile = commands
        .patch_cluster_status(name, names::STATUS_MANAGER, &patch)
        .await?;
    cache.profiles.update_returned(name, written.into());
    Ok(())
}

/// Returns the status of a profile. `profiles` has all profiles, because only one may be the
/// default.
fn build_status(
    profile: &CachedProfile,
    profiles: &BTreeMap<String, CachedProfile>,
    now: Timestamp,
) -> RuntimeProfileStatus {
    let defaults = profiles.iter().filter(|(_, other)| other.is_default);
    let defaults: Vec<_> = defaults.map(|(name, _)| name.as_str()).collect();
    let (ready, reason, message) = match &profile.profile {
        Err(wrong) => (false, Reason::InvalidSpec, wrong.clone()),
        Ok(_) if profile.is_default && defaults.len() > 1 => (
            false,
            Reason::ProfileMisconfigured,
            lookup::describe_several_defaults(&defaults),
        ),
        Ok(_) => (true, Reason::Accepted, String::new()),
    };
    let message: String = message.chars().take(MAX_MESSAGE_LENGTH).collect();
    let generation = profile.meta.as_ref().and_then(|meta| meta.generation);
    let update = ConditionUpdate {
        generation,
        reason,
        message,
        previous: &profile.status.conditions,
        now,
    };
    RuntimeProfileStatus {
        observed_generation: generation,
        hash: profile.profile.as_ref().ok().map(|p| p.hash().to_owned()),
        conditions: update.conditions(&[
            ("Ready", ready),
            ("Reconciling", false),
            ("Stalled", !ready),
        ]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn known(name: &str, spec: Value) -> (String, CachedProfile) {
        let object: RuntimeProfile = serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile",
            "metadata": {"name": name, "generation": 3}, "spec": spec,
        }))
        .unwrap();
        (name.to_owned(), object.into())
    }

    /// Returns the status, reason and message of the condition `Ready`.
    fn ready_condition(
        name: &str,
        profiles: &BTreeMap<String, CachedProfile>,
    ) -> (String, String, String) {
        let status = build_status(&profiles[name], profiles, Timestamp::UNIX_EPOCH);
        assert_eq!(status.observed_generation, Some(3));
        let ready = &status.conditions[0];
        let stalled = &status.conditions[2];
        assert_ne!(ready.status, stalled.status);
        let (reason, message) = (ready.reason.clone(), ready.message.clone());
        (ready.status.clone(), reason, message)
    }

    #[test]
    fn profile_status_reports_errors_and_duplicate_defaults() {
        let mut profiles = BTreeMap::from([
            known("a", json!({"globalDefault": true})),
            known("b", json!({})),
            known("c", json!({"podTemplate": {"spec": {"nodeName": "n"}}})),
        ]);
        for good in ["a", "b"] {
            assert_eq!(ready_condition(good, &profiles).0, "True");
        }
        let (ready, reason, message) = ready_condition("c", &profiles);
        assert_eq!((ready.as_str(), reason.as_str()), ("False", "InvalidSpec"));
        assert!(
            message.contains("spec.podTemplate.spec.nodeName"),
            "{message}"
        );
        profiles.extend([known("b", json!({"globalDefault": true}))]);
        for name in ["a", "b"] {
            let (ready, reason, message) = ready_condition(name, &profiles);
            assert_eq!(
                (ready.as_str(), reason.as_str()),
                ("False", "ProfileMisconfigured")
            );
            assert!(message.contains("\"a\", \"b\""), "{message}");
        }
    }

    #[test]
    fn unchanged_profile_status_stays_equal() {
        let (name, mut profile) = known("a", json!({}));
        let profiles = BTreeMap::from([(name, profile.clone())]);
        profile.status = build_status(&profile, &profiles, Timestamp::UNIX_EPOCH);
        assert_eq!(profile.status.hash.as_ref().unwrap().len(), 16);
        assert_eq!(
            build_status(&profile, &profiles, Timestamp::MAX),
            profile.status
        );
    }
}
