//! A job whose pods are all there: they start, run, and end.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::Reason;
use trellis_api::job::{Deadlines, JobPhase, SuccessPolicy};

use super::{Evaluation, Next, after};
use crate::controller::failure::{self, Fault};
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
        let members: BTreeMap<&str, &PodView> = self
            .o
            .pods
            .iter()
            .filter(|(_, p)| p.job_uid == self.o.uid && p.attempt == self.attempt())
            .map(|(name, pod)| (name.as_str(), pod))
            .collect();
        if let Some(fault) = failure::first(&members, self.o.journal.plan.as_ref(), self.o.lost) {
            return self.failed(fault);
        }
        let total = usize::try_from(self.o.spec.pod_count()).unwrap_or(usize::MAX);
        let up = members
            .values()
            .filter(|p| matches!(p.phase, PodPhase::Running | PodPhase::Succeeded))
            .count();
        let wish = self.wish_to_run();
        let was_running = self.o.status.phase == Some(JobPhase::Running);
        if up >= total || was_running {
            return self.running(wish);
        }
        let startup = self.o.spec.deadlines.as_ref().map_or_else(
            || Deadlines::default().startup_seconds(),
            Deadlines::startup_seconds,
        );
        let since = self
            .status
            .scheduled_time
            .as_ref()
            .map_or(self.o.now, |t| t.0);
        let deadline = after(since, startup);
        if deadline <= self.o.now {
            let slow = members
                .iter()
                .find(|(_, p)| p.phase == PodPhase::Pending)
                .map_or("", |(name, _)| *name);
            return self.failed(Fault {
                pod: slow.to_owned(),
                node: members.get(slow).and_then(|p| p.node.clone()),
                exit_code: None,
                reason: Reason::StartupTimeout,
                word: Reason::StartupTimeout.as_str().to_owned(),
                message: format!(
                    "{up} of {total} pods ran within deadlines.startupSeconds = {startup} s"
                ),
                disruption: false,
            });
        }
        self.look_again(deadline);
        self.say(
            JobPhase::Starting,
            Reason::Starting,
            format!(
                "waits for {} of {total} pods to run",
                total.saturating_sub(up)
            ),
            wish,
        )
    }

    fn running(mut self, wish: Wish<Attempt>) -> Next {
        let since = self.status.running_time.get_or_insert(Time(self.o.now)).0;
        if let Some(limit) = self
            .o
            .spec
            .deadlines
            .as_ref()
            .and_then(|d| d.active_seconds)
        {
            let before = self.status.active_seconds.unwrap_or(0);
            let deadline = after(since, limit.saturating_sub(before));
            if deadline <= self.o.now {
                let message = format!("ran longer than deadlines.activeSeconds = {limit} s");
                return self.fail(Reason::ActiveDeadlineExceeded, message);
            }
            self.look_again(deadline);
        }
        self.say(JobPhase::Running, Reason::Running, "all pods run", wish)
    }

    /// The sentence of success, if the job has succeeded.
    pub(super) fn succeeded(&self) -> Option<String> {
        let policy = self
            .o
            .spec
            .success
            .as_ref()
            .and_then(|s| s.policy)
            .unwrap_or_default();
        let done: Vec<_> = self
            .members()
            .filter(|p| p.phase == PodPhase::Succeeded)
            .collect();
        match policy {
            SuccessPolicy::All => {
                let total = usize::try_from(self.o.spec.pod_count()).ok()?;
                (done.len() == total).then(|| format!("all {total} pods have succeeded"))
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
}
