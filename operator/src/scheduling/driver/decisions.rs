//! What the engine decides is started, or said.

use k8s_openapi::jiff::Timestamp;
use trellis_api::Reason;
use trellis_api::pod_group::PodGroupPhase;
use trellis_scheduler::{Certificate as Refusal, Decision, GangId, Placement};

use super::{Driver, Inside};
use crate::key::Key;
use crate::scheduling::flavors::Place;
use crate::scheduling::{allocation, gang, journal};
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
                } => {
                    let place = self.place_of(&id, placement);
                    self.place(&gang::job_of(&id), place);
                }
                Decision::Wait {
                    gang: id,
                    certificate,
                } => {
                    let job = gang::job_of(&id);
                    self.waits(&job);
                    let (reason, message) = self.told(&id, &certificate);
                    self.say(&job, reason, message);
                }
                Decision::Preempt {
                    gang: id,
                    placement,
                    victims,
                } => {
                    let place = self.place_of(&id, placement);
                    self.preempt(&gang::job_of(&id), place, &victims);
                }
                Decision::Drain { victim } => self.drain(&victim),
                Decision::Reserve { gang: id, .. } => {
                    if let Some(certificate) = self.engine.certificate(&id) {
                        let (reason, message) = self.told(&id, certificate);
                        self.say(&gang::job_of(&id), reason, message);
                    }
                }
            }
        }
        if devices_changed {
            self.tell_of_devices();
        }
    }

    /// Why a gang waits, in the words of the API, and when that ends if room is
    /// kept for it.
    pub(super) fn told(&self, id: &GangId, certificate: &Refusal) -> (Reason, String) {
        let world = self.committer.world();
        let classes = world.device_classes.all();
        let nodes = || world.nodes.all();
        allocation::told(&self.engine, id, certificate, &classes, nodes)
    }

    /// A place, with what its flavors bring.
    pub(super) fn place_of(&self, id: &GangId, placement: Placement) -> Place {
        let flavors = self.engine.flavors(id).unwrap_or_default();
        let groups = self.flavors.planned(&flavors);
        Place { placement, groups }
    }

    fn is_nominated(&self, job: &Key) -> bool {
        let group = self.committer.world().pod_groups.get(job);
        let phase = group.and_then(|g| g.status.as_ref()?.phase);
        phase == Some(PodGroupPhase::Nominated)
    }

    /// A gang that was nominated cannot have that place any more.
    fn waits(&mut self, job: &Key) {
        let nominated = Inside::Nominated;
        if let Some(state) = self.gangs.get_mut(job).filter(|s| s.inside == nominated) {
            state.inside = Inside::Waiting;
            match &state.task {
                Some(task) => task.stop.cancel(),
                None => self.write(job, journal::voided),
            }
            self.spare(job);
        }
    }

    pub(super) fn place(&mut self, job: &Key, place: Place) {
        self.spare(job);
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        state.inside = Inside::Placed;
        let run = state.run().cloned();
        let busy = state.task.is_some();
        if busy && run.is_some() && self.is_nominated(job) {
            // The place stands in the journal: it is gone on with once the task has ended.
            return;
        }
        // Pods of its name are being deleted, or the journal is being written:
        // it is put back in the queue once that is done.
        let (Some(state), Some(run), false) = (self.gangs.get(job), run, busy) else {
            self.withdraw(job);
            return;
        };
        let planned = state.planned(&run);
        self.over_quota.remove(job);
        let committer = self.committer.clone();
        let key = job.clone();
        self.start(job, Some(run.clone()), |stop| async move {
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
