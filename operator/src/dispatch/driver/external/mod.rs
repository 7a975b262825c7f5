//! External gangs, beside those of jobs: what is to be done about each (`steps`, `single`,
//! `writes`), what they ask for (`find`) and hold (`holds`), their places in the engine (`places`,
//! `preempt`), what has come of their tasks (`ended`), and what their pods are told (`tell`).

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
use trellis_scheduler::PodKey;

use judge::Judgements;
use tell::Telling;

use super::avoided::Avoided;
use super::pause::Pause;
use super::{Driver, Inside};
use crate::gang::deletions::Deletions;
use crate::gang::external;
use crate::gang::external::Unit;
use crate::gang::external::asks::Asks;
use crate::gang::external::standing::Held;
use crate::gang::external::total::{Accounts, Total};
use crate::gang::key::Key;
use crate::gang::observed::{ExternalPod, Repelled, Repulsion};
use crate::gang::quota::JobLimits;

/// All that is kept of external pods.
#[derive(Debug, Default)]
pub(super) struct ExternalPods {
    gangs: HashMap<Key, ExternalGang>,
    /// The engine's names of pods: their own say nothing of their gang.
    names: HashMap<Key, PodKey>,
    /// What policies decide on them.
    judgements: Judgements,
    /// How often a gang was given a place: no two have pods of one name in the engine.
    places: u64,
    /// How often pods were told something: a task that has ended is known by that.
    tellings: u64,
}

/// One external gang.
#[derive(Debug, Default)]
struct ExternalGang {
    /// Of a pod alone: which one of that name.
    uid: Option<String>,
    inside: Inside,
    /// Tells the one task that is under way that nobody wants it any more.
    task: Option<CancellationToken>,
    pause: Pause,
    avoided: Avoided,
    deletions: Deletions,
    /// What it asks for, since it was last looked at.
    asks: Option<Arc<Asks>>,
    /// The request has changed, and policies have not decided on the new one yet: the unit gets no
    /// place by `asks`.
    asks_anew: bool,
    /// The pods that the engine has in its place.
    held: Vec<Held>,
    /// Of a gang that has its place: what those ask for together that are to stay in it, and those
    /// that are just being bound to join them.
    total: Total,
    /// That has become less: who was refused may be let in.
    has_shrunk: bool,
    /// When pods became its own last that came one by one.
    joined: Option<Instant>,
    /// Where a pod must be that joins a gang.
    near: BTreeMap<String, String>,
    /// Which of the places it is that the engine's names of its pods are of.
    place: u64,
    /// Of a pod alone, whose failures no journal has: how many in a row, and when it is tried
    /// again.
    failures: u32,
    retry: Option<Timestamp>,
    /// How often in a row it could not be found out what it asks for, or it may not.
    looks: u32,
    /// Of the PodGroup, when its pods were looked at one by one.
    generation: Option<i64>,
    /// Only pods that stop are left of its place.
    ends: bool,
    /// It has had to make room.
    preempted: bool,
    /// The limits that it draws on, and the ServiceAccounts by which it does.
    limits: Option<Arc<JobLimits>>,
    accounts: Accounts,
    /// They are those of one more of a gang that has its place.
    joins: bool,
    /// What its pods are told.
    telling: Telling,
}

impl ExternalGang {
    /// What it asks for, as policies say now.
    fn ask(&mut self, asks: Arc<Asks>) {
        self.accounts.clone_from(&asks.accounts);
        self.joins = asks.joins;
        self.limits = Some(asks.limits.clone());
        self.asks = Some(asks);
        self.asks_anew = false;
    }
}

impl ExternalPods {
    /// The engine's name of a pod, if it is an external pod's.
    pub(super) fn name(&self, pod: &Key) -> Option<&PodKey> {
        self.names.get(pod)
    }

    /// The pod is gone, or has ended.
    pub(super) fn forget_name(&mut self, pod: &Key) -> Option<PodKey> {
        self.names.remove(pod)
    }

    /// External gangs that have no place, and may be given one by what has changed.
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

    /// Of each where it is in the engine, and what it draws on, if it has been judged.
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
    /// The PodGroup of pods that others have made, if there is one that a user has written.
    fn users_group(&self, group: &Key) -> Option<Arc<PodGroup>> {
        let group = self.committer.context().cache.pod_groups.get(group);
        group.filter(|group| external::is_users(group))
    }

    /// The same, if its gang has its place and pods may join it.
    fn placed_group(&self, key: &Key) -> Option<Arc<PodGroup>> {
        let phase = |group: &Arc<PodGroup>| group.status.as_ref()?.phase;
        let group = self.users_group(key);
        let group = group.filter(|group| phase(group) == Some(PodGroupPhase::Placed))?;
        let state = self.external_pods.gangs.get(&external::of_group(key));
        (!state.is_some_and(|state| state.ends)).then_some(group)
    }

    /// Uid of what an external gang is made of: its PodGroup, or the pod.
    pub(super) fn external_uid(&self, unit: &Key) -> Option<String> {
        match external::unit(unit)? {
            Unit::Group(group) => self.users_group(&group)?.metadata.uid.clone(),
            Unit::Pod(pod) => Some(
                self.committer
                    .context()
                    .cache
                    .external_pods
                    .get(&pod)?
                    .uid
                    .clone(),
            ),
        }
    }

    /// What tells the place that an external gang holds from a later one.
    pub(super) fn external_pods_plan(&self, unit: &Key) -> Option<String> {
        match external::unit(unit)? {
            Unit::Group(group) => {
                let group = self.users_group(&group)?;
                let journal = group.status.as_ref().filter(|j| super::victims::holds(j))?;
                Some(journal.plan.as_ref()?.hash.clone())
            }
            Unit::Pod(pod) => {
                let pod = self.committer.context().cache.external_pods.get(&pod)?;
                pod.counts_in().map(|_| pod.uid.clone())
            }
        }
    }

    /// External gangs that wait and that the anti-affinity of another pod keeps out of more or
    /// less.
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

    /// Name of the queue in which what an external gang holds counts.
    pub(super) fn queue_of_external_pods(&self, unit: &Key) -> String {
        let queue = match external::unit(unit) {
            Some(Unit::Group(group)) => self.users_group(&group).and_then(|group| {
                let journal = group.status.as_ref()?;
                journal.plan.as_ref()?.queue.clone()
            }),
            Some(Unit::Pod(pod)) => {
                let pod = self.committer.context().cache.external_pods.get(&pod);
                pod.and_then(|pod| pod.queue.clone())
            }
            None => None,
        };
        queue.unwrap_or_default()
    }

    /// Nobody wants any more what is being begun for an external gang.
    pub(super) fn stop_unwritten(&self, unit: &Key) {
        let state = self.external_pods.gangs.get(unit);
        if let Some(task) = state.and_then(|state| state.task.as_ref()) {
            task.cancel();
        }
    }

    /// The limits that an external gang draws on.
    pub(super) fn limits_of_external_pods(&self, unit: &Key) -> Option<&JobLimits> {
        self.external_pods.gangs.get(unit)?.limits.as_deref()
    }

    /// The one task of an external gang begins.
    pub(super) fn external_starts(&mut self, unit: &Key, stop: CancellationToken) {
        self.external_pods
            .gangs
            .entry(unit.clone())
            .or_default()
            .task = Some(stop);
    }

    /// The pods of an external gang, by name.
    fn external_pods(&self, unit: &Key) -> Vec<(Key, Arc<ExternalPod>)> {
        let external_pods = &self.committer.context().cache.external_pods;
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

    /// What a new leader finds of external pods: all are looked at, so that what is bound is
    /// charged before anything is decided.
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
        // Those that are to have a place follow others, which are to be known first.
        units.retain(|unit| self.nominated_plan(unit).is_none());
        for unit in units {
            self.advance_external(&unit);
        }
    }
}
