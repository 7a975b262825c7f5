//! Handles the result of a task.

use tokio::time::Instant;
use tracing::{debug, info};
use trellis_api::Reason;
use trellis_api::pod_group::{PodGroupPhase, PodGroupStatus};
use trellis_gang::key::Key;
use trellis_gang::{GangExplanation, external, journal};
use trellis_machine::clock;

use crate::driver::Driver;
use crate::task_outcome::TaskOutcome;

/// How often in a row a place may be given up because admission changed the pods. Pods with another
/// flavor are different pods. Admission may change them so that the next place has the first flavor
/// again.
const MAX_REPLANS: u32 = 8;

impl Driver {
    pub(in crate::driver) fn handle_task_result(&mut self, job: &Key, outcome: TaskOutcome) {
        if external::is_external(job) {
            return self.handle_external_task_result(job, outcome);
        }
        let uid = self.job_uid(job);
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        let Some(task) = state.task.take() else {
            return;
        };
        if state.desired.is_none() {
            self.forget(job);
            return;
        }
        // The job has been replaced by now, or cannot be read: the result no longer applies.
        if uid.as_ref() != Some(&task.uid) {
            debug!(%job, ?outcome, "of a job that is not there");
            if uid.is_some() {
                self.over_quota.remove(job);
                self.withdraw(job);
            }
            return;
        }
        let outcome = match outcome {
            TaskOutcome::Avoid(nodes, outcome) => {
                info!(%job, ?nodes, "its pods cannot be there, and may be elsewhere; they are kept away from");
                for node in nodes {
                    state.avoided.add_failure(&node, Instant::now());
                }
                *outcome
            }
            outcome => outcome,
        };
        let is_first = !state.pause.has_begun();
        if !matches!(outcome, TaskOutcome::Retry(_)) {
            state.pause.end();
            state.last_failure = None;
        }
        let replans = std::mem::take(&mut state.replans);
        match outcome {
            TaskOutcome::Done => {}
            TaskOutcome::Replan(actual) => {
                debug!(%job, "admission changed the pods; a place is sought anew");
                state.admitted = actual;
                state.replans = replans.saturating_add(1);
                let too_often = state.replans > MAX_REPLANS;
                // The victims of the earlier request stay.
                self.withdraw(job);
                if too_often && let Some(state) = self.gangs.get_mut(job) {
                    state.replans = 0;
                    let message = "admission changes what the pods ask for with every place that is found for them";
                    self.put_off(job, Reason::PodRefused, message.to_owned());
                }
            }
            TaskOutcome::VictimProtected(kept) => {
                self.handle_protected_victim(job, &kept.victim, kept.message)
            }
            TaskOutcome::PutOff(reason, message) => self.put_off(job, reason, message),
            TaskOutcome::OverQuota(ask, message) => {
                self.over_quota.insert(job.clone(), ask);
                self.put_off(job, Reason::ResourceQuotaExceeded, message);
            }
            TaskOutcome::RollBack(reason, message) => self.roll_back(job, reason, message, true),
            TaskOutcome::Retry(message) => {
                let until = state.pause.begin(Instant::now());
                state.last_failure = Some(message.clone());
                debug!(%job, why = %message, "again");
                self.alarms.set(job, until);
                self.release_unwritten_place(job);
                if task.run.is_some() {
                    self.refuse_uncreated_surplus(job);
                }
                // The first failure is not reported, because it may pass at once.
                if !is_first {
                    self.record_explanation(
                        job,
                        GangExplanation::waiting(Reason::BackingOff, message),
                    );
                }
            }
            // `Avoid` is unwrapped above, and `Nominated` only concerns single external pods.
            TaskOutcome::Avoid(..) | TaskOutcome::Nominated(_) => {}
        }
    }

    pub(in crate::driver) fn put_off(&mut self, job: &Key, reason: Reason, message: String) {
        info!(%job, %reason, why = %message, "put off");
        self.committer.context().metrics.count_put_off(reason);
        self.withdraw(job);
        self.write_journal(job, move |before| {
            journal::postpone(before, reason, message, clock::now())
        });
    }

    /// Rolls the plan back. The place is released once the rollback is in the journal. Until then,
    /// the plan may still have to continue.
    pub(in crate::driver) fn roll_back(
        &mut self,
        job: &Key,
        reason: Reason,
        message: String,
        failed: bool,
    ) {
        info!(%job, %reason, why = %message, "undone");
        // A plan that was withdrawn on purpose has not failed.
        if failed {
            self.committer.context().metrics.count_rollback(reason);
        }
        self.write_journal(job, move |before| {
            journal::roll_back(before, reason, message, failed, clock::now())
        });
    }

    /// Ends a rollback once no pod of the plan is left: takes back the volumes of its claims.
    pub(in crate::driver) fn finish_rollback(&mut self, job: &Key, journal: &PodGroupStatus) {
        let Some(uid) = self.job_uid(job) else { return };
        let plan = journal.plan.as_ref().map(|plan| plan.hash.clone());
        let committer = self.committer.clone();
        let key = job.clone();
        self.start_task(job, None, |_| async move {
            let unbound = committer.unbind_job_claims(&key, plan.as_deref().unwrap_or_default());
            let cleared = async {
                unbound.await?;
                committer
                    .write_journal(&key, &uid, journal::clear_plan)
                    .await
            };
            match cleared.await {
                Ok(()) => TaskOutcome::Done,
                Err(outcome) => outcome,
            }
        });
    }

    /// Releases a place at once if its plan was not written. A task ends only when it knows whether
    /// the plan was written.
    fn release_unwritten_place(&mut self, job: &Key) {
        let group = self.committer.cache().pod_groups.get(job);
        let phase = group.and_then(|g| g.status.as_ref().and_then(|s| s.phase));
        if phase.unwrap_or_default() == PodGroupPhase::Pending {
            self.give_back_place(job);
        }
    }
}
