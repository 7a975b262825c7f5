//! The state that the controller wants for a gang. It is computed only from stored state (spec,
//! status, journal, pods), so that it is the same after a crash.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use trellis_api::Reason;
use trellis_api::job::AwaitedPods;
use trellis_policies::AuthorizedJob;

use super::volumes::Volumes;

/// The wish for a gang. The lifecycle, which is pure, returns it with an [`Attempt`]; the scheduler
/// receives it with a [`Run`], which includes the job.
#[derive(Clone, Debug, PartialEq)]
pub enum Wish<R = Arc<Run>> {
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
pub struct Attempt {
    /// Number of the attempt.
    pub number: i64,
    /// When the job began to wait, which orders the queue.
    pub submitted: Timestamp,
    /// Earliest time of the placement, after the back-off of a restart.
    pub not_before: Option<Timestamp>,
    /// Nodes that the attempt avoids.
    pub excluded: Vec<String>,
    /// Nodes that the attempt avoids as long as the other nodes could hold it.
    pub suspects: Vec<String>,
    /// True if pods of the previous attempt have nothing to save, because it failed by itself.
    pub hurry: bool,
    /// When the last checkpoint was complete.
    pub checkpoint: Option<Timestamp>,
    /// Pods that are created while the others exist.
    pub awaited: AwaitedPods,
}

/// An attempt to run, with its job. Only an authorized job can be run.
#[derive(Clone, Debug)]
pub struct Run {
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
    pub excluded: Vec<String>,
    /// Nodes that the attempt avoids as long as the other nodes could hold it.
    pub suspects: Vec<String>,
    /// True if pods of the previous attempt have nothing to save.
    pub hurry: bool,
    /// When the last checkpoint was complete.
    pub checkpoint: Option<Timestamp>,
    /// Pods that are created while the others exist.
    pub awaited: AwaitedPods,
    /// Where the volumes of the claims are that the gang mounts.
    pub volumes: Volumes,
}

impl PartialEq for Run {
    /// The same attempt of the same compiled job: a job that was compiled again differs.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.job, &other.job)
            && self.uid == other.uid
            && self.attempt == other.attempt
            && self.submitted == other.submitted
            && self.not_before == other.not_before
            && self.preempted == other.preempted
            && self.never_preempts == other.never_preempts
            && self.excluded == other.excluded
            && self.suspects == other.suspects
            && self.hurry == other.hurry
            && self.checkpoint == other.checkpoint
            && self.awaited == other.awaited
            && self.volumes == other.volumes
    }
}

impl Run {
    /// Nodes that the attempt avoids, including suspected nodes if `suspects` is true.
    pub fn kept_away_from(&self, suspects: bool) -> impl Iterator<Item = String> + '_ {
        let suspects = self.suspects.iter().filter(move |_| suspects);
        self.excluded.iter().chain(suspects).cloned()
    }
}

impl<R> Wish<R> {
    /// Releases the place, and gives running pods their full time to save.
    #[must_use]
    pub fn stop(reason: Reason) -> Self {
        Self::Stop {
            reason,
            hurry: false,
        }
    }
}

impl Wish {
    /// The attempt to run, if there is one.
    #[must_use]
    pub fn run(&self) -> Option<&Arc<Run>> {
        match self {
            Self::Run(run) => Some(run),
            _ => None,
        }
    }
}
