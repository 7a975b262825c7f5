//! Preemption for external pods, and of external pods.

use std::sync::Arc;

use k8s_openapi::jiff::SignedDuration;
use tokio::time::Instant;
use trellis_api::pod_group::{NominatedVictim, Plan, PodGroupPhase, PodGroupStatus};
use trellis_api::{PodGroup, PodGroupSpec, Reason};
use trellis_gang::external::placed_gang::to_placed_gang;
use trellis_gang::external::plan::planned_pods;
use trellis_gang::external::{ExternalGangRef, plan};
use trellis_gang::key::Key;
use trellis_gang::requirements::flavors::GangPlacement;
use trellis_gang::{engine, external};
use trellis_machine::clock;
use trellis_scheduler::Victim;

use super::super::victims::{PROTECTED_FOR, too_many_victims_message};
use super::super::{Driver, EngineState};
use super::allocations::plan_allocations;
use super::places::policy_versions;
use crate::commit::ExternalNomination;
use crate::external_request::PlacementRole;
use crate::external_request::queue::is_counted_in_queue;

impl Driver {
    /// Nominates the pods for a place that these victims have to leave.
    pub(in super::super) fn preempt_for_external_pods(
        &mut self,
        unit: &Key,
        place: &GangPlacement,
        victims: &[Victim],
    ) {
        self.release_victims(unit);
        let state = self.external_pods.gangs.get_mut(unit);
        let ready = state.filter(|state| state.task.is_none());
        let request = ready.and_then(|state| {
            state.engine_state = EngineState::Nominated;
            state.request.clone()
        });
        let (Some(request), Some(uid)) = (request, self.external_uid(unit)) else {
            return self.abandon_preemption(unit, victims);
        };
        let preemptor = preemptor_pod_group(unit, &request.queue, request.priority);
        let Some(named) = self.name_victims(unit, &preemptor, victims) else {
            return self.abandon_preemption(unit, victims);
        };
        if named.is_empty() {
            return self.abandon_preemption(unit, victims);
        }
        if let Some(message) = too_many_victims_message(&named) {
            return self.put_off_external_pods(unit, Reason::InsufficientCapacity, message);
        }
        let message = self.nomination_message(place, &named);
        let plan = plan::build_plan(&uid, 0, &request, place, clock::now());
        let nodes = planned_pods(&plan).map(|(pod, node)| (pod.name.as_str(), node));
        let mounts = request.claim_mounts(nodes);
        let nomination = ExternalNomination {
            uid,
            plan,
            mounts,
            judged: policy_versions(&request),
            victims: named,
            message,
        };
        let (committer, key) = (self.committer.clone(), unit.clone());
        self.start_task(unit, None, |stop| async move {
            committer
                .nominate_external_pods(key, nomination, stop)
                .await
        });
    }

    fn abandon_preemption(&mut self, unit: &Key, victims: &[Victim]) {
        for victim in victims {
            let (victim_job, member) = engine::parse_gang_id(&victim.gang);
            let victim_key = match member {
                Some(member) => engine::surplus_unit_key(&victim_job, &member),
                None => victim_job,
            };
            self.keep_in_place(&victim_key, SignedDuration::ZERO);
        }
        self.withdraw(unit);
        // The journal may not hold the victims' places yet, so the gang pauses.
        self.pause_external(unit);
    }

    /// Pauses the gang, because the engine could find the same place for it again.
    pub(super) fn pause_external(&mut self, unit: &Key) {
        if let Some(state) = self.external_pods.gangs.get_mut(unit) {
            let until = state.pause.begin(Instant::now());
            self.alarms.set(unit, until);
        }
    }

    /// Returns the plan of a gang's nomination, from its journal.
    pub(super) fn nominated_plan(&self, unit: &Key) -> Option<(Arc<PodGroup>, Plan)> {
        let Some(ExternalGangRef::Group(group)) = external::parse_gang_key(unit) else {
            return None;
        };
        let group = self.users_pod_group(&group)?;
        let journal = group.status.as_ref();
        let journal = journal.filter(|j| j.phase == Some(PodGroupPhase::Nominated))?;
        let plan = journal.plan.clone()?;
        Some((group, plan))
    }

    /// Restores in the engine a nomination that an earlier leader wrote. Its victims that still
    /// hold a place leave it.
    pub(in super::super) fn restore_external_nomination(&mut self, unit: &Key) {
        let Some((group, plan)) = self.nominated_plan(unit) else {
            return;
        };
        let Some(ExternalGangRef::Group(key)) = external::parse_gang_key(unit) else {
            return;
        };
        let pods = self.committer.cache().external_pods.pods_of_group(&key);
        let allocations = plan_allocations(unit, &plan, &pods);
        let queue = plan.queue.clone().unwrap_or_default();
        let priority = plan.priority.unwrap_or(0);
        let preemptor = preemptor_pod_group(unit, &queue, priority);
        let mut victims = Vec::new();
        for victim in group.status.iter().flat_map(|journal| &journal.victims) {
            if self.record_victim(&unit.clone(), &preemptor, victim, false) && victim.pod.is_none()
            {
                let victim_key = Key::new(&victim.namespace, &victim.name);
                victims.push(engine::gang_id(&victim_key));
            }
        }
        let place = self.external_pods.next_place_number();
        let rank = (queue.as_str(), priority);
        let placed_gang = to_placed_gang(unit, place, Some(&group.spec), rank, &allocations);
        let state = self.external_pods.gangs.entry(unit.clone()).or_default();
        state.engine_state = EngineState::Nominated;
        state.place_number = place;
        let mut gang = placed_gang.gang;
        gang.draws = self.planned_draws(&plan);
        self.engine.restore_nomination_with_flavors(
            gang,
            placed_gang.placement,
            &placed_gang.flavors,
            &victims,
        );
    }

    /// Continues a nomination: asks the remaining victims to leave. The nomination of a single pod
    /// is in no journal, so its victims are asked as soon as their disruption budgets allow it.
    pub(super) fn continue_external_nomination(
        &mut self,
        unit: &Key,
        group: &PodGroup,
        journal: &PodGroupStatus,
    ) {
        match self.external_engine_state(unit) {
            EngineState::Nominated => {
                let plan = journal.plan.as_ref();
                let queue = plan.and_then(|plan| plan.queue.clone()).unwrap_or_default();
                if !self.is_counted_in(unit, group, plan, &queue) {
                    // No victim must leave for a place that the gang could not get.
                    return self.cancel_nomination(unit);
                }
                let priority = plan
                    .and_then(|plan| plan.priority)
                    .unwrap_or(group.spec.priority());
                self.judge_nominated_gang(unit, group, plan, &queue);
                let preemptor = preemptor_pod_group(unit, &queue, priority);
                self.ask_victims_to_leave(unit, &preemptor, journal);
            }
            // The victims have left, but the last try to bind its pods failed.
            EngineState::Placed => {
                let id = engine::gang_id(unit);
                if let Some(placement) = self.engine.placement(&id) {
                    let place = self.build_place(&id, placement);
                    self.place_external_pods(unit, place);
                }
            }
            EngineState::Absent | EngineState::Waiting | EngineState::Restarting => {
                self.cancel_nomination(unit)
            }
        }
    }

    /// Applies the current limits to a nominated gang. Limits that are new or lower since its
    /// nomination keep it from starting.
    fn judge_nominated_gang(
        &mut self,
        unit: &Key,
        group: &PodGroup,
        plan: Option<&Plan>,
        queue: &str,
    ) {
        let pods = self
            .committer
            .cache()
            .external_pods
            .pods_of_group(&Key::from_meta(&group.metadata));
        let allocations = plan.map(|plan| plan_allocations(unit, plan, &pods));
        self.judge_external_pods(unit, queue, false, &allocations.unwrap_or_default());
    }

    /// Returns true if the gang still counts in the queue by whose quota its place was found.
    fn is_counted_in(
        &self,
        unit: &Key,
        group: &PodGroup,
        plan: Option<&Plan>,
        queue: &str,
    ) -> bool {
        let context = self.committer.context();
        let planned = plan.into_iter().flat_map(planned_pods);
        let pods: Vec<_> = planned
            .filter_map(|(pod, _)| {
                let there = context
                    .cache
                    .external_pods
                    .get(&Key::new(&unit.namespace, &pod.name))?;
                Some((pod.name.clone(), there))
            })
            .collect();
        is_counted_in_queue(
            &context.cache,
            &unit.namespace,
            PlacementRole::Gang(group),
            &pods,
            queue,
        )
    }

    /// Asks the victims of a single pod to leave, after their disruption budgets have allowed it.
    pub(super) fn ask_victims_of_pod_to_leave(
        &mut self,
        unit: &Key,
        victims: Vec<NominatedVictim>,
    ) {
        if self.external_engine_state(unit) != EngineState::Nominated {
            return;
        }
        let request = self
            .external_pods
            .gangs
            .get(unit)
            .and_then(|state| state.request.clone());
        let Some(request) = request else { return };
        let preemptor = preemptor_pod_group(unit, &request.queue, request.priority);
        let journal = PodGroupStatus {
            victims,
            ..PodGroupStatus::default()
        };
        self.ask_victims_to_leave(unit, &preemptor, &journal);
    }

    /// Handles a victim that a disruption budget protects. The preemptor waits, and tries other
    /// victims first.
    pub(super) fn handle_external_protected_victim(
        &mut self,
        unit: &Key,
        victim: &Key,
        message: String,
    ) {
        self.keep_in_place(victim, PROTECTED_FOR);
        self.put_off_external_pods(unit, Reason::ProtectedByBudget, message);
    }

    /// Handles a gang that has lost its nominated place.
    pub(in super::super) fn lose_external_nomination(&mut self, unit: &Key) {
        let Some(state) = self.external_pods.gangs.get_mut(unit) else {
            return;
        };
        if state.engine_state != EngineState::Nominated {
            return;
        }
        state.engine_state = EngineState::Waiting;
        match &state.task {
            Some(task) => task.cancel(),
            None if matches!(
                external::parse_gang_key(unit),
                Some(ExternalGangRef::Group(_))
            ) =>
            {
                self.write_journal(unit, trellis_gang::journal::cancel_nomination);
            }
            None => {}
        }
        self.release_victims(unit);
    }
}

/// Returns the preemptor as it appears to its victims.
fn preemptor_pod_group(unit: &Key, queue: &str, priority: i32) -> PodGroup {
    let spec = PodGroupSpec {
        queue_name: queue.to_owned(),
        priority: Some(priority),
        ..PodGroupSpec::default()
    };
    PodGroup::new(&unit.name, spec)
}
