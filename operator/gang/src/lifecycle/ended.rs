//! The end of a job, and its pods until they expire.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::Reason;
use trellis_api::job::{JobPhase, PodCleanup};

use super::{Evaluation, EvaluationResult, ExpiredObjects, add_seconds};
use crate::DesiredGang;

/// `cleanup.childrenTTLSeconds` if neither that nor `ttlSecondsAfterFinished` is set.
const DEFAULT_TTL: i64 = 86_400;

impl Evaluation<'_> {
    pub(super) fn record_end(&mut self) {
        self.status.completion_time = Some(Time(self.observed.now));
        self.status.retry_time = None;
        self.status.internal.failed_starts = None;
        self.status.excluded_nodes.clear();
    }

    pub(super) fn complete_job(mut self, message: String) -> EvaluationResult {
        self.record_end();
        let desired = DesiredGang::Finish {
            keep: true,
            hurry: true,
        };
        self.report(JobPhase::Complete, Reason::Complete, message, desired)
    }

    pub(super) fn fail_job(mut self, reason: Reason, message: String) -> EvaluationResult {
        self.record_end();
        let desired = DesiredGang::Finish {
            keep: true,
            hurry: self.was_hurried(self.attempt()),
        };
        self.report(JobPhase::Failed, reason, message, desired)
    }

    /// Returns true if that attempt ended by a failure after which its pods could not save.
    pub(super) fn was_hurried(&self, attempt: i64) -> bool {
        self.status.internal.hurried_attempt == Some(attempt)
    }

    pub(super) fn evaluate_ended(self) -> EvaluationResult {
        let cleanup = self.observed.spec.cleanup.clone().unwrap_or_default();
        let ended = self
            .observed
            .status
            .completion_time
            .as_ref()
            .map_or(self.observed.now, |t| t.0);
        let of_job = self.observed.spec.ttl_seconds_after_finished;
        // Children are deleted at the latest with their job.
        let of_children = cleanup.children_ttl_seconds.into_iter().chain(of_job).min();
        let of_job = of_job.map(|ttl| add_seconds(ended, ttl));
        let of_children = add_seconds(ended, of_children.unwrap_or(DEFAULT_TTL));
        let is_over = |expiry: k8s_openapi::jiff::Timestamp| expiry <= self.observed.now;
        let expired = match of_job.is_some_and(is_over) {
            true => ExpiredObjects::Job,
            false if is_over(of_children) => ExpiredObjects::Children,
            false => ExpiredObjects::Nothing,
        };
        let times = of_job.into_iter().chain([of_children]);
        let again = times.filter(|expiry| !is_over(*expiry)).min();
        let complete = self.observed.status.phase == Some(JobPhase::Complete);
        let keeps = if complete {
            self.observed.spec.keeps_finished_pods()
        } else {
            cleanup.pods_on_failure.unwrap_or_default() == PodCleanup::Keep
        };
        EvaluationResult {
            status: None,
            desired: DesiredGang::Finish {
                keep: expired == ExpiredObjects::Nothing && keeps,
                hurry: complete || self.was_hurried(self.attempt()),
            },
            next_check: again,
            expired,
        }
    }
}
