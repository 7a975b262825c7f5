//! Reports a TrainingJob that does not decode, and does nothing else with it. A newer version of
//! the operator may have written its status, so the status is read as raw JSON and kept.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use kube::api::ObjectMeta;
use kube::core::PartialObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json};
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_api::status::condition::{ConditionType, JobSummary};
use trellis_api::{Reason, TrainingJob, names, shorten_message};
use trellis_cache::watch::Undecodable;
use trellis_dispatch::commands::WriteError;
use trellis_gang::key::Key;
use trellis_machine::clock;

use super::Controller;

/// Returns the message for an object that does not decode.
pub fn undecodable_message(error: &impl std::fmt::Display) -> String {
    format!("the object does not decode: {error}")
}

/// A TrainingJob whose spec is not decoded.
#[derive(Resource, Deserialize, Clone, Debug)]
#[resource(inherit = "TrainingJob")]
struct RawJob {
    metadata: ObjectMeta,
    #[serde(default)]
    status: Value,
}

impl Controller {
    /// Reports a job that does not decode, once for each change of the job: in its status and by an
    /// event. The API server refuses the status if the stored spec violates a rule that is newer
    /// than the job.
    pub(super) async fn refuse_undecodable(
        &self,
        key: &Key,
        job: Undecodable,
    ) -> Result<(), WriteError> {
        if self.refused_undecodable.lock().get(key) == Some(&job) {
            return Ok(());
        }
        let raw: Option<RawJob> = self.commands.get(&key.namespace, &key.name).await?;
        let Some(raw) = raw.filter(|raw| raw.metadata.uid.as_ref() == Some(&job.uid)) else {
            return Ok(());
        };
        let planned = self
            .context
            .cache
            .pod_groups
            .get(key)
            .is_some_and(|g| g.status.as_ref().is_some_and(|s| s.plan.is_some()));
        let message = undecodable_message(&job.error);
        let status_patch =
            undecodable_status_patch(&raw.status, planned, &message, job.generation, clock::now());
        if let Some(status) = status_patch {
            let patch = json!({
                "metadata": {"uid": job.uid, "resourceVersion": raw.metadata.resource_version},
                "status": status,
            });
            let written: Result<PartialObjectMeta<TrainingJob>, WriteError> = self
                .commands
                .patch_status(&key.namespace, &key.name, names::STATUS_MANAGER, &patch)
                .await;
            match written {
                Ok(_) | Err(WriteError::Refused { .. }) => {}
                Err(WriteError::NotFound(_)) => return Ok(()),
                Err(error) => return Err(error),
            }
            let about = ObjectReference {
                api_version: Some("trellis.dev/v1alpha1".to_owned()),
                kind: Some("TrainingJob".to_owned()),
                namespace: Some(key.namespace.to_string()),
                name: Some(key.name.to_string()),
                uid: Some(job.uid.clone()),
                ..ObjectReference::default()
            };
            let refused_status = TrainingJobStatus {
                message: Some(message),
                ..TrainingJobStatus::default()
            };
            self.events.publish(
                about,
                JobPhase::Refused,
                Reason::InvalidSpec,
                &refused_status,
            );
        }
        self.refused_undecodable.lock().insert(key.clone(), job);
        Ok(())
    }
}

/// Returns the merge patch for the status of a job that does not decode. None if the job has ended.
/// If the job was placed or is under commit, only the condition changes, because the job continues
/// with its phase, counters and times once it decodes again.
fn undecodable_status_patch(
    status: &Value,
    planned: bool,
    message: &str,
    generation: Option<i64>,
    now: Timestamp,
) -> Option<Value> {
    let is_set = |field: &str| status.get(field).is_some_and(|v| !v.is_null());
    let phase = status.get("phase").and_then(Value::as_str).unwrap_or("");
    let phase = JobPhase::ALL.iter().find(|known| known.as_str() == phase);
    if is_set("completionTime") || phase.is_some_and(|p| p.is_terminal()) {
        return None;
    }
    let verdict = JobSummary {
        phase: JobPhase::Refused,
        reason: Reason::InvalidSpec,
        message: message.to_owned(),
        quota_reserved: false,
        scheduled: false,
    };
    let before = status.get("conditions").cloned().unwrap_or_default();
    let before: Vec<Condition> = serde_json::from_value(before).unwrap_or_default();
    let conditions = verdict.conditions(generation, &Time(now), &before);
    if !planned && !is_set("admittedTime") {
        let status = TrainingJobStatus {
            phase: Some(verdict.phase),
            reason: Some(verdict.reason),
            message: Some(shorten_message(&verdict.message)),
            conditions,
            ..TrainingJobStatus::default()
        };
        return serde_json::to_value(status).ok();
    }
    let accepted = ConditionType::Accepted.as_str();
    let accepted = conditions.into_iter().find(|c| c.type_ == accepted)?;
    let mut all = status
        .get("conditions")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    all.retain(|c| c.get("type").and_then(Value::as_str) != Some(&accepted.type_));
    all.push(serde_json::to_value(accepted).ok()?);
    Some(json!({"conditions": all}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status_patch(status: Value, planned: bool) -> Option<Value> {
        undecodable_status_patch(&status, planned, "no", Some(2), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn undecodable_job_without_a_place_is_refused() {
        for status in [Value::Null, json!({}), json!({"phase": "Queued"})] {
            let patch = status_patch(status, false).unwrap();
            assert_eq!(
                (&patch["phase"], &patch["reason"]),
                (&json!("Refused"), &json!("InvalidSpec"))
            );
            assert_eq!(patch["conditions"].as_array().unwrap().len(), 10);
        }
    }

    #[test]
    fn ended_undecodable_job_keeps_its_status() {
        for status in [
            json!({"phase": "Complete"}),
            json!({"phase": "Failed"}),
            json!({"phase": "Cancelled", "completionTime": "2026-01-01T00:00:00Z"}),
        ] {
            assert_eq!(status_patch(status.clone(), true), None, "{status}");
            assert_eq!(status_patch(status.clone(), false), None, "{status}");
        }
    }

    #[test]
    fn undecodable_placed_job_changes_only_the_accepted_condition() {
        let running = json!({"type": "Running", "status": "True"});
        let accepted = json!({"type": "Accepted", "status": "True"});
        let status = json!({
            "phase": "Running", "attempt": 3, "admittedTime": "2026-01-01T00:00:00Z",
            "conditions": [accepted, running],
        });
        let patch = status_patch(status.clone(), false).unwrap();
        assert_eq!(
            patch.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["conditions"]
        );
        assert_eq!(patch["conditions"][0], running);
        assert_eq!(patch["conditions"][1]["type"], "Accepted");
        assert_eq!(patch["conditions"][1]["status"], "False");
        assert_eq!(patch["conditions"][1]["message"], "no");
        // The job is under its first commit, which only the journal shows.
        let first = status_patch(json!({"phase": "Queued"}), true).unwrap();
        assert_eq!(first.get("phase"), None);
    }
}
