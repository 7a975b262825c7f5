//! Handles the result of a task.

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use tracing::{debug, info};
use trellis_api::Reason;
use trellis_api::pod_group::{PodGroupPhase, PodGroupStatus};
use trellis_gang::key::Key;
use trellis_gang::{Certificate, external, journal};

use super::Driver;
use crate::commit::Outcome;

/// How often in a row a place is given up because admission changed the pods. Pods that get another
/// flavor are other pods, and admission may change each of them so that the next place has the
/// first flavor again.
const MOST_REPLANS: u32 = 8;

impl Driver {
    pub(super) fn ended(&mut self, job: &Key, outcome: Outcome) {
        if external::is_external(job) {
            return self.ended_external_pods(job, outcome);
        }
        let uid = self.job_uid(job);
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        let Some(task) = state.task.take() else {
            return;
        };
        if state.wish.is_none() {
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
            Outcome::Avoid(nodes, outcome) => {
                info!(%job, ?nodes, "its pods cannot be there, and may be elsewhere; they are kept away from");
                for node in nodes {
                    state.avoided.note(&node, Instant::now());
                }
                *outcome
            }
            outcome => outcome,
        };
        let is_first = !state.pause.has_begun();
        if !matches!(outcome, Outcome::Again(_)) {
            state.pause.end();
            state.hindrance = None;
        }
        let replans = std::mem::take(&mut state.replans);
        match outcome {
            Outcome::Done => {}
            Outcome::Replan(actual) => {
                debug!(%job, "admission changed the pods; a place is sought anew");
                state.actual = actual;
                state.replans = replans.saturating_add(1);
                let too_often = state.replans > MOST_REPLANS;
                // The victims of the earlier request stay.
                self.withdraw(job);
                if too_often && let Some(state) = self.gangs.get_mut(job) {
                    state.replans = 0;
                    let message = "admission changes what the pods ask for with every place that is found for them";
                    self.put_off(job, Reason::PodRefused, message.to_owned());
                }
            }
            Outcome::Kept(kept) => self.kept(job, &kept.victim, kept.message),
            Outcome::PutOff(reason, message) => self.put_off(job, reason, message),
            Outcome::OverQuota(ask, message) => {
                self.over_quota.insert(job.clone(), ask);
                self.put_off(job, Reason::ResourceQuotaExceeded, message);
            }
            Outcome::Undo(reason, message) => self.undo(job, reason, message, true),
            Outcome::Again(message) => {
                let until = state.pause.begin(Instant::now());
                state.hindrance = Some(message.clone());
                debug!(%job, why = %message, "again");
                self.alarms.set(job, until);
                self.release(job);
                if task.run.is_some() {
                    self.refuse_surplus(job);
                }
                // The first failure is not reported: it may pass at once.
                if !is_first {
                    self.say(job, Certificate::waits(Reason::BackingOff, message));
                }
            }
            // `Avoid` is unwrapped above, and `Nominated` only concerns single external pods.
            Outcome::Avoid(..) | Outcome::Nominated(_) => {}
        }
    }

    pub(super) fn put_off(&mut self, job: &Key, reason: Reason, message: String) {
        info!(%job, %reason, why = %message, "put off");
        self.committer.context().counts.put_off(reason);
        self.withdraw(job);
        self.write(job, move |before| {
            journal::put_off(before, reason, message, Timestamp::now())
        });
    }

    /// Rolls the plan back. Its place is released once that is in the journal: until then the plan
    /// may still have to be continued.
    pub(super) fn undo(&mut self, job: &Key, reason: Reason, message: String, failed: bool) {
        info!(%job, %reason, why = %message, "undone");
        // A plan that is withdrawn on purpose has not failed.
        if failed {
            self.committer.context().counts.undone(reason);
        }
        self.write(job, move |before| {
            journal::undone(before, reason, message, failed, Timestamp::now())
        });
    }

    /// Nothing is left of the plan: the volumes that its claims were given are taken back.
    pub(super) fn clear(&mut self, job: &Key, journal: &PodGroupStatus) {
        let Some(uid) = self.job_uid(job) else { return };
        let plan = journal.plan.as_ref().map(|plan| plan.hash.clone());
        let committer = self.committer.clone();
        let key = job.clone();
        self.start(job, None, |_| async move {
            let unbound = committer.unbind(&key, plan.as_deref().unwrap_or_default());
            let cleared = async {
                unbound.await?;
                committer.journal(&key, &uid, journal::cleared).await
            };
            match cleared.await {
                Ok(()) => Outcome::Done,
                Err(outcome) => outcome,
            }
        });
    }

    /// Releases a place at once if its plan was not written. A task ends only when it knows whether
    /// the plan was written.
    fn release(&mut self, job: &Key) {
        let group = self.committer.cache().pod_groups.get(job);
        let phase = group.and_then(|g| g.status.as_ref().and_then(|s| s.phase));
        if phase.unwrap_or_default() == PodGroupPhase::Pending {
            self.withdraw(job);
        }
    }
}
