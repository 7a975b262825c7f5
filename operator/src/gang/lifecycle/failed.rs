//! An attempt that has failed: what it costs, and what comes next.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::Reason;
use trellis_api::job::{
    JobPhase, LastFailure, LastPreemption, Restart, RestartAction, RestartScope,
};

use super::{Evaluation, Expired, Next, after};
use crate::gang::failure::{Blame, Fault};
use crate::gang::observed::{PodPhase, PodView};
use crate::gang::rules;

/// Least seconds before a restart that counts against nothing.
const UNCOUNTED_BACKOFF: i64 = 10;

impl Evaluation<'_> {
    /// An attempt has failed: the next one, or the end.
    pub(super) fn failed(mut self, fault: Fault) -> Next {
        self.exclude(&fault);
        let starts = self.status.internal.failed_starts.unwrap_or(0);
        let has_run = self.status.running_time.is_some();
        let hurried = !(has_run && self.can_save(fault.reason));
        self.status.internal.failed_starts = (!has_run).then(|| starts.saturating_add(1));
        self.note_failure(&fault, hurried);
        self.next_attempt(fault)
    }

    /// Writes a failure of the current attempt into the status. `hurried`: the other pods had
    /// nothing to save together.
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

    /// Whether the ranks that still run could save their work together: they did well until
    /// someone took one of them away. Where one failed by itself the others hang, and of a
    /// lost node they do not hear.
    fn can_save(&self, reason: Reason) -> bool {
        let has_failed = |pod: &PodView| pod.phase.is_over() && pod.phase != PodPhase::Succeeded;
        match reason {
            Reason::PodDisrupted | Reason::JournalLost => true,
            Reason::NodeUnhealthy => !self.roster.pods().any(has_failed),
            _ => false,
        }
    }

    /// The gang leaves its place, for another or since its queue is drained: its
    /// attempt is over, and the next one waits where this one did.
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

    /// The attempt has had its place, and the journal knows nothing of it: the PodGroup is another
    /// by now. What nobody promises any more is not gone on with: it may be another's already.
    pub(super) fn lost_its_journal(self) -> Next {
        if let Some(message) = self.succeeded() {
            return self.complete(message);
        }
        let message = "the PodGroup with the gang's journal was deleted by someone else";
        let message = message.to_owned();
        self.failed(Fault::of_gang(Reason::JournalLost, message, Blame::Cluster))
    }

    /// The same while no PodGroup is known: it may be there, out of sight, or will be in a moment.
    pub(super) fn awaits_its_journal(self) -> Next {
        Next {
            status: None,
            wish: self.wish_to_run(),
            again: Some(after(self.o.now, 5)),
            expired: Expired::Nothing,
        }
    }

    /// What the end of an attempt costs, and what comes next.
    fn next_attempt(mut self, fault: Fault) -> Next {
        let restart = self.o.spec.restart.clone().unwrap_or_default();
        let blame = match rules::matching(&restart.rules, &fault) {
            Some((at, RestartAction::Fail)) => {
                let message = format!("{}; restart.rules[{at}] says Fail", fault.message);
                return self.fail(Reason::FailedByRule, message);
            }
            Some((_, RestartAction::RestartWithoutCounting)) => Blame::Nobody,
            // That it is ignored is seen to where failures are looked for; that the others could
            // not go on, too.
            Some((
                _,
                RestartAction::Restart
                | RestartAction::RestartGroup
                | RestartAction::RestartPod
                | RestartAction::Ignore,
            ))
            | None => fault.blame,
        };
        // What has not started is not restarted.
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
            // Where one node after the other refuses it, it must not use up
            // its disruptions before anyone can look.
            Blame::Cluster if fault.reason == Reason::KubeletRefused => {
                let before = starts.checked_sub(2);
                before.map_or(0, |times| backoff(&restart, times))
            }
            // A fault of the cluster says nothing about the job: it starts again at once.
            Blame::Cluster => 0,
            // Longer each time, as long as it does not get to run. No limit ends it: it must
            // not go round and round.
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

/// What a restart costs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cost {
    /// It is paid. So many came before.
    Used(i64),
    /// There is no restart left.
    Over {
        /// Which limit is used up, in words.
        words: Words,
        /// Why the job has failed.
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
    /// Counts a restart against the limit of whoever is to blame.
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

/// Seconds before a restart that so many came before.
pub(crate) fn backoff(restart: &Restart, times: u32) -> i64 {
    let first = restart.backoff_seconds();
    let most = restart.max_backoff_seconds();
    let doubled = i64::from(2).saturating_pow(times);
    first.saturating_mul(doubled).min(most)
}
