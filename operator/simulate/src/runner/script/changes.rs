//! Applies the changes of a script.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use trellis_api::job::Restart;
use trellis_scheduler::{Gang, GangId, NodeName, PodKey, QueueName, Resources};

use super::ScriptSurplusUnit;
use crate::runner::measures::gpu_use_meter;
use crate::runner::simulated_job::{self, SimulatedJob, SimulatedJobStage};
use crate::runner::surplus_pods::state::SimulatedSurplus;
use crate::runner::{
    BackfillRuntimeSource, JobEvent, ScriptChange, ScriptJob, SimulationRunner, WithheldJob,
};

impl SimulationRunner<'_, '_> {
    pub(in crate::runner) fn apply_change(&mut self, change: ScriptChange) {
        match change {
            ScriptChange::Node(node) => {
                self.meter
                    .set_node(&node.name, gpu_use_meter::count_gpus(&node.allocatable));
                let label = self.options.domains.and_then(|key| node.labels.get(key));
                if let Some(domain) = label {
                    self.meter.set_domain(&node.name, domain);
                }
                self.nodes.insert(node.name.clone(), node.clone());
                self.engine.apply_node(node);
            }
            ScriptChange::NodeDeleted(name) => self.remove_node(&name),
            ScriptChange::Queue(queue) => self.engine.apply_queue(queue),
            ScriptChange::QueueDeleted(name) => self.engine.delete_queue(&name),
            ScriptChange::Flavor(flavor) => {
                self.autoscaler.apply_flavor(flavor.clone());
                self.engine.apply_flavor(flavor);
            }
            ScriptChange::FlavorDeleted(name) => {
                self.autoscaler.delete_flavor(&name);
                self.engine.delete_flavor(&name);
            }
            ScriptChange::Autoscaler(flavor, settings) => {
                self.autoscaler.apply_settings(flavor, settings);
            }
            ScriptChange::Quotas(policies) => self.gpu_hour_limits.apply_policies(policies),
            ScriptChange::Topology(topology) => self.engine.apply_topology(topology),
            ScriptChange::TopologyDeleted(name) => self.engine.delete_topology(&name),
            ScriptChange::ExternalPod(pod, node, request) => {
                self.add_external_pod(pod, node, request)
            }
            ScriptChange::ExternalPodDeleted(pod) => self.remove_external_pod(&pod),
            ScriptChange::Job(job) => self.apply_job(*job),
            ScriptChange::JobWithheld(held) => self.withhold_job(held),
            ScriptChange::JobDeleted(id) => self.delete_job(&id),
            ScriptChange::JobPod(event) => self.apply_pod_event(&event),
            // The main loop checks expectations after all other changes of this time.
            ScriptChange::Expect(_) => {}
        }
    }

    /// Removes a node. Each gang with a pod on it restarts as a whole.
    pub(in crate::runner) fn remove_node(&mut self, name: &NodeName) {
        self.meter.set_node(name, 0);
        self.nodes.remove(name);
        self.autoscaler.forget_node(name);
        self.engine.delete_node(name);
        let matches = |id: &&GangId| {
            let job = self.jobs.get(*id);
            job.is_some_and(|j| {
                j.placed_at().is_some() && j.gpus_by_node.iter().any(|(n, _)| n == name)
            })
        };
        let lost: Vec<GangId> = self.placed_jobs.iter().filter(matches).cloned().collect();
        for id in lost {
            self.end_placement(&id, SimulatedJobStage::Waiting);
            self.engine.release_gang(&id, None);
            let reason = format!("node {:?} is gone", name.as_str());
            self.report_event(JobEvent::Restarted, &id, reason);
        }
        self.remove_surplus_node(name);
    }

    fn add_external_pod(&mut self, pod: PodKey, node: NodeName, request: Resources) {
        self.remove_external_pod(&pod);
        self.meter
            .add_used(&node, gpu_use_meter::count_gpus(&request));
        self.external_pods
            .insert(pod.clone(), (node.clone(), request.clone()));
        self.engine.apply_pod(pod, node, request);
    }

    fn remove_external_pod(&mut self, pod: &PodKey) {
        if let Some((node, request)) = self.external_pods.remove(pod) {
            let gpus = gpu_use_meter::count_gpus(&request);
            self.meter.add_used(&node, gpus.saturating_neg());
        }
        self.engine.delete_pod(pod);
    }

    fn apply_job(&mut self, mut job: ScriptJob) {
        self.gpu_hour_limits
            .add_limits(std::mem::take(&mut job.gpu_hour_limits));
        if !self.meter.has_begun() {
            self.meter.advance(self.now);
        }
        let known = self.jobs.get(&job.gang.id).map(|known| known.stage);
        match known {
            // A later change does not restart a job that has ended.
            Some(SimulatedJobStage::Ended) => return,
            Some(
                SimulatedJobStage::Waiting
                | SimulatedJobStage::Placed { .. }
                | SimulatedJobStage::Leaving,
            ) => {
                self.update_job(job);
                return;
            }
            None => self.tally.jobs = self.tally.jobs.saturating_add(1),
            Some(SimulatedJobStage::Withheld | SimulatedJobStage::Refused) => {}
        }
        let facts = self.runtime_facts(&job);
        let state = SimulatedJob {
            gpus: simulated_job::gang_gpus(&job.gang),
            gang: Gang {
                runtime: facts.limit,
                predicted: facts.predicted,
                ..job.gang
            },
            uses_queue_prediction: facts.uses_queue_prediction,
            runtime: job.runtime,
            limit: job.limit,
            prediction_key: job.prediction_key,
            stage: SimulatedJobStage::Waiting,
            event_generation: 0,
            gpus_by_node: Vec::new(),
            has_started: false,
            was_preempted: false,
            surplus: SimulatedSurplus::from_units(job.surplus),
            restart: job.restart,
            stopped_pods: BTreeMap::new(),
            failures: 0,
            disruptions: 0,
        };
        self.tally.add_queued(state.gpus);
        self.head_waits.add_pending(&state.gang);
        self.engine.apply_gang(state.gang.clone());
        self.jobs.insert(state.gang.id.clone(), state);
    }

    /// Returns the runtimes that backfill uses for a job.
    fn runtime_facts(&mut self, job: &ScriptJob) -> RuntimeFacts {
        let unknown = self.random.next_below(100) < usize::from(self.options.unknown_percent);
        let (limit, by_name) = match self.options.runtimes {
            _ if unknown => (None, None),
            BackfillRuntimeSource::Declared => (job.gang.runtime, None),
            BackfillRuntimeSource::Exact => (job.place_duration(), None),
            BackfillRuntimeSource::Predicted => {
                (job.limit, self.predictor.predict(&job.prediction_key))
            }
        };
        let queue = &job.gang.queue;
        let is_expected = self.options.runtimes == BackfillRuntimeSource::Predicted
            && limit.or(by_name).is_none()
            && self.engine.default_runtime(queue).is_none();
        let expected = is_expected
            .then(|| self.predictor.predict_for_queue(queue))
            .flatten();
        RuntimeFacts {
            limit,
            predicted: by_name.or(expected),
            uses_queue_prediction: is_expected,
        }
    }

    /// Applies a queue's new prediction to its pending jobs that have no other prediction.
    pub(in crate::runner) fn update_predictions(&mut self, queue: &QueueName) {
        let expected = self.predictor.predict_for_queue(queue);
        for job in self.jobs.values_mut() {
            let pending = job.stage == SimulatedJobStage::Waiting && job.gang.queue == *queue;
            if pending && job.uses_queue_prediction {
                job.gang.predicted = expected;
                self.engine.apply_gang(job.gang.clone());
            }
        }
    }

    /// Applies a changed job. A placed job keeps its nodes.
    fn update_job(&mut self, job: ScriptJob) {
        let Some(state) = self.jobs.get_mut(&job.gang.id) else {
            return;
        };
        let pending = state.stage == SimulatedJobStage::Waiting;
        if pending {
            self.head_waits.remove_pending(&state.gang);
        }
        state.gang = Gang {
            submitted: state.gang.submitted,
            runtime: state.gang.runtime,
            predicted: state.gang.predicted,
            ..job.gang
        };
        state.gpus = simulated_job::gang_gpus(&state.gang);
        state.runtime = job.runtime.or(state.runtime);
        state.limit = job.limit;
        state.restart = job.restart;
        let id = state.gang.id.clone();
        let surplus = std::mem::replace(&mut state.surplus.units, job.surplus);
        let is_gone = |pod: &&ScriptSurplusUnit| state.surplus.unit(&pod.gang.id).is_none();
        let removed: Vec<GangId> = surplus
            .iter()
            .filter(is_gone)
            .map(|pod| pod.gang.id.clone())
            .collect();
        if pending {
            self.head_waits.add_pending(&state.gang);
        }
        self.engine.apply_gang(state.gang.clone());
        for pod in surplus.iter().filter(|pod| removed.contains(&pod.gang.id)) {
            self.delete_surplus_unit(&id, pod);
        }
        self.submit_surplus(&id);
    }

    /// Removes a job from the engine, or does not submit it.
    fn withhold_job(&mut self, withheld: WithheldJob) {
        let stage = if withheld.refused {
            SimulatedJobStage::Refused
        } else {
            SimulatedJobStage::Withheld
        };
        match self.jobs.entry(withheld.id.clone()) {
            Entry::Vacant(entry) => {
                self.tally.jobs = self.tally.jobs.saturating_add(1);
                let none = Gang::new(withheld.id.clone(), QueueName::new(""), Vec::new());
                entry.insert(SimulatedJob {
                    gang: none,
                    gpus: 0,
                    runtime: None,
                    limit: None,
                    prediction_key: String::new(),
                    uses_queue_prediction: false,
                    stage,
                    event_generation: 0,
                    gpus_by_node: Vec::new(),
                    has_started: false,
                    was_preempted: false,
                    surplus: SimulatedSurplus::default(),
                    restart: Restart::default(),
                    stopped_pods: BTreeMap::new(),
                    failures: 0,
                    disruptions: 0,
                });
            }
            Entry::Occupied(mut entry) => match entry.get().stage {
                SimulatedJobStage::Withheld | SimulatedJobStage::Refused => {
                    entry.get_mut().stage = stage
                }
                SimulatedJobStage::Waiting => {
                    let state = entry.get_mut();
                    state.stage = stage;
                    self.head_waits.remove_pending(&state.gang);
                    self.engine.delete_gang(&withheld.id);
                }
                // A placed job keeps running.
                SimulatedJobStage::Placed { .. }
                | SimulatedJobStage::Leaving
                | SimulatedJobStage::Ended => return,
            },
        }
        let event = if withheld.refused {
            JobEvent::Refused
        } else {
            JobEvent::Waiting
        };
        self.report_event(event, &withheld.id, withheld.reason);
    }

    fn delete_job(&mut self, id: &GangId) {
        if !self.jobs.contains_key(id) {
            return;
        }
        self.end_placement(id, SimulatedJobStage::Ended);
        self.jobs.remove(id);
        self.refused.remove(id);
        self.engine.delete_gang(id);
        self.report_event(JobEvent::Deleted, id, String::new());
    }
}

/// The runtimes that backfill uses for a job.
struct RuntimeFacts {
    limit: Option<Duration>,
    predicted: Option<Duration>,
    /// True if the job has the prediction of its queue, because no similar job has run.
    uses_queue_prediction: bool,
}
