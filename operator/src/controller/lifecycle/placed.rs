//! A job whose pods are all there: they start, run, and end.

use std::cell::RefCell;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::Reason;
use trellis_api::job::{JobPhase, RestartRule, SuccessPolicy};

use super::excluded::forget_refusals;
use super::{Evaluation, Next, Standing, after};
use crate::controller::failure;
use crate::scheduling::{Attempt, Wish};
use crate::watch::{Leave, PodPhase, PodView};

impl Evaluation<'_> {
    pub(super) fn placed(mut self) -> Next {
        if self.status.scheduled_time.is_none() {
            self.status.scheduled_time = Some(Time(self.o.now));
        }
        self.status.retry_time = None;
        if let Some(message) = self.succeeded() {
            return self.complete(message);
        }
        let members: BTreeMap<&str, &PodView> = self.named_members().collect();
        let stays = RefCell::new(None);
        let leaves = |node: &str| {
            let leave = (self.o.leave)(node);
            let first = || (node.to_owned(), leave);
            if leave != Leave::Now {
                stays.borrow_mut().get_or_insert_with(first);
            }
            leave == Leave::Now
        };
        let attempt = failure::Attempt {
            members: &members,
            plan: self.o.journal.plan.as_ref(),
            lost: self.o.lost,
            unhealthy: self.o.unhealthy,
            leaves: &leaves,
            rules: self.rules(),
            leader: self.leader(),
        };
        if let Some(fault) = attempt.fault() {
            return self.failed(fault);
        }
        let stays = stays.take();
        if let Some(why) = self.o.evicted {
            return self.evicted(why);
        }
        let total = usize::try_from(self.o.spec.pod_count()).unwrap_or(usize::MAX);
        let up = members
            .values()
            .filter(|p| {
                let is_up = matches!(p.phase, PodPhase::Running | PodPhase::Succeeded);
                is_up || attempt.is_ignored(p)
            })
            .count();
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
        let done: Vec<_> = self
            .members()
            .filter(|p| p.phase == PodPhase::Succeeded)
            .collect();
        match self.o.spec.success_policy() {
            SuccessPolicy::All => {
                let total = usize::try_from(self.o.spec.pod_count()).ok()?;
                let succeeded = done.len();
                match total.checked_sub(succeeded)? {
                    0 => Some(format!("all {total} pods have succeeded")),
                    left if succeeded > 0 && left == self.ignored() => Some(format!(
                        "{succeeded} of {total} pods have succeeded, and the failures of the \
                         others are ignored"
                    )),
                    _ => None,
                }
            }
            SuccessPolicy::Any => done
                .first()
                .map(|p| format!("pod {} of group {:?} has succeeded", p.index, p.group)),
            SuccessPolicy::Leader => {
                let leader = trellis_compiler::leader_group(self.o.spec)?;
                done.iter()
                    .any(|p| p.group == leader && p.index == 0)
                    .then(|| format!("rank 0, pod 0 of group {leader:?}, has succeeded"))
            }
        }
    }

    /// The group of rank 0, where its success is the job's.
    fn leader(&self) -> Option<&str> {
        let leads = self.o.spec.success_policy() == SuccessPolicy::Leader;
        trellis_compiler::leader_group(self.o.spec).filter(|_| leads)
    }

    fn rules(&self) -> &[RestartRule] {
        let restart = self.o.spec.restart.as_ref();
        restart.map_or(&[], |restart| &restart.rules)
    }

    /// Pods that have failed, and whose failure does nothing.
    fn ignored(&self) -> usize {
        let members: BTreeMap<&str, &PodView> = self.named_members().collect();
        let attempt = failure::Attempt {
            members: &members,
            plan: None,
            lost: self.o.lost,
            unhealthy: self.o.unhealthy,
            leaves: &|_| false,
            rules: self.rules(),
            leader: self.leader(),
        };
        members.values().filter(|p| attempt.is_ignored(p)).count()
    }
}
