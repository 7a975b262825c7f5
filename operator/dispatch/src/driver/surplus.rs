//! Surplus of placed gangs: single pods and, in groups with slices, whole slices. The engine seeks a
//! separate place for each such unit, after all gangs. Preemptors take the places of surplus first.

pub(super) mod gang;
mod places;
mod units;
mod withdrawal;

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;
use trellis_api::Reason;
use trellis_api::job::{FinishedPods, TaskGroup};
use trellis_api::pod_group::{Plan, PodGroupStatus};
use trellis_gang::engine::SurplusUnit;
use trellis_gang::gang_step::MissingPod;
use trellis_gang::key::Key;
use trellis_gang::observed::{PodPhase, PodView};
use trellis_gang::requirements::flavors::GangPlacement;
use trellis_gang::surplus::{GROWTH_INTERVAL, SurplusState};
use trellis_gang::{AuthorizedAttempt, GangExplanation, surplus};
use trellis_scheduler::LimitDraw;

use super::{Driver, TrackedGang};

/// State of a surplus unit in the engine.
#[derive(Debug)]
enum SurplusPlacement {
    /// The engine seeks a place for it.
    Waiting,
    /// The engine has found this place, and the pods have to be created.
    Assigned(Box<GangPlacement>),
    /// The pods exist in their place.
    Placed,
}

/// Surplus of one job.
#[derive(Debug, Default)]
pub(super) struct JobSurplus {
    states: BTreeMap<SurplusUnit, SurplusPlacement>,
    /// When surplus pods were last created.
    last_growth: Option<Instant>,
    /// Units that could not be created, and the time until which the engine seeks no place for them.
    refused_until: BTreeMap<SurplusUnit, Instant>,
    /// Slices of which only some pods are seen, and since when.
    torn: BTreeMap<SurplusUnit, Instant>,
    /// Why the engine finds no place for the waiting units.
    explanation: Option<GangExplanation>,
}

impl JobSurplus {
    /// Returns all surplus units.
    pub(super) fn units(&self) -> impl Iterator<Item = &SurplusUnit> {
        self.states.keys()
    }

    /// Returns true if this leader creates the pods of the unit.
    fn is_assigned(&self, unit: &SurplusUnit) -> bool {
        let state = self.states.get(unit);
        matches!(state, Some(SurplusPlacement::Assigned(_)))
    }

    /// Returns the surplus units that hold a place or are about to get one.
    pub(super) fn placed(&self) -> impl Iterator<Item = &SurplusUnit> {
        let inside = self.states.iter();
        let placed = inside.filter(|(_, inside)| !matches!(inside, SurplusPlacement::Waiting));
        placed.map(|(member, _)| member)
    }
}

impl TrackedGang {
    /// Returns the limits that the gang's surplus pods draw on.
    pub(super) fn surplus_draws(&self) -> Vec<LimitDraw> {
        let limits = self.limits.as_deref();
        limits
            .map(|limits| limits.for_joining_pods().to_draws())
            .unwrap_or_default()
    }
}

/// Returns the message that explains why pods are missing although there may be room.
fn growth_pause_message() -> String {
    let every = GROWTH_INTERVAL.as_secs();
    format!("it grows at most once in {every} s, since all begin again when others join")
}

/// Returns the task groups that need no more surplus pods, because some of their pods have
/// finished.
fn finishing_groups<'a>(
    plan: &Plan,
    pods: &'a BTreeMap<String, PodView>,
    finished: Option<&'a FinishedPods>,
) -> BTreeSet<&'a str> {
    let is_done = |p: &&PodView| p.plan == plan.hash && p.phase == PodPhase::Succeeded;
    let from_pods = pods.values().filter(is_done).map(|pod| pod.group.as_str());
    let finished = finished.filter(|f| f.attempt == plan.attempt);
    let recorded = finished.into_iter().flat_map(|f| &f.groups);
    let recorded = recorded.filter(|group| !group.completed_indexes.is_empty());
    from_pods
        .chain(recorded.map(|group| group.name.as_str()))
        .collect()
}

/// Limits on the growth of a job.
struct GrowthLimits<'a> {
    /// Task groups that need no more pods.
    ending: BTreeSet<&'a str>,
    /// When the job may grow again, if pods that join restart the other pods.
    pause_end: Option<Instant>,
}

/// Result of the update of surplus units.
#[derive(Default)]
struct SurplusUpdate {
    /// The pods to create.
    missing: Vec<MissingPod>,
    /// True if pods join whose other pods restart.
    grows: bool,
    /// True if a unit waits only for the end of the pause.
    is_paused: bool,
}

impl Driver {
    /// Updates the surplus of a placed gang. Returns the pods to create.
    pub(super) fn update_surplus(
        &mut self,
        job: &Key,
        journal: &PodGroupStatus,
    ) -> Vec<MissingPod> {
        let run = self.gangs.get(job).and_then(TrackedGang::run).cloned();
        let context = self.committer.context().clone();
        let pods = context.cache.pods.pods_of_job(job);
        // While the job may not run as it is, existing pods stay, and none are added.
        let (Some(run), Some(plan)) = (run, &journal.plan) else {
            self.withdraw_gone_surplus_pods(job, &pods);
            return Vec::new();
        };
        let written = context.cache.jobs.get(job);
        let status = written.as_ref().and_then(|job| job.status.as_ref());
        let finished = status.and_then(|status| status.internal.finished_pods.as_ref());
        let units = surplus::surplus_states(&run, plan, &pods, finished);
        let state = self.gangs.entry(job.clone()).or_default();
        if units.is_empty() && state.surplus.states.is_empty() {
            return Vec::new();
        }
        self.forget_other_units(job, &units);
        let limits = GrowthLimits {
            ending: finishing_groups(plan, &pods, finished),
            pause_end: self.growth_pause_end(job),
        };
        let mut update = SurplusUpdate::default();
        for (unit, state) in units {
            self.update_unit(job, (&run, plan), (&unit, state), &limits, &mut update);
        }
        if let Some(at) = limits.pause_end {
            self.alarms.set(job, at);
        }
        self.record_growth(job, &update);
        update.missing
    }

    /// Gives up the places of units that the job no longer has.
    fn forget_other_units(&mut self, job: &Key, units: &BTreeMap<SurplusUnit, SurplusState>) {
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        let is_torn =
            |unit: &SurplusUnit| matches!(units.get(unit), Some(SurplusState::Torn { .. }));
        state.surplus.torn.retain(|unit, _| is_torn(unit));
        let known = state.surplus.states.keys();
        let gone = known.filter(|unit| !units.contains_key(unit));
        let gone: Vec<SurplusUnit> = gone.cloned().collect();
        for unit in gone {
            self.withdraw_surplus_unit(job, &unit);
        }
    }

    /// Returns when the job may grow again. None: it may grow now.
    fn growth_pause_end(&self, job: &Key) -> Option<Instant> {
        let last_growth = self.gangs.get(job)?.surplus.last_growth?;
        let end = last_growth.checked_add(GROWTH_INTERVAL)?;
        (end > Instant::now()).then_some(end)
    }

    fn update_unit(
        &mut self,
        job: &Key,
        (run, plan): (&AuthorizedAttempt, &Plan),
        (unit, state): (&SurplusUnit, SurplusState),
        limits: &GrowthLimits<'_>,
        update: &mut SurplusUpdate,
    ) {
        let spec = run.job.compiled().job().spec();
        let group = spec.group(&unit.group);
        let is_elastic = group.is_some_and(TaskGroup::is_in_gang);
        // A replica group joins without a restart of the other groups.
        let has_own_world = group.is_some_and(|group| spec.has_replica_groups(group));
        let restarts_others = is_elastic && !has_own_world;
        let ends = is_elastic && limits.ending.contains(unit.group.as_str());
        match state {
            SurplusState::Present(nodes) => self.record_surplus(job, run, plan, unit, nodes),
            SurplusState::Torn { round, missing } => {
                let missing = self.complete_slice(job, unit, round, &missing);
                update.missing.extend(missing);
            }
            SurplusState::Unavailable => self.withdraw_surplus_unit(job, unit),
            SurplusState::Creatable { .. } if ends => self.withdraw_surplus_unit(job, unit),
            // The replacement of a failed pod does not wait, because the other pods have restarted
            // anyway.
            SurplusState::Creatable { round: 0, .. }
                if restarts_others && limits.pause_end.is_some() =>
            {
                update.is_paused = true;
                self.withdraw_surplus_unit(job, unit);
            }
            SurplusState::Creatable { round, not_before } => {
                let found = self.seek_surplus_place(job, run, plan, (unit, round), not_before);
                update.grows |= !found.is_empty() && restarts_others;
                update.missing.extend(found);
            }
        }
    }

    fn record_growth(&mut self, job: &Key, update: &SurplusUpdate) {
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        // A running task creates none of these pods. They are returned again later.
        if update.grows && state.task.is_none() {
            state.surplus.last_growth = Some(Instant::now());
        }
        let mut units = state.surplus.states.values();
        if units.all(|unit| !matches!(unit, SurplusPlacement::Waiting)) {
            let pause = || GangExplanation::waiting(Reason::Running, growth_pause_message());
            state.surplus.explanation = update.is_paused.then(pause);
        }
    }

    /// Returns why a placed job has fewer pods than it asks for.
    pub(super) fn surplus_explanation(&self, job: &Key) -> Option<&GangExplanation> {
        self.gangs.get(job)?.surplus.explanation.as_ref()
    }
}
