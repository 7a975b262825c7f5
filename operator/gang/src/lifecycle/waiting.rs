//! A job whose current attempt is not placed.

use std::collections::BTreeSet;

use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_api::pod_group::PodGroupPhase;

use super::attempt_pods::nodes_of;
use super::{Evaluation, EvaluationResult, ExpiredObjects, JobReadiness, add_seconds};
use crate::observed::PodView;
use crate::{DesiredAttempt, DesiredGang};

/// Separates the cause from the pods that have not ended.
const WAITS_FOR: &str = "; waiting for ";
/// Number of pods that a message names.
const MAX_NAMED_PODS: usize = 3;

impl Evaluation<'_> {
    /// Returns the message, with the pods of the job that still exist.
    pub(super) fn append_remaining_pods(&self, message: &str) -> String {
        // An earlier addition of this kind is replaced.
        let message = message.split(WAITS_FOR).next().unwrap_or(message);
        let own_pods = || self.own_pods();
        // Pods on lost nodes come first, because they stay for longest.
        let nodes = nodes_of(own_pods().map(|(_, pod)| pod)).into_iter();
        let nodes: BTreeSet<&str> = nodes.filter(|node| (self.observed.is_lost)(node)).collect();
        let is_on_lost_node =
            |pod: &PodView| pod.node.as_deref().is_some_and(|n| nodes.contains(n));
        let on_lost_nodes = own_pods().filter(|(_, p)| is_on_lost_node(p));
        let named: Vec<String> = on_lost_nodes
            .chain(own_pods().filter(|(_, p)| !is_on_lost_node(p)))
            .take(MAX_NAMED_PODS)
            .map(|(name, pod)| match &pod.node {
                Some(node) if is_on_lost_node(pod) => format!("{name:?} on lost node {node:?}"),
                Some(node) => format!("{name:?} on {node:?}"),
                None => format!("{name:?}"),
            })
            .collect();
        let pods = own_pods().count();
        let count = match pods {
            0 => return message.to_owned(),
            1 => "1 pod to end".to_owned(),
            many => format!("{many} pods to end"),
        };
        let more = if pods > MAX_NAMED_PODS { ", ..." } else { "" };
        format!("{message}{WAITS_FOR}{count}: {}{more}", named.join(", "))
    }

    /// Returns the desired state of a job that may not be placed: the pods of an earlier attempt
    /// are removed.
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

    /// Returns why the last attempt did not start, if the next attempt is likely to fail for the
    /// same reason.
    fn start_failure(&self) -> Option<(Reason, String)> {
        let last = self.status.last_failure.as_ref()?;
        let reasons = [Reason::ImagePullFailed, Reason::ContainerConfigError];
        let reason = reasons.into_iter().find(|r| r.as_str() == last.reason)?;
        let was_last_attempt = last.attempt.saturating_add(1) == self.attempt();
        let last_line = last.last_line.as_deref().unwrap_or_default();
        was_last_attempt.then(|| (reason, format!("pod {:?}: {last_line}", last.pod)))
    }

    /// Evaluates a job whose current attempt is not placed.
    pub(super) fn evaluate_waiting(mut self) -> EvaluationResult {
        if let JobReadiness::OnHold(hold) = self.observed.readiness {
            if self.is_being_evicted() {
                return self.continue_eviction();
            }
            let desired = self.desired_wait();
            return self.report(hold.phase, hold.reason, &hold.message, desired);
        }
        let desired = self.desired_run();
        let has_pods = self.own_pods().next().is_some();
        let nominated = self.observed.journal.phase == Some(PodGroupPhase::Nominated);
        let unwinding = self.observed.journal.phase == Some(PodGroupPhase::Unwinding)
            || (self.observed.journal.plan.is_some() && !nominated);
        if has_pods || unwinding {
            let plan = self.observed.journal.plan.as_ref();
            let is_earlier_plan = plan.is_none_or(|plan| plan.attempt < self.attempt());
            let (reason, message) =
                match (&self.observed.journal.reason, &self.observed.status.reason) {
                    // After a complete stage, the status keeps the message about it instead of the
                    // message of the roll-back.
                    (_, Some(reason @ Reason::StageComplete)) if is_earlier_plan => {
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
            return self.report(phase, reason, message, desired);
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
            return self.report(JobPhase::Queued, Reason::Preempting, message, desired);
        }
        let retry = self.status.retry_time.as_ref().map(|t| t.0);
        if let Some(retry) = retry.filter(|t| *t > self.observed.now) {
            self.schedule_check(retry);
            let next = format!("attempt {} is placed after {retry}", self.attempt());
            let Some((reason, cause)) = self.start_failure() else {
                return self.report(JobPhase::Queued, Reason::BackingOff, next, desired);
            };
            // A wrong image name needs a user's fix.
            let phase = match reason {
                Reason::ImagePullFailed => JobPhase::Blocked,
                _ => JobPhase::Queued,
            };
            return self.report(phase, reason, format!("{cause}; {next}"), desired);
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
                self.report(JobPhase::Queued, reason, message, desired)
            }
            (None, Some(explanation)) => {
                // The gang stays desired: it is placed once there is capacity.
                let phase = match explanation.refused {
                    true => JobPhase::Refused,
                    false => JobPhase::Queued,
                };
                let message = explanation.message.clone();
                self.report(phase, explanation.reason, message, desired)
            }
            // The scheduler explains within milliseconds, so the status is not written before.
            (None, None) => EvaluationResult {
                status: None,
                desired,
                next_check: self.next_check,
                expired: ExpiredObjects::Nothing,
            },
        }
    }
}
