//! Pods that are created or removed while the other pods of their gang stay.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::jiff::Timestamp;
use trellis_api::job::AwaitedPodIndex;
use trellis_api::pod_group::Plan;

use super::Departures;
use super::created_members::{CreatedGangStep, Gang};
use crate::journal;
use crate::observed::PodView;
use crate::{AuthorizedAttempt, GangIndexes, surplus};

/// A missing pod of an attempt whose other pods exist.
#[derive(Clone, Debug, PartialEq)]
pub struct MissingPod {
    /// Task group of the pod.
    pub group: String,
    /// Index of the pod.
    pub index: u32,
    /// Node of the pod.
    pub node: String,
    /// Round of the pod.
    pub round: i64,
    /// Tolerations that a surplus pod gets from its flavors. None for a pod of the plan.
    pub flavor_tolerations: Option<Vec<Toleration>>,
}

/// Surplus pods that are to be removed from a placed gang.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SurplusPods {
    /// Uids of pods that an earlier leader created after it had lost its lead.
    pub stale: BTreeSet<String>,
    /// Uids of pods that make room for other gangs: true if a budget may delay their eviction.
    pub evictions: BTreeMap<String, bool>,
    /// Uids of pods that another gang was nominated to replace. They have not been asked to leave.
    pub nominated: BTreeSet<String>,
}

impl Gang<'_> {
    /// Returns true if a pod of a placed gang is to be removed: its replacement is awaited, its job
    /// does not want it any more, or it is a stale surplus pod.
    pub(super) fn is_obsolete(
        &self,
        run: Option<&AuthorizedAttempt>,
        awaited: Option<&AwaitedPodIndex<'_>>,
        pod: &PodView,
    ) -> bool {
        // A pod of the gang stays until a slice below `replicas` replaces its slice.
        let is_beyond = run.is_some_and(|run| surplus::is_beyond_replicas(run, pod))
            && !self.is_in_gang(run, pod);
        is_beyond
            || self.members.surplus_removals.stale.contains(&pod.uid)
            || awaited
                .and_then(|awaited| awaited.get(&pod.group, pod.index))
                .is_some_and(|next| pod.round < next.round)
    }

    fn is_in_gang(&self, run: Option<&AuthorizedAttempt>, pod: &PodView) -> bool {
        let spec = run.map(|run| run.job.compiled().job().spec());
        let group = spec.and_then(|spec| spec.group(&pod.group));
        let plan = self.journal.plan.as_ref();
        group.is_some_and(|group| GangIndexes::new(group, plan).contains(pod.index))
    }

    /// Evicts or deletes surplus pods that make room for other gangs.
    pub(super) fn evict_surplus(&self) -> Option<CreatedGangStep> {
        let leaving = &self.members.surplus_removals.evictions;
        if leaving.is_empty() {
            return None;
        }
        let those = |patient: bool| {
            let pods = self.departing_pods(|pod| leaving.get(&pod.uid) == Some(&patient));
            pods.deleted
        };
        Departures {
            deleted: those(false),
            evicted: those(true),
            are_left: false,
        }
        .request_step()
    }

    /// Returns the awaited pods of the plan whose time has come.
    pub(super) fn missing_pods(&self, run: &AuthorizedAttempt, plan: &Plan) -> Vec<MissingPod> {
        if run.attempt.awaited.pods.is_empty() || run.attempt.awaited.attempt != plan.attempt {
            return Vec::new();
        }
        let there: BTreeSet<(&str, u32)> = self
            .members
            .pods
            .values()
            .map(|pod| (pod.group.as_str(), pod.index))
            .collect();
        let by_pod = run.attempt.awaited.index_by_pod();
        let vacancy = |(group, index, node): (&str, u32, &str)| {
            let awaited = by_pod.get(group, index)?;
            let is_due = awaited.not_before.as_ref().is_none_or(|t| t.0 <= self.now);
            // The slice of a displaced pod leaves the plan first.
            let is_due = is_due && !awaited.displaced;
            (is_due && !there.contains(&(group, index))).then(|| MissingPod {
                group: group.to_owned(),
                index,
                node: node.to_owned(),
                round: awaited.round,
                flavor_tolerations: None,
            })
        };
        journal::members(plan).filter_map(vacancy).collect()
    }

    /// Returns when the next missing pod of a placed gang is to be created.
    #[must_use]
    pub fn next_creation_time(&self) -> Option<Timestamp> {
        let awaited = self.members.desired.attempt()?.attempt.awaited.pods.iter();
        let times = awaited.filter_map(|group| group.not_before.as_ref());
        times.map(|t| t.0).filter(|t| *t > self.now).min()
    }
}
