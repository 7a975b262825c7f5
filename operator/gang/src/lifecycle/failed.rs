//! An attempt that has failed: which budget its restart uses, and what comes next.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::Reason;
use trellis_api::job::{
    JobPhase, LastFailure, LastPreemption, Restart, RestartAction, RestartScope,
};

use super::{Evaluation, Expired, Next, after};
use crate::failure::{Blame, Fault};
use crate::observed::{PodPhase, PodView};
use crate::rules;

/// Shortest back-off in seconds before a restart that counts against no limit.
const UNCOUNTED_BACKOFF: i64 = 10;

impl Evaluation<'_> {
    /// Ends the attempt: either the next one follows, or the job ends.
    pub(super) fn failed(mut self, fault: Fault) -> Next {
        self.exclude(&fault);
        let starts = self.status.internal.failed_starts.unwrap_or(0);
        let has_run = self.status.running_time.is_some();
        let hurried = !(has_run && self.can_save(fault.reason));
        self.status.internal.failed_starts = (!has_run).then(|| starts.saturating_add(1));
        self.note_failure(&fault, hurried);
        self.next_attempt(fault)
    }

    /// Records a failure of the current attempt in the status. `hurried` means that the other pods
    /// could not save their work together.
    pub(super) fn note_failure(&mut self, fault: &Fault, hurried: bool) {
        self.status.internal.hurried_attempt = hurried.then_some(self.attempt());
        self.status.last_failure = Some(LastFailure {
            pod: fault.pod.clone(),
            node: fault.node.clone(),
            exit_code: fault.exit_code,
            reason: fault.word.clone(),
            last_line: fault.last_line.clone(),
            attempt: self.attempt(),
            time: Time(self.o.now),
        });
    }

    /// Tells if the remaining ranks could save their work together. They could if they ran well
    /// until another client stopped one of them. They could not if a rank failed by itself, because
    /// the others then hang, nor if a node was lost.
    fn can_save(&self, reason: Reason) -> bool {
        let has_failed = |pod: &PodView| pod.phase.is_over() && pod.phase != PodPhase::Succeeded;
        match reason {
            Reason::PodDisrupted | Reason::JournalLost => true,
            Reason::NodeUnhealthy => !self.roster.pods().any(has_failed),
            _ => false,
        }
    }

    /// Ends the attempt of a gang that was preempted or whose queue is drained. The next attempt
    /// keeps its place in the queue.
    pub(super) fn made_room(mut self) -> Next {
        if let Some(message) = self.succeeded() {
            return self.complete(message);
        }
        let message = self.o.journal.message.clone().unwrap_or_default();
        self.status.last_preemption = Some(LastPreemption {
            message: message.clone(),
            attempt: self.attempt(),
            time: Time(self.o.now),
        });
        self.next_attempt(Fault::of_gang(Reason::Preempted, message, Blame::Cluster))
    }

    /// Ends an attempt that was placed and whose PodGroup was deleted and created again. Its place
    /// is no longer recorded, and may belong to another gang by now.
    pub(super) fn lost_its_journal(self) -> Next {
        if let Some(message) = self.succeeded() {
            return self.complete(message);
        }
        let message = "the PodGroup with the gang's journal was deleted by someone else";
        let message = message.to_owned();
        self.failed(Fault::of_gang(Reason::JournalLost, message, Blame::Cluster))
    }

    /// As above, while no PodGroup is known: the cache may be late, or the PodGroup may be created
    /// in a moment.
    pub(super) fn awaits_its_journal(self) -> Next {
        Next {
            status: None,
            wish: self.wish_to_run(),
            again: Some(after(self.o.now, 5)),
            expired: Expired::Nothing,
        }
    }

    /// Charges the end of an attempt to a budget, and starts the next attempt or ends the job.
    fn next_attempt(mut self, fault: Fault) -> Next {
        let restart = self.o.spec.restart.clone().unwrap_or_default();
        let blame = match rules::matching(&restart.rules, &fault) {
            Some((at, RestartAction::Fail)) => {
                let message = format!("{}; restart.rules[{at}] says Fail", fault.message);
                return self.fail(Reason::FailedByRule, message);
            }
            Some((_, RestartAction::RestartWithoutCounting)) => Blame::Nobody,
            // The Ignore action is applied where failures are diagnosed. Here the other pods could
            // not continue.
            Some((
                _,
                RestartAction::Restart
                | RestartAction::RestartGroup
                | RestartAction::RestartPod
                | RestartAction::Ignore,
            ))
            | None => fault.blame,
        };
        // An attempt that has not started does not count as a restart.
        let is_restart = fault.blame != Blame::Nobody;
        if restart.scope == Some(RestartScope::Never) && is_restart {
            let message = format!("{}; restart.scope is Never", fault.message);
            return self.fail(Reason::NoRestart, message);
        }
        let starts = self.status.internal.failed_starts.unwrap_or(0);
        let starts = u32::try_from(starts).unwrap_or(u32::MAX);
        let used = match self.charge(blame, &restart) {
            Cost::Used(used) => used,
            Cost::Over { words, reason } => {
                let message = format!("{}; {words}", fault.message);
                return self.fail(reason, message);
            }
        };
        let wait = match blame {
            Blame::Job => backoff(&restart, u32::try_from(used).unwrap_or(u32::MAX)),
            // If one node after the other refuses the pods, the job must not use up its disruption
            // limit before a user can look.
            Blame::Cluster if fault.reason == Reason::KubeletRefused => {
                let before = starts.checked_sub(2);
                before.map_or(0, |times| backoff(&restart, times))
            }
            // A failure of the cluster tells nothing about the job: it starts again at once.
            Blame::Cluster => 0,
            // The pause grows as long as the job does not get to run. No limit ends this, so the
            // pause must prevent a busy loop.
            Blame::Nobody => backoff(&restart, starts.saturating_sub(1)).max(UNCOUNTED_BACKOFF),
        };
        self.begin(self.attempt().saturating_add(1));
        self.status.retry_time = (wait > 0).then(|| Time(after(self.o.now, wait)));
        self.status.scheduled_time = None;
        let wish = self.wish_to_run();
        let message = self.until_they_are_gone(&fault.message);
        self.say(JobPhase::Restarting, fault.reason, message, wish)
    }
}

/// Result of charging a restart to a budget.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cost {
    /// The restart is allowed; so many came before.
    Used(i64),
    /// The budget is used up.
    Over {
        /// The limit that is used up, in words.
        words: Words,
        /// The job's reason for its failure.
        reason: Reason,
    },
}

/// Name of a limit, and its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words(&'static str, i64);

impl std::fmt::Display for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} = {} is used up", self.0, self.1)
    }
}

impl Evaluation<'_> {
    /// Counts a restart against the limit that `blame` selects.
    pub(super) fn charge(&mut self, blame: Blame, restart: &Restart) -> Cost {
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
            Blame::Nobody => return Cost::Used(0),
        };
        let used = count.unwrap_or(0);
        if used >= limit {
            let words = Words(name, limit);
            return Cost::Over { words, reason };
        }
        *count = Some(used.saturating_add(1));
        Cost::Used(used)
    }
}

/// Back-off in seconds after so many restarts.
pub fn backoff(restart: &Restart, times: u32) -> i64 {
    let first = restart.backoff_seconds();
    let most = restart.max_backoff_seconds();
    let doubled = i64::from(2).saturating_pow(times);
    first.saturating_mul(doubled).min(most)
}
