//! An attempt that has failed: which budget its restart uses, and what comes next.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::Reason;
use trellis_api::job::{
    JobPhase, LastFailure, LastPreemption, Restart, RestartAction, RestartScope,
};

use super::{Evaluation, EvaluationResult, ExpiredObjects, add_seconds};
use crate::failure::fault::{Blame, Fault, find_restart_rule};
use crate::observed::{PodPhase, PodView};

/// Shortest back-off in seconds before a restart that counts against no limit.
const UNCOUNTED_BACKOFF: i64 = 10;

impl Evaluation<'_> {
    /// Ends the attempt: either the next one follows, or the job ends.
    pub(super) fn end_failed_attempt(mut self, fault: Fault) -> EvaluationResult {
        self.exclude_node(&fault);
        let starts = self.status.internal.failed_starts.unwrap_or(0);
        let has_run = self.status.running_time.is_some();
        let hurried = !(has_run && self.can_save_work(fault.reason));
        self.status.internal.failed_starts = (!has_run).then(|| starts.saturating_add(1));
        self.record_failure(&fault, hurried);
        self.start_next_attempt(fault)
    }

    /// Records a failure of the current attempt in the status. `hurried` means that the other pods
    /// could not save their work together.
    pub(super) fn record_failure(&mut self, fault: &Fault, hurried: bool) {
        self.status.internal.hurried_attempt = hurried.then_some(self.attempt());
        self.status.last_failure = Some(LastFailure {
            pod: fault.pod.clone(),
            node: fault.node.clone(),
            exit_code: fault.exit_code,
            reason: fault.kubelet_reason.clone(),
            last_line: fault.last_line.clone(),
            attempt: self.attempt(),
            time: Time(self.observed.now),
        });
    }

    /// Returns true if the remaining ranks could save their work together. They could if they ran
    /// well until another client stopped one of them. They could not if a node was lost or a rank
    /// failed by itself, because then the other ranks hang.
    fn can_save_work(&self, reason: Reason) -> bool {
        let has_failed = |pod: &PodView| pod.phase.is_over() && pod.phase != PodPhase::Succeeded;
        match reason {
            Reason::PodDisrupted | Reason::JournalLost => true,
            Reason::NodeUnhealthy => !self.attempt_pods.pods().any(has_failed),
            _ => false,
        }
    }

    /// Ends the attempt of a gang that was preempted or whose queue is drained. The next attempt
    /// keeps its place in the queue.
    pub(super) fn end_preempted_attempt(mut self) -> EvaluationResult {
        if let Some(message) = self.success_message() {
            return self.complete_stage(message);
        }
        let message = self.observed.journal.message.clone().unwrap_or_default();
        self.status.last_preemption = Some(LastPreemption {
            message: message.clone(),
            attempt: self.attempt(),
            time: Time(self.observed.now),
        });
        self.start_next_attempt(Fault::for_gang(Reason::Preempted, message, Blame::Cluster))
    }

    /// Ends an attempt that was placed and whose PodGroup was deleted and created again. Its place
    /// is no longer recorded, and may belong to another gang by now.
    pub(super) fn end_attempt_without_journal(self) -> EvaluationResult {
        if let Some(message) = self.success_message() {
            return self.complete_stage(message);
        }
        let message = "the PodGroup with the gang's journal was deleted by another client";
        let message = message.to_owned();
        self.end_failed_attempt(Fault::for_gang(
            Reason::JournalLost,
            message,
            Blame::Cluster,
        ))
    }

    /// Waits while no PodGroup is known: the cache may be late, or the PodGroup may soon be
    /// created.
    pub(super) fn await_journal(self) -> EvaluationResult {
        EvaluationResult {
            status: None,
            desired: self.desired_run(),
            next_check: Some(add_seconds(self.observed.now, 5)),
            expired: ExpiredObjects::Nothing,
        }
    }

    /// Charges the end of an attempt to a budget, and starts the next attempt or ends the job.
    fn start_next_attempt(mut self, fault: Fault) -> EvaluationResult {
        let restart = self.observed.spec.restart.clone().unwrap_or_default();
        let blame = match find_restart_rule(&restart.rules, &fault) {
            Some((at, RestartAction::Fail)) => {
                let message = format!("{}; restart.rules[{at}] says Fail", fault.message);
                return self.fail_job(Reason::FailedByRule, message);
            }
            Some((_, RestartAction::RestartWithoutCounting)) => Blame::Uncounted,
            // The Ignore action is applied where failures are diagnosed. Here the other pods could
            // not continue.
            Some((
                _,
                RestartAction::Restart
                | RestartAction::RestartGroup
                | RestartAction::RestartSlice
                | RestartAction::RestartPod
                | RestartAction::Ignore,
            ))
            | None => fault.blame,
        };
        // An attempt that has not started does not count as a restart.
        let is_restart = fault.blame != Blame::Uncounted;
        if restart.scope == Some(RestartScope::Never) && is_restart {
            let message = format!("{}; restart.scope is Never", fault.message);
            return self.fail_job(Reason::NoRestart, message);
        }
        let starts = self.status.internal.failed_starts.unwrap_or(0);
        let starts = u32::try_from(starts).unwrap_or(u32::MAX);
        let used = match self.charge_restart(blame, &restart) {
            ChargeResult::Allowed(used) => used,
            ChargeResult::Exhausted {
                limit: words,
                reason,
            } => {
                let message = format!("{}; {words}", fault.message);
                return self.fail_job(reason, message);
            }
        };
        let wait = match blame {
            Blame::Job => restart_backoff(&restart, u32::try_from(used).unwrap_or(u32::MAX)),
            // If one node after the other refuses the pods, the job must not use up its disruption
            // limit before a user can look.
            Blame::Cluster if fault.reason == Reason::KubeletRefused => {
                let before = starts.checked_sub(2);
                before.map_or(0, |times| restart_backoff(&restart, times))
            }
            // A failure of the cluster says nothing about the job, so the job starts again at once.
            Blame::Cluster => 0,
            // The pause grows as long as the job does not get to run. No limit ends this, so the
            // pause must prevent a busy loop.
            Blame::Uncounted => {
                restart_backoff(&restart, starts.saturating_sub(1)).max(UNCOUNTED_BACKOFF)
            }
        };
        self.begin_attempt(self.attempt().saturating_add(1));
        self.status.retry_time = (wait > 0).then(|| Time(add_seconds(self.observed.now, wait)));
        self.status.scheduled_time = None;
        let desired = self.desired_run();
        let message = self.append_remaining_pods(&fault.message);
        self.report(JobPhase::Restarting, fault.reason, message, desired)
    }
}

/// Result of charging a restart to a budget.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChargeResult {
    /// The restart is allowed, after this many earlier ones.
    Allowed(i64),
    /// The budget is used up.
    Exhausted {
        /// The limit that is used up, in words.
        limit: ExhaustedLimit,
        /// The job's reason for its failure.
        reason: Reason,
    },
}

/// Name of a limit, and its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExhaustedLimit(&'static str, i64);

impl std::fmt::Display for ExhaustedLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} = {} is used up", self.0, self.1)
    }
}

impl Evaluation<'_> {
    /// Counts a restart against the limit that `blame` selects.
    pub(super) fn charge_restart(&mut self, blame: Blame, restart: &Restart) -> ChargeResult {
        let (count, limit, name, reason) = match blame {
            Blame::Job => (
                &mut self.status.restarts,
                restart.limit(),
                "restart.limit",
                Reason::RestartLimitReached,
            ),
            Blame::Cluster => (
                &mut self.status.disruptions,
                restart.disruption_limit(),
                "restart.disruptionLimit",
                Reason::DisruptionLimitReached,
            ),
            Blame::Uncounted => return ChargeResult::Allowed(0),
        };
        let used = count.unwrap_or(0);
        if used >= limit {
            let words = ExhaustedLimit(name, limit);
            return ChargeResult::Exhausted {
                limit: words,
                reason,
            };
        }
        *count = Some(used.saturating_add(1));
        ChargeResult::Allowed(used)
    }
}

/// Returns the back-off in seconds after this many restarts.
pub fn restart_backoff(restart: &Restart, times: u32) -> i64 {
    let first = restart.backoff_seconds();
    let most = restart.max_backoff_seconds();
    let doubled = i64::from(2).saturating_pow(times);
    first.saturating_mul(doubled).min(most)
}
