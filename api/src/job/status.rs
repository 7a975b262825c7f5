//! What Trellis says about a job.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AwaitedPods, CheckpointStatus, FinishedPods, PolicyVerdict};
use crate::Reason;
use crate::condition::ConditionType;
use crate::status_word::{lenient_word, open_word};

/// Observed state of a TrainingJob, written by one manager in one patch.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TrainingJobStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// State in one word: Refused, Waiting, Blocked, Queued, Starting, Restarting, Running,
    /// Suspended, Complete or Failed; see "Phases and conditions" in docs/api.md.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<JobPhase>,
    /// The one current reason, from the list in docs/reasons.md.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The reason in words, with the numbers of the moment when it became true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Queue that the job is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Running and finished pods of all pods: `3/4`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// Pods by what they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodCounts>,
    /// GPUs that the whole gang holds or asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<i64>,
    /// Nodes that the gang is placed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<i64>,
    /// The stage that the job is at, if it has more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<JobStage>,
    /// Number of the current attempt, from 1. It never falls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
    /// Restarts that counted against `restart.limit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts: Option<i64>,
    /// Restarts that counted against `restart.disruptionLimit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disruptions: Option<i64>,
    /// Time at which the gang first got its place. From then on some fields are fixed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admitted_time: Option<Time>,
    /// Time at which the job last began to wait: its creation, or its resumption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_time: Option<Time>,
    /// Time at which the current attempt was placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_time: Option<Time>,
    /// Time at which all pods of the current attempt first ran together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_time: Option<Time>,
    /// Time at which the job ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Running seconds of earlier attempts; the current one counts from `runningTime`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_seconds: Option<i64>,
    /// Earliest time of the next placement: the back-off after a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_time: Option<Time>,
    /// Cause of the end of the last attempt that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<LastFailure>,
    /// Nodes that the next attempts keep away from, and until when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded_nodes: Vec<ExcludedNode>,
    /// Last eviction of the job, by preemption or by a drain of its queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_preemption: Option<LastPreemption>,
    /// Checkpoints, as the pods report them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointStatus>,
    /// Decision of the policies about the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyVerdict>,
    /// The RuntimeProfile that it was compiled with: that of its place, while it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<JobProfile>,
    /// Objects that the job was compiled into, with the pods of a group as one entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compiled: Vec<CompiledObject>,
    /// State that the operator keeps for itself. Not part of the API: any release may change it.
    #[serde(default, skip_serializing_if = "InternalJobStatus::is_empty")]
    pub internal: InternalJobStatus,
    /// The conditions, all of them from the first status on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// State of a job that the operator keeps for itself. Not part of the API.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct InternalJobStatus {
    /// Pods of the current attempt that have ended, and count though they may be gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_pods: Option<FinishedPods>,
    /// Pods of the current attempt that are created while the others are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub awaited_pods: Option<AwaitedPods>,
    /// Attempts in a row that ended before all pods ran: the back-off of the next one grows by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_starts: Option<i64>,
    /// The attempt of `lastFailure`, if its other pods had nothing to save together: they get 30
    /// seconds at most to stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hurried_attempt: Option<i64>,
}

impl InternalJobStatus {
    /// True if there is nothing to keep: the field is then absent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The groups of a job that are there together, by `dependsOn` with `status: Complete`.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct JobStage {
    /// Number of the attempt, from 1.
    pub number: i64,
    /// Number of stages.
    pub of: i64,
    /// First attempt of this stage.
    pub first_attempt: i64,
    /// Time at which the stage before was complete. Absent: this is the first stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

macro_rules! phases {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The states of a job.
        #[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum JobPhase {
            $($(#[doc = $doc])+ $name,)+
        }

        impl JobPhase {
            /// Every state.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The word itself.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }

            /// What it means, in one sentence.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+),)+ }
            }
        }
    };
}

phases! {
    /// The spec is invalid or policy denies it.
    Refused,
    /// Something that the job names is not there yet.
    Waiting,
    /// Someone must act: a foreign object has a child's name, an image cannot be pulled.
    Blocked,
    /// In its queue.
    Queued,
    /// Placed; not all pods run yet.
    Starting,
    /// An attempt has ended; the next one is on its way.
    Restarting,
    /// All pods run.
    Running,
    /// Stopped by the user.
    Suspended,
    /// Ended well. Final.
    Complete,
    /// Ended badly. Final.
    Failed,
    /// A word of another version of Trellis. Final if the job has a completion time.
    Unrecognized,
}

open_word!(JobPhase);
lenient_word!(JobPhase);

impl JobPhase {
    /// True if the job has ended, for good.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Complete | Self::Failed)
    }
}

impl TrainingJobStatus {
    /// True if the job has ended, for good: whatever its phase says, since
    /// another version may have written it.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.completion_time.is_some() || self.phase.is_some_and(JobPhase::is_terminal)
    }

    /// Its message in full, of which [`Self::message`] is the first fact: the condition `Ready`
    /// has it.
    #[must_use]
    pub fn full_message(&self) -> &str {
        let reason = self.reason.map_or("", Reason::as_str);
        let ready = ConditionType::Ready.as_str();
        let told = self.conditions.iter().find(|c| c.type_ == ready);
        let told = told.filter(|c| c.reason == reason && !c.message.is_empty());
        match told {
            Some(told) => &told.message,
            None => self.message.as_deref().unwrap_or_default(),
        }
    }

    /// Since when it is Waiting or Blocked, if it is.
    #[must_use]
    pub fn waiting_or_blocked_since(&self) -> Option<Timestamp> {
        let about = match self.phase? {
            JobPhase::Waiting => ConditionType::Accepted,
            JobPhase::Blocked => ConditionType::Stalled,
            _ => return None,
        };
        let mut all = self.conditions.iter();
        let since = all.find(|c| c.type_ == about.as_str())?;
        Some(since.last_transition_time.0)
    }

    /// Since when it waits for its place, if it does: since it was queued, or since what ended
    /// its last attempt or stage. Absent before its first status.
    #[must_use]
    pub fn pending_since(&self) -> Option<Timestamp> {
        let failed = self.last_failure.as_ref().map(|failure| failure.time.0);
        let preempted = self.last_preemption.as_ref().map(|last| last.time.0);
        let stage = self.stage.as_ref().and_then(|stage| stage.since.as_ref());
        let queued = self.queued_time.as_ref().map(|time| time.0);
        let all = [failed, preempted, stage.map(|since| since.0), queued];
        all.into_iter().flatten().max()
    }

    /// The stage that the job is at, from 1.
    #[must_use]
    pub fn stage_number(&self) -> u32 {
        let stage = self.stage.as_ref();
        stage.map_or(1, |stage| u32::try_from(stage.number).unwrap_or(1))
    }

    /// The first attempt of the stage that the job is at.
    #[must_use]
    pub fn first_attempt(&self) -> i64 {
        self.stage.as_ref().map_or(1, |stage| stage.first_attempt)
    }

    /// True if an attempt was of a stage that is complete. Attempts count from 1: a pod that
    /// names none is of no stage.
    #[must_use]
    pub fn is_of_earlier_stage(&self, attempt: i64) -> bool {
        (1..self.first_attempt()).contains(&attempt)
    }

    /// True if the current attempt follows one that had to make room: while it
    /// would borrow, it asks nobody else to.
    #[must_use]
    pub fn was_preempted(&self) -> bool {
        let before = self.attempt.unwrap_or(1).checked_sub(1);
        self.last_preemption
            .as_ref()
            .is_some_and(|last| Some(last.attempt) == before)
    }
}

/// How an attempt had to make room.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct LastPreemption {
    /// For whom, and why.
    pub message: String,
    /// The attempt that ended by it.
    pub attempt: i64,
    /// Time at which the operator saw it.
    pub time: Time,
}

/// The RuntimeProfile that a job was compiled with.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct JobProfile {
    /// Name of the profile.
    pub name: String,
    /// Hash of its spec.
    pub hash: String,
}

/// Pods by what they do.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PodCounts {
    /// Pods of the whole job.
    pub total: i64,
    /// Pods whose containers run.
    pub running: i64,
    /// Pods that ended with exit code 0.
    pub succeeded: i64,
    /// Pods that failed.
    pub failed: i64,
}

/// What ended an attempt.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct LastFailure {
    /// The first pod that failed. Empty: it was none of them.
    pub pod: String,
    /// Node of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Exit code of its container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why it failed, in the words of the kubelet or of Trellis.
    pub reason: String,
    /// The last line that it left, of its termination message or else of its log; of one that did
    /// not start, the kubelet's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_line: Option<String>,
    /// The attempt that it belonged to.
    pub attempt: i64,
    /// Time at which the operator saw it.
    pub time: Time,
}

/// A node that is kept away from, and why.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ExcludedNode {
    /// Name of the node.
    pub node: String,
    /// Reason: a word of docs/reasons.md.
    pub reason: Reason,
    /// Number of attempts in a row that it ended.
    pub times: i64,
    /// Last of these attempts.
    pub attempt: i64,
    /// Time until which the job keeps away from the node; then it is tried once more.
    pub until: Time,
}

/// One object, or one group of pods, that the job was compiled into.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CompiledObject {
    /// API version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Name of the object; of pods: `<job>-<group>-0..<last>`.
    pub name: String,
    /// Hash of what was compiled.
    pub hash: String,
    /// True if it is there as compiled; of pods: if all of them run or have succeeded.
    pub ready: bool,
    /// Problem with the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn empty_internal_state_is_not_serialized() {
        let mut status = TrainingJobStatus::default();
        let written = |status: &TrainingJobStatus| serde_json::to_value(status).unwrap();
        assert_eq!(written(&status)["internal"], json!(null));
        status.internal.failed_starts = Some(2);
        assert_eq!(written(&status)["internal"], json!({"failedStarts": 2}));
        let read: TrainingJobStatus = serde_json::from_value(written(&status)).unwrap();
        assert_eq!(read, status);
    }

    #[test]
    fn status_with_unknown_words_is_read() {
        let status =
            |more: serde_json::Value| serde_json::from_value::<TrainingJobStatus>(more).unwrap();
        let cancelled = status(json!({"phase": "Cancelled", "reason": "ByHand"}));
        assert_eq!(cancelled.phase, Some(JobPhase::Unrecognized));
        assert_eq!(cancelled.reason, Some(Reason::Unrecognized));
        assert!(!cancelled.has_ended());
        let ended = json!({"phase": "Cancelled", "completionTime": "2026-01-01T00:00:00Z"});
        assert!(status(ended).has_ended());
        for phase in JobPhase::ALL {
            let read = status(json!({"phase": phase.as_str()}));
            assert_eq!(read.phase, Some(*phase));
            assert_eq!(serde_json::to_value(phase).unwrap(), phase.as_str());
        }
    }
}
