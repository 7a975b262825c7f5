//! Preemption for external pods, and of external pods.

use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use trellis_api::pod_group::{NominatedVictim, Plan, PodGroupPhase, PodGroupStatus};
use trellis_api::{PodGroup, PodGroupSpec, Reason};
use trellis_gang::external::next::planned;
use trellis_gang::external::standing::standing;
use trellis_gang::external::{Unit, plan};
use trellis_gang::flavors::Place;
use trellis_gang::key::Key;
use trellis_gang::{engine, external};
use trellis_scheduler::Victim;

use super::super::victims::{SPARED, too_many};
use super::super::{Driver, Inside};
use super::holds::of_plan;
use super::places::judged_by;
use crate::commit::ExternalNomination;
use crate::find_asks::As;
use crate::find_asks::queue::counts_in;

impl Driver {
    /// Nominates the pods for a place that these victims have to leave.
    pub(in super::super) fn preempt_for_external_pods(
        &mut self,
        unit: &Key,
        place: &Place,
        victims: &[Victim],
    ) {
        self.spare(unit);
        let state = self.external_pods.gangs.get_mut(unit);
        let ready = state.filter(|state| state.task.is_none());
        let asks = ready.and_then(|state| {
            state.inside = Inside::Nominated;
            state.asks.clone()
        });
        let (Some(asks), Some(uid)) = (asks, self.external_uid(unit)) else {
            return self.give_external_pods_up(unit, victims);
        };
        let by = asking(unit, &asks.queue, asks.priority);
        let Some(named) = self.name_victims(unit, &by, victims) else {
            return self.give_external_pods_up(unit, victims);
        };
        if named.is_empty() {
            return self.give_external_pods_up(unit, victims);
        }
        if let Some(message) = too_many(&named) {
            return self.put_external_pods_off(unit, Reason::InsufficientCapacity, message);
        }
        let message = self.told_to_follow(place, &named);
        let plan = plan::plan(&uid, 0, &asks, place, Timestamp::now());
        let nodes = planned(&plan).map(|(pod, node)| (pod.name.as_str(), node));
        let mounts = asks.mounts(nodes);
        let nomination = ExternalNomination {
            uid,
            plan,
            mounts,
            judged: judged_by(&asks),
            victims: named,
            message,
        };
        let (committer, key) = (self.committer.clone(), unit.clone());
        self.start(unit, None, |stop| async move {
            committer
                .nominate_external_pods(key, nomination, stop)
                .await
        });
    }

    fn give_external_pods_up(&mut self, unit: &Key, victims: &[Victim]) {
        for victim in victims {
            let (of, member) = engine::whose(&victim.gang);
            let who = match member {
                Some(member) => engine::surplus_key(&of, &member),
                None => of,
            };
            self.stay(&who, SignedDuration::ZERO);
        }
        self.withdraw(unit);
        // The journal may not have the victims' places yet, so the gang pauses.
        self.pause_external(unit);
    }

    /// Pauses the gang before it is looked at again, because the same place may be found for it.
    pub(super) fn pause_external(&mut self, unit: &Key) {
        if let Some(state) = self.external_pods.gangs.get_mut(unit) {
            let until = state.pause.begin(Instant::now());
            self.alarms.set(unit, until);
        }
    }

    /// The plan of a gang's nomination, from its journal.
    pub(super) fn nominated_plan(&self, unit: &Key) -> Option<(Arc<PodGroup>, Plan)> {
        let Some(Unit::Group(group)) = external::unit(unit) else {
            return None;
        };
        let group = self.users_group(&group)?;
        let journal = group.status.as_ref();
        let journal = journal.filter(|j| j.phase == Some(PodGroupPhase::Nominated))?;
        let plan = journal.plan.clone()?;
        Some((group, plan))
    }

    /// Restores in the engine a nomination that an earlier leader wrote. Its victims that still
    /// hold a place leave it.
    pub(in super::super) fn adopt_nomination_of_external_pods(&mut self, unit: &Key) {
        let Some((group, plan)) = self.nominated_plan(unit) else {
            return;
        };
        let Some(Unit::Group(key)) = external::unit(unit) else {
            return;
        };
        let pods = self.committer.cache().external_pods.of_group(&key);
        let held = of_plan(unit, &plan, &pods);
        let queue = plan.queue.clone().unwrap_or_default();
        let priority = plan.priority.unwrap_or(0);
        let by = asking(unit, &queue, priority);
        let mut victims = Vec::new();
        for victim in group.status.iter().flat_map(|journal| &journal.victims) {
            if self.note(&unit.clone(), &by, victim, false) && victim.pod.is_none() {
                let who = Key::new(&victim.namespace, &victim.name);
                victims.push(engine::id(&who));
            }
        }
        let place = self.external_pods.next_place();
        let of = (queue.as_str(), priority);
        let standing = standing(unit, place, Some(&group.spec), of, &held);
        let state = self.external_pods.gangs.entry(unit.clone()).or_default();
        state.inside = Inside::Nominated;
        state.place = place;
        let mut gang = standing.gang;
        gang.draws = self.planned_draws(&plan);
        self.engine
            .restore_nomination_in(gang, standing.placement, &standing.flavors, &victims);
    }

    /// Carries a nomination on: victims that have not been asked to leave are asked. The nomination
    /// of a single pod is in no journal: its victims are asked as soon as their disruption budgets
    /// allow it.
    pub(super) fn follow_external_pods(
        &mut self,
        unit: &Key,
        group: &PodGroup,
        journal: &PodGroupStatus,
    ) {
        match self.inside_of_external_pods(unit) {
            Inside::Nominated => {
                let plan = journal.plan.as_ref();
                let queue = plan.and_then(|plan| plan.queue.clone()).unwrap_or_default();
                if !self.counts_in(unit, group, plan, &queue) {
                    // No victim leaves for a place that the gang could not have.
                    return self.void(unit);
                }
                let priority = plan
                    .and_then(|plan| plan.priority)
                    .unwrap_or(group.spec.priority());
                self.judge_follower(unit, group, plan, &queue);
                let by = asking(unit, &queue, priority);
                self.tell_victims(unit, &by, journal);
            }
            // The victims have left, but the last try to bind its pods failed.
            Inside::Placed => {
                let id = engine::id(unit);
                if let Some(placement) = self.engine.placement(&id) {
                    let place = self.place_of(&id, placement);
                    self.place_external_pods(unit, place);
                }
            }
            Inside::No | Inside::Waiting | Inside::Kept => self.void(unit),
        }
    }

    /// Applies the current limits to a nominated gang: limits that are new or lower since its
    /// nomination keep it from starting.
    fn judge_follower(&mut self, unit: &Key, group: &PodGroup, plan: Option<&Plan>, queue: &str) {
        let pods = self
            .committer
            .cache()
            .external_pods
            .of_group(&Key::of(&group.metadata));
        let held = plan.map(|plan| of_plan(unit, plan, &pods));
        self.judge_external_pods(unit, queue, false, &held.unwrap_or_default());
    }

    /// True if the gang still counts in the queue by whose quota its place was found.
    fn counts_in(&self, unit: &Key, group: &PodGroup, plan: Option<&Plan>, queue: &str) -> bool {
        let context = self.committer.context();
        let planned = plan.into_iter().flat_map(planned);
        let pods: Vec<_> = planned
            .filter_map(|(pod, _)| {
                let there = context
                    .cache
                    .external_pods
                    .get(&Key::new(&unit.namespace, &pod.name))?;
                Some((pod.name.clone(), there))
            })
            .collect();
        counts_in(
            &context.cache,
            &unit.namespace,
            As::Gang(group),
            &pods,
            queue,
        )
    }

    /// Asks the victims of a single pod to leave, after their disruption budgets have allowed it.
    pub(super) fn tell_victims_of_pod(&mut self, unit: &Key, victims: Vec<NominatedVictim>) {
        if self.inside_of_external_pods(unit) != Inside::Nominated {
            return;
        }
        let asks = self
            .external_pods
            .gangs
            .get(unit)
            .and_then(|state| state.asks.clone());
        let Some(asks) = asks else { return };
        let by = asking(unit, &asks.queue, asks.priority);
        let journal = PodGroupStatus {
            victims,
            ..PodGroupStatus::default()
        };
        self.tell_victims(unit, &by, &journal);
    }

    /// A disruption budget keeps a victim: the preemptor waits, and tries other victims first.
    pub(super) fn kept_for_external_pods(&mut self, unit: &Key, victim: &Key, message: String) {
        self.stay(victim, SPARED);
        self.put_external_pods_off(unit, Reason::ProtectedByBudget, message);
    }

    /// The gang cannot have its nominated place any more.
    pub(in super::super) fn external_pods_wait(&mut self, unit: &Key) {
        let Some(state) = self.external_pods.gangs.get_mut(unit) else {
            return;
        };
        if state.inside != Inside::Nominated {
            return;
        }
        state.inside = Inside::Waiting;
        match &state.task {
            Some(task) => task.cancel(),
            None if matches!(external::unit(unit), Some(Unit::Group(_))) => {
                self.write(unit, trellis_gang::journal::voided);
            }
            None => {}
        }
        self.spare(unit);
    }
}

/// The preemptor as its victims are to see it.
fn asking(unit: &Key, queue: &str, priority: i32) -> PodGroup {
    let spec = PodGroupSpec {
        queue_name: queue.to_owned(),
        priority: Some(priority),
        ..PodGroupSpec::default()
    };
    PodGroup::new(&unit.name, spec)
}
