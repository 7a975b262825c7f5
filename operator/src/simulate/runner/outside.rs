//! What happens from outside.

use std::collections::btree_map::Entry;
use std::time::Duration;

use trellis_scheduler::{Gang, GangId, NodeName, PodKey, QueueName, Resources};

use super::job::{self, JobState, Stage};
use super::{Change, Event, Held, Job, Runner, Runtimes, meter};

impl Runner<'_, '_> {
    pub(super) fn change(&mut self, change: Change) {
        match change {
            Change::Node(node) => {
                self.meter
                    .set_node(&node.name, meter::gpus(&node.allocatable));
                self.engine.apply_node(node);
            }
            Change::NodeGone(name) => self.node_gone(&name),
            Change::Queue(queue) => self.engine.apply_queue(queue),
            Change::QueueGone(name) => self.engine.delete_queue(&name),
            Change::Flavor(flavor) => self.engine.apply_flavor(flavor),
            Change::FlavorGone(name) => self.engine.delete_flavor(&name),
            Change::Topology(topology) => self.engine.apply_topology(topology),
            Change::TopologyGone(name) => self.engine.delete_topology(&name),
            Change::Pod(pod, node, request) => self.foreign(pod, node, request),
            Change::PodGone(pod) => self.foreign_gone(&pod),
            Change::Job(job) => self.job(*job),
            Change::Held(held) => self.hold(held),
            Change::JobGone(id) => self.job_gone(&id),
            // The loop keeps them for the end of the moment.
            Change::Expect(_) => {}
        }
    }

    /// Everything on the node is lost: gangs start again as a whole.
    fn node_gone(&mut self, name: &NodeName) {
        self.meter.set_node(name, 0);
        self.engine.delete_node(name);
        let is_there = |id: &&GangId| {
            let job = self.jobs.get(*id);
            job.is_some_and(|j| j.since().is_some() && j.place.iter().any(|(n, _)| n == name))
        };
        let lost: Vec<GangId> = self.holding.iter().filter(is_there).cloned().collect();
        for id in lost {
            self.give_up(&id, Stage::Waiting);
            self.engine.release_gang(&id, None);
            let reason = format!("node {:?} is gone", name.as_str());
            self.say(Event::Restarted, &id, reason);
        }
    }

    fn foreign(&mut self, pod: PodKey, node: NodeName, request: Resources) {
        self.foreign_gone(&pod);
        let gpus = meter::gpus(&request);
        self.meter.hold(&node, gpus);
        self.foreign.insert(pod.clone(), (node.clone(), gpus));
        self.engine.apply_pod(pod, node, request);
    }

    fn foreign_gone(&mut self, pod: &PodKey) {
        if let Some((node, gpus)) = self.foreign.remove(pod) {
            self.meter.hold(&node, gpus.saturating_neg());
        }
        self.engine.delete_pod(pod);
    }

    fn job(&mut self, job: Job) {
        if !self.meter.runs() {
            self.meter.advance(self.now);
        }
        let known = self.jobs.get(&job.gang.id).map(|known| known.stage);
        match known {
            // An end is an end, whatever is written afterwards.
            Some(Stage::Ended) => return,
            Some(Stage::Waiting | Stage::Placed { .. } | Stage::Leaving) => {
                self.update(job);
                return;
            }
            None => self.tally.jobs = self.tally.jobs.saturating_add(1),
            Some(Stage::Held | Stage::Refused) => {}
        }
        let (runtime, prediction) = self.told(&job);
        let state = JobState {
            gpus: job::gpus(&job.gang),
            gang: Gang {
                runtime,
                ..job.gang
            },
            runtime: job.runtime,
            limit: job.limit,
            runs_as: job.runs_as,
            prediction,
            stage: Stage::Waiting,
            run: 0,
            place: Vec::new(),
            has_started: false,
            was_preempted: false,
        };
        self.tally.queued(state.gpus);
        self.heads.wait(&state.gang);
        self.engine.apply_gang(state.gang.clone());
        self.jobs.insert(state.gang.id.clone(), state);
    }

    /// What backfill is told of its runtime, and the prediction that this comes from.
    fn told(&mut self, job: &Job) -> (Option<Duration>, Option<Duration>) {
        let unknown = self.random.below(100) < usize::from(self.options.unknown_percent);
        if unknown {
            return (None, None);
        }
        match self.options.runtimes {
            Runtimes::Declared => (job.gang.runtime, None),
            Runtimes::Exact => (job.holds_for(), None),
            Runtimes::Predicted => match self.predictor.predict(&job.runs_as) {
                Some(predicted) => {
                    let told = job.limit.map_or(predicted, |limit| limit.min(predicted));
                    (Some(told), Some(predicted))
                }
                None => (job.limit, None),
            },
        }
    }

    /// It is written again. Of one that has its place nothing moves.
    fn update(&mut self, job: Job) {
        let Some(state) = self.jobs.get_mut(&job.gang.id) else {
            return;
        };
        let waits = state.stage == Stage::Waiting;
        if waits {
            self.heads.leave(&state.gang);
        }
        state.gang = Gang {
            submitted: state.gang.submitted,
            runtime: state.gang.runtime,
            ..job.gang
        };
        state.gpus = job::gpus(&state.gang);
        state.runtime = job.runtime.or(state.runtime);
        state.limit = job.limit;
        if waits {
            self.heads.wait(&state.gang);
        }
        self.engine.apply_gang(state.gang.clone());
    }

    /// A job that the engine is not told of, or no longer.
    fn hold(&mut self, held: Held) {
        let stage = if held.refused {
            Stage::Refused
        } else {
            Stage::Held
        };
        match self.jobs.entry(held.id.clone()) {
            Entry::Vacant(entry) => {
                self.tally.jobs = self.tally.jobs.saturating_add(1);
                let none = Gang::new(held.id.clone(), QueueName::new(""), Vec::new());
                entry.insert(JobState {
                    gang: none,
                    gpus: 0,
                    runtime: None,
                    limit: None,
                    runs_as: String::new(),
                    prediction: None,
                    stage,
                    run: 0,
                    place: Vec::new(),
                    has_started: false,
                    was_preempted: false,
                });
            }
            Entry::Occupied(mut entry) => match entry.get().stage {
                Stage::Held | Stage::Refused => entry.get_mut().stage = stage,
                Stage::Waiting => {
                    let state = entry.get_mut();
                    state.stage = stage;
                    self.heads.leave(&state.gang);
                    self.engine.delete_gang(&held.id);
                }
                // What runs goes on.
                Stage::Placed { .. } | Stage::Leaving | Stage::Ended => return,
            },
        }
        let event = if held.refused {
            Event::Refused
        } else {
            Event::Waiting
        };
        self.say(event, &held.id, held.reason);
    }

    fn job_gone(&mut self, id: &GangId) {
        if !self.jobs.contains_key(id) {
            return;
        }
        self.give_up(id, Stage::Ended);
        self.jobs.remove(id);
        self.engine.delete_gang(id);
        self.say(Event::Deleted, id, String::new());
    }
}
