//! A gang that is stopped because policies forbid it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::Reason;
use trellis_api::job::{JobPhase, RestartScope};

use super::{Evaluation, EvaluationResult};
use crate::DesiredGang;

impl Evaluation<'_> {
    /// Ends the attempt without counting against a budget, because nothing has failed. The next
    /// attempt is placed once policies allow it, queued last within its priority as after a
    /// suspension.
    pub(super) fn evict_by_policy(mut self, why: &str) -> EvaluationResult {
        let restart = self.observed.spec.restart.as_ref();
        if restart.and_then(|restart| restart.scope) == Some(RestartScope::Never) {
            let message = format!("{why}; restart.scope is Never");
            return self.fail_job(Reason::NoRestart, message);
        }
        self.begin_attempt(self.attempt().saturating_add(1));
        self.status.queued_time = Some(Time(self.observed.now));
        self.status.retry_time = None;
        self.status.scheduled_time = None;
        let message = self.append_remaining_pods(why);
        self.report_eviction(message)
    }

    /// Returns true if the status records the eviction and pods or a plan are left. A new leader
    /// knows the eviction only from there.
    pub(super) fn is_being_evicted(&self) -> bool {
        let status = self.observed.status;
        let says_so = status.phase == Some(JobPhase::Restarting)
            && status.reason == Some(Reason::PolicyViolation);
        let has_pods = self.own_pods().next().is_some();
        says_so && (has_pods || self.observed.journal.plan.is_some())
    }

    /// Reports the eviction again, with the current number of pods.
    pub(super) fn continue_eviction(self) -> EvaluationResult {
        let message = self.append_remaining_pods(self.observed.status.full_message());
        self.report_eviction(message)
    }

    fn report_eviction(self, message: String) -> EvaluationResult {
        self.report(
            JobPhase::Restarting,
            Reason::PolicyViolation,
            message,
            // Forbidden pods do not get the long grace period of their job.
            DesiredGang::Stop {
                reason: Reason::PolicyViolation,
                hurry: true,
            },
        )
    }
}
