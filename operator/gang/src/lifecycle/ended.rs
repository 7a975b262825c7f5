//! The end of a job, and its pods until they expire.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::Reason;
use trellis_api::job::{JobPhase, PodCleanup};

use super::{Evaluation, Expired, Next, after};
use crate::Wish;

/// `cleanup.childrenTTLSeconds` if neither that nor `ttlSecondsAfterFinished` is set.
const DEFAULT_TTL: i64 = 86_400;

impl Evaluation<'_> {
    pub(super) fn end(&mut self) {
        self.status.completion_time = Some(Time(self.o.now));
        self.status.retry_time = None;
        self.status.internal.failed_starts = None;
        self.status.excluded_nodes.clear();
    }

    pub(super) fn all_complete(mut self, message: String) -> Next {
        self.end();
        let wish = Wish::Finish {
            keep: true,
            hurry: true,
        };
        self.say(JobPhase::Complete, Reason::Complete, message, wish)
    }

    pub(super) fn fail(mut self, reason: Reason, message: String) -> Next {
        self.end();
        let wish = Wish::Finish {
            keep: true,
            hurry: self.was_hurried(self.attempt()),
        };
        self.say(JobPhase::Failed, reason, message, wish)
    }

    /// True if that attempt ended by a failure after which its pods could not save.
    pub(super) fn was_hurried(&self, attempt: i64) -> bool {
        self.status.internal.hurried_attempt == Some(attempt)
    }

    pub(super) fn terminal(self) -> Next {
        let cleanup = self.o.spec.cleanup.clone().unwrap_or_default();
        let ended = self
            .o
            .status
            .completion_time
            .as_ref()
            .map_or(self.o.now, |t| t.0);
        let of_job = self.o.spec.ttl_seconds_after_finished;
        // Children are deleted at the latest with their job.
        let of_children = cleanup.children_ttl_seconds.into_iter().chain(of_job).min();
        let of_job = of_job.map(|ttl| after(ended, ttl));
        let of_children = after(ended, of_children.unwrap_or(DEFAULT_TTL));
        let is_over = |expiry: k8s_openapi::jiff::Timestamp| expiry <= self.o.now;
        let expired = match of_job.is_some_and(is_over) {
            true => Expired::Job,
            false if is_over(of_children) => Expired::Children,
            false => Expired::Nothing,
        };
        let times = of_job.into_iter().chain([of_children]);
        let again = times.filter(|expiry| !is_over(*expiry)).min();
        let complete = self.o.status.phase == Some(JobPhase::Complete);
        let keeps = if complete {
            self.o.spec.keeps_done_pods()
        } else {
            cleanup.pods_on_failure.unwrap_or_default() == PodCleanup::Keep
        };
        Next {
            status: None,
            wish: Wish::Finish {
                keep: expired == Expired::Nothing && keeps,
                hurry: complete || self.was_hurried(self.attempt()),
            },
            again,
            expired,
        }
    }
}
