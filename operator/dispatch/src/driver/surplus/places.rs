//! Places of surplus units in the engine.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use trellis_api::pod_group::Plan;
use trellis_gang::engine::{self, SurplusUnit};
use trellis_gang::gang_step::MissingPod;
use trellis_gang::key::Key;
use trellis_gang::requirements::flavors::GangPlacement;
use trellis_gang::surplus::MAX_PENDING_SURPLUS_UNITS;
use trellis_gang::{AuthorizedAttempt, GangExplanation};
use trellis_machine::clock;
use trellis_scheduler::{NodeName, Placement};

use super::SurplusPlacement;
use super::units::assigned_pods;
use crate::SchedulerEvent;
use crate::driver::steps::to_instant;
use crate::driver::{Driver, TrackedGang};

impl Driver {
    /// Records a surplus unit whose pods exist on these nodes.
    pub(in crate::driver) fn record_surplus(
        &mut self,
        job: &Key,
        run: &AuthorizedAttempt,
        plan: &Plan,
        unit: &SurplusUnit,
        nodes: Vec<(u32, String)>,
    ) {
        let key = engine::surplus_unit_key(job, unit);
        let state = self.gangs.entry(job.clone()).or_default();
        if matches!(
            state.surplus.states.get(unit),
            Some(SurplusPlacement::Placed)
        ) {
            if !self.leaving.contains_key(&key) {
                self.keep_in_place(&key, SignedDuration::ZERO);
            }
            return;
        }
        let id = engine::surplus_gang_id(job, unit);
        let is_given = state.surplus.is_assigned(unit);
        let known = self.engine.placement(&id);
        let is_here = |(index, node): &(u32, String)| {
            let mut places = known.iter().flat_map(|p| p.iter());
            let at = index.saturating_sub(unit.first);
            places.any(|(_, place, on)| place == at && on.as_str() == node)
        };
        let here = nodes.iter().all(is_here);
        if !(is_given && here) {
            let Some(gang) = self.surplus_gang(job, run, plan, unit) else {
                return;
            };
            let mut runs = Vec::new();
            for (index, node) in nodes {
                // The engine releases the places of pods that have ended and are gone.
                let at = usize::try_from(index.saturating_sub(unit.first)).unwrap_or(0);
                let node = NodeName::new(node);
                runs.resize(at.max(runs.len()), (node.clone(), 1));
                runs.push((node, 1));
            }
            let group = gang.groups.iter().map(|g| g.name.clone());
            let placement: Placement = group.map(|name| (name, runs.clone())).collect();
            let mut flavors = engine::flavors_from_groups(&plan.groups);
            flavors.retain(|group| group.group.as_str() == unit.group);
            let now = engine::to_engine_time(clock::now());
            self.engine
                .restore_gang_with_flavors(gang, placement, &flavors, now);
        }
        if let Some(state) = self.gangs.get_mut(job) {
            state
                .surplus
                .states
                .insert(unit.clone(), SurplusPlacement::Placed);
        }
    }

    /// Seeks a place for a surplus unit. Returns its pods once there is a place.
    pub(super) fn seek_surplus_place(
        &mut self,
        job: &Key,
        run: &AuthorizedAttempt,
        plan: &Plan,
        (unit, round): (&SurplusUnit, i64),
        not_before: Option<Timestamp>,
    ) -> Vec<MissingPod> {
        let Some(state) = self.gangs.get_mut(job) else {
            return Vec::new();
        };
        let now = Instant::now();
        let is_told = self
            .leaving
            .contains_key(&engine::surplus_unit_key(job, unit));
        if is_told && state.surplus.is_assigned(unit) {
            self.withdraw_surplus_unit(job, unit);
            return Vec::new();
        }
        state.surplus.refused_until.retain(|_, until| *until > now);
        let later = not_before.filter(|at| *at > clock::now());
        let later = later.map(|at| to_instant(now, at));
        let later = later.max(state.surplus.refused_until.get(unit).copied());
        match state.surplus.states.get(unit) {
            Some(SurplusPlacement::Assigned(place)) => return assigned_pods(unit, place, round),
            Some(SurplusPlacement::Placed) => {
                // The pods existed, and are gone.
                self.withdraw_surplus_unit(job, unit);
            }
            Some(SurplusPlacement::Waiting) | None => {}
        }
        match later {
            Some(at) => {
                self.withdraw_surplus_unit(job, unit);
                self.alarms.set(job, at);
            }
            None => self.enqueue_surplus(job, run, plan, unit),
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
    pub(in crate::driver) fn place_surplus(
        &mut self,
        job: &Key,
        unit: &SurplusUnit,
        place: GangPlacement,
    ) {
        let is_judged = self.is_judged(job);
        let state = self.gangs.get_mut(job);
        let waits = |state: &&mut TrackedGang| {
            matches!(
                state.surplus.states.get(unit),
                Some(SurplusPlacement::Waiting)
            )
        };
        let Some(state) = state.filter(waits) else {
            self.engine.delete_gang(&engine::surplus_gang_id(job, unit));
            return;
        };
        // The policies have changed: the controller judges the job again first.
        if !is_judged {
            self.withdraw_surplus_unit(job, unit);
            return;
        }
        let assigned = SurplusPlacement::Assigned(Box::new(place));
        state.surplus.states.insert(unit.clone(), assigned);
        let context = self.committer.context();
        context.send_event(SchedulerEvent::Recheck(job.clone()));
    }

    /// Records why the engine finds no place for surplus pods.
    pub(in crate::driver) fn explain_waiting_surplus(
        &mut self,
        job: &Key,
        explanation: GangExplanation,
    ) {
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
        context.send_event(SchedulerEvent::Recheck(job.clone()));
    }
}
