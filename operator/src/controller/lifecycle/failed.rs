//! An attempt that has failed: what it costs, and what comes next.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::Reason;
use trellis_api::job::{JobPhase, LastFailure, LastPreemption, RestartScope};

use super::{Evaluation, Next, after};
use crate::controller::failure::Fault;

/// `restart.limit` where none is given.
const DEFAULT_LIMIT: i64 = 3;
/// `restart.disruptionLimit` where none is given.
const DEFAULT_DISRUPTION_LIMIT: i64 = 100;
/// `restart.backoffSeconds` where none is given.
const DEFAULT_BACKOFF: i64 = 10;
/// `restart.maxBackoffSeconds` where none is given.
const DEFAULT_MAX_BACKOFF: i64 = 300;

impl Evaluation<'_> {
    /// An attempt has failed: the next one, or the end.
    pub(super) fn failed(mut self, fault: Fault) -> Next {
        self.status.last_failure = Some(LastFailure {
            pod: fault.pod.clone(),
            node: fault.node.clone(),
            exit_code: fault.exit_code,
            reason: fault.word.clone(),
            attempt: self.attempt(),
            time: Time(self.o.now),
        });
        self.next_attempt(fault)
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
        self.next_attempt(Fault {
            pod: String::new(),
            node: None,
            exit_code: None,
            reason: Reason::Preempted,
            word: Reason::Preempted.as_str().to_owned(),
            message,
            disruption: true,
        })
    }

    /// The attempt has had its place, and the journal knows nothing of it: the PodGroup is another
    /// by now. What nobody promises any more is not gone on with: it may be another's already.
    pub(super) fn lost_its_journal(self) -> Next {
        if let Some(message) = self.succeeded() {
            return self.complete(message);
        }
        self.failed(Fault {
            pod: String::new(),
            node: None,
            exit_code: None,
            reason: Reason::JournalLost,
            word: Reason::JournalLost.as_str().to_owned(),
            message: "the PodGroup with the gang's journal was deleted by someone else".to_owned(),
            disruption: true,
        })
    }

    /// The same while no PodGroup is known: it may be there, out of sight, or will be in a moment.
    pub(super) fn awaits_its_journal(self) -> Next {
        Next {
            status: None,
            wish: self.wish_to_run(),
            again: Some(after(self.o.now, 5)),
            expired: false,
        }
    }

    /// What the end of an attempt costs, and what comes next.
    fn next_attempt(mut self, fault: Fault) -> Next {
        let restart = self.o.spec.restart.clone().unwrap_or_default();
        if restart.scope == Some(RestartScope::Never) {
            let message = format!("{}; restart.scope is Never", fault.message);
            return self.fail(Reason::NoRestart, message);
        }
        let (count, limit, name, end) = if fault.disruption {
            (
                &mut self.status.disruptions,
                restart.disruption_limit.unwrap_or(DEFAULT_DISRUPTION_LIMIT),
                "restart.disruptionLimit",
                Reason::DisruptionLimitReached,
            )
        } else {
            (
                &mut self.status.restarts,
                restart.limit.unwrap_or(DEFAULT_LIMIT),
                "restart.limit",
                Reason::RestartLimitReached,
            )
        };
        let used = count.unwrap_or(0);
        if used >= limit {
            return self.fail(
                end,
                format!("{}; {name} = {limit} is used up", fault.message),
            );
        }
        *count = Some(used.saturating_add(1));
        let backoff = |times: u32| {
            let first = restart.backoff_seconds.unwrap_or(DEFAULT_BACKOFF);
            let most = restart.max_backoff_seconds.unwrap_or(DEFAULT_MAX_BACKOFF);
            let doubled = i64::from(2).saturating_pow(times);
            first.saturating_mul(doubled).min(most)
        };
        let wait = if !fault.disruption {
            backoff(u32::try_from(used).unwrap_or(u32::MAX))
        } else if fault.reason == Reason::KubeletRefused {
            // Where one node after the other refuses it, it must not use up
            // its disruptions before anyone can look.
            let before = self.o.refusals.checked_sub(1);
            before.map_or(0, backoff)
        } else {
            // A fault of the cluster says nothing about the job: it starts again at once.
            0
        };
        self.status.attempt = Some(self.attempt().saturating_add(1));
        self.status.retry_time = (wait > 0).then(|| Time(after(self.o.now, wait)));
        self.status.scheduled_time = None;
        let wish = self.wish_to_run();
        let message = self.until_they_are_gone(&fault.message);
        self.say(JobPhase::Restarting, fault.reason, message, wish)
    }
}
