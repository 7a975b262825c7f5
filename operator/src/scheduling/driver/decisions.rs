//! What the engine decides is started, or said.

use k8s_openapi::jiff::Timestamp;
use trellis_api::Reason;
use trellis_scheduler::{Decision, Placement};

use super::{Driver, Inside};
use crate::key::Key;
use crate::scheduling::admitted::Admitted;
use crate::scheduling::gang;
use crate::world::Certificate;

impl Driver {
    /// Lets the engine decide, and starts what it decided.
    pub(super) fn decide(&mut self) {
        let devices_changed = std::mem::take(&mut self.devices_changed);
        for decision in self.engine.cycle(gang::time(Timestamp::now())) {
            match decision {
                Decision::Place {
                    gang: id,
                    placement,
                    ..
                } => self.place(&gang::job_of(&id), placement),
                Decision::Wait {
                    gang: id,
                    certificate,
                } => {
                    let (reason, message) = self.told(&certificate);
                    self.say(&gang::job_of(&id), reason, message);
                }
                // No queue of the API lets its gangs preempt yet.
                Decision::Preempt { .. } | Decision::Drain { .. } => {}
            }
        }
        if devices_changed {
            self.tell_of_devices();
        }
    }

    fn place(&mut self, job: &Key, placement: Placement) {
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        state.inside = Inside::Placed;
        let run = state.run().cloned();
        // Pods of its name are being deleted, or the journal is being written:
        // it is put back in the queue once that is done.
        let (Some(run), None) = (run, &state.task) else {
            self.withdraw(job);
            return;
        };
        let planned = run
            .job
            .compiled()
            .groups()
            .iter()
            .map(|group| {
                let admitted = state
                    .actual
                    .get(group.name())
                    .cloned()
                    .unwrap_or_else(|| Admitted::unchanged(group));
                (group.name().to_owned(), admitted)
            })
            .collect();
        self.over_quota.remove(job);
        let committer = self.committer.clone();
        let key = job.clone();
        let attempt = run.attempt;
        self.start(job, Some(attempt), |stop| async move {
            committer.commit(key, run, placement, planned, stop).await
        });
    }

    /// Says why a gang waits; the controller writes it down if the reason is new.
    pub(super) fn say(&self, job: &Key, reason: Reason, message: String) {
        let world = self.committer.world();
        let before = world
            .certificates
            .write()
            .insert(job.clone(), Certificate { reason, message });
        if before.is_none_or(|b| b.reason != reason) {
            world.work.add(job.clone());
        }
    }
}
