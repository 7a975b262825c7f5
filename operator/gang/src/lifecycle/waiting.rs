//! A job that is not placed, or not for its current attempt.

use std::collections::BTreeSet;

use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_api::pod_group::PodGroupPhase;

use super::attempt_pods::nodes_of;
use super::{Evaluation, EvaluationResult, ExpiredObjects, JobReadiness, add_seconds};
use crate::observed::PodView;
use crate::{DesiredAttempt, DesiredGang};

/// Separates the cause from the pods that are waited for.
const WAITS_FOR: &str = "; waiting for ";
/// Number of pods that a message names.
const MAX_NAMED_PODS: usize = 3;

impl Evaluation<'_> {
    /// Returns the message, with the pods of the job that still exist.
    pub(super) fn append_remaining_pods(&self, message: &str) -> String {
        // An earlier addition of this kind is replaced.
        let message = message.split(WAITS_FOR).next().unwrap_or(message);
        let own = || self.own_pods();
        // Pods on lost nodes come first, because they stay for longest.
        let nodes = nodes_of(own().map(|(_, pod)| pod)).into_iter();
        let nodes: BTreeSet<&str> = nodes.filter(|node| (self.observed.is_lost)(node)).collect();
        let lost = |pod: &PodView| pod.node.as_deref().is_some_and(|n| nodes.contains(n));
        let stuck = own().filter(|(_, p)| lost(p));
        let named: Vec<String> = stuck
            .chain(own().filter(|(_, p)| !lost(p)))
            .take(MAX_NAMED_PODS)
            .map(|(name, pod)| match &pod.node {
                Some(node) if lost(pod) => format!("{name:?} on lost node {node:?}"),
                Some(node) => format!("{name:?} on {node:?}"),
                None => format!("{name:?}"),
            })
            .collect();
        let pods = own().count();
        let what = match pods {
            0 => return message.to_owned(),
            1 => "1 pod to end".to_owned(),
            many => format!("{many} pods to end"),
        };
        let more = if pods > MAX_NAMED_PODS { ", ..." } else { "" };
        format!("{message}{WAITS_FOR}{what}: {}{more}", named.join(", "))
    }

    /// Returns the wish of a job that may not be placed: the pods of an earlier attempt are
    /// removed.
    fn desired_wait(&self) -> DesiredGang<DesiredAttempt> {
        let plan = self.observed.journal.plan.as_ref();
        match plan.is_some_and(|plan| plan.attempt < self.attempt()) {
            true => DesiredGang::Stop {
                reason: Reason::Restarting,
                hurry: self.was_hurried(self.attempt().saturating_sub(1)),
            },
            false => DesiredGang::Wait,
        }
    }

    /// Returns why the last attempt did not start, if that is likely to happen again.
    fn start_failure(&self) -> Option<(Reason, String)> {
        let last = self.status.last_failure.as_ref()?;
        let reasons = [Reason::ImagePullFailed, Reason::ContainerConfigError];
        let reason = reasons.into_iter().find(|r| r.as_str() == last.reason)?;
        let follows = last.attempt.saturating_add(1) == self.attempt();
        let said = last.last_line.as_deref().unwrap_or_default();
        follows.then(|| (reason, format!("pod {:?}: {said}", last.pod)))
    }

    /// Reports a job that is not placed, or not for this attempt.
    pub(super) fn evaluate_waiting(mut self) -> EvaluationResult {
        if let JobReadiness::OnHold(held) = self.observed.readiness {
            if self.is_being_evicted() {
                return self.continue_eviction();
            }
            let wish = self.desired_wait();
            return self.report(held.phase, held.reason, &held.message, wish);
        }
        let wish = self.desired_run();
        let leaving = self.own_pods().next().is_some();
        let nominated = self.observed.journal.phase == Some(PodGroupPhase::Nominated);
        let unwinding = self.observed.journal.phase == Some(PodGroupPhase::Unwinding)
            || (self.observed.journal.plan.is_some() && !nominated);
        if leaving || unwinding {
            let plan = self.observed.journal.plan.as_ref();
            let is_of_before = plan.is_none_or(|plan| plan.attempt < self.attempt());
            let (reason, message) =
                match (&self.observed.journal.reason, &self.observed.status.reason) {
                    // After a complete stage the status keeps that message instead of the
                    // rollback's.
                    (_, Some(reason @ Reason::StageComplete)) if is_of_before => {
                        (*reason, self.observed.status.full_message().to_owned())
                    }
                    (Some(reason), _) => (
                        *reason,
                        self.observed.journal.message.clone().unwrap_or_default(),
                    ),
                    (None, Some(reason))
                        if self.observed.status.phase == Some(JobPhase::Restarting) =>
                    {
                        (*reason, self.observed.status.full_message().to_owned())
                    }
                    _ => (
                        Reason::PodsTerminating,
                        "pods of an earlier attempt are still there".to_owned(),
                    ),
                };
            let message = self.append_remaining_pods(&message);
            let phase = match reason {
                Reason::StageComplete => JobPhase::Queued,
                _ => JobPhase::Restarting,
            };
            return self.report(phase, reason, message, wish);
        }
        let waits_since = self.status.pending_since().unwrap_or(self.observed.created);
        if let Some(limit) = self
            .observed
            .spec
            .deadlines
            .as_ref()
            .and_then(|d| d.queue_seconds)
        {
            let deadline = add_seconds(waits_since, limit);
            if deadline <= self.observed.now {
                let message = format!("not placed within deadlines.queueSeconds = {limit} s");
                return self.fail_job(Reason::QueueDeadlineExceeded, message);
            }
            self.schedule_check(deadline);
        }
        if nominated {
            let message = self.observed.journal.message.clone().unwrap_or_default();
            return self.report(JobPhase::Queued, Reason::Preempting, message, wish);
        }
        let retry = self.status.retry_time.as_ref().map(|t| t.0);
        if let Some(retry) = retry.filter(|t| *t > self.observed.now) {
            self.schedule_check(retry);
            let next = format!("attempt {} is placed after {retry}", self.attempt());
            let Some((reason, why)) = self.start_failure() else {
                return self.report(JobPhase::Queued, Reason::BackingOff, next, wish);
            };
            // A wrong image name needs a user's fix.
            let phase = match reason {
                Reason::ImagePullFailed => JobPhase::Blocked,
                _ => JobPhase::Queued,
            };
            return self.report(phase, reason, format!("{why}; {next}"), wish);
        }
        let failed_commit = self.observed.journal.reason.filter(|_| {
            self.observed
                .journal
                .retry_time
                .as_ref()
                .is_some_and(|t| t.0 > self.observed.now)
        });
        match (failed_commit, self.observed.explanation) {
            (Some(reason), _) => {
                let message = self.observed.journal.message.clone().unwrap_or_default();
                self.report(JobPhase::Queued, reason, message, wish)
            }
            (None, Some(certificate)) => {
                // The wish stays: the gang is placed once there is room.
                let phase = match certificate.refused {
                    true => JobPhase::Refused,
                    false => JobPhase::Queued,
                };
                let message = certificate.message.clone();
                self.report(phase, certificate.reason, message, wish)
            }
            // The scheduler explains within milliseconds, so the status is not written before.
            (None, None) => EvaluationResult {
                status: None,
                desired: wish,
                next_check: self.next_check,
                expired: ExpiredObjects::Nothing,
            },
        }
    }
}
