//! Reads the core ResourceQuotas of the jobs' namespaces from a snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::ResourceQuota;
use trellis_api::PodGroup;
use trellis_api::pod_group::PodGroupPhase;
use trellis_gang::engine;
use trellis_gang::key::Key;
use trellis_gang::observed::{PodView, SlimPod};
use trellis_gang::quota::namespace_quota::{PodQuotaFields, QuotaDemand, release_usage};
use trellis_gang::requirements::resource_request;
use trellis_plan::NamespaceQuotas;
use trellis_scheduler::Resources;

use super::snapshot::ClusterSnapshot;

/// Returns the quotas before the jobs are planned. The current usage of the planned jobs counts as
/// free.
pub(super) fn read_quotas(snapshot: &ClusterSnapshot, planned: &BTreeSet<Key>) -> NamespaceQuotas {
    let mut live: BTreeMap<Key, Vec<&SlimPod>> = BTreeMap::new();
    for pod in snapshot.pods.values() {
        if let Some((job, view)) = PodView::from_pod(pod)
            && !view.phase.is_over()
        {
            live.entry(job).or_default().push(pod);
        }
    }
    let mut planned_use: BTreeMap<Arc<str>, Vec<QuotaDemand>> = BTreeMap::new();
    for job in planned {
        let mut ask = QuotaDemand::default();
        for pod in live.get(job).into_iter().flatten() {
            let request = resource_request::pod_request(pod);
            let counted = pod_quota_fields(snapshot, job, resource_request::pod_limits(pod));
            ask.add(1, &request, &counted);
        }
        planned_use
            .entry(job.namespace.clone())
            .or_default()
            .push(ask);
    }
    let mut promised: BTreeMap<Arc<str>, Vec<QuotaDemand>> = BTreeMap::new();
    for (job, group) in &snapshot.pod_groups {
        if !planned.contains(job) {
            let live_pods = live.get(job).map_or(&[][..], Vec::as_slice);
            let rest = remaining_demand(snapshot, job, group, live_pods);
            promised
                .entry(job.namespace.clone())
                .or_default()
                .extend(rest);
        }
    }
    let mut quotas: BTreeMap<Arc<str>, Vec<ResourceQuota>> = BTreeMap::new();
    for (key, quota) in &snapshot.resource_quotas {
        let released = planned_use
            .get(&key.namespace)
            .map_or(&[][..], Vec::as_slice);
        quotas
            .entry(key.namespace.clone())
            .or_default()
            .push(release_usage(quota, released));
    }
    NamespaceQuotas { quotas, promised }
}

/// Returns the fields of a job's pod that quotas use, as far as they are known.
fn pod_quota_fields(snapshot: &ClusterSnapshot, job: &Key, limits: Resources) -> PodQuotaFields {
    let job = snapshot.jobs.get(job);
    PodQuotaFields {
        limits,
        priority_class: job.and_then(|j| j.spec.priority_class_name.clone()),
        ..PodQuotaFields::default()
    }
}

/// Returns the promised pods that a gang has not created yet. None: no room is promised to the gang.
fn remaining_demand(
    snapshot: &ClusterSnapshot,
    job: &Key,
    group: &PodGroup,
    live_pods: &[&SlimPod],
) -> Option<QuotaDemand> {
    let phase = group.status.as_ref()?.phase?;
    if !matches!(
        phase,
        PodGroupPhase::Committing | PodGroupPhase::Provisioning
    ) {
        return None;
    }
    let live_pods: BTreeSet<_> = live_pods
        .iter()
        .map(|pod| Key::from_meta(&pod.metadata))
        .collect();
    let mut ask = QuotaDemand::default();
    let gang = engine::gang_from_pod_group(job, group);
    for task_group in &gang.groups {
        let created = (0..task_group.count).filter(|index| {
            let pod = gang.pod_key(task_group, *index);
            let (namespace, name) = pod.as_str().split_once('/').unwrap_or_default();
            live_pods.contains(&Key::new(namespace, name))
        });
        let created = u32::try_from(created.count()).unwrap_or(u32::MAX);
        let remaining = task_group.count.saturating_sub(created);
        let counted = pod_quota_fields(snapshot, job, task_group.request.clone());
        ask.add(i64::from(remaining), &task_group.request, &counted);
    }
    Some(ask)
}
