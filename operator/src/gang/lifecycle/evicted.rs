//! A gang that is stopped since policies forbid what it runs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::Reason;
use trellis_api::job::{JobPhase, RestartScope};

use super::{Evaluation, Next};
use crate::gang::Wish;

impl Evaluation<'_> {
    /// Its attempt is over, and counts against no budget: nothing has failed. The next one is
    /// placed once policies allow it, at the end of its priority, as after a suspension.
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

    /// True if the status says so, and something of it is still there. Whoever begins to lead
    /// now finds no more than that.
    pub(super) fn is_being_evicted(&self) -> bool {
        let status = self.o.status;
        let says_so = status.phase == Some(JobPhase::Restarting)
            && status.reason == Some(Reason::PolicyViolation);
        let has_pods = self.own_pods().next().is_some();
        says_so && (has_pods || self.o.journal.plan.is_some())
    }

    /// The same again, with the pods that are still there.
    pub(super) fn still_evicted(self) -> Next {
        let message = self.until_they_are_gone(self.o.status.full_message());
        self.say_evicted(message)
    }

    fn say_evicted(self, message: String) -> Next {
        self.say(
            JobPhase::Restarting,
            Reason::PolicyViolation,
            message,
            // What is forbidden does not run on for as long as its owner likes.
            Wish::Stop {
                reason: Reason::PolicyViolation,
                hurry: true,
            },
        )
    }
}
