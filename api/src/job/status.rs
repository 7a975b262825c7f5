//! Status of a TrainingJob.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::attempt_end::{ExcludedNode, LastFailure, LastPreemption};
use super::{AwaitedPods, CheckpointStatus, FinishedPods, PolicyVerdict};
use crate::Reason;
use crate::status::condition::ConditionType;
use crate::status::words::{lenient_word, open_word, words};

/// Observed state of a TrainingJob. One field manager writes it in one patch.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TrainingJobStatus {
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// State in one word: Refused, Waiting, Blocked, Queued, Starting, Restarting, Running,
    /// Suspended, Complete or Failed; see "Phases and conditions" in docs/api.md.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<JobPhase>,
    /// Current reason, exactly one, from the list in docs/reasons.md.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The reason in words, with the numbers at the time when it became true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Queue that the job is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Number of running and finished pods out of all pods: `3/4`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// Numbers of pods by state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodCounts>,
    /// GPUs that the whole gang holds or requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<i64>,
    /// Number of nodes that the gang is placed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<i64>,
    /// How the pods follow the Topology while the job has its place, by level from coarse to fine.
    /// Absent: no Topology has domains for all nodes of the job, or the job has only one pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["level"]))]
    pub placement: Vec<LevelPlacement>,
    /// Current stage of the job, if it has more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<JobStage>,
    /// Number of the current attempt, from 1. It never decreases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
    /// Number of restarts that counted against `restart.limit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts: Option<i64>,
    /// Number of restarts that counted against `restart.disruptionLimit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disruptions: Option<i64>,
    /// Time at which the gang was first placed. Some spec fields are immutable from then on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admitted_time: Option<Time>,
    /// Time at which the job last entered its queue: its creation, or its resumption.
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
    /// Running seconds of earlier attempts. The current attempt counts from `runningTime`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_seconds: Option<i64>,
    /// Earliest time of the next placement: the back-off after a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_time: Option<Time>,
    /// Cause of the last failed attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<LastFailure>,
    /// Nodes that the next attempts avoid, each with an end time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded_nodes: Vec<ExcludedNode>,
    /// Last eviction of the job, by preemption or by a drain of its queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_preemption: Option<LastPreemption>,
    /// Checkpoints, as the pods report them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointStatus>,
    /// Policy decision about the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyVerdict>,
    /// The RuntimeProfile that the job was compiled with. A placed job keeps the one of its
    /// placement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<JobProfile>,
    /// Objects that the job was compiled into. The pods of a group are one entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compiled: Vec<CompiledObject>,
    /// Internal state of the operator. Not part of the API: any release may change it.
    #[serde(default, skip_serializing_if = "InternalJobStatus::is_empty")]
    pub internal: InternalJobStatus,
    /// Conditions. All of them are present from the first status on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Internal state of the operator for a job. Not part of the API.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct InternalJobStatus {
    /// Pods of the current attempt that have ended. They count even if they no longer exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_pods: Option<FinishedPods>,
    /// Pods of the current attempt that are created while other pods of it exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub awaited_pods: Option<AwaitedPods>,
    /// Number of consecutive attempts that ended before all pods ran. The back-off grows with this
    /// number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_starts: Option<i64>,
    /// The attempt of `lastFailure`, if its other pods had no common state to save: they get at
    /// most 30 seconds to stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hurried_attempt: Option<i64>,
    /// The attempt that a suspension is stopping. It does not run again, even if the user resumes the
    /// job before its pods have ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspended_attempt: Option<i64>,
}

impl InternalJobStatus {
    /// True if there is no internal state: the field is then absent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Groups of a job that exist together, as `dependsOn` with `status: Complete` divides them.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct JobStage {
    /// Number of the stage, from 1.
    pub number: i64,
    /// Number of stages.
    pub of: i64,
    /// First attempt of this stage.
    pub first_attempt: i64,
    /// Time at which the previous stage was complete. Absent: this is the first stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

macro_rules! phases {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Phases of a job.
        #[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum JobPhase {
            $($(#[doc = $doc])+ $name,)+
        }

        words!(JobPhase: $($name),+);

        impl JobPhase {
            /// Returns the meaning of the phase in one sentence.
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
    /// An object that the job names does not exist yet.
    Waiting,
    /// A person must act: a foreign object has a child's name, or an image cannot be pulled.
    Blocked,
    /// The job waits in its queue.
    Queued,
    /// The gang is placed; not all pods run yet.
    Starting,
    /// An attempt has ended; the next one follows.
    Restarting,
    /// All pods run.
    Running,
    /// The user has suspended the job.
    Suspended,
    /// The job has ended successfully. Final.
    Complete,
    /// The job has failed. Final.
    Failed,
    /// A value that another version of Trellis wrote. Final if the job has a completion time.
    Unrecognized,
}

open_word!(JobPhase);
lenient_word!(JobPhase);

impl JobPhase {
    /// True if the phase is final.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Complete | Self::Failed)
    }
}

impl TrainingJobStatus {
    /// True if the job has ended. A completion time is sufficient, since another version may have
    /// written the phase.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.completion_time.is_some() || self.phase.is_some_and(JobPhase::is_terminal)
    }

    /// Returns the full message, from the condition `Ready`. [`Self::message`] contains its first
    /// fact.
    #[must_use]
    pub fn full_message(&self) -> &str {
        let reason = self.reason.map_or("", Reason::as_str);
        let ready = ConditionType::Ready.as_str();
        let condition = self.conditions.iter().find(|c| c.type_ == ready);
        let condition = condition.filter(|c| c.reason == reason && !c.message.is_empty());
        match condition {
            Some(condition) => &condition.message,
            None => self.message.as_deref().unwrap_or_default(),
        }
    }

    /// Returns the time since which the job is Waiting or Blocked, if it is.
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

    /// Returns the time since which the job waits for placement: since it was queued, or since its
    /// last attempt or stage ended. Returns None before its first status.
    #[must_use]
    pub fn pending_since(&self) -> Option<Timestamp> {
        let failed = self.last_failure.as_ref().map(|failure| failure.time.0);
        let preempted = self.last_preemption.as_ref().map(|last| last.time.0);
        let stage = self.stage.as_ref().and_then(|stage| stage.since.as_ref());
        let queued = self.queued_time.as_ref().map(|time| time.0);
        let all = [failed, preempted, stage.map(|since| since.0), queued];
        all.into_iter().flatten().max()
    }

    /// Returns the number of the current stage, from 1.
    #[must_use]
    pub fn stage_number(&self) -> u32 {
        let stage = self.stage.as_ref();
        stage.map_or(1, |stage| u32::try_from(stage.number).unwrap_or(1))
    }

    /// Returns the first attempt of the current stage.
    #[must_use]
    pub fn first_attempt(&self) -> i64 {
        self.stage.as_ref().map_or(1, |stage| stage.first_attempt)
    }

    /// True if an attempt belongs to a stage that is complete. Attempts count from 1, so a pod
    /// without an attempt belongs to no stage.
    #[must_use]
    pub fn is_of_earlier_stage(&self, attempt: i64) -> bool {
        (1..self.first_attempt()).contains(&attempt)
    }

    /// True if the previous attempt was preempted or drained. While such a job would borrow, it
    /// preempts no other gang.
    #[must_use]
    pub fn was_preempted(&self) -> bool {
        let before = self.attempt.unwrap_or(1).checked_sub(1);
        self.last_preemption
            .as_ref()
            .is_some_and(|last| Some(last.attempt) == before)
    }
}

/// The RuntimeProfile that a job was compiled with.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct JobProfile {
    /// Name of the profile.
    pub name: String,
    /// Hash of the profile's spec.
    pub hash: String,
}

/// How the pods of a job follow one level of a Topology. Only pods that count in the world size are
/// measured.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LevelPlacement {
    /// Name of the level.
    pub level: String,
    /// Number of domains of the level that the pods are in.
    pub domains: i64,
    /// Number of neighbours in rank order that are in different domains. The pod with the last rank
    /// is a neighbour of the pod with rank 0, as in a ring.
    pub crossings: i64,
    /// The fewest crossings of any order of the same pods on the same nodes, within the task
    /// groups. Replaced pods and surplus pods keep their ranks, so `crossings` can be more.
    pub least_crossings: i64,
}

/// Numbers of pods by state.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PodCounts {
    /// Number of pods of the whole job.
    pub total: i64,
    /// Number of pods whose containers run.
    pub running: i64,
    /// Number of pods that ended with exit code 0.
    pub succeeded: i64,
    /// Number of pods that failed.
    pub failed: i64,
}

/// One object, or one group of pods, that the job was compiled into.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CompiledObject {
    /// API version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Name of the object; for pods: `<job>-<group>-0..<last>`.
    pub name: String,
    /// Hash of the compiled object.
    pub hash: String,
    /// True if the object exists as compiled; for pods: if all of them run or have succeeded.
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
