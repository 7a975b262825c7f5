//! A job that its user has suspended, and its resumption.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_api::pod_group::PodGroupPhase;

use super::{Evaluation, EvaluationResult};
use crate::{DesiredGang, is_preempted};

impl Evaluation<'_> {
    pub(super) fn evaluate_suspended(mut self) -> EvaluationResult {
        // The next attempt is placed anew and has its full startup time, whether the suspension is
        // revoked or not.
        self.status.scheduled_time = None;
        let has_place = !matches!(
            self.observed.journal.phase,
            None | Some(PodGroupPhase::Pending | PodGroupPhase::Finished)
        );
        let pods = self.own_pods().count();
        if has_place || pods > 0 {
            self.status.internal.suspended_attempt = Some(self.attempt());
            let message = match pods {
                1 => "suspending: 1 pod is still there".to_owned(),
                many => format!("suspending: {many} pods are still there"),
            };
            return self.report(
                JobPhase::Restarting,
                Reason::PodsTerminating,
                message,
                DesiredGang::stop(Reason::Suspended),
            );
        }
        self.report(
            JobPhase::Suspended,
            Reason::Suspended,
            "spec.suspend is true",
            DesiredGang::stop(Reason::Suspended),
        )
    }

    /// Returns true if the status says that the job is suspended, or is being suspended.
    pub(super) fn was_suspended(&self) -> bool {
        let status = self.observed.status;
        status.phase == Some(JobPhase::Suspended)
            || status.internal.suspended_attempt == Some(self.attempt())
    }

    /// Resumes the job with a new attempt, queued last within its priority. The status records the
    /// attempt before anything else happens: while the status says Suspended the spec may change,
    /// and an attempt that is not recorded might count twice.
    pub(super) fn resume(mut self) -> EvaluationResult {
        // A gang that was nominated but never admitted may have been preempted. Its attempt ended with
        // the suspension, so a new attempt begins, and the end is no disruption.
        if self.observed.status.admitted_time.is_some() || is_preempted(self.observed.journal) {
            self.begin_attempt(self.attempt().saturating_add(1));
        }
        self.status.internal.suspended_attempt = None;
        self.status.queued_time = Some(Time(self.observed.now));
        self.status.retry_time = None;
        self.status.scheduled_time = None;
        self.schedule_check(self.observed.now);
        self.report(
            JobPhase::Queued,
            Reason::Queued,
            "spec.suspend is false again",
            DesiredGang::Wait,
        )
    }
}
