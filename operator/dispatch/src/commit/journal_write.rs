//! Writes the journal, and repeats the write until its result is known.
//!
//! If the answer to a write is lost, the API server may or may not have stored it, or may still
//! store it. A wrong guess would free a place that the journal promises, or hold a place that it
//! does not promise. So the operator repeats the same write, a compare-and-set, until its result is
//! known.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tracing::warn;
use trellis_api::pod_group::PodGroupStatus;
use trellis_api::{PodGroup, names};
use trellis_gang::key::Key;
use trellis_gang::{external, patch};

use super::{Committer, is_owned};
use crate::commands::{Commands, WriteError};
use crate::task_outcome::TaskOutcome;

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

impl Committer {
    /// Writes the journal of the job with this uid, based on the newest known state. Returns once
    /// the result of the write is known.
    pub(crate) async fn write_journal(
        &self,
        job: &Key,
        uid: &str,
        change: impl FnOnce(&PodGroupStatus) -> Option<PodGroupStatus>,
    ) -> Result<(), TaskOutcome> {
        let again = |message: &str| Err(TaskOutcome::Retry(message.to_owned()));
        let external_pods = match external::parse_gang_key(job) {
            Some(external::ExternalGangRef::Group(group)) => Some(group),
            Some(external::ExternalGangRef::Pod(_)) => return again("a pod alone has no journal"),
            None => None,
        };
        let at = external_pods.as_ref().unwrap_or(job);
        let Some(before) = self.context.cache.pod_groups.get(at) else {
            return again("the PodGroup is not there yet");
        };
        let is_its = match external_pods {
            Some(_) => before.metadata.uid.as_deref() == Some(uid),
            None => is_owned(before.as_ref(), uid),
        };
        if !is_its {
            return again("the PodGroup is another's");
        }
        let Some(mut status) = change(&before.status.clone().unwrap_or_default()) else {
            return again("the journal has moved on");
        };
        status.epoch = Some(self.commands.epoch().map_err(WriteError::from)?.0);
        let mut pause = FIRST_PAUSE;
        let mut unknown = false;
        let mut commands = self.commands.clone();
        loop {
            let error = match write_status(&commands, &before, &status).await {
                Ok(written) => {
                    self.context
                        .cache
                        .pod_groups
                        .update_returned(at.clone(), written);
                    self.context.touch(job.clone());
                    return Ok(());
                }
                Err(error) => error,
            };
            match &error {
                WriteError::Transient(_) | WriteError::Unanswered(_) => {
                    unknown = true;
                    // From here on, the result must become known, even if the caller withdraws the
                    // write.
                    commands = commands.without_cancellation();
                }
                // Another writer was faster, or an earlier try of this write succeeded.
                WriteError::Conflict(_) | WriteError::NotFound(_) => {}
                _ if unknown => {}
                _ => return Err(error.into()),
            }
            let now = self.reread_journal(at, &before).await?;
            match judge_write(now.as_deref(), &before, &status) {
                WriteState::Written => {
                    self.context.touch(job.clone());
                    return Ok(());
                }
                WriteState::Untouched if unknown => {
                    warn!(%job, %error, "it is not known whether the journal was written; it is written again");
                    tokio::time::sleep(pause).await;
                    pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                }
                WriteState::Untouched | WriteState::Changed => return Err(error.into()),
            }
        }
    }

    /// Reads the PodGroup from the API server. Repeats the read until it succeeds. `known`: the
    /// PodGroup before the read.
    async fn reread_journal(
        &self,
        job: &Key,
        known: &PodGroup,
    ) -> Result<Option<Arc<PodGroup>>, TaskOutcome> {
        let now: Option<PodGroup> = self
            .commands
            .get_until_answered(&job.namespace, &job.name)
            .await?;
        let journals = &self.context.cache.pod_groups;
        match &now {
            Some(now) => {
                journals.insert_returned(job.clone(), now.clone());
            }
            // The answer may be late: the watch may have shown the next PodGroup of the name.
            None => {
                journals.delete_observed(job, known.metadata.uid.as_deref().unwrap_or_default());
            }
        }
        Ok(now.map(Arc::new))
    }
}

/// Result of a write, judged by the object's current state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteState {
    /// The write was carried out.
    Written,
    /// The object is unchanged: the write may still be carried out.
    Untouched,
    /// Another writer has changed the object, or it is gone: the write will not be carried out.
    Changed,
}

fn judge_write(now: Option<&PodGroup>, before: &PodGroup, wanted: &PodGroupStatus) -> WriteState {
    let Some(now) = now.filter(|now| now.metadata.uid == before.metadata.uid) else {
        return WriteState::Changed;
    };
    if now.metadata.resource_version == before.metadata.resource_version {
        return WriteState::Untouched;
    }
    // Compared as JSON, because serialization drops fractions of a second.
    if now.status.as_ref().map(|s| json!(s)) == Some(json!(wanted)) {
        WriteState::Written
    } else {
        WriteState::Changed
    }
}

/// Writes the status if the PodGroup has not changed since the decision. The error is `Conflict` if
/// the PodGroup has changed, or if a later leader has written it.
async fn write_status(
    commands: &Commands,
    before: &PodGroup,
    status: &PodGroupStatus,
) -> Result<PodGroup, WriteError> {
    let namespace = before.metadata.namespace.as_deref().unwrap_or_default();
    let name = before.metadata.name.as_deref().unwrap_or_default();
    let patch = json!({
        "metadata": {
            "uid": before.metadata.uid,
            "resourceVersion": before.metadata.resource_version,
        },
        "status": patch::diff(&before.status.clone().unwrap_or_default(), status),
    });
    commands
        .patch_status(namespace, name, names::SCHEDULER_MANAGER, &patch)
        .await
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;
    use trellis_api::PodGroupSpec;
    use trellis_api::pod_group::PodGroupPhase;

    use super::*;

    fn group(uid: &str, version: &str, phase: Option<PodGroupPhase>, nanos: i64) -> PodGroup {
        let mut group = PodGroup::new("j", PodGroupSpec::default());
        group.metadata.uid = Some(uid.to_owned());
        group.metadata.resource_version = Some(version.to_owned());
        group.status = Some(PodGroupStatus {
            phase,
            retry_time: Some(Time(
                Timestamp::new(1_800_000_000, i32::try_from(nanos).unwrap()).unwrap(),
            )),
            ..PodGroupStatus::default()
        });
        group
    }

    #[test]
    fn write_state_follows_from_the_version_and_the_status() {
        let committing = Some(PodGroupPhase::Committing);
        let before = group("a", "1", None, 0);
        let wanted = group("a", "1", committing, 999).status.unwrap();
        let stands = |now: Option<&PodGroup>| judge_write(now, &before, &wanted);
        assert_eq!(stands(Some(&before)), WriteState::Untouched);
        // The status comes back from the API server as JSON.
        let stored = json!(group("a", "2", committing, 999));
        let stored: PodGroup = serde_json::from_value(stored).unwrap();
        assert_eq!(stands(Some(&stored)), WriteState::Written);
        assert_eq!(stands(Some(&group("a", "2", None, 0))), WriteState::Changed);
        assert_eq!(
            stands(Some(&group("b", "2", committing, 999))),
            WriteState::Changed
        );
        assert_eq!(stands(None), WriteState::Changed);
    }
}
