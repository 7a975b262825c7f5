//! Attempts of jobs that have ended, read from the changes of their statuses. Pure.

use std::collections::VecDeque;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use kube::api::{ObjectMeta, TypeMeta};
use trellis_api::job::TrainingJobStatus;
use trellis_api::visibility::EndedAttempt;
use trellis_api::{TrainingJob, shorten_message};

/// For how long an ended attempt is remembered.
const MAX_AGE: SignedDuration = SignedDuration::from_hours(24);

/// Most attempts that are remembered.
const MAX_ATTEMPTS: usize = 50_000;

/// The attempts that have ended, the oldest first.
#[derive(Debug, Default)]
pub struct EndedAttempts(VecDeque<Arc<EndedAttempt>>);

impl EndedAttempts {
    /// Records the attempt that a change of a job has ended, if it has ended one. `now` is the time
    /// at which the operator saw the change. None: the job did not exist before, or is deleted.
    pub fn record(
        &mut self,
        before: Option<&TrainingJob>,
        after: Option<&TrainingJob>,
        now: Timestamp,
    ) {
        self.forget(now);
        let ended = find_ended(before, after, now);
        let is_recent = |ended: &EndedAttempt| now.duration_since(ended.ended.0) < MAX_AGE;
        let Some(ended) = ended.filter(is_recent) else {
            return;
        };
        // A new leader reads completed jobs in no order.
        let at = self.0.partition_point(|old| old.ended.0 <= ended.ended.0);
        // The answer to a write and the watch show the same change, and a list after a broken watch
        // repeats completed jobs. No attempt ends before it is placed.
        let since_placed = self.0.iter().rev();
        let mut since_placed = since_placed.take_while(|old| old.ended.0 >= ended.placed.0);
        if since_placed.any(|old| is_same_attempt(old, &ended)) {
            return;
        }
        self.0.insert(at, Arc::new(ended));
        if self.0.len() > MAX_ATTEMPTS {
            self.0.pop_front();
        }
    }

    /// Returns the attempts that ended in the last 24 hours, the oldest first.
    #[must_use]
    pub fn recent(&self, now: Timestamp) -> Vec<Arc<EndedAttempt>> {
        let is_recent = |ended: &&Arc<EndedAttempt>| now.duration_since(ended.ended.0) < MAX_AGE;
        self.0.iter().filter(is_recent).cloned().collect()
    }

    fn forget(&mut self, now: Timestamp) {
        while self
            .0
            .front()
            .is_some_and(|first| now.duration_since(first.ended.0) >= MAX_AGE)
        {
            self.0.pop_front();
        }
    }
}

/// Returns true if both are the same attempt at the same place. An attempt that is placed anew keeps
/// its number.
fn is_same_attempt(a: &EndedAttempt, b: &EndedAttempt) -> bool {
    a.attempt == b.attempt && a.placed == b.placed && a.uid == b.uid
}

/// Returns the attempt that a change of a job has ended.
fn find_ended(
    before: Option<&TrainingJob>,
    after: Option<&TrainingJob>,
    now: Timestamp,
) -> Option<EndedAttempt> {
    let same = after.filter(|after| before.is_none_or(|before| before.uid() == after.uid()));
    let new = same.and_then(|job| job.status.as_ref());
    let has_ended = |status: &TrainingJobStatus| status.completion_time.is_some();
    let (job, status) = match before {
        Some(before) => (before, before.status.as_ref()?),
        // The first status of a leader's watch: only a completed job still has its last attempt.
        None => (same?, new.filter(|new| has_ended(new))?),
    };
    let placed = status.scheduled_time.clone()?;
    let is_over = match (before, new) {
        (Some(_), _) if has_ended(status) => false,
        (_, None) => true,
        (_, Some(new)) => has_ended(new) || new.scheduled_time.as_ref() != Some(&placed),
    };
    if !is_over {
        return None;
    }
    let attempt = status.attempt.unwrap_or(1);
    let ended = new.and_then(|new| new.completion_time.as_ref());
    let ended = ended.map_or(now, |time| time.0).max(placed.0);
    let preemption = new.and_then(|new| new.last_preemption.as_ref());
    let preemption = preemption.filter(|preemption| preemption.attempt == attempt);
    let failure = new.and_then(|new| new.last_failure.as_ref());
    let message = preemption.map(|preemption| preemption.message.as_str());
    let message = message.or_else(|| new?.message.as_deref());
    let policy = status.policy.as_ref();
    let checkpoint = new
        .or(Some(status))
        .and_then(|status| status.checkpoint.as_ref());
    let name = job.name_any();
    Some(EndedAttempt {
        types: TypeMeta::resource::<EndedAttempt>(),
        metadata: ObjectMeta {
            namespace: job.namespace(),
            name: Some(format!("{name}.{attempt}.{}", ended.as_millisecond())),
            ..ObjectMeta::default()
        },
        job: name,
        uid: job.uid().unwrap_or_default(),
        attempt,
        queue: status.queue.clone().unwrap_or_default(),
        user: policy.and_then(|policy| policy.requester.clone()),
        gpus: status.gpus.unwrap_or_default(),
        node_count: status.nodes,
        placed,
        running: status.running_time.clone(),
        ended: Time(ended),
        phase: new.and_then(|new| new.phase),
        reason: new.and_then(|new| new.reason),
        message: message.map(shorten_message),
        failure: failure
            .filter(|failure| failure.attempt == attempt)
            .cloned(),
        preempted: preemption.is_some(),
        checkpoint: checkpoint.and_then(|checkpoint| checkpoint.last_time.clone()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use trellis_api::job::JobPhase;

    use super::*;

    const PLACED: &str = "2026-01-01T10:00:00Z";

    fn job(status: Value) -> TrainingJob {
        job_with_uid("u1", status)
    }

    fn job_with_uid(uid: &str, status: Value) -> TrainingJob {
        serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "llm", "namespace": "ml", "uid": uid},
            "spec": {"taskGroups": []}, "status": status,
        }))
        .unwrap()
    }

    fn running() -> TrainingJob {
        job(
            json!({"phase": "Running", "reason": "Running", "attempt": 2, "queue": "research",
            "gpus": 16, "nodes": 2, "scheduledTime": PLACED, "runningTime": "2026-01-01T10:01:00Z",
            "policy": {"requester": "ann"}}),
        )
    }

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    fn recorded(before: Option<&TrainingJob>, after: Option<&TrainingJob>) -> Vec<EndedAttempt> {
        let mut attempts = EndedAttempts::default();
        attempts.record(before, after, now());
        let recent = attempts.recent(now());
        recent.into_iter().map(|ended| (*ended).clone()).collect()
    }

    #[test]
    fn completed_attempt_has_its_times_size_and_user() {
        let complete = job(
            json!({"phase": "Complete", "reason": "Complete", "attempt": 2,
            "scheduledTime": PLACED, "completionTime": "2026-01-01T11:00:00Z",
            "message": "all pods have succeeded"}),
        );
        let before = running();
        let ended = recorded(Some(&before), Some(&complete));
        let [ended] = ended.as_slice() else {
            panic!("{ended:?}")
        };
        assert_eq!(ended.metadata.name.as_deref(), Some("llm.2.1767265200000"));
        assert_eq!((ended.job.as_str(), ended.attempt), ("llm", 2));
        assert_eq!(
            (ended.queue.as_str(), ended.user.as_deref()),
            ("research", Some("ann"))
        );
        assert_eq!((ended.gpus, ended.node_count), (16, Some(2)));
        assert_eq!(ended.ended.0, "2026-01-01T11:00:00Z".parse().unwrap());
        assert_eq!(ended.phase, Some(JobPhase::Complete));
        assert!(!ended.preempted && ended.running.is_some());
        // The status of the completed job changes again, for example because its pods are removed.
        assert_eq!(recorded(Some(&complete), Some(&complete)), []);
        assert_eq!(recorded(Some(&complete), None), []);
    }

    #[test]
    fn preempted_failed_suspended_and_deleted_attempts_end_now() {
        let preemption = json!({"message": "for ml/urgent", "attempt": 2, "time": PLACED});
        let old_preemption = json!({"message": "for ml/old", "attempt": 1, "time": PLACED});
        let failure = json!({"pod": "llm-worker-1", "reason": "Error", "exitCode": 3,
            "attempt": 2, "time": PLACED});
        for (status, preempted, exit_code, message) in [
            (
                json!({"phase": "Queued", "attempt": 3, "lastPreemption": preemption}),
                true,
                None,
                Some("for ml/urgent"),
            ),
            (
                json!({"phase": "Restarting", "attempt": 3, "message": "attempt 2 has failed",
                    "lastFailure": failure, "lastPreemption": old_preemption}),
                false,
                Some(3),
                Some("attempt 2 has failed"),
            ),
            (
                json!({"phase": "Suspended", "attempt": 2}),
                false,
                None,
                None,
            ),
            (
                json!({"phase": "Starting", "attempt": 3, "scheduledTime": "2026-01-01T11:59:00Z"}),
                false,
                None,
                None,
            ),
        ] {
            let ended = recorded(Some(&running()), Some(&job(status)));
            let [ended] = ended.as_slice() else {
                panic!("{ended:?}")
            };
            assert_eq!(ended.ended.0, now());
            assert_eq!(ended.attempt, 2);
            assert_eq!(ended.preempted, preempted);
            let code = ended.failure.as_ref().and_then(|failure| failure.exit_code);
            assert_eq!(code, exit_code);
            assert_eq!(ended.message.as_deref(), message);
        }
        let other = job_with_uid("u2", json!({"phase": "Queued"}));
        for after in [None, Some(&other)] {
            let ended = recorded(Some(&running()), after);
            assert_eq!(
                (ended.len(), ended[0].phase, ended[0].uid.as_str()),
                (1, None, "u1")
            );
        }
    }

    #[test]
    fn job_without_an_ended_attempt_records_nothing() {
        let waiting = job(json!({"phase": "Queued", "attempt": 1}));
        let placed = running();
        let no_status = job(Value::Null);
        for (before, after) in [
            (None, Some(&waiting)),
            (None, Some(&placed)),
            (Some(&waiting), Some(&placed)),
            (Some(&placed), Some(&placed)),
            (Some(&waiting), None),
            (Some(&no_status), None),
            (None, None),
        ] {
            assert_eq!(recorded(before, after), []);
        }
    }

    #[test]
    fn new_leader_finds_the_last_attempts_of_completed_jobs() {
        let complete = |hour: i64| {
            let end = Timestamp::from_second(now().as_second() - 3600 * hour).unwrap();
            let uid = format!("u{hour}");
            let status = json!({"phase": "Complete", "attempt": 1, "completionTime": end,
                "scheduledTime": "2025-12-30T00:00:00Z"});
            job_with_uid(&uid, status)
        };
        let mut attempts = EndedAttempts::default();
        for hour in [3, 25, 1, 3] {
            attempts.record(None, Some(&complete(hour)), now());
        }
        let recent = attempts.recent(now());
        let uids: Vec<&str> = recent.iter().map(|ended| ended.uid.as_str()).collect();
        assert_eq!(
            uids,
            ["u3", "u1"],
            "sorted, each once, and none older than a day"
        );
        let later = Timestamp::from_second(now().as_second() + 22 * 3600).unwrap();
        assert_eq!(attempts.recent(later).len(), 1);
        attempts.record(None, None, later);
        assert_eq!(attempts.0.len(), 1, "old attempts are forgotten");
    }

    #[test]
    fn attempt_is_recorded_once_when_the_answer_and_the_watch_show_its_end() {
        let failed = job(json!({"phase": "Queued", "attempt": 3}));
        let mut attempts = EndedAttempts::default();
        for second in [1, 0, 2] {
            let seen = Timestamp::from_second(now().as_second() + second).unwrap();
            attempts.record(Some(&running()), Some(&failed), seen);
        }
        assert_eq!(attempts.recent(now()).len(), 1);
    }
}
