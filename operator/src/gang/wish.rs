//! What the controller wants of a gang. The controller decides it from what
//! is durable (spec, status, journal, pods), so that after a crash it wants
//! the same again.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use trellis_api::Reason;
use trellis_api::job::AwaitedPods;
use trellis_policies::AuthorizedJob;

use super::volumes::Volumes;

/// What is wanted of a gang. The lifecycle, which is pure, says it of an
/// [`Attempt`]; the scheduler hears it of a [`Run`], which has the job with it.
#[derive(Clone, Debug, PartialEq)]
pub enum Wish<R = Arc<Run>> {
    /// The attempt runs, once there is a place.
    Run(R),
    /// Nothing new is placed; what has its place keeps it. For jobs that may
    /// not start as things are: refused, waiting for something, blocked.
    Wait,
    /// The gang holds nothing, for this reason.
    Stop {
        /// Why.
        reason: Reason,
        /// Its pods have nothing to save.
        hurry: bool,
    },
    /// The job has ended: pods that still run are stopped.
    Finish {
        /// Finished pods stay, with their logs.
        keep: bool,
        /// What still runs has nothing to save.
        hurry: bool,
    },
}

/// One attempt that is to run, by its number and times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Its number.
    pub number: i64,
    /// When the job began to wait: its place in the queue.
    pub submitted: Timestamp,
    /// Not placed before: the back-off of a restart.
    pub not_before: Option<Timestamp>,
    /// Nodes that it keeps away from.
    pub excluded: Vec<String>,
    /// Nodes that it keeps away from as long as the others could hold it.
    pub suspects: Vec<String>,
    /// What is left of the attempt before has nothing to save: it failed by itself.
    pub hurry: bool,
    /// When its last checkpoint was complete.
    pub checkpoint: Option<Timestamp>,
    /// Pods that come while the others are there.
    pub awaited: AwaitedPods,
}

/// One attempt that is to run, with the job. Only what is authorized can be wished for.
#[derive(Clone, Debug)]
pub struct Run {
    /// What runs.
    pub job: Arc<AuthorizedJob>,
    /// When the operator had read what it was built from: policies that were stored by then decide
    /// about its place.
    pub read_at: Instant,
    /// Uid of the TrainingJob.
    pub uid: String,
    /// Number of the attempt.
    pub attempt: i64,
    /// When the job began to wait: its place in the queue.
    pub submitted: Timestamp,
    /// Not placed before: the back-off of a restart.
    pub not_before: Option<Timestamp>,
    /// The attempt before had to make room.
    pub preempted: bool,
    /// It waits without having others leave by its priority.
    pub never_preempts: bool,
    /// Nodes that this attempt keeps away from.
    pub excluded: Vec<String>,
    /// Nodes that it keeps away from as long as the others could hold it.
    pub suspects: Vec<String>,
    /// What is left of the attempt before has nothing to save.
    pub hurry: bool,
    /// When its last checkpoint was complete.
    pub checkpoint: Option<Timestamp>,
    /// Pods that come while the others are there.
    pub awaited: AwaitedPods,
    /// Where the volumes of the claims that it mounts are.
    pub volumes: Volumes,
}

impl PartialEq for Run {
    /// The same attempt of the same build: a job that is built anew is another.
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
    /// Nodes that it keeps away from, with those that it merely suspects if it still can.
    pub fn kept_away_from(&self, suspects: bool) -> impl Iterator<Item = String> + '_ {
        let suspects = self.suspects.iter().filter(move |_| suspects);
        self.excluded.iter().chain(suspects).cloned()
    }
}

impl<R> Wish<R> {
    /// Nothing is held, and pods that do well have their time to save.
    #[must_use]
    pub fn stop(reason: Reason) -> Self {
        Self::Stop {
            reason,
            hurry: false,
        }
    }
}

impl Wish {
    /// The attempt that is to run, if any.
    #[must_use]
    pub fn run(&self) -> Option<&Arc<Run>> {
        match self {
            Self::Run(run) => Some(run),
            _ => None,
        }
    }
}
