//! A job that is not placed, or not for its current attempt.

use std::collections::BTreeSet;

use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_api::pod_group::PodGroupPhase;

use super::roster::nodes_of;
use super::{Evaluation, Expired, Next, Standing, after};
use crate::observed::PodView;
use crate::{Attempt, Wish};

/// Separates the cause from the pods that are waited for.
const WAITS_FOR: &str = "; waiting for ";
/// Number of pods that a message names.
const NAMED: usize = 3;

impl Evaluation<'_> {
    /// The message, with the pods of the job that still exist.
    pub(super) fn until_they_are_gone(&self, message: &str) -> String {
        // An earlier addition of this kind is replaced.
        let message = message.split(WAITS_FOR).next().unwrap_or(message);
        let own = || self.own_pods();
        // Pods on lost nodes come first, because they stay for longest.
        let nodes = nodes_of(own().map(|(_, pod)| pod)).into_iter();
        let nodes: BTreeSet<&str> = nodes.filter(|node| (self.o.lost)(node)).collect();
        let lost = |pod: &PodView| pod.node.as_deref().is_some_and(|n| nodes.contains(n));
        let stuck = own().filter(|(_, p)| lost(p));
        let named: Vec<String> = stuck
            .chain(own().filter(|(_, p)| !lost(p)))
            .take(NAMED)
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
        let more = if pods > NAMED { ", ..." } else { "" };
        format!("{message}{WAITS_FOR}{what}: {}{more}", named.join(", "))
    }

    /// The wish of a job that may not be placed: the pods of an earlier attempt are removed.
    fn wish_to_wait(&self) -> Wish<Attempt> {
        let plan = self.o.journal.plan.as_ref();
        match plan.is_some_and(|plan| plan.attempt < self.attempt()) {
            true => Wish::Stop {
                reason: Reason::Restarting,
                hurry: self.was_hurried(self.attempt().saturating_sub(1)),
            },
            false => Wish::Wait,
        }
    }

    /// Why the last attempt did not start, if that is likely to happen again.
    fn could_not_start(&self) -> Option<(Reason, String)> {
        let last = self.status.last_failure.as_ref()?;
        let reasons = [Reason::ImagePullFailed, Reason::ContainerConfigError];
        let reason = reasons.into_iter().find(|r| r.as_str() == last.reason)?;
        let follows = last.attempt.saturating_add(1) == self.attempt();
        let said = last.last_line.as_deref().unwrap_or_default();
        follows.then(|| (reason, format!("pod {:?}: {said}", last.pod)))
    }

    /// Reports a job that is not placed, or not for this attempt.
    pub(super) fn waiting(mut self) -> Next {
        if let Standing::Held(held) = self.o.standing {
            if self.is_being_evicted() {
                return self.still_evicted();
            }
            let wish = self.wish_to_wait();
            return self.say(held.phase, held.reason, &held.message, wish);
        }
        let wish = self.wish_to_run();
        let leaving = self.own_pods().next().is_some();
        let nominated = self.o.journal.phase == Some(PodGroupPhase::Nominated);
        let unwinding = self.o.journal.phase == Some(PodGroupPhase::Unwinding)
            || (self.o.journal.plan.is_some() && !nominated);
        if leaving || unwinding {
            let plan = self.o.journal.plan.as_ref();
            let is_of_before = plan.is_none_or(|plan| plan.attempt < self.attempt());
            let (reason, message) = match (&self.o.journal.reason, &self.o.status.reason) {
                // After a complete stage the status keeps that message instead of the rollback's.
                (_, Some(reason @ Reason::StageComplete)) if is_of_before => {
                    (*reason, self.o.status.full_message().to_owned())
                }
                (Some(reason), _) => (*reason, self.o.journal.message.clone().unwrap_or_default()),
                (None, Some(reason)) if self.o.status.phase == Some(JobPhase::Restarting) => {
                    (*reason, self.o.status.full_message().to_owned())
                }
                _ => (
                    Reason::PodsTerminating,
                    "pods of an earlier attempt are still there".to_owned(),
                ),
            };
            let message = self.until_they_are_gone(&message);
            let phase = match reason {
                Reason::StageComplete => JobPhase::Queued,
                _ => JobPhase::Restarting,
            };
            return self.say(phase, reason, message, wish);
        }
        let waits_since = self.status.waits_since().unwrap_or(self.o.created);
        if let Some(limit) = self.o.spec.deadlines.as_ref().and_then(|d| d.queue_seconds) {
            let deadline = after(waits_since, limit);
            if deadline <= self.o.now {
                let message = format!("not placed within deadlines.queueSeconds = {limit} s");
                return self.fail(Reason::QueueDeadlineExceeded, message);
            }
            self.look_again(deadline);
        }
        if nominated {
            let message = self.o.journal.message.clone().unwrap_or_default();
            return self.say(JobPhase::Queued, Reason::Preempting, message, wish);
        }
        let retry = self.status.retry_time.as_ref().map(|t| t.0);
        if let Some(retry) = retry.filter(|t| *t > self.o.now) {
            self.look_again(retry);
            let next = format!("attempt {} is placed after {retry}", self.attempt());
            let Some((reason, why)) = self.could_not_start() else {
                return self.say(JobPhase::Queued, Reason::BackingOff, next, wish);
            };
            // A wrong image name needs a user's fix.
            let phase = match reason {
                Reason::ImagePullFailed => JobPhase::Blocked,
                _ => JobPhase::Queued,
            };
            return self.say(phase, reason, format!("{why}; {next}"), wish);
        }
        let failed_commit = self.o.journal.reason.filter(|_| {
            self.o
                .journal
                .retry_time
                .as_ref()
                .is_some_and(|t| t.0 > self.o.now)
        });
        match (failed_commit, self.o.certificate) {
            (Some(reason), _) => {
                let message = self.o.journal.message.clone().unwrap_or_default();
                self.say(JobPhase::Queued, reason, message, wish)
            }
            (None, Some(certificate)) => {
                // The wish stays: the gang is placed once there is room.
                let phase = match certificate.refused {
                    true => JobPhase::Refused,
                    false => JobPhase::Queued,
                };
                let message = certificate.message.clone();
                self.say(phase, certificate.reason, message, wish)
            }
            // The scheduler explains within milliseconds, so the status is not written before.
            (None, None) => Next {
                status: None,
                wish,
                again: self.again,
                expired: Expired::Nothing,
            },
        }
    }
}
