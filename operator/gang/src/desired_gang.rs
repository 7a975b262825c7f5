//! The state that the controller wants for a gang. It is computed only from stored state (spec,
//! status, journal, pods), so that it is the same after a crash.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use trellis_api::Reason;
use trellis_api::job::AwaitedPods;
use trellis_policies::AuthorizedJob;

use crate::requirements::volumes::VolumeRequirements;

/// The wish for a gang. The lifecycle, which is pure, returns it with a [`DesiredAttempt`]; the
/// scheduler receives it with an [`AuthorizedAttempt`], which includes the job.
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
    /// Pods that are created while the other pods exist.
    pub awaited: AwaitedPods,
}

/// An attempt to run, with its job. Only an authorized job can be run.
#[derive(Clone, Debug)]
pub struct AuthorizedAttempt {
    /// The attempt, as the lifecycle wants it.
    pub attempt: DesiredAttempt,
    /// The authorized job.
    pub job: Arc<AuthorizedJob>,
    /// When the operator had read the input of this attempt. Policies that were stored by this time
    /// apply to its placement.
    pub read_at: Instant,
    /// Uid of the TrainingJob.
    pub uid: String,
    /// True if the previous attempt was preempted.
    pub preempted: bool,
    /// True if the gang does not preempt gangs of lower priority.
    pub never_preempts: bool,
    /// Node requirements of the volumes that the gang mounts.
    pub volumes: VolumeRequirements,
}

impl PartialEq for AuthorizedAttempt {
    /// Compares the attempt and the compiled job. A job that was compiled again differs.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.job, &other.job)
            && self.uid == other.uid
            && self.attempt == other.attempt
            && self.preempted == other.preempted
            && self.never_preempts == other.never_preempts
            && self.volumes == other.volumes
    }
}

impl AuthorizedAttempt {
    /// Returns the nodes that the attempt avoids, including suspected nodes if `suspects` is true.
    pub fn avoided_nodes(&self, suspects: bool) -> impl Iterator<Item = String> + '_ {
        let suspects = self.attempt.suspect_nodes.iter().filter(move |_| suspects);
        self.attempt.excluded_nodes.iter().chain(suspects).cloned()
    }
}

impl<R> DesiredGang<R> {
    /// Returns the wish to release the place, and to give running pods their full time to save.
    #[must_use]
    pub fn stop(reason: Reason) -> Self {
        Self::Stop {
            reason,
            hurry: false,
        }
    }
}

impl DesiredGang<DesiredAttempt> {
    /// Returns the wish with the authorized job, which `authorized` adds to an attempt.
    ///
    /// `authorized` returns None while policies still decide on the attempt. Then nothing starts. A
    /// gang with a plan for the same attempt keeps its place. A gang that restarts removes its
    /// pods, and the scheduler keeps its nodes. `planned` is the attempt of the journal's plan.
    #[must_use]
    pub fn authorize(
        self,
        planned: Option<i64>,
        authorized: impl FnOnce(DesiredAttempt) -> Option<AuthorizedAttempt>,
    ) -> DesiredGang {
        match self {
            Self::Run(attempt) => {
                let has_plan = planned.is_some_and(|planned| planned >= attempt.number);
                let hurry = attempt.hurry;
                match authorized(attempt) {
                    Some(run) => DesiredGang::Run(Arc::new(run)),
                    None if has_plan => DesiredGang::Wait,
                    None => DesiredGang::Stop {
                        reason: Reason::Restarting,
                        hurry,
                    },
                }
            }
            Self::Wait => DesiredGang::Wait,
            Self::Stop { reason, hurry } => DesiredGang::Stop { reason, hurry },
            Self::Finish { keep, hurry } => DesiredGang::Finish { keep, hurry },
        }
    }
}

impl DesiredGang {
    /// Returns the attempt to run, if there is one.
    #[must_use]
    pub fn attempt(&self) -> Option<&Arc<AuthorizedAttempt>> {
        match self {
            Self::Run(run) => Some(run),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{desired_attempt, desired_run};

    fn run(number: i64) -> DesiredGang<DesiredAttempt> {
        DesiredGang::Run(desired_attempt(number))
    }

    #[test]
    fn authorized_attempt_keeps_what_the_lifecycle_wants() {
        let authorized = desired_run(2).attempt().unwrap().as_ref().clone();
        let mut attempt = desired_attempt(2);
        attempt.excluded_nodes = vec!["node-a".to_owned()];
        let desired = DesiredGang::Run(attempt.clone()).authorize(None, |attempt| {
            Some(AuthorizedAttempt {
                attempt,
                ..authorized
            })
        });
        assert_eq!(desired.attempt().unwrap().attempt, attempt);
    }

    #[test]
    fn gang_keeps_its_place_while_policies_decide_on_its_attempt() {
        assert_eq!(run(2).authorize(Some(2), |_| None), DesiredGang::Wait);
    }

    #[test]
    fn gang_restarts_while_policies_decide_on_its_next_attempt() {
        let restart = DesiredGang::stop(Reason::Restarting);
        assert_eq!(run(2).authorize(Some(1), |_| None), restart);
        // The pods of the earlier attempt have ended, and the journal has no plan. The desired
        // state is not `Wait`, because then the scheduler would give the place to another gang.
        assert_eq!(run(2).authorize(None, |_| None), restart);
    }
}
