//! What the engine decides is started, or said.

use k8s_openapi::jiff::Timestamp;
use trellis_api::Reason;
use trellis_scheduler::Decision;

use super::{Driver, Inside};
use crate::key::Key;
use crate::scheduling::admitted::Admitted;
use crate::scheduling::flavors::Place;
use crate::scheduling::gang;
use crate::world::Certificate;

impl Driver {
    /// Lets the engine decide, and starts what it decided.
    pub(super) fn decide(&mut self) {
        for decision in self.engine.cycle(gang::time(Timestamp::now())) {
            match decision {
                Decision::Place {
                    gang: id,
                    placement,
                    ..
                } => {
                    let flavors = self.engine.flavors(&id).unwrap_or_default();
                    let groups = self.flavors.planned(&flavors);
                    self.place(&gang::job_of(&id), Place { placement, groups });
                }
                Decision::Wait {
                    gang: id,
                    certificate,
                } => {
                    let reason = gang::reason(certificate.reason);
                    self.say(&gang::job_of(&id), reason, certificate.to_string());
                }
                // No queue of the API lets its gangs preempt yet.
                Decision::Preempt { .. } | Decision::Drain { .. } => {}
                // Nobody reads it yet.
                Decision::Reserve { .. } => {}
            }
        }
    }

    fn place(&mut self, job: &Key, place: Place) {
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
            committer.commit(key, run, place, planned, stop).await
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
