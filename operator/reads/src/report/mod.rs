//! All data about one job, as `trellis status -o json` prints it.

mod read;
#[cfg(test)]
mod tests;

#[cfg(test)]
use read::check_object;
pub use read::{pods_of_job, read_report};

use serde::Serialize;
use trellis_api::TrainingJob;

use crate::events::EventLine;
use crate::pods::{MissingPods, PodLine};

/// One job and its objects at one moment.
#[derive(Serialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct StatusReport {
    /// The job in the cluster, without `managedFields`.
    pub job: TrainingJob,
    /// The objects that it was compiled into, except pods.
    pub objects: Vec<ObjectLine>,
    /// All existing pods of all attempts and stages, sorted by attempt and rank.
    pub pods: Vec<PodLine>,
    /// Pods that should exist but do not.
    pub missing: Vec<MissingPods>,
    /// The last events, the newest last.
    /// Events with the same content are merged.
    pub events: Vec<EventLine>,
    /// Reads that failed.
    pub unread: Vec<ReadErrorLine>,
}

/// A child of the job.
#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ObjectLine {
    /// The API version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The state of the child in the cluster.
    pub state: ChildState,
    /// The problem of the child, as the operator or the API server reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The state of a child of the job in the cluster.
#[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum ChildState {
    /// The child exists.
    There,
    /// The child does not exist.
    Missing,
    /// Another object has the name.
    NotOurs,
    /// The user may not read the child.
    Forbidden,
    /// The API server did not answer.
    Unread,
}

impl ChildState {
    /// The state as text for people.
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

/// A read that failed.
#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ReadErrorLine {
    /// `pods` or `events`.
    pub what: &'static str,
    /// The reason and the fix.
    pub why: String,
}
