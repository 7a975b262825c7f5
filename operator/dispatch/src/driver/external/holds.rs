//! Reports to the engine what external pods hold.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use trellis_api::pod_group::{Plan, PodGroupPhase, PodGroupStatus};
use trellis_api::{PodGroup, PodGroupSpec};
use trellis_gang::external::next::is_of_place;
use trellis_gang::external::standing::{Held, is_same, standing};
use trellis_gang::external::total::{Accounts, Total};
use trellis_gang::external::{form, plan};
use trellis_gang::key::Key;
use trellis_gang::observed::{ExternalPod, ExternalPods as Pods, Flavors};
use trellis_gang::quota::JobLimits;
use trellis_gang::{engine, external, journal};

use super::super::{Driver, Inside};
use crate::find_asks::limits::held_limits;

/// How often pods that came one by one are merged into their gang.
const JOINS: Duration = Duration::from_secs(2);

/// Queue and priority to which the pods' resources are charged.
#[derive(Clone, Copy)]
struct Counts<'a> {
    queue: &'a str,
    priority: i32,
    /// True for a pod that joins a gang that is placed.
    joins: bool,
    /// When the pods began to hold them.
    since: Timestamp,
}

impl Driver {
    /// Reports to the engine what a gang holds: the place of its open plan, or that of its pods.
    pub(super) fn hold_group(
        &mut self,
        unit: &Key,
        group: &PodGroup,
        journal: &PodGroupStatus,
        pods: &Pods,
    ) {
        let phase = journal.phase.unwrap_or_default();
        let Some(plan) = &journal.plan else { return };
        let held = match phase {
            PodGroupPhase::Committing => {
                let mut held = of_plan(unit, plan, pods);
                held.sort_by(|a, b| a.pod.cmp(&b.pod));
                held
            }
            PodGroupPhase::Placed => {
                let held = of_place(unit, journal, pods);
                self.who_has_joined(unit, held)
            }
            // Pods that still stop hold their quota until they have stopped, also under a new
            // leader.
            PodGroupPhase::Unwinding => {
                let mut held = of_place(unit, journal, pods);
                held.retain(|pod| !self.external_pods.names.contains_key(&pod.pod));
                if !self.is_outside(unit) || held.is_empty() {
                    return self.withdraw(unit);
                }
                held
            }
            _ => return,
        };
        let place = Counts {
            queue: plan.queue.as_deref().unwrap_or_default(),
            priority: plan.priority.unwrap_or(0),
            joins: false,
            since: journal::made_at(plan).unwrap_or_else(Timestamp::now),
        };
        self.hold_pods(unit, Some(&group.spec), place, held);
        if phase == PodGroupPhase::Unwinding {
            self.withdraw(unit);
        }
    }

    /// Merges pods that came one by one into the gang some time later, all at once, because each
    /// merge makes the engine restore the whole gang.
    fn who_has_joined(&mut self, unit: &Key, mut held: Vec<Held>) -> Vec<Held> {
        let now = Instant::now();
        let joined = self
            .external_pods
            .gangs
            .get(unit)
            .and_then(|state| state.joined);
        let next = joined.and_then(|joined| joined.checked_add(JOINS));
        let next = next.filter(|next| *next > now);
        // A gang that leaves keeps the size that it had when it was asked to leave.
        let not_now = next.is_some() || self.leaving.contains_key(unit);
        let (external_pods, leaving) = (&self.external_pods, &self.leaving);
        let context = self.committer.context();
        let before = held.len();
        held.retain(|held| {
            let alone = external::of_pod(&held.pod);
            let name = external_pods.name(&held.pod);
            let is_alone = name.is_some_and(|name| form::is_name_of(&alone, name));
            let stops = || {
                context
                    .cache
                    .external_pods
                    .get(&held.pod)
                    .is_none_or(|pod| pod.deleting)
            };
            let is_busy = || {
                let state = external_pods.gangs.get(&alone);
                state.is_some_and(|state| state.task.is_some())
            };
            !is_alone || !(not_now || leaving.contains_key(&alone) || is_busy() || stops())
        });
        if let Some(at) = next
            .or(now.checked_add(JOINS))
            .filter(|_| held.len() < before)
        {
            self.alarms.set(unit, at);
        }
        held
    }

    /// Counts the gang for limits per job, which apply to pods that join: members that stay, and
    /// pods that are about to be bound.
    pub(super) fn count_group(&mut self, unit: &Key, journal: &PodGroupStatus, pods: &Pods) {
        let mut total = Total::default();
        for (name, pod) in pods {
            let alone = external::of_pod(&Key::new(&unit.namespace, name));
            let joins = pod.waits() && self.inside_of_external_pods(&alone) == Inside::Placed;
            if joins || (is_of_place(journal, pod) && !pod.deleting) {
                total.add(pod);
            }
        }
        if let Some(state) = self.external_pods.gangs.get_mut(unit) {
            let before = &state.total;
            state.has_shrunk |= total.pods < before.pods || total.gpus < before.gpus;
            state.total = total;
        }
    }

    /// The same for a single pod. It counts in the queue where it was bound, whatever its labels
    /// say by now. `gang`: the plan of the placed gang that it joins.
    pub(super) fn hold_single(&mut self, unit: &Key, key: &Key, gang: Option<&Plan>) {
        let Some(pod) = self.committer.cache().external_pods.get(key) else {
            return;
        };
        let held = held(key.clone(), &pod).into_iter().collect();
        let place = Counts {
            queue: pod.queue.as_deref().unwrap_or_default(),
            priority: gang.and_then(|plan| plan.priority).unwrap_or(pod.priority),
            joins: gang.is_some(),
            since: pod.created.unwrap_or_else(Timestamp::now),
        };
        self.hold_pods(unit, None, place, held);
        self.stay_unless_asked(unit);
    }

    fn hold_pods(
        &mut self,
        unit: &Key,
        group: Option<&PodGroupSpec>,
        place: Counts<'_>,
        held: Vec<Held>,
    ) {
        if held.is_empty() {
            return self.withdraw(unit);
        }
        let limits = self.judge_external_pods(unit, place.queue, place.joins, &held);
        let fresh = self.external_pods.next_place();
        let state = self.external_pods.gangs.entry(unit.clone()).or_default();
        let is_placed = state.inside == Inside::Placed;
        // The engine keeps a leaving gang as it was when it was asked to leave.
        if is_placed && (is_same(&state.held, &held) || self.leaving.contains_key(unit)) {
            return;
        }
        let tentative = is_placed && state.held.is_empty();
        let is_promised = |held: &Held| {
            let name = self.external_pods.names.get(&held.pod);
            name.is_some_and(|name| form::is_name_of(unit, name))
        };
        if tentative && held.iter().all(is_promised) {
            // The place is the one that the engine has just found.
            state.held = held;
            return;
        }
        state.inside = Inside::Placed;
        state.place = fresh;
        state.held.clone_from(&held);
        let counts = (place.queue, place.priority);
        let mut standing = standing(unit, fresh, group, counts, &held);
        standing.gang.draws = limits.draws();
        // A replacement of a lost pod must not make its gang's waiting time start later.
        let since = engine::time(place.since);
        standing.gang.submitted = standing.gang.submitted.min(since);
        // Pods that came one by one belong to the gang from now on.
        let mut joined = None;
        for pod in &held {
            let alone = external::of_pod(&pod.pod);
            if alone != *unit && self.external_pods.gangs.remove(&alone).is_some() {
                joined = Some(Instant::now());
                self.engine.delete_gang(&engine::id(&alone));
                self.alarms.clear(&alone);
                self.leaving.remove(&alone);
            }
        }
        if let Some(state) = self.external_pods.gangs.get_mut(unit) {
            state.joined = joined.or(state.joined);
        }
        for (pod, name) in standing.names {
            let before = self.external_pods.names.insert(pod.clone(), name);
            if self.pods.contains_key(&pod) {
                self.engine
                    .delete_pod(&before.unwrap_or_else(|| engine::pod_key(&pod)));
            }
        }
        self.engine
            .restore_gang_in(standing.gang, standing.placement, &standing.flavors, since);
        for pod in held.iter().filter(|held| held.bound) {
            if let Some(name) = self.external_pods.names.get(&pod.pod) {
                let node = trellis_scheduler::NodeName::new(pod.node.as_str());
                self.engine
                    .apply_pod(name.clone(), node, pod.request.clone());
                self.pods.insert(pod.pod.clone(), pod.uid.as_str().into());
            }
        }
    }

    /// The limits, by the current policies, that placed or promised pods draw on.
    pub(super) fn judge_external_pods(
        &mut self,
        unit: &Key,
        queue: &str,
        joins: bool,
        held: &[Held],
    ) -> Arc<JobLimits> {
        let context = self.committer.context().clone();
        let version = context.cache.quotas.version();
        let pods = held
            .iter()
            .filter_map(|held| context.cache.external_pods.get(&held.pod));
        let accounts: Accounts = pods.map(|pod| pod.service_account.clone()).collect();
        let state = self.external_pods.gangs.entry(unit.clone()).or_default();
        let known = state.limits.as_ref();
        let known = known.filter(|limits| limits.version == version);
        let is_known = (&state.accounts, state.joins) == (&accounts, joins);
        if let Some(limits) = known.filter(|_| is_known) {
            return limits.clone();
        }
        let Some(limits) = held_limits(&context.cache, &unit.namespace, queue, &accounts) else {
            // The pods are judged once the namespace is known.
            return state.limits.clone().unwrap_or_default();
        };
        let limits = Arc::new(match joins {
            true => limits.joining(),
            false => limits,
        });
        state.accounts = accounts;
        state.joins = joins;
        state.limits = Some(limits.clone());
        self.engine.apply_draws(&engine::id(unit), limits.draws());
        self.note_hours(&limits);
        limits
    }
}

fn held(key: Key, pod: &ExternalPod) -> Option<Held> {
    let node = pod.node.clone().filter(|_| pod.is_bound())?;
    Some(Held::new(key, pod, node, pod.flavors.clone()))
}

fn of_place(unit: &Key, journal: &PodGroupStatus, pods: &Pods) -> Vec<Held> {
    let all = pods.iter().filter(|(_, pod)| is_of_place(journal, pod));
    all.filter_map(|(name, pod)| held(Key::new(&unit.namespace, name), pod))
        .collect()
}

/// The pods of an open plan, in its order and on its nodes. A pod that is bound elsewhere makes the
/// plan roll back.
pub(super) fn of_plan(unit: &Key, plan: &Plan, pods: &Pods) -> Vec<Held> {
    let none = Flavors::new();
    let all = plan.assignments.iter().flat_map(|run| {
        let flavors = plan::flavors_of(plan, &run.group).unwrap_or(&none);
        let pods = run.pods.iter();
        pods.map(move |pod| (pod, run, flavors))
    });
    let there = all.filter_map(|(planned, run, flavors)| {
        let pod = pods
            .get(&planned.name)
            .filter(|pod| pod.uid == planned.uid)?;
        let key = Key::new(&unit.namespace, &planned.name);
        let node = pod.node.clone().unwrap_or_else(|| run.node.clone());
        Some(Held {
            group: Some(run.group.clone()),
            ..Held::new(key, pod, node, flavors.clone())
        })
    });
    there.collect()
}
