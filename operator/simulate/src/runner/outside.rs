//! Handles the changes of a script.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use trellis_api::job::Restart;
use trellis_scheduler::{Gang, GangId, NodeName, PodKey, QueueName, Resources};

use super::elastic::Surplus;
use super::job::{self, SimulatedJob, Stage};
use super::script::SurplusPod;
use super::{Change, Event, Held, Job, NodeFacts, Runner, Runtimes, meter};

impl Runner<'_, '_> {
    pub(super) fn change(&mut self, change: Change) {
        match change {
            Change::Node(node) => {
                self.meter
                    .set_node(&node.name, meter::gpus(&node.allocatable));
                let label = self.options.domains.and_then(|key| node.labels.get(key));
                if let Some(domain) = label {
                    self.meter.set_domain(&node.name, domain);
                }
                let facts = NodeFacts {
                    unschedulable: node.unschedulable,
                    ready: node.ready,
                };
                self.nodes.insert(node.name.clone(), facts);
                self.engine.apply_node(node);
            }
            Change::NodeGone(name) => self.node_gone(&name),
            Change::Queue(queue) => self.engine.apply_queue(queue),
            Change::QueueGone(name) => self.engine.delete_queue(&name),
            Change::Flavor(flavor) => self.engine.apply_flavor(flavor),
            Change::FlavorGone(name) => self.engine.delete_flavor(&name),
            Change::Quotas(policies) => self.burning.apply(policies),
            Change::Topology(topology) => self.engine.apply_topology(topology),
            Change::TopologyGone(name) => self.engine.delete_topology(&name),
            Change::Pod(pod, node, request) => self.foreign(pod, node, request),
            Change::PodGone(pod) => self.foreign_gone(&pod),
            Change::Job(job) => self.job(*job),
            Change::Held(held) => self.hold(held),
            Change::JobGone(id) => self.job_gone(&id),
            Change::JobPod(event) => self.pod_event(&event),
            // The loop keeps them for the end of the moment.
            Change::Expect(_) => {}
        }
    }

    /// Everything on the node is lost: gangs start again as a whole.
    fn node_gone(&mut self, name: &NodeName) {
        self.meter.set_node(name, 0);
        self.nodes.remove(name);
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
        self.surplus_node_gone(name);
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

    fn job(&mut self, mut job: Job) {
        self.burning.draws_on(std::mem::take(&mut job.hours));
        if !self.meter.runs() {
            self.meter.advance(self.now);
        }
        let known = self.jobs.get(&job.gang.id).map(|known| known.stage);
        match known {
            // A job that has ended stays ended, even if it is changed afterwards.
            Some(Stage::Ended) => return,
            Some(Stage::Waiting | Stage::Placed { .. } | Stage::Leaving) => {
                self.update(job);
                return;
            }
            None => self.tally.jobs = self.tally.jobs.saturating_add(1),
            Some(Stage::Held | Stage::Refused) => {}
        }
        let told = self.told(&job);
        let state = SimulatedJob {
            gpus: job::gpus(&job.gang),
            gang: Gang {
                runtime: told.limit,
                predicted: told.predicted,
                ..job.gang
            },
            is_expected: told.is_expected,
            runtime: job.runtime,
            limit: job.limit,
            runs_as: job.runs_as,
            stage: Stage::Waiting,
            run: 0,
            place: Vec::new(),
            has_started: false,
            was_preempted: false,
            surplus: Surplus::of(job.surplus),
            restart: job.restart,
            ranks: BTreeMap::new(),
            failures: 0,
            disruptions: 0,
        };
        self.tally.queued(state.gpus);
        self.heads.wait(&state.gang);
        self.engine.apply_gang(state.gang.clone());
        self.jobs.insert(state.gang.id.clone(), state);
    }

    /// The runtime facts that backfill gets for a job.
    fn told(&mut self, job: &Job) -> Told {
        let unknown = self.random.below(100) < usize::from(self.options.unknown_percent);
        let (limit, by_name) = match self.options.runtimes {
            _ if unknown => (None, None),
            Runtimes::Declared => (job.gang.runtime, None),
            Runtimes::Exact => (job.holds_for(), None),
            Runtimes::Predicted => (job.limit, self.predictor.predict(&job.runs_as)),
        };
        let queue = &job.gang.queue;
        let is_expected = self.options.runtimes == Runtimes::Predicted
            && limit.or(by_name).is_none()
            && self.engine.default_runtime(queue).is_none();
        let expected = is_expected.then(|| self.predictor.expect(queue)).flatten();
        Told {
            limit,
            predicted: by_name.or(expected),
            is_expected,
        }
    }

    /// Applies a queue's new expectation to pending jobs of the queue that have no other
    /// prediction.
    pub(super) fn expect_anew(&mut self, queue: &QueueName) {
        let expected = self.predictor.expect(queue);
        for job in self.jobs.values_mut() {
            let waits = job.stage == Stage::Waiting && job.gang.queue == *queue;
            if waits && job.is_expected {
                job.gang.predicted = expected;
                self.engine.apply_gang(job.gang.clone());
            }
        }
    }

    /// Applies a changed job. A placed job keeps its place.
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
            predicted: state.gang.predicted,
            ..job.gang
        };
        state.gpus = job::gpus(&state.gang);
        state.runtime = job.runtime.or(state.runtime);
        state.limit = job.limit;
        state.restart = job.restart;
        let id = state.gang.id.clone();
        let surplus = std::mem::replace(&mut state.surplus.pods, job.surplus);
        let is_gone = |pod: &&SurplusPod| state.surplus.pod(&pod.gang.id).is_none();
        let gone: Vec<GangId> = surplus
            .iter()
            .filter(is_gone)
            .map(|pod| pod.gang.id.clone())
            .collect();
        if waits {
            self.heads.wait(&state.gang);
        }
        self.engine.apply_gang(state.gang.clone());
        for pod in surplus.iter().filter(|pod| gone.contains(&pod.gang.id)) {
            self.dismiss_surplus(&id, pod);
        }
        self.seek_surplus(&id);
    }

    /// Holds a job back from the engine.
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
                entry.insert(SimulatedJob {
                    gang: none,
                    gpus: 0,
                    runtime: None,
                    limit: None,
                    runs_as: String::new(),
                    is_expected: false,
                    stage,
                    run: 0,
                    place: Vec::new(),
                    has_started: false,
                    was_preempted: false,
                    surplus: Surplus::default(),
                    restart: Restart::default(),
                    ranks: BTreeMap::new(),
                    failures: 0,
                    disruptions: 0,
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
                // A placed job keeps running.
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
        self.refused.remove(id);
        self.engine.delete_gang(id);
        self.say(Event::Deleted, id, String::new());
    }
}

/// Runtime facts that backfill gets for a job.
struct Told {
    limit: Option<Duration>,
    predicted: Option<Duration>,
    /// True if its prediction is that of its queue, because nothing else is known.
    is_expected: bool,
}
