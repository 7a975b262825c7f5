//! Surplus pods of placed gangs. The engine seeks a separate place for each, after all gangs.
//! Preemptors take the places of surplus pods first.

pub(super) mod gang;
mod withdrawal;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use trellis_api::Reason;
use trellis_api::job::FinishedPods;
use trellis_api::pod_group::{Plan, PodGroupStatus};
use trellis_gang::engine::SurplusPodId;
use trellis_gang::gang_step::MissingPod;
use trellis_gang::key::Key;
use trellis_gang::observed::{PodPhase, PodView};
use trellis_gang::requirements::flavors::GangPlacement;
use trellis_gang::surplus::{GROWTH_INTERVAL, MAX_PENDING_SURPLUS_PODS, SurplusPodState};
use trellis_gang::{AuthorizedAttempt, GangExplanation, engine, surplus};
use trellis_machine::clock;
use trellis_scheduler::{LimitDraw, NodeName, Placement};

use super::{Driver, TrackedGang};

/// State of a surplus pod in the engine.
#[derive(Debug)]
enum SurplusPlacement {
    /// The engine seeks a place for it.
    Waiting,
    /// The engine has found this place, and the pod has to be created.
    Assigned(Box<GangPlacement>),
    /// The pod exists in its place.
    Placed,
}

/// Surplus pods of one job.
#[derive(Debug, Default)]
pub(super) struct JobSurplus {
    states: BTreeMap<SurplusPodId, SurplusPlacement>,
    /// When surplus pods were last created.
    last_growth: Option<Instant>,
    /// Pods that could not be created, and the time until which the engine seeks no place for them.
    refused_until: BTreeMap<SurplusPodId, Instant>,
    /// Why the engine finds no place for the waiting pods.
    explanation: Option<GangExplanation>,
}

impl JobSurplus {
    /// Returns all surplus pods.
    pub(super) fn members(&self) -> impl Iterator<Item = &SurplusPodId> {
        self.states.keys()
    }

    /// Returns the surplus pods that hold a place or are about to get one.
    pub(super) fn placed(&self) -> impl Iterator<Item = &SurplusPodId> {
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
    /// Updates the surplus pods of a placed gang. Returns the pods to create.
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
        let seats = surplus::surplus_pod_states(&run, plan, &pods, finished);
        let state = self.gangs.entry(job.clone()).or_default();
        if seats.is_empty() && state.surplus.states.is_empty() {
            return Vec::new();
        }
        let now = Instant::now();
        let known: Vec<SurplusPodId> = state.surplus.states.keys().cloned().collect();
        for member in known {
            if !seats.contains_key(&member) {
                self.withdraw_surplus_pod(job, &member);
            }
        }
        let ending = finishing_groups(plan, &pods, finished);
        let grows_at = self.gangs.get(job).and_then(|s| s.surplus.last_growth);
        let grows_at = grows_at.and_then(|grown| grown.checked_add(GROWTH_INTERVAL));
        let grows_at = grows_at.filter(|at| *at > now);
        let mut vacancies = Vec::new();
        let mut joins = false;
        let mut is_paused = false;
        for (member, seat) in seats {
            let group = run.job.compiled().job().spec().group(&member.group);
            let is_elastic = group.is_some_and(trellis_api::job::TaskGroup::is_in_gang);
            let ends = ending.contains(member.group.as_str());
            match seat {
                SurplusPodState::Present(node) => {
                    self.record_surplus_pod(job, &run, plan, &member, &node)
                }
                SurplusPodState::Unavailable => self.withdraw_surplus_pod(job, &member),
                // The replacement of a failed pod does not wait, because the other pods have
                // restarted anyway.
                SurplusPodState::Creatable { round, .. }
                    if is_elastic && (ends || (round == 0 && grows_at.is_some())) =>
                {
                    is_paused |= !ends;
                    self.withdraw_surplus_pod(job, &member);
                }
                SurplusPodState::Creatable { round, not_before } => {
                    let vacancy =
                        self.seek_surplus_place(job, &run, plan, (&member, round), not_before);
                    joins |= vacancy.is_some() && is_elastic;
                    vacancies.extend(vacancy);
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

    /// Records a surplus pod that exists on this node.
    fn record_surplus_pod(
        &mut self,
        job: &Key,
        run: &AuthorizedAttempt,
        plan: &Plan,
        member: &SurplusPodId,
        node: &str,
    ) {
        let key = engine::surplus_pod_key(job, member);
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
        let is_given = matches!(
            state.surplus.states.get(member),
            Some(SurplusPlacement::Assigned(_))
        );
        let known = self.engine.placement(&id);
        let here = known.is_some_and(|p| p.iter().all(|(_, _, on)| on.as_str() == node));
        if !(is_given && here) {
            let Some(gang) = self.surplus_gang(job, run, plan, member) else {
                return;
            };
            let group = gang.groups.iter().map(|g| g.name.clone());
            let placement: Placement = group
                .map(|name| (name, vec![(NodeName::new(node), 1)]))
                .collect();
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

    /// Seeks a place for a surplus pod. Returns the pod once there is a place.
    fn seek_surplus_place(
        &mut self,
        job: &Key,
        run: &AuthorizedAttempt,
        plan: &Plan,
        (member, round): (&SurplusPodId, i64),
        not_before: Option<Timestamp>,
    ) -> Option<MissingPod> {
        let state = self.gangs.get_mut(job)?;
        let now = Instant::now();
        let is_told = self
            .leaving
            .contains_key(&engine::surplus_pod_key(job, member));
        if is_told
            && matches!(
                state.surplus.states.get(member),
                Some(SurplusPlacement::Assigned(_))
            )
        {
            self.withdraw_surplus_pod(job, member);
            return None;
        }
        state.surplus.refused_until.retain(|_, until| *until > now);
        let later = not_before.filter(|at| *at > clock::now());
        let later = later.map(|at| super::steps::to_instant(now, at));
        let later = later.max(state.surplus.refused_until.get(member).copied());
        match state.surplus.states.get(member) {
            Some(SurplusPlacement::Assigned(place)) => {
                let (_, _, node) = place.placement.iter().next()?;
                let brought = trellis_gang::requirements::flavors::group_tolerations(
                    &place.groups,
                    &member.group,
                );
                return Some(MissingPod {
                    group: member.group.clone(),
                    index: member.index,
                    node: node.as_str().to_owned(),
                    round,
                    flavor_tolerations: Some(brought.to_vec()),
                });
            }
            Some(SurplusPlacement::Placed) => {
                // The pod existed, and is gone.
                self.withdraw_surplus_pod(job, member);
            }
            Some(SurplusPlacement::Waiting) | None => {}
        }
        if let Some(at) = later {
            self.withdraw_surplus_pod(job, member);
            self.alarms.set(job, at);
            return None;
        }
        let state = self.gangs.get(job)?;
        let waiting = state.surplus.states.values();
        let waiting = waiting.filter(|inside| matches!(inside, SurplusPlacement::Waiting));
        if !state.surplus.states.contains_key(member) && waiting.count() >= MAX_PENDING_SURPLUS_PODS
        {
            return None;
        }
        let near = self.domain_labels(run, plan, &member.group)?;
        let mut gang = self.surplus_gang(job, run, plan, member)?;
        for group in &mut gang.groups {
            group.constraints.narrow_to(&near);
        }
        self.engine.apply_gang(gang);
        let state = self.gangs.get_mut(job)?;
        state
            .surplus
            .states
            .insert(member.clone(), SurplusPlacement::Waiting);
        None
    }

    /// Handles a place that the engine has found for a surplus pod.
    pub(super) fn place_surplus(&mut self, job: &Key, member: &SurplusPodId, place: GangPlacement) {
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
            self.withdraw_surplus_pod(job, member);
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
