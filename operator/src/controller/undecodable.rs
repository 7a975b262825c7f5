//! A TrainingJob that does not decode: its user is told, and nothing else is done.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::core::PartialObjectMeta;
use serde_json::json;
use trellis_api::condition::Verdict;
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_api::{Reason, TrainingJob, names};

use super::Controller;
use crate::commands::WriteError;
use crate::key::Key;
use crate::world::Undecodable;

impl Controller {
    /// Says of a job that does not decode that it does not, once for each
    /// change of it: by an event, since the API server refuses its status where
    /// the stored spec breaks a rule of today, and by its status.
    pub(super) async fn refuse_undecodable(
        &self,
        key: &Key,
        job: Undecodable,
    ) -> Result<(), WriteError> {
        if self.refused.lock().get(key) == Some(&job) {
            return Ok(());
        }
        let message = format!("the object does not decode: {}", job.error);
        let verdict = Verdict {
            phase: JobPhase::Refused,
            reason: Reason::InvalidSpec,
            message: message.clone(),
            quota_reserved: false,
            scheduled: false,
        };
        let status = TrainingJobStatus {
            phase: Some(JobPhase::Refused),
            reason: Some(Reason::InvalidSpec),
            message: Some(message),
            conditions: verdict.conditions(job.generation, &Time(Timestamp::now()), &[]),
            ..TrainingJobStatus::default()
        };
        let patch = json!({"metadata": {"uid": job.uid}, "status": status});
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
        self.story
            .tell(about, JobPhase::Refused, Reason::InvalidSpec, &status);
        self.refused.lock().insert(key.clone(), job);
        Ok(())
    }
}
