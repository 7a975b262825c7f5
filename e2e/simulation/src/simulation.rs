//! The event loop of a run.
//!
//! The world is one queue of events by virtual time. Each replica has a clock of its own. A replica
//! runs until it sends something, or until the next event of the world. An event of the world
//! happens when no replica can send anything before it. A replica may be ahead of another by up to
//! [`MAX_LEAD`]; what reaches it meanwhile arrives late, as on a slow network.

mod faults;
mod lease_use;
mod requests;
mod single_writes;
mod stored_writes;
mod watches;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::channel::oneshot;
use jiff::{SignedDuration, Timestamp};
use trellis_api_server::ApiServer;
use trellis_policies::cedar::PolicyLoader;

use lease_use::LeaseUse;
use single_writes::SingleWrites;
use watches::OpenWatch;

use crate::access::Access;
use crate::autoscaler::{Autoscaler, AutoscalerWork};
use crate::cluster;
use crate::coverage::Coverage;
use crate::elastic_gangs::ElasticCounts;
use crate::end_state::unfinished_jobs;
use crate::error_log::ErrorLog;
use crate::garbage_collector::{Dependent, GarbageCollector};
use crate::job_controller::{JobController, JobIdentity};
use crate::kubelet::{KubeletWork, Kubelets};
use crate::network::{Delivery, Network};
use crate::node_orders::OrderCounts;
use crate::oracle::Oracle;
use crate::panics;
use crate::pod_deletions::PodDeletions;
use crate::replica::{Progress, RunningReplica};
use crate::script::{FaultScript, Script};
use crate::time::VirtualTime;
use crate::trace::Trace;
use crate::transport::{NetworkResult, SentRequest};
use crate::users;

/// Longest time by which a replica is ahead of another one.
const MAX_LEAD: Duration = Duration::from_millis(500);
/// Pause before the process of a replica starts again.
const RESTART_PAUSE: Duration = Duration::from_secs(2);
/// Time between two looks of the oracle at the clock.
const JUDGEMENT_INTERVAL: Duration = Duration::from_secs(5);
/// Time after the last act and fault for which a run goes on at least.
const SHORTEST_CALM: Duration = Duration::from_secs(120);
/// Time after the last act and fault in which all jobs must end, besides the time for which they run.
const LONGEST_CALM: Duration = Duration::from_secs(600);
/// Further time if nodes are ordered: an order that failed is made again after a pause.
const ORDER_TIME: Duration = Duration::from_secs(900);

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Broken rules, jobs that never ended, panics and errors in the log.
    pub problems: Vec<String>,
    /// Which faults happened in which phases.
    pub coverage: Coverage,
    /// Hash of all that happened.
    pub hash: u64,
    /// Number of events.
    pub events: u64,
    /// Number of writes of the operator, without renewals of the Lease.
    pub writes: u64,
    /// Orders of new nodes.
    pub orders: OrderCounts,
    /// Elastic gangs.
    pub elastic: ElasticCounts,
    /// The events as lines, if they were asked for.
    pub lines: Vec<String>,
}

enum WorldEvent {
    Request(Box<ArrivingRequest>),
    Answer(oneshot::Sender<NetworkResult>, NetworkResult),
    PollWatch(u64),
    WatchEvent(u64),
    Kubelet(KubeletWork),
    Collect(Dependent),
    SyncJob(JobIdentity),
    Autoscaler(AutoscalerWork),
    Submit(usize),
    Act(usize),
    FaultBegin(usize),
    FaultEnd(usize),
    StartReplica(usize),
    Judge,
}

struct ArrivingRequest {
    replica: usize,
    sent_at: VirtualTime,
    sent: SentRequest,
    delivery: Delivery,
    answer_time: Duration,
    name: String,
}

#[derive(Default)]
struct ReplicaSlot {
    running: Option<RunningReplica>,
    /// Number of starts, for identities.
    starts: u64,
    is_frozen: bool,
    /// The process stays down until the end of a fault.
    is_down: bool,
    clock_offset: SignedDuration,
    lease: LeaseUse,
}

struct Simulation<'s> {
    script: &'s Script,
    start: Timestamp,
    now: VirtualTime,
    /// When the last act and fault have ended.
    calm: VirtualTime,
    end: VirtualTime,
    events: BTreeMap<(VirtualTime, u64), WorldEvent>,
    event_count: u64,
    server: ApiServer,
    /// Number of history entries that the world has taken in.
    seen: usize,
    replicas: Vec<ReplicaSlot>,
    watches: BTreeMap<u64, OpenWatch>,
    watch_count: u64,
    network: Network,
    single_writes: SingleWrites,
    /// Writes of the operator.
    writes: u64,
    deletions: PodDeletions,
    /// Requests that a replica must not send, or not at that time.
    request_problems: Vec<String>,
    kubelets: Kubelets,
    collector: GarbageCollector,
    job_controller: JobController,
    autoscaler: Option<Autoscaler>,
    orders: OrderCounts,
    elastic: ElasticCounts,
    oracle: Oracle,
    policies: PolicyLoader,
    trace: Trace,
    coverage: Coverage,
}

/// Runs a script.
#[must_use]
pub fn run(script: &Script, policies: &PolicyLoader, keeps_lines: bool) -> Outcome {
    let mut simulation = Simulation::new(script, policies.clone(), keeps_lines);
    let log = ErrorLog::default();
    log.record_during(|| while simulation.step() {});
    let unfinished = unfinished_jobs(&simulation.server, script);
    let panics = panics::take().into_iter();
    let problems = simulation.oracle.findings(script).map(ToString::to_string);
    let problems = problems.chain(unfinished);
    let problems = problems.chain(simulation.deletions.problems());
    let problems = problems.chain(simulation.request_problems);
    let problems = problems.chain(panics).chain(log.into_lines()).collect();
    Outcome {
        problems,
        coverage: simulation.coverage,
        hash: simulation.trace.hash(),
        events: simulation.trace.events(),
        writes: simulation.writes,
        orders: simulation.orders,
        elastic: simulation.elastic,
        lines: simulation.trace.into_lines(),
    }
}

impl<'s> Simulation<'s> {
    fn new(script: &'s Script, policies: PolicyLoader, keeps_lines: bool) -> Self {
        let start = cluster::start_time();
        let last_act = VirtualTime::default() + Duration::from_secs(script.calm_from);
        let ends = script.faults.iter().map(FaultScript::end);
        let calm = ends.fold(last_act, VirtualTime::max);
        let server = cluster::new_server(script, start);
        let oracle = Oracle::new(start, server.history());
        let autoscaler = script.autoscaler.as_ref();
        let order_time = autoscaler.map_or(Duration::ZERO, |_| ORDER_TIME);
        let mut simulation = Self {
            script,
            start,
            now: VirtualTime::default(),
            calm,
            end: calm + LONGEST_CALM + order_time + script.work_time(),
            events: BTreeMap::new(),
            event_count: 0,
            server,
            seen: 0,
            replicas: (0..script.replicas)
                .map(|_| ReplicaSlot::default())
                .collect(),
            watches: BTreeMap::new(),
            watch_count: 0,
            single_writes: SingleWrites::default(),
            writes: 0,
            deletions: PodDeletions::default(),
            request_problems: Vec::new(),
            network: Network::new(script.seed, script.network.clone()),
            kubelets: Kubelets::new(script.seed, script.kubelets.clone(), &script.jobs),
            collector: GarbageCollector::new(script.seed, script.kubelets.collect),
            job_controller: JobController::new(
                script.seed,
                autoscaler.map_or(0, |script| script.job_controller),
            ),
            autoscaler: autoscaler.map(|new| Autoscaler::new(script.seed, new.clone())),
            orders: OrderCounts::default(),
            elastic: ElasticCounts::default(),
            oracle,
            policies,
            trace: Trace::new(keeps_lines),
            coverage: Coverage::default(),
        };
        while let Some(write) = simulation.next_write() {
            simulation.show_write(&write);
        }
        let after = |seconds| VirtualTime::default() + Duration::from_secs(seconds);
        for index in 0..script.replicas {
            // The second replica starts later, so that the first one leads in most runs.
            let delay = VirtualTime(1 + 50 * index as u64);
            simulation.schedule(delay, WorldEvent::StartReplica(index));
        }
        for (index, job) in script.jobs.iter().enumerate() {
            simulation.schedule(after(job.at), WorldEvent::Submit(index));
        }
        for (index, act) in script.acts.iter().enumerate() {
            if act.after.is_none() {
                simulation.schedule(after(act.at), WorldEvent::Act(index));
            }
        }
        for (index, fault) in script.faults.iter().enumerate() {
            simulation.schedule(fault.begin(), WorldEvent::FaultBegin(index));
            simulation.schedule(fault.end(), WorldEvent::FaultEnd(index));
        }
        simulation.schedule_after(JUDGEMENT_INTERVAL, WorldEvent::Judge);
        simulation
    }

    fn schedule(&mut self, time: VirtualTime, event: WorldEvent) {
        self.event_count += 1;
        self.events.insert((time, self.event_count), event);
    }

    fn schedule_after(&mut self, delay: Duration, event: WorldEvent) {
        self.schedule(self.now + delay, event);
    }

    fn wall_clock(&self) -> Timestamp {
        let elapsed = self.now.since(VirtualTime::default());
        let elapsed = SignedDuration::try_from(elapsed).expect("a short run");
        self.start + elapsed
    }

    /// Lets the replicas run up to the next event, and then handles it. Returns false at the end.
    fn step(&mut self) -> bool {
        self.run_replicas();
        let Some(entry) = self.events.first_entry() else {
            return false;
        };
        if entry.key().0 > self.end {
            return false;
        }
        let ((time, _), event) = entry.remove_entry();
        self.now = self.now.max(time);
        self.handle(event);
        self.take_in_changes();
        true
    }

    /// Lets all replicas run until none can send anything before the next event.
    fn run_replicas(&mut self) {
        while let Some((next, _)) = self.events.keys().next().copied() {
            let clocks = self
                .replicas
                .iter()
                .enumerate()
                .filter_map(|(index, slot)| {
                    let running = slot.running.as_ref().filter(|_| !slot.is_frozen)?;
                    Some((running.clock(), index))
                });
            let Some((slowest, index)) = clocks.min() else {
                return;
            };
            if slowest >= next {
                return;
            }
            let horizon = next.min(slowest + MAX_LEAD);
            let slot = &mut self.replicas[index];
            let running = slot.running.as_mut().expect("it has a clock");
            match running.run_until(horizon) {
                Progress::ReachedHorizon => {}
                Progress::Sent(requests) => {
                    let sent_at = running.clock();
                    for request in requests {
                        if !self.send(index, sent_at, request) {
                            break;
                        }
                    }
                }
                Progress::Ended(error) => {
                    let at = running.clock();
                    self.trace
                        .record(at, &format!("replica {index} ended: {error}"), &[]);
                    self.stop_replica(index);
                    self.schedule(at + RESTART_PAUSE, WorldEvent::StartReplica(index));
                }
            }
        }
    }

    fn handle(&mut self, event: WorldEvent) {
        match event {
            WorldEvent::Request(request) => self.handle_request(*request),
            WorldEvent::Answer(client, answer) => {
                // The client may have given up or crashed.
                let _ = client.send(answer);
            }
            WorldEvent::PollWatch(watch) => self.poll_watch(watch),
            WorldEvent::WatchEvent(watch) => self.deliver_watch_event(watch),
            WorldEvent::Kubelet(work) => {
                if self.is_node_gone(work.pod()) {
                    return;
                }
                if let Some(end) = self.return_of_node(work.pod()) {
                    return self.schedule(end, WorldEvent::Kubelet(work));
                }
                self.trace
                    .record(self.now, &format!("kubelet: {work:?}"), &[]);
                let now = self.wall_clock();
                let mut access = Access::new(&mut self.server, "system:node", now);
                if let Some((delay, next)) = self.kubelets.act(work, &mut access) {
                    self.schedule_after(delay, WorldEvent::Kubelet(next));
                }
            }
            WorldEvent::Collect(dependent) => {
                let now = self.wall_clock();
                let user = "system:serviceaccount:kube-system:generic-garbage-collector";
                self.collector
                    .collect(&dependent, &mut Access::new(&mut self.server, user, now));
            }
            WorldEvent::SyncJob(job) => {
                let now = self.wall_clock();
                let user = "system:serviceaccount:kube-system:job-controller";
                let mut access = Access::new(&mut self.server, user, now);
                if let Some(delay) = self.job_controller.sync(&job, &mut access) {
                    self.schedule_after(delay, WorldEvent::SyncJob(job));
                }
            }
            WorldEvent::Autoscaler(work) => self.run_autoscaler(work),
            WorldEvent::Submit(index) => {
                let job = &self.script.jobs[index];
                self.trace
                    .record(self.now, &format!("user: submits {}", job.name), &[]);
                let now = self.wall_clock();
                users::submit(job, &mut Access::new(&mut self.server, users::USER, now));
            }
            WorldEvent::Act(index) => {
                let act = &self.script.acts[index].act;
                self.trace.record(self.now, &format!("user: {act:?}"), &[]);
                let now = self.wall_clock();
                let mut access = Access::new(&mut self.server, users::USER, now);
                users::act(act, self.script, &mut access);
            }
            WorldEvent::FaultBegin(index) => self.begin_fault(index),
            WorldEvent::FaultEnd(index) => self.end_fault(index),
            WorldEvent::StartReplica(index) => self.start_replica(index),
            WorldEvent::Judge => self.judge(),
        }
    }

    fn run_autoscaler(&mut self, work: AutoscalerWork) {
        let now = self.wall_clock();
        let Some(autoscaler) = &mut self.autoscaler else {
            return;
        };
        let user = "system:serviceaccount:kube-system:karpenter";
        let mut access = Access::new(&mut self.server, user, now);
        let next = autoscaler.act(work.clone(), self.now, &mut access);
        self.orders.nodes = autoscaler.bought().into();
        self.trace.record(
            self.now,
            &format!("autoscaler: {work:?}, then {next:?}"),
            &[],
        );
        for (delay, work) in next {
            self.schedule_after(delay, WorldEvent::Autoscaler(work));
        }
    }
}
