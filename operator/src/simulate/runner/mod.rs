//! Virtual time: jobs come, are placed by the engine that the operator runs, end
//! after their real runtime and are gone. Pure, and the same every time.
//!
//! Pods are not shown to the engine one by one: it assumes those of a gang that
//! it has placed, which holds what they would hold, and gives it back when the
//! gang is released or deleted.

mod agenda;
mod expect;
mod heads;
mod hours;
mod job;
mod meter;
mod outside;
mod record;
mod script;
mod tally;

#[cfg(test)]
mod tests;

pub use expect::{Expect, Expectation};
pub use record::{Event, Record, seconds, why};
pub use script::{Change, Held, Job, Script};

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use trellis_scheduler::{
    Decision, Engine, GangId, NodeName, Placement, PodKey, Predictor, Time, Victim,
};

use super::random::Random;
use super::summary::Summary;
use agenda::{Agenda, Due, What};
use expect::{Look, Standing};
use heads::Heads;
use hours::Burning;
use job::{JobState, Stage};
use meter::Meter;
use tally::Tally;

/// What backfill is told of runtimes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Runtimes {
    /// What the jobs say themselves.
    #[default]
    Declared,
    /// How long they really take.
    Exact,
    /// What earlier runs predict.
    Predicted,
}

/// How a simulation is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// What happens later is not looked at. None: until nothing happens any more.
    pub until: Option<Time>,
    /// What backfill is told of runtimes.
    pub runtimes: Runtimes,
    /// Of so many jobs in a hundred it is told nothing.
    pub unknown_percent: u8,
    /// Who they are.
    pub seed: u64,
}

/// Hears what happens.
pub type Tell<'a> = dyn FnMut(&Record<'_>) + 'a;

/// Lets a script happen, and tells everything that comes of it.
pub fn run(script: Script, options: Options, tell: &mut Tell<'_>) -> Summary {
    let mut runner = Runner::new(options, tell);
    runner.run(script.into_order());
    runner.sum_up()
}

/// When so much time has gone by, to the millisecond after.
fn after(time: Time, duration: Duration) -> Time {
    time.plus(duration.saturating_add(Duration::from_nanos(999_999)))
}

struct Runner<'a, 'b> {
    engine: Engine,
    options: Options,
    agenda: Agenda,
    jobs: BTreeMap<GangId, JobState>,
    /// Jobs that hold a place.
    holding: BTreeSet<GangId>,
    /// Jobs that wait and are Refused for as long as they do.
    refused: BTreeSet<GangId>,
    burning: Burning,
    /// Somebody else's pods, with their GPUs.
    foreign: BTreeMap<PodKey, (NodeName, i64)>,
    meter: Meter,
    tally: Tally,
    heads: Heads,
    predictor: Predictor,
    random: Random,
    expects: Vec<Expectation>,
    now: Time,
    tell: &'a mut Tell<'b>,
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
                for decision in self.engine.cycle(self.now) {
                    self.carry_out(&decision);
                }
                // From now on this is burnt.
                self.burning.count(&mut self.engine, self.now);
                // What takes no time has happened too.
                if self.agenda.next().is_none_or(|next| next > self.now) {
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

    /// When a limit of GPU-hours opens that somebody waits for.
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
        match due.what {
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
        }
    }

    fn carry_out(&mut self, decision: &Decision) {
        for record in Record::of(self.now, decision, |id| Some(&self.jobs.get(id)?.gang)) {
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
            Decision::Preempt { victims, .. } => {
                for victim in victims {
                    self.evict(victim);
                }
            }
            Decision::Drain { victim } => self.evict(victim),
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
        }
        if let Some(holds) = job.holds_for() {
            let due = Due {
                what: What::End,
                job: id.clone(),
                run: job.run,
            };
            self.agenda.add(after(self.now, holds), due);
        }
    }

    /// A victim is told to stop: what it has done is lost, and its place is free
    /// once its grace is over.
    fn evict(&mut self, victim: &Victim) {
        let Some(job) = self.jobs.get_mut(&victim.gang) else {
            return;
        };
        // What it would have done from now on does not happen.
        job.run = job.run.saturating_add(1);
        job.stage = Stage::Leaving;
        job.was_preempted = true;
        let due = Due {
            what: What::Stop,
            job: victim.gang.clone(),
            run: job.run,
        };
        self.agenda.add(after(self.now, job.gang.grace), due);
        self.tally.preemptions = self.tally.preemptions.saturating_add(1);
    }

    /// It holds its place no longer.
    fn give_up(&mut self, id: &GangId, stage: Stage) {
        let Some(job) = self.jobs.get_mut(id) else {
            return;
        };
        job.run = job.run.saturating_add(1);
        job.stage = stage;
        for (node, gpus) in std::mem::take(&mut job.place) {
            self.meter.hold(&node, gpus.saturating_neg());
        }
        self.holding.remove(id);
        if stage == Stage::Waiting {
            self.heads.wait(&job.gang);
        } else {
            self.heads.leave(&job.gang);
        }
    }

    fn say(&mut self, event: Event, job: &GangId, reason: String) {
        (self.tell)(&Record {
            t: self.now,
            event,
            job,
            place: None,
            reason,
        });
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
        summary.expects = self.expects;
        summary
    }
}

impl Look for Runner<'_, '_> {
    fn standing(&self, id: &GangId) -> Standing {
        let Some(job) = self.jobs.get(id) else {
            return Standing::Absent;
        };
        match job.stage {
            Stage::Waiting if self.refused.contains(id) => Standing::Refused,
            Stage::Held | Stage::Waiting | Stage::Leaving => Standing::Waiting,
            Stage::Refused => Standing::Refused,
            Stage::Placed { .. } => Standing::Placed,
            Stage::Ended => Standing::Ended,
        }
    }

    fn was_preempted(&self, job: &GangId) -> bool {
        self.jobs.get(job).is_some_and(|job| job.was_preempted)
    }

    fn all(&self) -> Vec<GangId> {
        self.jobs.keys().cloned().collect()
    }
}
