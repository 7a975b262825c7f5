//! Reports to the engine the resources that external pods hold.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use trellis_api::pod_group::{Plan, PodGroupPhase, PodGroupStatus};
use trellis_api::{PodGroup, PodGroupSpec};
use trellis_gang::external::external_demand::{ExternalDemand, ServiceAccounts};
use trellis_gang::external::gang_members::is_in_place;
use trellis_gang::external::placed_gang::{PlacedPod, is_same_placement, to_placed_gang};
use trellis_gang::external::{engine_gang, plan};
use trellis_gang::key::Key;
use trellis_gang::observed::{ExternalPod, ExternalPods as Pods, FlavorsByResource};
use trellis_gang::quota::JobLimits;
use trellis_gang::{engine, external, journal};
use trellis_machine::clock;

use super::super::{Driver, EngineState};
use crate::external_request::limits::find_placed_limits;

/// Interval at which pods that came one by one are merged into their gang.
const MERGE_INTERVAL: Duration = Duration::from_secs(2);

/// Queue and priority to which the pods' resources are charged.
#[derive(Clone, Copy)]
struct ChargeTarget<'a> {
    queue: &'a str,
    priority: i32,
    /// True for a pod that joins a gang that is placed.
    joins: bool,
    /// When the pods began to hold the resources.
    since: Timestamp,
}

impl Driver {
    /// Reports to the engine the place that a gang holds: that of its open plan, or that of its
    /// pods.
    pub(super) fn charge_group(
        &mut self,
        unit: &Key,
        group: &PodGroup,
        journal: &PodGroupStatus,
        pods: &Pods,
    ) {
        let phase = journal.phase.unwrap_or_default();
        let Some(plan) = &journal.plan else { return };
        let placed = match phase {
            PodGroupPhase::Committing => {
                let mut placed = plan_allocations(unit, plan, pods);
                placed.sort_by(|a, b| a.pod.cmp(&b.pod));
                placed
            }
            PodGroupPhase::Placed => {
                let placed = place_allocations(unit, journal, pods);
                self.merge_joined_pods(unit, placed)
            }
            // Stopping pods hold their quota until they have stopped, also under a new leader.
            PodGroupPhase::Unwinding => {
                let mut placed = place_allocations(unit, journal, pods);
                placed.retain(|pod| !self.external_pods.pod_names.contains_key(&pod.pod));
                if !self.is_absent_from_engine(unit) || placed.is_empty() {
                    return self.withdraw(unit);
                }
                placed
            }
            _ => return,
        };
        let place = ChargeTarget {
            queue: plan.queue.as_deref().unwrap_or_default(),
            priority: plan.priority.unwrap_or(0),
            joins: false,
            since: journal::plan_start(plan).unwrap_or_else(clock::now),
        };
        self.charge_pods(unit, Some(&group.spec), place, placed);
        if phase == PodGroupPhase::Unwinding {
            self.withdraw(unit);
        }
    }

    /// Merges pods that came one by one into the gang. Merges them later and all at once, because
    /// each merge makes the engine restore the whole gang.
    fn merge_joined_pods(&mut self, unit: &Key, mut placed: Vec<PlacedPod>) -> Vec<PlacedPod> {
        let now = Instant::now();
        let joined = self
            .external_pods
            .gangs
            .get(unit)
            .and_then(|state| state.last_merge);
        let next = joined.and_then(|joined| joined.checked_add(MERGE_INTERVAL));
        let next = next.filter(|next| *next > now);
        // A leaving gang keeps the size that it had when it was asked to leave.
        let not_now = next.is_some() || self.leaving.contains_key(unit);
        let (external_pods, leaving) = (&self.external_pods, &self.leaving);
        let context = self.committer.context();
        let before = placed.len();
        placed.retain(|pod| {
            let alone = external::pod_gang_key(&pod.pod);
            let name = external_pods.pod_name(&pod.pod);
            let is_alone = name.is_some_and(|name| engine_gang::is_pod_of_gang(&alone, name));
            let stops = || {
                context
                    .cache
                    .external_pods
                    .get(&pod.pod)
                    .is_none_or(|pod| pod.deleting)
            };
            let is_busy = || {
                let state = external_pods.gangs.get(&alone);
                state.is_some_and(|state| state.task.is_some())
            };
            !is_alone || !(not_now || leaving.contains_key(&alone) || is_busy() || stops())
        });
        if let Some(at) = next
            .or(now.checked_add(MERGE_INTERVAL))
            .filter(|_| placed.len() < before)
        {
            self.alarms.set(unit, at);
        }
        placed
    }

    /// Counts the gang for limits per job, which apply to pods that join: members that stay, and
    /// pods that are about to be bound.
    pub(super) fn update_group_total(&mut self, unit: &Key, journal: &PodGroupStatus, pods: &Pods) {
        let mut total = ExternalDemand::default();
        for (name, pod) in pods {
            let alone = external::pod_gang_key(&Key::new(&unit.namespace, name));
            let joins =
                pod.is_waiting() && self.external_engine_state(&alone) == EngineState::Placed;
            if joins || (is_in_place(journal, pod) && !pod.deleting) {
                total.add(pod);
            }
        }
        if let Some(state) = self.external_pods.gangs.get_mut(unit) {
            let before = &state.total;
            state.has_shrunk |= total.pods < before.pods || total.gpus < before.gpus;
            state.total = total;
        }
    }

    /// Reports to the engine the place of a single pod. It counts in the queue where it was bound,
    /// even if its labels have changed. `gang`: the plan of the placed gang that it joins.
    pub(super) fn charge_single_pod(&mut self, unit: &Key, key: &Key, gang: Option<&Plan>) {
        let Some(pod) = self.committer.cache().external_pods.get(key) else {
            return;
        };
        let placed = bound_allocation(key.clone(), &pod).into_iter().collect();
        let place = ChargeTarget {
            queue: pod.queue.as_deref().unwrap_or_default(),
            priority: gang.and_then(|plan| plan.priority).unwrap_or(pod.priority),
            joins: gang.is_some(),
            since: pod.created.unwrap_or_else(clock::now),
        };
        self.charge_pods(unit, None, place, placed);
        self.keep_unless_leaving(unit);
    }

    fn charge_pods(
        &mut self,
        unit: &Key,
        group: Option<&PodGroupSpec>,
        place: ChargeTarget<'_>,
        placed: Vec<PlacedPod>,
    ) {
        if placed.is_empty() {
            return self.withdraw(unit);
        }
        let limits = self.judge_external_pods(unit, place.queue, place.joins, &placed);
        let fresh = self.external_pods.next_place_number();
        let state = self.external_pods.gangs.entry(unit.clone()).or_default();
        let is_placed = state.engine_state == EngineState::Placed;
        // The engine does not change a gang after it was asked to leave.
        if is_placed
            && (is_same_placement(&state.allocations, &placed) || self.leaving.contains_key(unit))
        {
            return;
        }
        let tentative = is_placed && state.allocations.is_empty();
        let is_promised = |pod: &PlacedPod| {
            let name = self.external_pods.pod_names.get(&pod.pod);
            name.is_some_and(|name| engine_gang::is_pod_of_gang(unit, name))
        };
        if tentative && placed.iter().all(is_promised) {
            // The engine has just found this place.
            state.allocations = placed;
            return;
        }
        state.engine_state = EngineState::Placed;
        state.place_number = fresh;
        state.allocations.clone_from(&placed);
        let counts = (place.queue, place.priority);
        let mut placed_gang = to_placed_gang(unit, fresh, group, counts, &placed);
        placed_gang.gang.draws = limits.to_draws();
        // The replacement of a lost pod must not change the start of its gang's waiting time.
        let since = engine::to_engine_time(place.since);
        placed_gang.gang.submitted = placed_gang.gang.submitted.min(since);
        // Pods that came one by one belong to the gang from now on.
        let mut joined = None;
        for pod in &placed {
            let alone = external::pod_gang_key(&pod.pod);
            if alone != *unit && self.external_pods.gangs.remove(&alone).is_some() {
                joined = Some(Instant::now());
                self.engine.delete_gang(&engine::gang_id(&alone));
                self.alarms.clear(&alone);
                self.leaving.remove(&alone);
            }
        }
        if let Some(state) = self.external_pods.gangs.get_mut(unit) {
            state.last_merge = joined.or(state.last_merge);
        }
        for (pod, name) in placed_gang.pod_names {
            let before = self.external_pods.pod_names.insert(pod.clone(), name);
            if self.pods.contains_key(&pod) {
                self.engine
                    .delete_pod(&before.unwrap_or_else(|| engine::pod_key(&pod)));
            }
        }
        self.engine.restore_gang_with_flavors(
            placed_gang.gang,
            placed_gang.placement,
            &placed_gang.flavors,
            since,
        );
        for pod in placed.iter().filter(|pod| pod.is_bound) {
            if let Some(name) = self.external_pods.pod_names.get(&pod.pod) {
                let node = trellis_scheduler::NodeName::new(pod.node.as_str());
                self.engine
                    .apply_pod(name.clone(), node, pod.request.clone());
                self.pods.insert(pod.pod.clone(), pod.uid.as_str().into());
            }
        }
    }

    /// Returns the limits, by the current policies, that placed or promised pods draw on.
    pub(super) fn judge_external_pods(
        &mut self,
        unit: &Key,
        queue: &str,
        joins: bool,
        placed: &[PlacedPod],
    ) -> Arc<JobLimits> {
        let context = self.committer.context().clone();
        let version = context.cache.quotas.version();
        let pods = placed
            .iter()
            .filter_map(|pod| context.cache.external_pods.get(&pod.pod));
        let accounts: ServiceAccounts = pods.map(|pod| pod.service_account.clone()).collect();
        let state = self.external_pods.gangs.entry(unit.clone()).or_default();
        let known = state.limits.as_ref();
        let known = known.filter(|limits| limits.version == version);
        let is_known = (&state.accounts, state.joins_placed_gang) == (&accounts, joins);
        if let Some(limits) = known.filter(|_| is_known) {
            return limits.clone();
        }
        let Some(limits) = find_placed_limits(&context.cache, &unit.namespace, queue, &accounts)
        else {
            // The policies judge the pods once the namespace is known.
            return state.limits.clone().unwrap_or_default();
        };
        let limits = Arc::new(match joins {
            true => limits.for_joining_pods(),
            false => limits,
        });
        state.accounts = accounts;
        state.joins_placed_gang = joins;
        state.limits = Some(limits.clone());
        self.engine
            .apply_draws(&engine::gang_id(unit), limits.to_draws());
        self.track_gpu_hours(&limits);
        limits
    }
}

fn bound_allocation(key: Key, pod: &ExternalPod) -> Option<PlacedPod> {
    let node = pod.node.clone().filter(|_| pod.is_bound())?;
    Some(PlacedPod::new(key, pod, node, pod.flavors.clone()))
}

fn place_allocations(unit: &Key, journal: &PodGroupStatus, pods: &Pods) -> Vec<PlacedPod> {
    let all = pods.iter().filter(|(_, pod)| is_in_place(journal, pod));
    all.filter_map(|(name, pod)| bound_allocation(Key::new(&unit.namespace, name), pod))
        .collect()
}

/// Returns the pods of an open plan, in its order and on its nodes. A pod that is bound to another
/// node rolls the plan back.
pub(super) fn plan_allocations(unit: &Key, plan: &Plan, pods: &Pods) -> Vec<PlacedPod> {
    let none = FlavorsByResource::new();
    let all = plan.assignments.iter().flat_map(|run| {
        let flavors = plan::group_flavors(plan, &run.group).unwrap_or(&none);
        let pods = run.pods.iter();
        pods.map(move |pod| (pod, run, flavors))
    });
    let there = all.filter_map(|(planned, run, flavors)| {
        let pod = pods
            .get(&planned.name)
            .filter(|pod| pod.uid == planned.uid)?;
        let key = Key::new(&unit.namespace, &planned.name);
        let node = pod.node.clone().unwrap_or_else(|| run.node.clone());
        Some(PlacedPod {
            group: Some(run.group.clone()),
            ..PlacedPod::new(key, pod, node, flavors.clone())
        })
    });
    there.collect()
}
