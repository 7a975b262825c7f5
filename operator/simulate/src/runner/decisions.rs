//! Carries out the decisions of the engine: it places jobs and evicts victims.

use trellis_scheduler::{Decision, GangId, Placement, Victim};

use super::agenda::{DueEvent, RunEvent};
use super::record::{JobEvent, JobEventRecord, RecordClock, SimulationRecord};
use super::simulated_job::{self, SimulatedJobStage};
use super::surplus_pods::state::job_of;
use super::{SimulationRunner, add_duration};

impl SimulationRunner<'_, '_> {
    pub(super) fn apply_decision(&mut self, decision: &Decision) {
        if let Decision::Place {
            gang, placement, ..
        }
        | Decision::Preempt {
            gang, placement, ..
        }
        | Decision::Reserve {
            gang, placement, ..
        } = decision
            && let Some(job) = job_of(gang)
        {
            if matches!(decision, Decision::Place { .. }) {
                self.place_surplus(&job, gang, placement);
            }
            return;
        }
        if let Decision::Wait { gang, .. } = decision
            && job_of(gang).is_some()
        {
            return;
        }
        for record in
            JobEventRecord::from_decision((self.now, RecordClock::Simulated), decision, |id| {
                Some(&self.jobs.get(id)?.gang)
            })
        {
            // The eviction of a surplus pod is reported as an event of its job.
            if record.event == JobEvent::Preempted && job_of(record.job).is_some() {
                continue;
            }
            (self.record_sink)(&SimulationRecord::Job(record));
        }
        match decision {
            Decision::Wait { gang, explanation } if explanation.detail.is_refusal() => {
                self.refused.insert(gang.clone());
            }
            Decision::Place { gang, .. }
            | Decision::Preempt { gang, .. }
            | Decision::Wait { gang, .. } => {
                self.refused.remove(gang);
            }
            Decision::Drain { .. }
            | Decision::Reserve { .. }
            | Decision::Provision(_)
            | Decision::EndProvisioning { .. } => {}
        }
        match decision {
            Decision::Place {
                gang, placement, ..
            } => self.place_gang(gang, placement),
            Decision::Preempt { gang, victims, .. } => {
                for victim in victims {
                    self.evict_victim(victim, Some(gang));
                }
            }
            Decision::Drain { victim } => self.evict_victim(victim, None),
            Decision::Provision(request) => {
                self.node_hours.add_order();
                let flavors = request.flavors.clone();
                self.autoscaler.add_order(request.gang.clone(), flavors);
            }
            Decision::EndProvisioning { is_late: true, .. } => self.node_hours.add_failed_order(),
            Decision::Wait { .. } | Decision::Reserve { .. } | Decision::EndProvisioning { .. } => {
            }
        }
    }

    fn place_gang(&mut self, id: &GangId, placement: &Placement) {
        let Some(job) = self.jobs.get_mut(id) else {
            return;
        };
        job.event_generation = job.event_generation.saturating_add(1);
        job.stage = SimulatedJobStage::Placed { since: self.now };
        job.gpus_by_node = simulated_job::placement_gpus(&job.gang, placement);
        for (node, gpus) in &job.gpus_by_node {
            self.meter.add_used(node, *gpus);
            self.meter.add_runs(node, 1);
        }
        self.placed_jobs.insert(id.clone());
        self.head_waits.remove_pending(&job.gang);
        if !std::mem::replace(&mut job.has_started, true) {
            let waited = self.now.since(job.gang.submitted);
            self.tally.add_started(job.gpus, waited);
            if self
                .options
                .domains
                .is_some_and(|level| job.needs_one_domain(level))
                && self.meter.is_size_of_domain(job.gpus)
            {
                self.tally.add_whole_domain_wait(waited);
            }
        }
        if let Some(holds) = job.place_duration() {
            let due = DueEvent {
                event: RunEvent::End,
                job: id.clone(),
                event_generation: job.event_generation,
            };
            self.agenda.add(add_duration(self.now, holds), due);
        }
        self.submit_surplus(id);
    }

    /// Evicts a victim. Its work is lost, and its nodes are free after the grace period.
    fn evict_victim(&mut self, victim: &Victim, preemptor: Option<&GangId>) {
        if let Some(job) = job_of(&victim.gang) {
            self.evict_surplus(&job, victim, preemptor);
            return;
        }
        let Some(job) = self.jobs.get_mut(&victim.gang) else {
            return;
        };
        // Cancel the scheduled events of this run.
        job.event_generation = job.event_generation.saturating_add(1);
        job.stage = SimulatedJobStage::Leaving;
        job.stopped_pods.clear();
        job.was_preempted = true;
        let due = DueEvent {
            event: RunEvent::Stop,
            job: victim.gang.clone(),
            event_generation: job.event_generation,
        };
        self.agenda.add(add_duration(self.now, job.gang.grace), due);
        self.tally.preemptions = self.tally.preemptions.saturating_add(1);
        self.withdraw_all_surplus(&victim.gang);
    }
}
