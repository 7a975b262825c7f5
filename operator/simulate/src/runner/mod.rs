//! Runs a simulation in virtual time: jobs arrive, the operator's engine places them, and they end
//! after their real runtime. Pure and reproducible.
//!
//! The engine does not see single pods. It assumes the pods of each gang that it has placed: their
//! resources are in use until the gang is released or deleted.

mod agenda;
mod elastic;
mod expect;
mod finished;
mod heads;
mod hours;
mod job;
mod look;
mod meter;
mod outside;
mod pods;
mod record;
mod script;
mod tally;

#[cfg(test)]
mod tests;

pub use expect::{Expect, Expectation, ExpectedJobs};
pub use record::{Clock, Event, Record, seconds, why};
pub use script::{Change, Held, Job, PodChange, PodEvent, RequiredLevel, Script, SurplusPod};

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use trellis_scheduler::{
    Decision, Engine, Gang, GangId, NodeName, Placement, PodKey, Predictor, Time, Victim,
};

use super::random::Random;
use super::summary::Summary;
use agenda::{Agenda, Due, What};
use heads::Heads;
use hours::Burning;
use job::{SimulatedJob, Stage};
use meter::Meter;
use tally::Tally;

/// Runtimes that backfill uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Runtimes {
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
pub struct Options {
    /// Time at which the simulation stops. None: when no event is left.
    pub until: Option<Time>,
    /// Runtimes that backfill uses.
    pub runtimes: Runtimes,
    /// Percentage of jobs whose runtime backfill does not know.
    pub unknown_percent: u8,
    /// Seed that picks those jobs.
    pub seed: u64,
    /// Node label whose values are the domains; entirely free domains are counted. None: none are.
    pub domains: Option<&'static str>,
}

/// Receives each record.
pub type Tell<'a> = dyn FnMut(&Record<'_>) + 'a;

/// Runs a script and reports every record.
pub fn run(script: Script, options: Options, tell: &mut Tell<'_>) -> Summary {
    let mut runner = Runner::new(options, tell);
    runner.run(script.into_order());
    runner.sum_up()
}

/// The time after a duration, rounded up to the millisecond.
fn after(time: Time, duration: Duration) -> Time {
    time.plus(duration.saturating_add(Duration::from_nanos(999_999)))
}

struct Runner<'a, 'b> {
    engine: Engine,
    options: Options,
    agenda: Agenda,
    jobs: BTreeMap<GangId, SimulatedJob>,
    /// Jobs that hold a place.
    holding: BTreeSet<GangId>,
    /// Pending jobs that are Refused.
    refused: BTreeSet<GangId>,
    burning: Burning,
    /// External pods, with their GPUs.
    foreign: BTreeMap<PodKey, (NodeName, i64)>,
    meter: Meter,
    tally: Tally,
    heads: Heads,
    predictor: Predictor,
    random: Random,
    expects: Vec<Expectation>,
    nodes: BTreeMap<NodeName, NodeFacts>,
    /// Jobs whose surplus pods have joined in this cycle.
    grew: BTreeSet<GangId>,
    /// True if the engine has more to decide at this time.
    is_unsettled: bool,
    now: Time,
    tell: &'a mut Tell<'b>,
}

/// A node as the simulation knows it.
struct NodeFacts {
    unschedulable: bool,
    ready: bool,
}

impl<'a, 'b> Runner<'a, 'b> {
    fn new(options: Options, tell: &'a mut Tell<'b>) -> Self {
        Self {
            engine: Engine::new(),
            options,
            agenda: Agenda::default(),
            jobs: BTreeMap::new(),
            holding: BTreeSet::new(),
            refused: BTreeSet::new(),
            burning: Burning::default(),
            foreign: BTreeMap::new(),
            meter: Meter::default(),
            tally: Tally::default(),
            heads: Heads::default(),
            predictor: Predictor::new(),
            random: Random::new(options.seed),
            expects: Vec::new(),
            nodes: BTreeMap::new(),
            grew: BTreeSet::new(),
            is_unsettled: false,
            now: Time::default(),
            tell,
        }
    }
}

impl Runner<'_, '_> {
    fn run(&mut self, script: Vec<(Time, Change)>) {
        let mut script = script.into_iter().peekable();
        let mut alarms_until: Option<Time> = None;
        loop {
            // An alarm that has rung is over.
            let alarm = self.engine.next_wakeup();
            let alarm = alarm.filter(|at| alarms_until.is_none_or(|until| *at > until));
            let next = [
                script.peek().map(|(at, _)| *at),
                self.agenda.next(),
                alarm,
                self.limit_opens(),
            ];
            let Some(next) = next.into_iter().flatten().min() else {
                break;
            };
            if self.options.until.is_some_and(|until| next > until) {
                break;
            }
            self.advance(next);
            alarms_until = Some(self.now);
            let mut expects = Vec::new();
            loop {
                while let Some(due) = self.agenda.pop(self.now) {
                    self.happen(&due);
                }
                while let Some((_, change)) = script.next_if(|(at, _)| *at <= self.now) {
                    match change {
                        Change::Expect(expect) => expects.push(expect),
                        other => self.change(other),
                    }
                }
                self.burning.count(&mut self.engine, self.now);
                self.is_unsettled = false;
                for decision in self.engine.cycle(self.now) {
                    self.carry_out(&decision);
                }
                self.pause_growth();
                // Resources that are held now count from now on.
                self.burning.count(&mut self.engine, self.now);
                // Also handle events that these decisions cause at this same time.
                let is_settled = !std::mem::take(&mut self.is_unsettled);
                if is_settled && self.agenda.next().is_none_or(|next| next > self.now) {
                    break;
                }
            }
            self.heads.look(self.now);
            for expect in expects {
                let result = expect.check(self.now, self);
                self.expects.push(result);
            }
        }
        if let Some(until) = self.options.until {
            self.advance(until);
        }
        for (at, change) in script {
            if matches!(change, Change::Expect(_)) {
                self.expects.push(Expect::not_reached(at, self.now));
            }
        }
    }

    /// Time at which a limit on GPU-hours opens that a pending job counts against.
    fn limit_opens(&self) -> Option<Time> {
        let waiting = self.jobs.values().filter(|job| job.stage == Stage::Waiting);
        let draws = waiting.flat_map(|job| &job.gang.draws);
        Burning::opens(&self.engine, draws, self.now)
    }

    fn advance(&mut self, to: Time) {
        self.now = self.now.max(to);
        if self.meter.runs() {
            self.meter.advance(self.now);
        }
    }

    fn happen(&mut self, due: &Due) {
        let Some(job) = self.jobs.get(&due.job).filter(|job| job.run == due.run) else {
            return;
        };
        let ran = job.ran(self.now);
        match &due.what {
            What::End => {
                let (gpus, submitted) = (job.gpus, job.gang.submitted);
                let (runs_as, by_itself) = (job.runs_as.clone(), job.ends_by_itself());
                let queue = job.gang.queue.clone();
                self.give_up(&due.job, Stage::Ended);
                self.engine.delete_gang(&due.job);
                if by_itself {
                    if self.predictor.observe(&runs_as, &queue, ran) {
                        self.expect_anew(&queue);
                    }
                    self.tally.ended(gpus, self.now.since(submitted), ran);
                    self.say(Event::Finished, &due.job, String::new());
                } else {
                    let limit = ran.as_secs();
                    let why = format!("ActiveDeadlineExceeded: it has run for {limit} s");
                    self.say(Event::Failed, &due.job, why);
                }
            }
            What::Stop => {
                self.give_up(&due.job, Stage::Waiting);
                self.engine.release_gang(&due.job, None);
            }
            What::StopSurplus(pod) => {
                self.vacate(&due.job, pod, None);
                self.seek_surplus(&due.job);
            }
            What::SeekAgain(pod) => {
                if let Some(job) = self.jobs.get_mut(&due.job) {
                    job.surplus.seats.remove(pod);
                }
                self.seek_surplus(&due.job);
            }
            What::Return(pod) => {
                if let Some(job) = self.jobs.get_mut(&due.job) {
                    job.ranks.remove(pod);
                }
            }
            What::Retry => {
                let gang = self.jobs.get(&due.job).map(|job| job.gang.clone());
                if let Some(gang) = gang {
                    self.engine.apply_gang(gang);
                }
            }
            What::Grow => self.seek_surplus(&due.job),
        }
    }

    fn carry_out(&mut self, decision: &Decision) {
        if let Decision::Place {
            gang, placement, ..
        }
        | Decision::Preempt {
            gang, placement, ..
        }
        | Decision::Reserve {
            gang, placement, ..
        } = decision
            && let Some(job) = elastic::job_of(gang)
        {
            if matches!(decision, Decision::Place { .. }) {
                self.place_surplus(&job, gang, placement);
            }
            return;
        }
        if let Decision::Wait { gang, .. } = decision
            && elastic::job_of(gang).is_some()
        {
            return;
        }
        for record in Record::of((self.now, Clock::Simulated), decision, |id| {
            Some(&self.jobs.get(id)?.gang)
        }) {
            // The eviction of a surplus pod is reported as an event of its job.
            if record.event == Event::Preempted && elastic::job_of(record.job).is_some() {
                continue;
            }
            (self.tell)(&record);
        }
        match decision {
            Decision::Wait { gang, certificate } if certificate.detail.is_refusal() => {
                self.refused.insert(gang.clone());
            }
            Decision::Place { gang, .. }
            | Decision::Preempt { gang, .. }
            | Decision::Wait { gang, .. } => {
                self.refused.remove(gang);
            }
            Decision::Drain { .. } | Decision::Reserve { .. } => {}
        }
        match decision {
            Decision::Place {
                gang, placement, ..
            } => self.place(gang, placement),
            Decision::Preempt { gang, victims, .. } => {
                for victim in victims {
                    self.evict(victim, Some(gang));
                }
            }
            Decision::Drain { victim } => self.evict(victim, None),
            Decision::Wait { .. } | Decision::Reserve { .. } => {}
        }
    }

    fn place(&mut self, id: &GangId, placement: &Placement) {
        let Some(job) = self.jobs.get_mut(id) else {
            return;
        };
        job.run = job.run.saturating_add(1);
        job.stage = Stage::Placed { since: self.now };
        job.place = job::held(&job.gang, placement);
        for (node, gpus) in &job.place {
            self.meter.hold(node, *gpus);
        }
        self.holding.insert(id.clone());
        self.heads.leave(&job.gang);
        if !std::mem::replace(&mut job.has_started, true) {
            let waited = self.now.since(job.gang.submitted);
            self.tally.started(job.gpus, waited);
            if self
                .options
                .domains
                .is_some_and(|level| job.needs_one(level))
                && self.meter.is_size_of_domain(job.gpus)
            {
                self.tally.started_in_whole_domain(waited);
            }
        }
        if let Some(holds) = job.holds_for() {
            let due = Due {
                what: What::End,
                job: id.clone(),
                run: job.run,
            };
            self.agenda.add(after(self.now, holds), due);
        }
        self.seek_surplus(id);
    }

    /// Evicts a victim: its work is lost, and its place is free after the grace period.
    fn evict(&mut self, victim: &Victim, by: Option<&GangId>) {
        if let Some(job) = elastic::job_of(&victim.gang) {
            self.evict_surplus(&job, victim, by);
            return;
        }
        let Some(job) = self.jobs.get_mut(&victim.gang) else {
            return;
        };
        // Cancel the scheduled events of this run.
        job.run = job.run.saturating_add(1);
        job.stage = Stage::Leaving;
        job.ranks.clear();
        job.was_preempted = true;
        let due = Due {
            what: What::Stop,
            job: victim.gang.clone(),
            run: job.run,
        };
        self.agenda.add(after(self.now, job.gang.grace), due);
        self.tally.preemptions = self.tally.preemptions.saturating_add(1);
        self.withdraw_surplus(&victim.gang);
    }

    /// Ends a job's placement.
    fn give_up(&mut self, id: &GangId, stage: Stage) {
        let Some(job) = self.jobs.get_mut(id) else {
            return;
        };
        job.run = job.run.saturating_add(1);
        job.stage = stage;
        job.ranks.clear();
        for (node, gpus) in std::mem::take(&mut job.place) {
            self.meter.hold(&node, gpus.saturating_neg());
        }
        self.holding.remove(id);
        if stage == Stage::Waiting {
            self.heads.wait(&job.gang);
        } else {
            self.heads.leave(&job.gang);
        }
        self.withdraw_surplus(id);
    }

    /// Reports an event of surplus pods, with their placement if they have one.
    fn report(
        &mut self,
        event: Event,
        job: &GangId,
        place: Option<(&Gang, &Placement)>,
        reason: String,
    ) {
        (self.tell)(&Record {
            t: self.now,
            event,
            job,
            place,
            reason,
        });
    }

    fn say(&mut self, event: Event, job: &GangId, reason: String) {
        self.report(event, job, None, reason);
    }

    fn sum_up(self) -> Summary {
        let mut summary = Summary {
            allocated_gpu_percent: self.meter.held_percent(),
            stranded_gpus: Some(self.meter.stranded()),
            longest_head_wait_seconds: Some(self.heads.longest(self.now).as_secs_f64()),
            end_seconds: Some(seconds(self.now)),
            expects_held: Some(self.expects.iter().all(|e| e.held)),
            ..Summary::default()
        };
        self.tally.sum_up(&mut summary);
        summary.domains = self.options.domains.map(|level| {
            let domains = self.meter.whole_domains(level);
            self.tally.sum_up_domains(domains)
        });
        summary.expects = self.expects;
        summary
    }
}
