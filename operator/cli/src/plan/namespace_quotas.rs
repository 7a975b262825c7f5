//! The core ResourceQuotas of the jobs' namespaces, which the operator counts
//! for a whole gang before its first pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::ResourceQuota;
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{PodGroup, Reason};
use trellis_compiler::CompiledJob;
use trellis_gang::key::Key;
use trellis_gang::namespace_quota::{
    PodQuotaFields, QuotaDemand, find_exceeded_quota, release_usage,
};
use trellis_gang::observed::{PodView, SlimPod};
use trellis_gang::{JobHold, engine, resource_request};
use trellis_scheduler::Resources;

use super::snapshot::ClusterSnapshot;

/// The quotas, and what is promised of them.
pub(super) struct NamespaceQuotas {
    /// By namespace.
    quotas: BTreeMap<Arc<str>, Vec<ResourceQuota>>,
    /// What gangs that are starting have still to create, by namespace.
    promised: BTreeMap<Arc<str>, Vec<QuotaDemand>>,
}

impl NamespaceQuotas {
    /// As they stand before the jobs are planned: what these hold already would
    /// be theirs again.
    pub(super) fn from_snapshot(snapshot: &ClusterSnapshot, planned: &BTreeSet<Key>) -> Self {
        let mut live: BTreeMap<Key, Vec<&SlimPod>> = BTreeMap::new();
        for pod in snapshot.pods.values() {
            if let Some((job, view)) = PodView::from_pod(pod)
                && !view.phase.is_over()
            {
                live.entry(job).or_default().push(pod);
            }
        }
        let mut held: BTreeMap<Arc<str>, Vec<QuotaDemand>> = BTreeMap::new();
        for job in planned {
            let mut ask = QuotaDemand::default();
            for pod in live.get(job).into_iter().flatten() {
                let request = resource_request::pod_request(pod);
                let counted = pod_quota_fields(snapshot, job, resource_request::pod_limits(pod));
                ask.add(1, &request, &counted);
            }
            held.entry(job.namespace.clone()).or_default().push(ask);
        }
        let mut promised: BTreeMap<Arc<str>, Vec<QuotaDemand>> = BTreeMap::new();
        for (job, group) in &snapshot.pod_groups {
            if !planned.contains(job) {
                let there = live.get(job).map_or(&[][..], Vec::as_slice);
                let rest = remaining_demand(snapshot, job, group, there);
                promised
                    .entry(job.namespace.clone())
                    .or_default()
                    .extend(rest);
            }
        }
        let mut quotas: BTreeMap<Arc<str>, Vec<ResourceQuota>> = BTreeMap::new();
        for (key, quota) in &snapshot.resource_quotas {
            let held = held.get(&key.namespace).map_or(&[][..], Vec::as_slice);
            quotas
                .entry(key.namespace.clone())
                .or_default()
                .push(release_usage(quota, held));
        }
        Self { quotas, promised }
    }

    /// A gang that has its place starts, unless a quota has no room for the
    /// whole of it.
    pub(super) fn start_gang(&mut self, job: &Key, compiled: &CompiledJob) -> Result<(), JobHold> {
        let ask = QuotaDemand::from_job(compiled);
        let quotas = self.quotas.get(&job.namespace).into_iter().flatten();
        let promised = self.promised.entry(job.namespace.clone()).or_default();
        if let Some(message) = find_exceeded_quota(quotas, &ask, promised) {
            return Err(JobHold::waiting(Reason::ResourceQuotaExceeded, message));
        }
        promised.push(ask);
        Ok(())
    }
}

/// What quotas see of a job's pod, of which that much is known.
fn pod_quota_fields(snapshot: &ClusterSnapshot, job: &Key, limits: Resources) -> PodQuotaFields {
    let job = snapshot.jobs.get(job);
    PodQuotaFields {
        limits,
        priority_class: job.and_then(|j| j.spec.priority_class_name.clone()),
        ..PodQuotaFields::default()
    }
}

/// What another gang has still to create, if it is being started.
fn remaining_demand(
    snapshot: &ClusterSnapshot,
    job: &Key,
    group: &PodGroup,
    there: &[&SlimPod],
) -> Option<QuotaDemand> {
    let phase = group.status.as_ref()?.phase?;
    if phase != PodGroupPhase::Committing {
        return None;
    }
    let there: BTreeSet<_> = there
        .iter()
        .map(|pod| Key::from_meta(&pod.metadata))
        .collect();
    let mut ask = QuotaDemand::default();
    let gang = engine::gang_from_pod_group(job, group);
    for task_group in &gang.groups {
        let created = (0..task_group.count).filter(|index| {
            let pod = gang.pod_key(task_group, *index);
            let (namespace, name) = pod.as_str().split_once('/').unwrap_or_default();
            there.contains(&Key::new(namespace, name))
        });
        let created = u32::try_from(created.count()).unwrap_or(u32::MAX);
        let left = task_group.count.saturating_sub(created);
        let counted = pod_quota_fields(snapshot, job, task_group.request.clone());
        ask.add(i64::from(left), &task_group.request, &counted);
    }
    Some(ask)
}
