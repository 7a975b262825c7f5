//! Pods end one by one, and with the last of them their job.

use trellis_gang::engine;
use trellis_scheduler::{GangId, NodeName, PodKey};

use super::Runner;
use super::agenda::{Due, What};
use super::elastic::Seat;
use super::job::{Rank, Stage};
use super::record::Event;
use super::script::{PodChange, PodEvent, SurplusPod};

impl Runner<'_, '_> {
    /// A pod of the gang has ended, and the other pods go on.
    pub(super) fn pod_is_done(&mut self, event: &PodEvent, key: PodKey, why: String) {
        let held = self.held_by(event);
        self.engine.drop_assumed(&key);
        self.is_unsettled = true;
        let Some(job) = self.jobs.get_mut(&event.job) else {
            return;
        };
        job.ranks.insert(key, Rank::Done);
        if let Some((node, gpus)) = held {
            let place = job
                .place
                .iter_mut()
                .find(|(on, held)| *on == node && *held >= gpus);
            if let Some((_, held)) = place {
                *held = held.saturating_sub(gpus);
            }
            self.meter.hold(&node, gpus.saturating_neg());
        }
        self.say(Event::PodEnded, &event.job, why);
        if event.what == PodChange::Finishes {
            self.close_group(event);
        }
        self.end_if_done(&event.job);
    }

    /// The group of a pod that has done its work needs no more pods.
    pub(super) fn close_group(&mut self, event: &PodEvent) {
        let Some(job) = self.jobs.get_mut(&event.job).filter(|_| event.is_elastic) else {
            return;
        };
        let of_group = |pod: &&SurplusPod| {
            engine::whose(&pod.gang.id)
                .1
                .is_some_and(|pod| pod.group == event.group)
        };
        for pod in job.surplus.pods.iter().filter(of_group) {
            let id = &pod.gang.id;
            let seat = job.surplus.seats.entry(id.clone()).or_insert(Seat::Done);
            if matches!(seat, Seat::Waiting | Seat::BackingOff) {
                *seat = Seat::Done;
                self.engine.delete_gang(id);
            }
        }
    }

    /// A job is done once all pods of its gang, and all surplus pods of elastic groups that are
    /// there, have ended.
    pub(super) fn end_if_done(&mut self, id: &GangId) {
        let Some(job) = self.jobs.get(id) else { return };
        let done = job.ranks.values().filter(|rank| **rank == Rank::Done);
        let is_gang_done =
            u64::try_from(done.count()).is_ok_and(|done| done >= job.gang.pod_count());
        let mut surplus = job.surplus.pods.iter().filter(|pod| pod.is_elastic);
        let runs = surplus.any(|pod| {
            let seat = job.surplus.seats.get(&pod.gang.id);
            matches!(seat, Some(Seat::Placed(_) | Seat::Leaving(_)))
        });
        if is_gang_done && !runs && matches!(job.stage, Stage::Placed { .. }) {
            let due = Due {
                what: What::End,
                job: id.clone(),
                run: job.run,
            };
            self.agenda.add(self.now, due);
        }
    }

    /// The node and the GPUs of a pod of the gang.
    fn held_by(&self, event: &PodEvent) -> Option<(NodeName, i64)> {
        let node = self.node_of(&event.job, event)?;
        let job = self.jobs.get(&event.job)?;
        let mut groups = job.gang.groups.iter();
        let group = groups.find(|group| group.name.as_str() == event.group)?;
        Some((node, super::meter::gpus(&group.request)))
    }
}
