//! What the lifecycle looks at, and what it answers.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use trellis_api::job::{TrainingJobSpec, TrainingJobStatus};
use trellis_api::pod_group::PodGroupStatus;

use crate::gang::Certificate;
use crate::gang::Held;
use crate::gang::observed::{Leave, PodView};
use crate::gang::{Attempt, Wish};

/// What the job's spec has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Valid, compiled, authorized: it may run. The hash is that of what it was compiled into.
    Runnable {
        /// Hash of the compiled job.
        compiled: String,
    },
    /// Refused, waiting or blocked, and why.
    Held(Held),
}

impl From<Held> for Standing {
    fn from(held: Held) -> Self {
        Self::Held(held)
    }
}

/// What is seen of one job.
#[derive(Clone, Copy)]
pub struct Observed<'a> {
    /// The time.
    pub now: Timestamp,
    /// When the job was created.
    pub created: Timestamp,
    /// Generation of the spec.
    pub generation: Option<i64>,
    /// Uid of the job.
    pub uid: &'a str,
    /// The spec of the stage that it is at.
    pub spec: &'a TrainingJobSpec,
    /// The spec with the task groups of all stages.
    pub whole: &'a TrainingJobSpec,
    /// The status as it is.
    pub status: &'a TrainingJobStatus,
    /// What the spec has come to.
    pub standing: &'a Standing,
    /// Why policies have what runs stopped, in words. None: they have not.
    pub evicted: Option<&'a str>,
    /// Queue that the job is in, once that is known.
    pub queue: Option<&'a str>,
    /// The journal.
    pub journal: &'a PodGroupStatus,
    /// The PodGroup is known, and the job's: that nothing stands in its journal means something.
    pub has_journal: bool,
    /// Pods with the job's name.
    pub pods: &'a BTreeMap<String, PodView>,
    /// Nodes that are lost.
    pub lost: &'a dyn Fn(&str) -> bool,
    /// Why a node is unhealthy. None: it is well, or not known.
    pub unhealthy: &'a dyn Fn(&str) -> Option<String>,
    /// Whether a node takes new pods.
    pub open: &'a dyn Fn(&str) -> bool,
    /// Whether what runs on an unhealthy node leaves it now. Asked of one that something runs on.
    pub leave: &'a dyn Fn(&str) -> Leave,
    /// Why the gang waits, if the scheduler has said so.
    pub certificate: Option<&'a Certificate>,
}

/// What is to be written and wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    /// The new status, without `compiled`. None: nothing is to be said yet.
    pub status: Option<TrainingJobStatus>,
    /// What is wanted of the gang, once the status is written.
    pub wish: Wish<Attempt>,
    /// Look again then, if nothing happens before.
    pub again: Option<Timestamp>,
    /// Objects to remove because a time to live is over.
    pub expired: Expired,
}

/// Objects of an ended job that are to be removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expired {
    /// Nothing yet.
    #[default]
    Nothing,
    /// All that the job has made.
    Children,
    /// The job itself, and so all that it has made.
    Job,
}
