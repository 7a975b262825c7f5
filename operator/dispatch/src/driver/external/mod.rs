//! External gangs, besides the gangs of jobs: the next step of each (`steps`, `single_pods`,
//! `writes`), their requests (`requests`), the resources that they hold (`allocations`), their
//! places in the engine (`places`, `preemption`), the results of their tasks (`task_results`), and
//! the conditions of their pods (`pod_conditions`).

mod allocations;
mod condition_timing;
mod judgements;
mod places;
mod preemption;
mod requests;
mod single_pods;
mod steps;
mod task_results;
#[cfg(test)]
mod tests;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use trellis_api::PodGroup;
use trellis_api::pod_group::PodGroupPhase;
use trellis_gang::external;
use trellis_gang::external::ExternalGangRef;
use trellis_gang::external::external_demand::{ExternalDemand, ServiceAccounts};
use trellis_gang::external::external_request::ExternalRequest;
use trellis_gang::external::placed_gang::PlacedPod;
use trellis_gang::gang_step::deletions::Deletions;
use trellis_gang::key::Key;
use trellis_gang::observed::{AntiAffinityTerm, ExternalPod, TargetPod};
use trellis_gang::quota::JobLimits;
use trellis_scheduler::PodKey;

use super::places::avoided_nodes::AvoidedNodes;
use super::steps::pause::RetryPause;
use super::{Driver, EngineState};
use condition_timing::ConditionWrites;
use judgements::PodsJudgements;

/// State of all external pods.
#[derive(Debug, Default)]
pub(super) struct ExternalGangs {
    gangs: BTreeMap<Key, ExternalGangState>,
    /// Names of the pods in the engine, which show the gang of each pod.
    pod_names: BTreeMap<Key, PodKey>,
    /// Policy decisions on the gangs.
    judgements: PodsJudgements,
    /// Number of places given to gangs, so that pod names in the engine are unique.
    place_count: u64,
    /// Number of tasks that wrote conditions. It identifies the result of a task.
    condition_task_count: u64,
}

/// One external gang.
#[derive(Debug, Default)]
struct ExternalGangState {
    /// Uid of a single pod, which distinguishes it from an earlier pod of its name.
    uid: Option<String>,
    engine_state: EngineState,
    /// Cancels the running task.
    task: Option<CancellationToken>,
    pause: RetryPause,
    avoided: AvoidedNodes,
    deletions: Deletions,
    /// Request of the gang when it was last looked at.
    request: Option<Arc<ExternalRequest>>,
    /// True if the request has changed and policies have not decided on the new one yet. The unit
    /// gets no place for the old `request`.
    has_new_request: bool,
    /// The pods in the gang's place, as the engine knows them.
    allocations: Vec<PlacedPod>,
    /// Total request of the members that stay in a placed gang, and of the pods that are being
    /// bound to join them.
    total: ExternalDemand,
    /// True if the total has shrunk, so that refused pods may be allowed now.
    has_shrunk: bool,
    /// When pods that came one by one were last merged into the gang.
    last_merge: Option<Instant>,
    /// Labels of the domain in which a joining pod must be.
    domain_labels: BTreeMap<String, String>,
    /// Number of the place from which the engine's pod names come.
    place_number: u64,
    /// For a single pod, which has no journal: its failures in a row, and when it is tried again.
    failures: u32,
    retry_at: Option<Timestamp>,
    /// How often in a row the request could not be determined, or was refused.
    rechecks: u32,
    /// Generation of the PodGroup at which its single pods were last looked at.
    generation: Option<i64>,
    /// True if only terminating pods are left of the gang's place.
    is_terminating: bool,
    /// True if the gang was preempted.
    was_preempted: bool,
    /// Limits that the gang draws on, and the ServiceAccounts that select them.
    limits: Option<Arc<JobLimits>>,
    accounts: ServiceAccounts,
    /// True if the limits are those of a pod that joins a placed gang.
    joins_placed_gang: bool,
    /// Conditions of the gang's pods.
    conditions: ConditionWrites,
}

impl ExternalGangState {
    /// Stores a request that the current policies have judged.
    fn set_request(&mut self, asks: Arc<ExternalRequest>) {
        self.accounts.clone_from(&asks.accounts);
        self.joins_placed_gang = asks.joins_gang;
        self.limits = Some(asks.limits.clone());
        self.request = Some(asks);
        self.has_new_request = false;
    }
}

impl ExternalGangs {
    /// Returns the engine's name of a pod, if the pod is external.
    pub(super) fn pod_name(&self, pod: &Key) -> Option<&PodKey> {
        self.pod_names.get(pod)
    }

    /// Forgets the name of a pod that is gone or has ended.
    pub(super) fn forget_pod_name(&mut self, pod: &Key) -> Option<PodKey> {
        self.pod_names.remove(pod)
    }

    /// Returns the external gangs without a place, which may get one after a change.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Key> {
        let waiting = self
            .gangs
            .iter()
            .filter(|(_, external)| external.engine_state != EngineState::Placed);
        waiting.map(|(unit, _)| unit)
    }

    /// Returns all external gangs.
    pub(super) fn units(&self) -> impl Iterator<Item = &Key> {
        self.gangs.keys()
    }

    /// Returns each gang with its state in the engine, and its limits if it has been judged.
    pub(super) fn draws(&self) -> impl Iterator<Item = (&Key, EngineState, Option<&JobLimits>)> {
        let all = self.gangs.iter();
        all.map(|(unit, external)| (unit, external.engine_state, external.limits.as_deref()))
    }

    fn next_condition_task(&mut self) -> u64 {
        self.condition_task_count = self.condition_task_count.saturating_add(1);
        self.condition_task_count
    }

    fn next_place_number(&mut self) -> u64 {
        self.place_count = self.place_count.saturating_add(1);
        self.place_count
    }
}

impl Driver {
    /// Returns the PodGroup of external pods, if a user has written one.
    fn users_pod_group(&self, group: &Key) -> Option<Arc<PodGroup>> {
        let group = self.committer.cache().pod_groups.get(group);
        group.filter(|group| external::is_user_created(group))
    }

    /// Returns the PodGroup if its gang is placed and pods may join it.
    fn placed_pod_group(&self, key: &Key) -> Option<Arc<PodGroup>> {
        let phase = |group: &Arc<PodGroup>| group.status.as_ref()?.phase;
        let group = self.users_pod_group(key);
        let group = group.filter(|group| phase(group) == Some(PodGroupPhase::Placed))?;
        let state = self
            .external_pods
            .gangs
            .get(&external::pod_group_gang_key(key));
        (!state.is_some_and(|state| state.is_terminating)).then_some(group)
    }

    /// Returns the uid of an external gang's PodGroup, or of the single pod.
    pub(super) fn external_uid(&self, unit: &Key) -> Option<String> {
        match external::parse_gang_key(unit)? {
            ExternalGangRef::Group(group) => self.users_pod_group(&group)?.metadata.uid.clone(),
            ExternalGangRef::Pod(pod) => {
                Some(self.committer.cache().external_pods.get(&pod)?.uid.clone())
            }
        }
    }

    /// Identifies the place that an external gang holds: the plan's hash, or the pod's uid.
    pub(super) fn external_place_id(&self, unit: &Key) -> Option<String> {
        match external::parse_gang_key(unit)? {
            ExternalGangRef::Group(group) => {
                let group = self.users_pod_group(&group)?;
                let journal = group
                    .status
                    .as_ref()
                    .filter(|j| super::victims::holds_place(j))?;
                Some(journal.plan.as_ref()?.hash.clone())
            }
            ExternalGangRef::Pod(pod) => {
                let pod = self.committer.cache().external_pods.get(&pod)?;
                pod.charged_queue().map(|_| pod.uid.clone())
            }
        }
    }

    /// Returns the external gangs that wait, and that the anti-affinity of another pod keeps away
    /// from nodes.
    pub(super) fn external_gangs_excluded_by(&self, repulsion: &AntiAffinityTerm) -> Vec<Key> {
        let context = self.committer.context();
        let waiting = self.external_pods.waiting();
        let concerned = waiting.filter(|unit| {
            let labels = context
                .cache
                .namespace_labels(&unit.namespace)
                .unwrap_or_default();
            repulsion.can_repel_namespace(&unit.namespace, &labels)
                && self.pods_of_unit(unit).iter().any(|(_, pod)| {
                    repulsion.repels(TargetPod {
                        namespace: &unit.namespace,
                        namespace_labels: &labels,
                        labels: &pod.labels,
                    })
                })
        });
        concerned.cloned().collect()
    }

    /// Returns the queue to which the resources of an external gang are charged.
    pub(super) fn external_queue(&self, unit: &Key) -> String {
        let queue = match external::parse_gang_key(unit) {
            Some(ExternalGangRef::Group(group)) => self.users_pod_group(&group).and_then(|group| {
                let journal = group.status.as_ref()?;
                journal.plan.as_ref()?.queue.clone()
            }),
            Some(ExternalGangRef::Pod(pod)) => {
                let pod = self.committer.cache().external_pods.get(&pod);
                pod.and_then(|pod| pod.queue.clone())
            }
            None => None,
        };
        queue.unwrap_or_default()
    }

    /// Cancels the commit of an external gang whose plan is not written yet.
    pub(super) fn cancel_external_commit(&self, unit: &Key) {
        let state = self.external_pods.gangs.get(unit);
        if let Some(task) = state.and_then(|state| state.task.as_ref()) {
            task.cancel();
        }
    }

    /// Returns the limits that an external gang draws on.
    pub(super) fn external_limits(&self, unit: &Key) -> Option<&JobLimits> {
        self.external_pods.gangs.get(unit)?.limits.as_deref()
    }

    /// Stores the token that cancels the task of an external gang.
    pub(super) fn set_external_task(&mut self, unit: &Key, stop: CancellationToken) {
        self.external_pods
            .gangs
            .entry(unit.clone())
            .or_default()
            .task = Some(stop);
    }

    /// Returns the pods of an external gang, by name.
    fn pods_of_unit(&self, unit: &Key) -> Vec<(Key, Arc<ExternalPod>)> {
        let external_pods = &self.committer.cache().external_pods;
        match external::parse_gang_key(unit) {
            Some(ExternalGangRef::Group(group)) => external_pods
                .pods_of_group(&group)
                .into_iter()
                .map(|(name, pod)| (Key::new(&group.namespace, &name), pod))
                .collect(),
            Some(ExternalGangRef::Pod(key)) => external_pods
                .get(&key)
                .map(|pod| (key, pod))
                .into_iter()
                .collect(),
            None => Vec::new(),
        }
    }

    /// Handles all external pods when a replica becomes leader, so that bound pods are charged
    /// before the first decision.
    pub(super) fn take_over_external_pods(&mut self) {
        let context = self.committer.context().clone();
        let mut units = BTreeSet::new();
        for group in context.cache.pod_groups.all() {
            let key = Key::from_meta(&group.metadata);
            if !external::is_user_created(&group) {
                continue;
            }
            let unit = external::pod_group_gang_key(&key);
            let journal = group.status.as_ref();
            if let Some(plan) = journal.and_then(|journal| journal.plan.as_ref()) {
                self.inheritance.add_plan(unit.clone(), plan.hash.clone());
            }
            if journal.and_then(|journal| journal.phase) != Some(PodGroupPhase::Nominated) {
                units.insert(unit);
            }
        }
        for (key, pod) in context.cache.external_pods.all() {
            units.insert(match pod.group() {
                Some(group) => external::pod_group_gang_key(&Key::new(&key.namespace, group)),
                None => external::pod_gang_key(&key),
            });
        }
        // Nominated gangs come later, because the engine must know their victims first.
        units.retain(|unit| self.nominated_plan(unit).is_none());
        for unit in units {
            self.advance_external(&unit);
        }
    }
}
