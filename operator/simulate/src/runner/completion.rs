//! Pods that end one by one. The job ends with its last pod.

use trellis_gang::engine;
use trellis_scheduler::{GangId, GroupName, NodeName, PodKey};

use super::SimulationRunner;
use super::agenda::{DueEvent, RunEvent};
use super::measures::gpu_use_meter;
use super::record::JobEvent;
use super::script::{PodChange, ScriptPodEvent, ScriptSurplusUnit};
use super::simulated_job::{SimulatedJobStage, StoppedPod};
use super::surplus_pods::state::SurplusPhase;

impl SimulationRunner<'_, '_> {
    /// Ends a pod of the gang. The other pods keep running.
    pub(super) fn finish_pod(&mut self, event: &ScriptPodEvent, key: PodKey, reason: String) {
        let pod_place = self.place_of_pod(event);
        self.engine.drop_assumed(&key);
        self.is_unsettled = true;
        let Some(job) = self.jobs.get_mut(&event.job) else {
            return;
        };
        job.stopped_pods.insert(key, StoppedPod::Done);
        if let Some((node, gpus)) = pod_place {
            let place = job
                .gpus_by_node
                .iter_mut()
                .find(|(on, pod_place)| *on == node && *pod_place >= gpus);
            if let Some((_, pod_place)) = place {
                *pod_place = pod_place.saturating_sub(gpus);
            }
            self.meter.add_used(&node, gpus.saturating_neg());
        }
        self.report_event(JobEvent::PodEnded, &event.job, reason);
        if event.change == PodChange::Finishes {
            self.close_group(event);
        }
        self.finish_job_if_done(&event.job);
    }

    /// Creates no more pods for the group of a pod that has succeeded.
    pub(super) fn close_group(&mut self, event: &ScriptPodEvent) {
        let Some(job) = self.jobs.get_mut(&event.job).filter(|_| event.is_elastic) else {
            return;
        };
        let of_group = |pod: &&ScriptSurplusUnit| {
            engine::parse_gang_id(&pod.gang.id)
                .1
                .is_some_and(|pod| pod.group == event.group)
        };
        for pod in job.surplus.units.iter().filter(of_group) {
            let id = &pod.gang.id;
            let seat = job
                .surplus
                .phases
                .entry(id.clone())
                .or_insert(SurplusPhase::Done);
            if matches!(seat, SurplusPhase::Waiting | SurplusPhase::BackingOff) {
                *seat = SurplusPhase::Done;
                self.engine.delete_gang(id);
            }
        }
    }

    /// Ends the job if all pods of its gang and all existing surplus pods of its elastic groups
    /// have ended.
    pub(super) fn finish_job_if_done(&mut self, id: &GangId) {
        let Some(job) = self.jobs.get(id) else { return };
        let completed = job
            .stopped_pods
            .values()
            .filter(|rank| **rank == StoppedPod::Done);
        let is_gang_done = u64::try_from(completed.count())
            .is_ok_and(|completed| completed >= job.gang.pod_count());
        let mut surplus = job.surplus.units.iter().filter(|pod| pod.is_elastic);
        let runs = surplus.any(|pod| {
            let seat = job.surplus.phases.get(&pod.gang.id);
            matches!(
                seat,
                Some(SurplusPhase::Placed(_) | SurplusPhase::Leaving(_))
            )
        });
        if is_gang_done && !runs && matches!(job.stage, SimulatedJobStage::Placed { .. }) {
            let due = DueEvent {
                event: RunEvent::End,
                job: id.clone(),
                event_generation: job.event_generation,
            };
            self.agenda.add(self.now, due);
        }
    }

    /// Returns the node and the GPUs of a pod of the gang.
    fn place_of_pod(&self, event: &ScriptPodEvent) -> Option<(NodeName, i64)> {
        let node = self.node_of(&event.job, event)?;
        let job = self.jobs.get(&event.job)?;
        let (group, _) = job.gang.member(&GroupName::new(event.group.as_str()))?;
        Some((node, gpu_use_meter::count_gpus(&group.request)))
    }
}
