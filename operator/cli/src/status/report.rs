//! All that is read of one job: what `-o json` and `-o yaml` print.

use serde::Serialize;
use trellis_api::TrainingJob;

use crate::events::EventLine;
use crate::pods::{MissingPods, PodLine};

/// One job, and what belongs to it, as of one moment.
#[derive(Serialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct StatusReport {
    /// The job as it stands, without `managedFields`.
    pub job: TrainingJob,
    /// What it was compiled into, beside its pods.
    pub objects: Vec<ObjectLine>,
    /// Its pods, of all attempts and stages that are still there, by attempt and rank.
    pub pods: Vec<PodLine>,
    /// Pods that it should have, and has not.
    pub missing: Vec<MissingPods>,
    /// Its last events, the newest last. Those that say the same are one.
    pub events: Vec<EventLine>,
    /// What could not be read.
    pub unread: Vec<ReadErrorLine>,
}

/// A child of the job.
#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ObjectLine {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Whether it is there.
    pub state: ChildState,
    /// What is wrong with it, in the operator's words or in those of who refuses to show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Whether a child of the job is there.
#[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum ChildState {
    /// It is.
    There,
    /// It is not.
    Missing,
    /// Another one has its name.
    NotOurs,
    /// Who asks may not see it.
    Forbidden,
    /// The API server did not say.
    Unread,
}

impl ChildState {
    /// The same for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::There => "there",
            Self::Missing => "missing",
            Self::NotOurs => "not ours",
            Self::Forbidden => "forbidden",
            Self::Unread => "unread",
        }
    }
}

/// What could not be read.
#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ReadErrorLine {
    /// `pods` or `events`.
    pub what: &'static str,
    /// Why, and what to do about it.
    pub why: String,
}
