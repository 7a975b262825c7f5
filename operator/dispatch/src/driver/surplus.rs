//! Surplus of placed gangs: single pods and, in groups with slices, whole slices. The engine seeks a
//! separate place for each such unit, after all gangs. Preemptors take the places of surplus first.

pub(super) mod gang;
mod units;
mod withdrawal;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use trellis_api::Reason;
use trellis_api::job::{FinishedPods, TaskGroup};
use trellis_api::pod_group::{Plan, PodGroupStatus};
use trellis_gang::engine::SurplusUnit;
use trellis_gang::gang_step::MissingPod;
use trellis_gang::key::Key;
use trellis_gang::observed::{PodPhase, PodView};
use trellis_gang::requirements::flavors::GangPlacement;
use trellis_gang::surplus::{GROWTH_INTERVAL, MAX_PENDING_SURPLUS_UNITS, SurplusState};
use trellis_gang::{AuthorizedAttempt, GangExplanation, engine, surplus};
use trellis_machine::clock;
use trellis_scheduler::{LimitDraw, NodeName, Placement};

use self::units::assigned_pods;
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
    pub(super) fn members(&self) -> impl Iterator<Item = &SurplusUnit> {
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
        let seats = surplus::surplus_states(&run, plan, &pods, finished);
        let state = self.gangs.entry(job.clone()).or_default();
        if seats.is_empty() && state.surplus.states.is_empty() {
            return Vec::new();
        }
        let now = Instant::now();
        let known: Vec<SurplusUnit> = state.surplus.states.keys().cloned().collect();
        for member in known {
            if !seats.contains_key(&member) {
                self.withdraw_surplus_unit(job, &member);
            }
        }
        let ending = finishing_groups(plan, &pods, finished);
        let grows_at = self.gangs.get(job).and_then(|s| s.surplus.last_growth);
        let grows_at = grows_at.and_then(|grown| grown.checked_add(GROWTH_INTERVAL));
        let grows_at = grows_at.filter(|at| *at > now);
        if let Some(state) = self.gangs.get_mut(job) {
            let is_torn =
                |unit: &SurplusUnit| matches!(seats.get(unit), Some(SurplusState::Torn { .. }));
            state.surplus.torn.retain(|unit, _| is_torn(unit));
        }
        let mut vacancies = Vec::new();
        let mut joins = false;
        let mut is_paused = false;
        for (member, seat) in seats {
            let spec = run.job.compiled().job().spec();
            let group = spec.group(&member.group);
            let is_elastic = group.is_some_and(TaskGroup::is_in_gang);
            // A replica group joins without a restart of the other groups.
            let restarts_others =
                is_elastic && !group.is_some_and(|group| spec.has_replica_groups(group));
            let is_first = matches!(seat, SurplusState::Creatable { round: 0, .. });
            let is_too_early = restarts_others && is_first && grows_at.is_some();
            let ends = ending.contains(member.group.as_str());
            match seat {
                SurplusState::Present(nodes) => {
                    self.record_surplus(job, &run, plan, &member, nodes)
                }
                SurplusState::Torn { round, missing } => {
                    vacancies.extend(self.complete_slice(job, &member, round, &missing));
                }
                SurplusState::Unavailable => self.withdraw_surplus_unit(job, &member),
                // The replacement of a failed pod does not wait, because the other pods have
                // restarted anyway.
                SurplusState::Creatable { .. } if (is_elastic && ends) || is_too_early => {
                    is_paused |= !ends;
                    self.withdraw_surplus_unit(job, &member);
                }
                SurplusState::Creatable { round, not_before } => {
                    let found =
                        self.seek_surplus_place(job, &run, plan, (&member, round), not_before);
                    joins |= !found.is_empty() && restarts_others;
                    vacancies.extend(found);
                }
            }
        }
        if let Some(at) = grows_at {
            self.alarms.set(job, at);
        }
        if let Some(state) = self.gangs.get_mut(job) {
            // A running task creates none of these pods. They are returned again later.
            if joins && state.task.is_none() {
                state.surplus.last_growth = Some(now);
            }
            if state
                .surplus
                .states
                .values()
                .all(|i| !matches!(i, SurplusPlacement::Waiting))
            {
                state.surplus.explanation = is_paused
                    .then(|| GangExplanation::waiting(Reason::Running, growth_pause_message()));
            }
        }
        vacancies
    }

    /// Returns why a placed job has fewer pods than it asks for.
    pub(super) fn surplus_explanation(&self, job: &Key) -> Option<&GangExplanation> {
        self.gangs.get(job)?.surplus.explanation.as_ref()
    }

    /// Records a surplus unit whose pods exist on these nodes.
    pub(in crate::driver) fn record_surplus(
        &mut self,
        job: &Key,
        run: &AuthorizedAttempt,
        plan: &Plan,
        member: &SurplusUnit,
        nodes: Vec<(u32, String)>,
    ) {
        let key = engine::surplus_unit_key(job, member);
        let state = self.gangs.entry(job.clone()).or_default();
        if matches!(
            state.surplus.states.get(member),
            Some(SurplusPlacement::Placed)
        ) {
            if !self.leaving.contains_key(&key) {
                self.keep_in_place(&key, SignedDuration::ZERO);
            }
            return;
        }
        let id = engine::surplus_gang_id(job, member);
        let is_given = state.surplus.is_assigned(member);
        let known = self.engine.placement(&id);
        let is_here = |(index, node): &(u32, String)| {
            let mut places = known.iter().flat_map(|p| p.iter());
            let at = index.saturating_sub(member.first);
            places.any(|(_, place, on)| place == at && on.as_str() == node)
        };
        let here = nodes.iter().all(is_here);
        if !(is_given && here) {
            let Some(gang) = self.surplus_gang(job, run, plan, member) else {
                return;
            };
            let mut runs = Vec::new();
            for (index, node) in nodes {
                // The engine releases the places of pods that have ended and are gone.
                let at = usize::try_from(index.saturating_sub(member.first)).unwrap_or(0);
                let node = NodeName::new(node);
                runs.resize(at.max(runs.len()), (node.clone(), 1));
                runs.push((node, 1));
            }
            let group = gang.groups.iter().map(|g| g.name.clone());
            let placement: Placement = group.map(|name| (name, runs.clone())).collect();
            let mut flavors = engine::flavors_from_groups(&plan.groups);
            flavors.retain(|group| group.group.as_str() == member.group);
            let now = engine::to_engine_time(clock::now());
            self.engine
                .restore_gang_with_flavors(gang, placement, &flavors, now);
        }
        if let Some(state) = self.gangs.get_mut(job) {
            state
                .surplus
                .states
                .insert(member.clone(), SurplusPlacement::Placed);
        }
    }

    /// Seeks a place for a surplus unit. Returns its pods once there is a place.
    fn seek_surplus_place(
        &mut self,
        job: &Key,
        run: &AuthorizedAttempt,
        plan: &Plan,
        (member, round): (&SurplusUnit, i64),
        not_before: Option<Timestamp>,
    ) -> Vec<MissingPod> {
        let Some(state) = self.gangs.get_mut(job) else {
            return Vec::new();
        };
        let now = Instant::now();
        let is_told = self
            .leaving
            .contains_key(&engine::surplus_unit_key(job, member));
        if is_told && state.surplus.is_assigned(member) {
            self.withdraw_surplus_unit(job, member);
            return Vec::new();
        }
        state.surplus.refused_until.retain(|_, until| *until > now);
        let later = not_before.filter(|at| *at > clock::now());
        let later = later.map(|at| super::steps::to_instant(now, at));
        let later = later.max(state.surplus.refused_until.get(member).copied());
        match state.surplus.states.get(member) {
            Some(SurplusPlacement::Assigned(place)) => return assigned_pods(member, place, round),
            Some(SurplusPlacement::Placed) => {
                // The pods existed, and are gone.
                self.withdraw_surplus_unit(job, member);
            }
            Some(SurplusPlacement::Waiting) | None => {}
        }
        match later {
            Some(at) => {
                self.withdraw_surplus_unit(job, member);
                self.alarms.set(job, at);
            }
            None => self.enqueue_surplus(job, run, plan, member),
        }
        Vec::new()
    }

    /// Lets the engine seek a place for a surplus unit.
    fn enqueue_surplus(
        &mut self,
        job: &Key,
        run: &AuthorizedAttempt,
        plan: &Plan,
        unit: &SurplusUnit,
    ) {
        let Some(state) = self.gangs.get(job) else {
            return;
        };
        let waiting = state.surplus.states.values();
        let waiting = waiting.filter(|inside| matches!(inside, SurplusPlacement::Waiting));
        if !state.surplus.states.contains_key(unit) && waiting.count() >= MAX_PENDING_SURPLUS_UNITS
        {
            return;
        }
        let near = self.domain_labels(run, plan, &unit.group);
        let gang = self.surplus_gang(job, run, plan, unit);
        let (Some(near), Some(mut gang)) = (near, gang) else {
            return;
        };
        for group in &mut gang.groups {
            group.constraints.narrow_to(&near);
        }
        self.engine.apply_gang(gang);
        if let Some(state) = self.gangs.get_mut(job) {
            let waiting = SurplusPlacement::Waiting;
            state.surplus.states.insert(unit.clone(), waiting);
        }
    }

    /// Handles a place that the engine has found for a surplus unit.
    pub(super) fn place_surplus(&mut self, job: &Key, member: &SurplusUnit, place: GangPlacement) {
        let is_judged = self.is_judged(job);
        let state = self.gangs.get_mut(job);
        let waits = |state: &&mut TrackedGang| {
            matches!(
                state.surplus.states.get(member),
                Some(SurplusPlacement::Waiting)
            )
        };
        let Some(state) = state.filter(waits) else {
            self.engine
                .delete_gang(&engine::surplus_gang_id(job, member));
            return;
        };
        // The policies have changed: the controller judges the job again first.
        if !is_judged {
            self.withdraw_surplus_unit(job, member);
            return;
        }
        let assigned = SurplusPlacement::Assigned(Box::new(place));
        state.surplus.states.insert(member.clone(), assigned);
        let context = self.committer.context();
        context.send_event(crate::SchedulerEvent::Recheck(job.clone()));
    }

    /// Records why the engine finds no place for surplus pods.
    pub(super) fn explain_waiting_surplus(&mut self, job: &Key, explanation: GangExplanation) {
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        let message = format!(
            "the others come when there is room: {}",
            explanation.message
        );
        state.surplus.explanation = Some(GangExplanation {
            message,
            ..explanation
        });
        let context = self.committer.context();
        context.send_event(crate::SchedulerEvent::Recheck(job.clone()));
    }
}
