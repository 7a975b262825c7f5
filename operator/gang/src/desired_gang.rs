//! The state that the controller wants for a gang. It is computed only from stored state (spec,
//! status, journal, pods), so that it is the same after a crash.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use trellis_api::Reason;
use trellis_api::job::AwaitedPods;
use trellis_policies::AuthorizedJob;

use super::volumes::VolumeRequirements;

/// The wish for a gang. The lifecycle, which is pure, returns it with an [`DesiredAttempt`]; the
/// scheduler receives it with a [`AuthorizedAttempt`], which includes the job.
#[derive(Clone, Debug, PartialEq)]
pub enum DesiredGang<R = Arc<AuthorizedAttempt>> {
    /// Run the attempt once there is a place for it.
    Run(R),
    /// Place nothing new, and keep the current place. For jobs that may not start now, because they
    /// are refused, waiting or blocked.
    Wait,
    /// Release the gang's place.
    Stop {
        /// The reason.
        reason: Reason,
        /// True if the pods have nothing to save.
        hurry: bool,
    },
    /// Stop the pods that still run, because the job has ended.
    Finish {
        /// True if finished pods stay, with their logs.
        keep: bool,
        /// True if the running pods have nothing to save.
        hurry: bool,
    },
}

/// An attempt to run, with its number and times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredAttempt {
    /// Number of the attempt.
    pub number: i64,
    /// When the job began to wait, which orders the queue.
    pub submitted: Timestamp,
    /// Earliest time of the placement, after the back-off of a restart.
    pub not_before: Option<Timestamp>,
    /// Nodes that the attempt avoids.
    pub excluded_nodes: Vec<String>,
    /// Nodes that the attempt avoids as long as the other nodes could hold it.
    pub suspect_nodes: Vec<String>,
    /// True if pods of the previous attempt have nothing to save, because it failed by itself.
    pub hurry: bool,
    /// When the last checkpoint was complete.
    pub checkpoint: Option<Timestamp>,
    /// Pods that are created while the others exist.
    pub awaited: AwaitedPods,
}

/// An attempt to run, with its job. Only an authorized job can be run.
#[derive(Clone, Debug)]
pub struct AuthorizedAttempt {
    /// The authorized job.
    pub job: Arc<AuthorizedJob>,
    /// When the operator had read the input of this attempt: policies that were stored by then
    /// apply to its placement.
    pub read_at: Instant,
    /// Uid of the TrainingJob.
    pub uid: String,
    /// Number of the attempt.
    pub attempt: i64,
    /// When the job began to wait, which orders the queue.
    pub submitted: Timestamp,
    /// Earliest time of the placement, after the back-off of a restart.
    pub not_before: Option<Timestamp>,
    /// True if the previous attempt was preempted.
    pub preempted: bool,
    /// True if the gang does not preempt gangs of lower priority.
    pub never_preempts: bool,
    /// Nodes that the attempt avoids.
    pub excluded_nodes: Vec<String>,
    /// Nodes that the attempt avoids as long as the other nodes could hold it.
    pub suspect_nodes: Vec<String>,
    /// True if pods of the previous attempt have nothing to save.
    pub hurry: bool,
    /// When the last checkpoint was complete.
    pub checkpoint: Option<Timestamp>,
    /// Pods that are created while the others exist.
    pub awaited: AwaitedPods,
    /// Where the volumes of the claims are that the gang mounts.
    pub volumes: VolumeRequirements,
}

impl PartialEq for AuthorizedAttempt {
    /// The same attempt of the same compiled job: a job that was compiled again differs.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.job, &other.job)
            && self.uid == other.uid
            && self.attempt == other.attempt
            && self.submitted == other.submitted
            && self.not_before == other.not_before
            && self.preempted == other.preempted
            && self.never_preempts == other.never_preempts
            && self.excluded_nodes == other.excluded_nodes
            && self.suspect_nodes == other.suspect_nodes
            && self.hurry == other.hurry
            && self.checkpoint == other.checkpoint
            && self.awaited == other.awaited
            && self.volumes == other.volumes
    }
}

impl AuthorizedAttempt {
    /// Nodes that the attempt avoids, including suspected nodes if `suspects` is true.
    pub fn avoided_nodes(&self, suspects: bool) -> impl Iterator<Item = String> + '_ {
        let suspects = self.suspect_nodes.iter().filter(move |_| suspects);
        self.excluded_nodes.iter().chain(suspects).cloned()
    }
}

impl<R> DesiredGang<R> {
    /// Releases the place, and gives running pods their full time to save.
    #[must_use]
    pub fn stop(reason: Reason) -> Self {
        Self::Stop {
            reason,
            hurry: false,
        }
    }
}

impl DesiredGang {
    /// The attempt to run, if there is one.
    #[must_use]
    pub fn attempt(&self) -> Option<&Arc<AuthorizedAttempt>> {
        match self {
            Self::Run(run) => Some(run),
            _ => None,
        }
    }
}
