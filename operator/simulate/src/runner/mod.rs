//! Runs a simulation in virtual time: jobs arrive, the operator's engine places them, and they end
//! after their real runtime. Pure and reproducible.
//!
//! The engine does not see single pods. It assumes the pods of each gang that it has placed: their
//! resources are in use until the gang is released or deleted.

mod agenda;
mod autoscaler;
mod completion;
mod decisions;
mod expectations;
mod gpu_hour_limits;
mod job_observer;
mod measures;
mod pod_events;
mod record;
mod script;
mod simulated_job;
mod surplus_pods;

#[cfg(test)]
mod tests;

pub use autoscaler::AutoscalerSettings;
pub use expectations::{Expectations, ExpectedJobs};
pub use record::{
    JobEvent, JobEventRecord, NodeEvent, NodeEventRecord, RecordClock, SimulationRecord,
    format_explanation, to_seconds,
};
pub use script::{
    PodChange, RequiredLevel, ScriptChange, ScriptJob, ScriptPodEvent, ScriptSurplusUnit,
    SimulationScript, WithheldJob,
};

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::time::Duration;
use std::vec::IntoIter;

use trellis_scheduler::{
    Engine, Gang, GangId, Node, NodeName, PackingRule, Placement, PodKey, Resources,
    RuntimePredictor, Time,
};

use super::random::Random;
use super::summary::{ExpectationResult, SimulationSummary};
use agenda::{Agenda, DueEvent, RunEvent};
use autoscaler::Autoscaler;
use gpu_hour_limits::GpuHourLimits;
use measures::gpu_use_meter::GpuUseMeter;
use measures::head_waits::HeadWaits;
use measures::job_counts::JobCounts;
use measures::node_hours::NodeHours;
use simulated_job::{SimulatedJob, SimulatedJobStage};

/// Runtimes that backfill uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackfillRuntimeSource {
    /// Runtimes that the jobs declare.
    #[default]
    Declared,
    /// Real runtimes.
    Exact,
    /// Runtimes predicted from earlier runs.
    Predicted,
}

/// Options of a simulation.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimulationOptions {
    /// Time at which the simulation stops. None: when no event is left.
    pub until: Option<Time>,
    /// Runtimes that backfill uses.
    pub runtimes: BackfillRuntimeSource,
    /// Percentage of jobs whose runtime backfill does not know.
    pub unknown_percent: u8,
    /// Seed that picks those jobs.
    pub seed: u64,
    /// Node label whose values are the domains; entirely free domains are counted. None: none are.
    pub domains: Option<&'static str>,
    /// True: the summary has the hours of all nodes. False: only those of flavors that may get new
    /// nodes.
    pub counts_nodes: bool,
    /// Rule by which packing orders nodes.
    pub packing: PackingRule,
}

/// Longest time in which only orders of new nodes happen, without `until`. It is longer than any order
/// and any back-off.
const LONGEST_STANDSTILL: Duration = Duration::from_secs(3 * 24 * 3600);

/// Receives each record.
pub type RecordSink<'a> = dyn FnMut(&SimulationRecord<'_>) + 'a;

/// Runs a script and reports every record.
pub fn run_script(
    script: SimulationScript,
    options: SimulationOptions,
    record_sink: &mut RecordSink<'_>,
) -> SimulationSummary {
    let mut runner = SimulationRunner::new(options, record_sink);
    runner.run(script.into_changes());
    runner.into_summary()
}

/// Returns the time after a duration, rounded up to the millisecond.
fn add_duration(time: Time, duration: Duration) -> Time {
    time.plus(duration.saturating_add(Duration::from_nanos(999_999)))
}

struct SimulationRunner<'a, 'b> {
    engine: Engine,
    options: SimulationOptions,
    agenda: Agenda,
    jobs: BTreeMap<GangId, SimulatedJob>,
    /// Jobs that are placed.
    placed_jobs: BTreeSet<GangId>,
    /// Pending jobs that are Refused.
    refused: BTreeSet<GangId>,
    gpu_hour_limits: GpuHourLimits,
    /// External pods, with the resources that they hold.
    external_pods: BTreeMap<PodKey, (NodeName, Resources)>,
    autoscaler: Autoscaler,
    meter: GpuUseMeter,
    node_hours: NodeHours,
    tally: JobCounts,
    head_waits: HeadWaits,
    predictor: RuntimePredictor,
    random: Random,
    expectations: Vec<ExpectationResult>,
    nodes: BTreeMap<NodeName, Node>,
    /// Jobs whose surplus pods have joined in this cycle.
    grown_jobs: BTreeSet<GangId>,
    /// True if the engine has more to decide at this time.
    is_unsettled: bool,
    /// Wake-ups of the engine up to this time have been handled.
    alarms_until: Option<Time>,
    /// Since when only orders of new nodes can change anything.
    standstill_since: Option<Time>,
    now: Time,
    record_sink: &'a mut RecordSink<'b>,
}

impl<'a, 'b> SimulationRunner<'a, 'b> {
    fn new(options: SimulationOptions, record_sink: &'a mut RecordSink<'b>) -> Self {
        let mut engine = Engine::new();
        engine.set_packing_rule(options.packing);
        Self {
            engine,
            options,
            agenda: Agenda::default(),
            jobs: BTreeMap::new(),
            placed_jobs: BTreeSet::new(),
            refused: BTreeSet::new(),
            gpu_hour_limits: GpuHourLimits::default(),
            external_pods: BTreeMap::new(),
            autoscaler: Autoscaler::new(options.seed),
            meter: GpuUseMeter::default(),
            node_hours: NodeHours::default(),
            tally: JobCounts::default(),
            head_waits: HeadWaits::default(),
            predictor: RuntimePredictor::new(),
            random: Random::new(options.seed),
            expectations: Vec::new(),
            nodes: BTreeMap::new(),
            grown_jobs: BTreeSet::new(),
            is_unsettled: false,
            alarms_until: None,
            standstill_since: None,
            now: Time::default(),
            record_sink,
        }
    }
}

impl SimulationRunner<'_, '_> {
    fn run(&mut self, script: Vec<(Time, ScriptChange)>) {
        let mut script = script.into_iter().peekable();
        while self.step(&mut script) {}
        if let Some(until) = self.options.until {
            self.advance(until);
        }
        for (at, change) in script {
            if matches!(change, ScriptChange::Expect(_)) {
                self.expectations
                    .push(Expectations::not_reached(at, self.now));
            }
        }
    }

    /// Handles everything that happens at the next time. Returns false if nothing is left to happen
    /// before the simulation stops.
    fn step(&mut self, script: &mut Peekable<IntoIter<(Time, ScriptChange)>>) -> bool {
        // Ignore a wake-up of the engine that has already been handled.
        let alarm = self.engine.next_wakeup();
        let alarm = alarm.filter(|at| self.alarms_until.is_none_or(|until| *at > until));
        let planned = [
            script.peek().map(|(at, _)| *at),
            self.agenda.next_time(),
            self.next_limit_opening(),
        ];
        let planned = planned.into_iter().flatten().min();
        let next = [planned, alarm, self.autoscaler.next_time()];
        let Some(next) = next.into_iter().flatten().min() else {
            return false;
        };
        if self.is_over(next, planned.is_none()) {
            return false;
        }
        self.advance(next);
        self.alarms_until = Some(self.now);
        let mut expects = Vec::new();
        loop {
            while let Some(due) = self.agenda.pop_due(self.now) {
                self.apply_due_event(&due);
            }
            self.apply_node_events();
            while let Some((_, change)) = script.next_if(|(at, _)| *at <= self.now) {
                match change {
                    ScriptChange::Expect(expect) => expects.push(expect),
                    other => self.apply_change(other),
                }
            }
            self.gpu_hour_limits
                .update_usage(&mut self.engine, self.now);
            self.is_unsettled = false;
            for decision in self.engine.cycle(self.now) {
                self.apply_decision(&decision);
            }
            self.pause_growth();
            // Resources of newly placed jobs count from now on.
            self.gpu_hour_limits
                .update_usage(&mut self.engine, self.now);
            // Also handle events that these decisions cause at this same time.
            let is_settled = !std::mem::take(&mut self.is_unsettled);
            if is_settled && self.agenda.next_time().is_none_or(|next| next > self.now) {
                break;
            }
        }
        self.update_autoscaler();
        self.head_waits.update_heads(self.now);
        for expect in expects {
            let result = expect.check(self.now, self);
            self.expectations.push(result);
        }
        true
    }

    /// Returns true if the simulation stops before this time. Orders that an autoscaler never fills
    /// would repeat without end. `is_standing_still`: nothing else is going to happen.
    fn is_over(&mut self, next: Time, is_standing_still: bool) -> bool {
        if !is_standing_still {
            self.standstill_since = None;
        }
        match self.options.until {
            Some(until) => next > until,
            None if is_standing_still => {
                let since = *self.standstill_since.get_or_insert(self.now);
                next > since.plus(LONGEST_STANDSTILL)
            }
            None => false,
        }
    }

    /// Returns the time at which a GPU-hour limit opens that a pending job counts against.
    fn next_limit_opening(&self) -> Option<Time> {
        let waiting = self
            .jobs
            .values()
            .filter(|job| job.stage == SimulatedJobStage::Waiting);
        let draws = waiting.flat_map(|job| &job.gang.draws);
        GpuHourLimits::next_opening(&self.engine, draws, self.now)
    }

    fn advance(&mut self, to: Time) {
        self.now = self.now.max(to);
        if self.meter.has_begun() {
            self.meter.advance(self.now);
            self.node_hours.advance(self.now);
        }
    }

    fn apply_due_event(&mut self, due: &DueEvent) {
        let Some(job) = self
            .jobs
            .get(&due.job)
            .filter(|job| job.event_generation == due.event_generation)
        else {
            return;
        };
        let ran = job.running_time(self.now);
        match &due.event {
            RunEvent::End => {
                let (gpus, submitted) = (job.gpus, job.gang.submitted);
                let (runs_as, by_itself) =
                    (job.prediction_key.clone(), job.completes_before_limit());
                let queue = job.gang.queue.clone();
                self.end_placement(&due.job, SimulatedJobStage::Ended);
                self.engine.delete_gang(&due.job);
                if by_itself {
                    if self.predictor.observe(&runs_as, &queue, ran) {
                        self.update_predictions(&queue);
                    }
                    self.tally.add_ended(gpus, self.now.since(submitted), ran);
                    self.report_event(JobEvent::Finished, &due.job, String::new());
                } else {
                    let limit = ran.as_secs();
                    let reason = format!("ActiveDeadlineExceeded: it has run for {limit} s");
                    self.report_event(JobEvent::Failed, &due.job, reason);
                }
            }
            RunEvent::Stop => {
                self.end_placement(&due.job, SimulatedJobStage::Waiting);
                self.engine.release_gang(&due.job, None);
            }
            RunEvent::StopSurplus(pod) => {
                self.free_surplus(&due.job, pod, None);
                self.submit_surplus(&due.job);
            }
            RunEvent::RetrySurplus(pod) => {
                if let Some(job) = self.jobs.get_mut(&due.job) {
                    job.surplus.phases.remove(pod);
                }
                self.submit_surplus(&due.job);
            }
            RunEvent::ReturnPod(pod) => {
                if let Some(job) = self.jobs.get_mut(&due.job) {
                    job.stopped_pods.remove(pod);
                }
            }
            RunEvent::RetryGang => {
                let gang = self.jobs.get(&due.job).map(|job| job.gang.clone());
                if let Some(gang) = gang {
                    self.engine.apply_gang(gang);
                }
            }
            RunEvent::GrowSurplus => self.submit_surplus(&due.job),
        }
    }

    /// Ends a job's placement.
    fn end_placement(&mut self, id: &GangId, stage: SimulatedJobStage) {
        let Some(job) = self.jobs.get_mut(id) else {
            return;
        };
        job.event_generation = job.event_generation.saturating_add(1);
        job.stage = stage;
        job.stopped_pods.clear();
        for (node, gpus) in std::mem::take(&mut job.gpus_by_node) {
            self.meter.add_used(&node, gpus.saturating_neg());
            self.meter.add_runs(&node, -1);
        }
        self.placed_jobs.remove(id);
        if stage == SimulatedJobStage::Waiting {
            self.head_waits.add_pending(&job.gang);
        } else {
            self.head_waits.remove_pending(&job.gang);
        }
        self.withdraw_all_surplus(id);
    }

    /// Reports an event of surplus pods, with their placement if they have one.
    fn report_with_place(
        &mut self,
        event: JobEvent,
        job: &GangId,
        place: Option<(&Gang, &Placement)>,
        reason: String,
    ) {
        (self.record_sink)(&SimulationRecord::Job(JobEventRecord {
            t: self.now,
            event,
            job,
            placement: place,
            reason,
        }));
    }

    fn report_event(&mut self, event: JobEvent, job: &GangId, reason: String) {
        self.report_with_place(event, job, None, reason);
    }

    fn into_summary(self) -> SimulationSummary {
        let mut summary = SimulationSummary {
            allocated_gpu_percent: self.meter.used_percent(),
            stranded_gpus: Some(self.meter.stranded()),
            longest_head_wait_seconds: Some(self.head_waits.longest_wait(self.now).as_secs_f64()),
            end_seconds: Some(to_seconds(self.now)),
            expects_held: Some(self.expectations.iter().all(|e| e.held)),
            ..SimulationSummary::default()
        };
        self.tally.write_summary(&mut summary);
        summary.domains = self.options.domains.map(|level| {
            let domains = self.meter.domain_summary(level);
            self.tally.with_waits(domains)
        });
        let grows = self.autoscaler.can_grow() || self.options.counts_nodes;
        summary.nodes = grows.then(|| self.node_hours.summary());
        summary.expects = self.expectations;
        summary
    }
}
