//! A job that its user has suspended, and how it goes on.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_api::pod_group::PodGroupPhase;

use super::{Evaluation, Next};
use crate::gang::Wish;

impl Evaluation<'_> {
    pub(super) fn suspended(mut self) -> Next {
        // Taken back or not, what comes is placed anew and has its whole startup time.
        self.status.scheduled_time = None;
        let held = !matches!(
            self.o.journal.phase,
            None | Some(PodGroupPhase::Pending | PodGroupPhase::Finished)
        );
        let pods = self.own_pods().count();
        if held || pods > 0 {
            let message = match pods {
                1 => "suspending: 1 pod is still there".to_owned(),
                many => format!("suspending: {many} pods are still there"),
            };
            return self.say(
                JobPhase::Restarting,
                Reason::PodsTerminating,
                message,
                Wish::stop(Reason::Suspended),
            );
        }
        self.say(
            JobPhase::Suspended,
            Reason::Suspended,
            "spec.suspend is true",
            Wish::stop(Reason::Suspended),
        )
    }

    /// To go on after a suspension is a new attempt, at the end of its priority. That is written
    /// before anything is done for it: while the status says Suspended the spec may change, and
    /// an attempt that is not written might be counted twice.
    pub(super) fn resumed(mut self) -> Next {
        if self.o.status.admitted_time.is_some() {
            self.begin(self.attempt().saturating_add(1));
        }
        self.status.queued_time = Some(Time(self.o.now));
        self.status.retry_time = None;
        self.status.scheduled_time = None;
        self.look_again(self.o.now);
        self.say(
            JobPhase::Queued,
            Reason::Queued,
            "spec.suspend is false again",
            Wish::Wait,
        )
    }
}
