//! External gangs, beside those of jobs: the next step of each (`steps`, `single`, `writes`), their
//! requests (`find`), what they hold (`holds`), their places in the engine (`places`, `preempt`),
//! results of their tasks (`ended`), and the conditions of their pods (`tell`).

mod ended;
mod find;
mod holds;
mod judge;
mod places;
mod preempt;
mod single;
mod steps;
mod tell;
#[cfg(test)]
mod tests;
mod writes;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use trellis_api::PodGroup;
use trellis_api::pod_group::PodGroupPhase;
use trellis_gang::deletions::Deletions;
use trellis_gang::external;
use trellis_gang::external::Unit;
use trellis_gang::external::asks::ExternalRequest;
use trellis_gang::external::standing::Held;
use trellis_gang::external::total::{Accounts, Total};
use trellis_gang::key::Key;
use trellis_gang::observed::{ExternalPod, Repelled, Repulsion};
use trellis_gang::quota::JobLimits;
use trellis_scheduler::PodKey;

use super::avoided::Avoided;
use super::pause::Pause;
use super::{Driver, Inside};
use judge::Judgements;
use tell::Telling;

/// State of all external pods.
#[derive(Debug, Default)]
pub(super) struct ExternalPods {
    gangs: HashMap<Key, ExternalGang>,
    /// Names of the pods in the engine, which show the gang of each pod.
    names: HashMap<Key, PodKey>,
    /// Policy decisions on the gangs.
    judgements: Judgements,
    /// Number of places given to gangs, so that pod names in the engine are unique.
    places: u64,
    /// Number of tasks that wrote conditions, by which the result of a task is recognized.
    tellings: u64,
}

/// One external gang.
#[derive(Debug, Default)]
struct ExternalGang {
    /// Uid of a single pod, which tells it from an earlier pod of its name.
    uid: Option<String>,
    inside: Inside,
    /// Cancels the one task that is under way.
    task: Option<CancellationToken>,
    pause: Pause,
    avoided: Avoided,
    deletions: Deletions,
    /// Request of the gang when it was last looked at.
    asks: Option<Arc<ExternalRequest>>,
    /// The request has changed, and policies have not decided on the new one yet: the unit gets no
    /// place by `asks`.
    asks_anew: bool,
    /// The pods that the engine has in the gang's place.
    held: Vec<Held>,
    /// Total request of the members that stay in a placed gang, and of the pods that are being
    /// bound to join them.
    total: Total,
    /// The total has shrunk, so pods that were refused may be allowed now.
    has_shrunk: bool,
    /// When pods that came one by one were last merged into the gang.
    joined: Option<Instant>,
    /// Labels of the domain in which a pod must be that joins the gang.
    near: BTreeMap<String, String>,
    /// Number of the place from which the engine's pod names come.
    place: u64,
    /// For a single pod, which has no journal: its failures in a row, and when it is tried again.
    failures: u32,
    retry: Option<Timestamp>,
    /// How often in a row its request could not be found out, or was refused.
    looks: u32,
    /// Generation of the PodGroup at which its single pods were last looked at.
    generation: Option<i64>,
    /// Only terminating pods are left of the gang's place.
    ends: bool,
    /// The gang was preempted.
    preempted: bool,
    /// Limits that the gang draws on, and the ServiceAccounts they are found by.
    limits: Option<Arc<JobLimits>>,
    accounts: Accounts,
    /// The limits are those of a pod that joins a placed gang.
    joins: bool,
    /// Conditions of the gang's pods.
    telling: Telling,
}

impl ExternalGang {
    /// Stores a request that the current policies have judged.
    fn ask(&mut self, asks: Arc<ExternalRequest>) {
        self.accounts.clone_from(&asks.accounts);
        self.joins = asks.joins;
        self.limits = Some(asks.limits.clone());
        self.asks = Some(asks);
        self.asks_anew = false;
    }
}

impl ExternalPods {
    /// The engine's name of a pod, if the pod is external.
    pub(super) fn name(&self, pod: &Key) -> Option<&PodKey> {
        self.names.get(pod)
    }

    /// Forgets the name of a pod that is gone or has ended.
    pub(super) fn forget_name(&mut self, pod: &Key) -> Option<PodKey> {
        self.names.remove(pod)
    }

    /// External gangs that have no place, and may get one after a change.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Key> {
        let waiting = self
            .gangs
            .iter()
            .filter(|(_, external)| external.inside != Inside::Placed);
        waiting.map(|(unit, _)| unit)
    }

    /// All external gangs.
    pub(super) fn units(&self) -> impl Iterator<Item = &Key> {
        self.gangs.keys()
    }

    /// Each gang with its state in the engine, and its limits if it has been judged.
    pub(super) fn draws(&self) -> impl Iterator<Item = (&Key, Inside, Option<&JobLimits>)> {
        let all = self.gangs.iter();
        all.map(|(unit, external)| (unit, external.inside, external.limits.as_deref()))
    }

    fn next_telling(&mut self) -> u64 {
        self.tellings = self.tellings.saturating_add(1);
        self.tellings
    }

    fn next_place(&mut self) -> u64 {
        self.places = self.places.saturating_add(1);
        self.places
    }
}

impl Driver {
    /// The PodGroup of external pods, if a user has written one.
    fn users_group(&self, group: &Key) -> Option<Arc<PodGroup>> {
        let group = self.committer.cache().pod_groups.get(group);
        group.filter(|group| external::is_users(group))
    }

    /// The same, if its gang is placed and pods may join it.
    fn placed_group(&self, key: &Key) -> Option<Arc<PodGroup>> {
        let phase = |group: &Arc<PodGroup>| group.status.as_ref()?.phase;
        let group = self.users_group(key);
        let group = group.filter(|group| phase(group) == Some(PodGroupPhase::Placed))?;
        let state = self.external_pods.gangs.get(&external::of_group(key));
        (!state.is_some_and(|state| state.ends)).then_some(group)
    }

    /// Uid of an external gang's PodGroup, or of the single pod.
    pub(super) fn external_uid(&self, unit: &Key) -> Option<String> {
        match external::unit(unit)? {
            Unit::Group(group) => self.users_group(&group)?.metadata.uid.clone(),
            Unit::Pod(pod) => Some(self.committer.cache().external_pods.get(&pod)?.uid.clone()),
        }
    }

    /// Identifies the place that an external gang holds: the plan's hash, or the pod's uid.
    pub(super) fn external_pods_plan(&self, unit: &Key) -> Option<String> {
        match external::unit(unit)? {
            Unit::Group(group) => {
                let group = self.users_group(&group)?;
                let journal = group.status.as_ref().filter(|j| super::victims::holds(j))?;
                Some(journal.plan.as_ref()?.hash.clone())
            }
            Unit::Pod(pod) => {
                let pod = self.committer.cache().external_pods.get(&pod)?;
                pod.counts_in().map(|_| pod.uid.clone())
            }
        }
    }

    /// External gangs that wait, and that the anti-affinity of another pod keeps away from nodes.
    pub(super) fn external_pods_concerned_by(&self, repulsion: &Repulsion) -> Vec<Key> {
        let context = self.committer.context();
        let waiting = self.external_pods.waiting();
        let concerned = waiting.filter(|unit| {
            let labels = context
                .cache
                .namespace_labels(&unit.namespace)
                .unwrap_or_default();
            repulsion.is_of_namespace(&unit.namespace, &labels)
                && self.external_pods(unit).iter().any(|(_, pod)| {
                    repulsion.keeps_out(Repelled {
                        namespace: &unit.namespace,
                        namespace_labels: &labels,
                        labels: &pod.labels,
                    })
                })
        });
        concerned.cloned().collect()
    }

    /// Queue to which the resources of an external gang are charged.
    pub(super) fn queue_of_external_pods(&self, unit: &Key) -> String {
        let queue = match external::unit(unit) {
            Some(Unit::Group(group)) => self.users_group(&group).and_then(|group| {
                let journal = group.status.as_ref()?;
                journal.plan.as_ref()?.queue.clone()
            }),
            Some(Unit::Pod(pod)) => {
                let pod = self.committer.cache().external_pods.get(&pod);
                pod.and_then(|pod| pod.queue.clone())
            }
            None => None,
        };
        queue.unwrap_or_default()
    }

    /// Cancels the commit of an external gang whose plan is not written yet.
    pub(super) fn stop_unwritten(&self, unit: &Key) {
        let state = self.external_pods.gangs.get(unit);
        if let Some(task) = state.and_then(|state| state.task.as_ref()) {
            task.cancel();
        }
    }

    /// Limits that an external gang draws on.
    pub(super) fn limits_of_external_pods(&self, unit: &Key) -> Option<&JobLimits> {
        self.external_pods.gangs.get(unit)?.limits.as_deref()
    }

    /// Stores what cancels the one task of an external gang.
    pub(super) fn external_starts(&mut self, unit: &Key, stop: CancellationToken) {
        self.external_pods
            .gangs
            .entry(unit.clone())
            .or_default()
            .task = Some(stop);
    }

    /// The pods of an external gang, by name.
    fn external_pods(&self, unit: &Key) -> Vec<(Key, Arc<ExternalPod>)> {
        let external_pods = &self.committer.cache().external_pods;
        match external::unit(unit) {
            Some(Unit::Group(group)) => external_pods
                .of_group(&group)
                .into_iter()
                .map(|(name, pod)| (Key::new(&group.namespace, &name), pod))
                .collect(),
            Some(Unit::Pod(key)) => external_pods
                .get(&key)
                .map(|pod| (key, pod))
                .into_iter()
                .collect(),
            None => Vec::new(),
        }
    }

    /// Looks at all external pods when a replica becomes leader, so that bound pods are charged
    /// before the first decision.
    pub(super) fn take_over_external_pods(&mut self) {
        let context = self.committer.context().clone();
        let mut units = BTreeSet::new();
        for group in context.cache.pod_groups.all() {
            let key = Key::of(&group.metadata);
            if !external::is_users(&group) {
                continue;
            }
            let unit = external::of_group(&key);
            let journal = group.status.as_ref();
            if let Some(plan) = journal.and_then(|journal| journal.plan.as_ref()) {
                self.inherited.insert(unit.clone(), plan.hash.clone());
            }
            if journal.and_then(|journal| journal.phase) != Some(PodGroupPhase::Nominated) {
                units.insert(unit);
            }
        }
        for (key, pod) in context.cache.external_pods.all() {
            units.insert(match pod.group() {
                Some(group) => external::of_group(&Key::new(&key.namespace, group)),
                None => external::of_pod(&key),
            });
        }
        // Nominated gangs come later, because their victims must be known first.
        units.retain(|unit| self.nominated_plan(unit).is_none());
        for unit in units {
            self.advance_external(&unit);
        }
    }
}
