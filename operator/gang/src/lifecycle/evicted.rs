//! A gang that is stopped because policies forbid it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::Reason;
use trellis_api::job::{JobPhase, RestartScope};

use super::{Evaluation, Next};
use crate::Wish;

impl Evaluation<'_> {
    /// Ends the attempt without counting against a budget, because nothing has failed. The next
    /// attempt is placed once policies allow it, queued last within its priority as after a
    /// suspension.
    pub(super) fn evicted(mut self, why: &str) -> Next {
        let restart = self.o.spec.restart.as_ref();
        if restart.and_then(|restart| restart.scope) == Some(RestartScope::Never) {
            let message = format!("{why}; restart.scope is Never");
            return self.fail(Reason::NoRestart, message);
        }
        self.begin(self.attempt().saturating_add(1));
        self.status.queued_time = Some(Time(self.o.now));
        self.status.retry_time = None;
        self.status.scheduled_time = None;
        let message = self.until_they_are_gone(why);
        self.say_evicted(message)
    }

    /// True if the status records the eviction and pods or a plan are left. A new leader knows the
    /// eviction only from there.
    pub(super) fn is_being_evicted(&self) -> bool {
        let status = self.o.status;
        let says_so = status.phase == Some(JobPhase::Restarting)
            && status.reason == Some(Reason::PolicyViolation);
        let has_pods = self.own_pods().next().is_some();
        says_so && (has_pods || self.o.journal.plan.is_some())
    }

    /// Reports the eviction again, with the current number of pods.
    pub(super) fn still_evicted(self) -> Next {
        let message = self.until_they_are_gone(self.o.status.full_message());
        self.say_evicted(message)
    }

    fn say_evicted(self, message: String) -> Next {
        self.say(
            JobPhase::Restarting,
            Reason::PolicyViolation,
            message,
            // Forbidden pods do not get the long grace period of their job.
            Wish::Stop {
                reason: Reason::PolicyViolation,
                hurry: true,
            },
        )
    }
}
