//! A job whose pods are all there: they start, run, and end.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::Reason;
use trellis_api::job::{JobPhase, RestartRule, SuccessPolicy};

use super::excluded::forget_refusals;
use super::finished::Finished;
use super::{Evaluation, Next, Standing, after};
use crate::controller::failure::{self, Diagnosis};
use crate::scheduling::{Attempt, Wish};
use crate::watch::{PodPhase, PodView};

impl Evaluation<'_> {
    pub(super) fn placed(mut self) -> Next {
        if self.status.scheduled_time.is_none() {
            self.status.scheduled_time = Some(Time(self.o.now));
        }
        self.status.retry_time = None;
        if let Some(message) = self.succeeded() {
            return self.complete(message);
        }
        let (Diagnosis { fault, stays }, up) = self.diagnosis();
        if let Some(fault) = fault {
            return self.failed(fault);
        }
        if let Some(why) = self.o.evicted {
            return self.evicted(why);
        }
        let total = usize::try_from(self.o.spec.pod_count()).unwrap_or(usize::MAX);
        let wish = self.wish_to_run();
        if let Some((node, leave)) = stays {
            self.stays(&node, leave);
        }
        let was_running = self.o.status.phase == Some(JobPhase::Running);
        if up >= total || was_running {
            return self.running(wish);
        }
        self.starting(up, total, wish)
    }

    fn running(mut self, wish: Wish<Attempt>) -> Next {
        let since = self.status.running_time.get_or_insert(Time(self.o.now)).0;
        self.status.failed_starts = None;
        forget_refusals(&mut self.status);
        if let Some(limit) = self.active_seconds() {
            let before = self.status.active_seconds.unwrap_or(0);
            let deadline = after(since, limit.saturating_sub(before));
            if deadline <= self.o.now {
                let message = format!("ran longer than deadlines.activeSeconds = {limit} s");
                return self.fail(Reason::ActiveDeadlineExceeded, message);
            }
            self.look_again(deadline);
        }
        let (reason, message) = self.staying(Reason::Running, "all pods run".to_owned());
        self.say(JobPhase::Running, reason, message, wish)
    }

    /// How long it may run. A job that may not run as it is now keeps the deadline that it was
    /// placed with: else whoever may not have a later one would take it once it runs.
    fn active_seconds(&self) -> Option<i64> {
        let deadlines = self.o.spec.deadlines.as_ref();
        let now = deadlines.and_then(|d| d.active_seconds);
        let is_held = matches!(self.o.standing, Standing::Held { .. });
        let plan = self.o.journal.plan.as_ref().filter(|_| is_held);
        match (now, plan.and_then(|plan| plan.active_seconds)) {
            (Some(now), Some(then)) => Some(now.min(then)),
            (now, then) => now.or(then),
        }
    }

    /// The sentence of success, if the job has succeeded.
    pub(super) fn succeeded(&self) -> Option<String> {
        let finished = self.finished();
        match self.o.spec.success_policy() {
            SuccessPolicy::All => {
                let total = usize::try_from(self.o.spec.pod_count()).ok()?;
                let succeeded = finished.completed();
                match total.checked_sub(succeeded)? {
                    0 => Some(format!("all {total} pods have succeeded")),
                    left if succeeded > 0 && left == finished.ignored() => Some(format!(
                        "{succeeded} of {total} pods have succeeded, and the failures of the \
                         others are ignored"
                    )),
                    _ => None,
                }
            }
            SuccessPolicy::Any => finished
                .any_completed()
                .map(|(group, index)| format!("pod {index} of group {group:?} has succeeded")),
            SuccessPolicy::Leader => {
                let leader = trellis_compiler::leader_group(self.o.spec)?;
                finished
                    .has_completed(leader, 0)
                    .then(|| format!("rank 0, pod 0 of group {leader:?}, has succeeded"))
            }
        }
    }

    /// The group of rank 0, where its success is the job's.
    fn leader(&self) -> Option<&str> {
        let leads = self.o.spec.success_policy() == SuccessPolicy::Leader;
        trellis_compiler::leader_group(self.o.spec).filter(|_| leads)
    }

    pub(super) fn rules(&self) -> &[RestartRule] {
        let restart = self.o.spec.restart.as_ref();
        restart.map_or(&[], |restart| &restart.rules)
    }

    /// What is wrong with the current attempt, and how many of its pods run or need not.
    fn diagnosis(&self) -> (Diagnosis, usize) {
        let finished = self.finished();
        let members = self.named_members().collect();
        let running = self.members().filter(|pod| pod.phase == PodPhase::Running);
        let ended = finished.completed().saturating_add(finished.ignored());
        let up = running.count().saturating_add(ended);
        (self.attempt_of(&members, &finished).diagnose(), up)
    }

    /// The current attempt, whose pods these are, and of which some have ended.
    pub(super) fn attempt_of<'m>(
        &'m self,
        members: &'m BTreeMap<&'m str, &'m PodView>,
        finished: &'m Finished<'m>,
    ) -> failure::Attempt<'m> {
        let goes_on = members.values().any(|pod| !pod.phase.is_over());
        failure::Attempt {
            members,
            plan: self.o.journal.plan.as_ref(),
            lost: self.o.lost,
            unhealthy: self.o.unhealthy,
            leave: self.o.leave,
            rules: self.rules(),
            leader: self.leader(),
            goes_on: goes_on || finished.completed() > 0,
            finished,
        }
    }
}
