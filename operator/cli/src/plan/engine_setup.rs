//! Sets up the engine for a plan, with the cluster's objects and their usage.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{PodGroup, QuotaPolicy};
use trellis_gang::key::Key;
use trellis_gang::observed::{DaemonPodIndex, PodView, SlimNode, SlimPod, UnhealthyRules};
use trellis_gang::quota::{GpuHourUsage, from_planned_limit, limit_name, read_own_ledger};
use trellis_gang::requirements::daemon_set_reserve;
use trellis_gang::requirements::pod_usage::PodUsage;
use trellis_gang::{engine, plan_start};
use trellis_plan::current_plan;
use trellis_policies::quota::{LimitHolder, LimitId, LimitedQuantity};
use trellis_scheduler::{Engine, Node, NodeName};

use super::existing_job::{pending_job, submission_time};
use super::snapshot::ClusterSnapshot;

/// Builds an engine that knows everything except the planned jobs.
/// The resources that these jobs hold now count as free for them.
///
/// `now`: gangs that hold nodes are protected, and have run, since their start until this time.
pub(super) fn build_engine(
    snapshot: &mut ClusterSnapshot,
    planned: &BTreeSet<Key>,
    now: Timestamp,
) -> Engine {
    let mut engine = Engine::new();
    engine.advance(engine::to_engine_time(now));
    for (name, queue) in snapshot.queues_or_default() {
        engine.apply_queue(engine::to_engine_queue(name, &queue.spec));
    }
    for (name, flavor) in &snapshot.flavors {
        engine.apply_flavor(engine::to_engine_flavor(name, &flavor.spec));
    }
    for (name, topology) in &snapshot.topologies {
        engine.apply_topology(engine::to_engine_topology(name, &topology.spec));
    }
    for node in to_engine_nodes(snapshot) {
        engine.apply_node(node);
    }
    for (key, group) in &snapshot.pod_groups {
        if !planned.contains(key) {
            restore_gang(&mut engine, snapshot, key, group);
            apply_pending_gang(&mut engine, snapshot, key, group);
        }
    }
    close_limits(&mut engine, snapshot);
    for (key, pod) in &snapshot.pods {
        let its_job = PodView::from_pod(pod).map(|(job, _)| job);
        if !its_job.is_some_and(|job| planned.contains(&job)) {
            apply_pod(&mut engine, key, pod);
        }
    }
    engine
}

/// Applies the used GPU hours that the operator last wrote to the ledgers.
/// An unreadable ledger closes the whole limit of its subject.
fn close_limits(engine: &mut Engine, snapshot: &ClusterSnapshot) {
    let ledgers = snapshot.quota_ledgers.values();
    let until = ledgers.map(|ledger| ledger.spec.until.0).max();
    let Some(until) = until else { return };
    // A time in the future would move the window forward.
    let now = snapshot.read_at.map_or(until, |now| until.min(now));
    let now = now.as_second();
    let policies = snapshot.to_quota_policies();
    let account_of = |policy: &QuotaPolicy| {
        let name = policy.metadata.name.as_deref().unwrap_or_default();
        read_own_ledger(policy, snapshot.quota_ledgers.get(name))
    };
    let mut hours = GpuHourUsage::default();
    hours.read_ledgers(snapshot.quota_policies.values(), account_of, now);
    let unreadable = hours.unreadable().keys().map(|policy| LimitId {
        policy: policy.clone(),
        holder: LimitHolder::Subject,
        quantity: LimitedQuantity::GpuHours,
    });
    let unreadable: Vec<_> = unreadable.map(|limit| (limit, 0)).collect();
    for (limit, gate) in hours.count_until(&policies, unreadable, now) {
        if let Some(closure) = gate {
            engine.close_limit(limit_name(&limit), closure);
        }
    }
}

/// Builds the nodes, minus the future needs of DaemonSets.
fn to_engine_nodes(snapshot: &ClusterSnapshot) -> Vec<Node> {
    let unhealthy = UnhealthyRules::default();
    let mut daemon_pods = DaemonPodIndex::default();
    for (key, pod) in &snapshot.pods {
        daemon_pods.apply(key, pod);
    }
    let node = |(name, node): (&String, &SlimNode)| {
        let mut node = engine::to_engine_node(node, &unhealthy);
        let sets = snapshot.daemon_sets.values();
        daemon_set_reserve::reserve_for_daemon_sets(&mut node, sets, |set| {
            daemon_pods.has_pod_on(set, name)
        });
        node
    };
    snapshot.nodes.iter().map(node).collect()
}

fn apply_pod(engine: &mut Engine, key: &Key, pod: &SlimPod) {
    if let PodUsage::Holds {
        node,
        request,
        leaves,
    } = PodUsage::of(pod)
    {
        let pod = engine::pod_key(key);
        engine.apply_pod(pod.clone(), NodeName::new(node), request);
        if let Some(gone_by) = leaves {
            engine.mark_pod_leaving(&pod, engine::to_engine_time(gone_by));
        }
    }
}

/// Adds a pending gang of a strict queue.
/// It blocks the gangs behind it, even if it could not start.
fn apply_pending_gang(
    engine: &mut Engine,
    snapshot: &ClusterSnapshot,
    key: &Key,
    group: &PodGroup,
) {
    if !snapshot.is_strict_queue(&group.spec.queue_name) {
        return;
    }
    if let Some(job) = pending_job(snapshot, key, group) {
        let mut gang = engine::gang_from_pod_group(key, group);
        gang.submitted =
            engine::to_engine_time(submission_time(job).unwrap_or(Timestamp::UNIX_EPOCH));
        // The PodGroup does not contain this field.
        gang.preempts = !snapshot.never_preempts(&job.spec);
        engine.apply_gang(gang);
    }
}

/// Restores a gang that holds nodes.
/// The gang holds the quota of its queue and the room for pods that do not exist yet.
fn restore_gang(engine: &mut Engine, snapshot: &ClusterSnapshot, key: &Key, group: &PodGroup) {
    let Some(plan) = current_plan(group) else {
        return;
    };
    let phase = group.status.as_ref().and_then(|s| s.phase);
    let phase = phase.unwrap_or_default();
    let to_come = matches!(phase, PodGroupPhase::Nominated | PodGroupPhase::Committing);
    let mut restored = engine::gang_from_pod_group(key, group);
    let grace = restored.grace;
    let active = plan
        .active_seconds
        .and_then(|active| u64::try_from(active).ok());
    restored.runtime = active.map(|active| Duration::from_secs(active).saturating_add(grace));
    let limits = plan.limits.iter();
    restored.draws = limits
        .map(|planned| from_planned_limit(planned).1)
        .collect();
    let over: Vec<_> = restored
        .groups
        .iter()
        .flat_map(|task_group| {
            (0..task_group.count).map(|index| restored.pod_key(task_group, index))
        })
        .filter(|pod| {
            let (namespace, name) = pod.as_str().split_once('/').unwrap_or_default();
            let existing = snapshot.pods.get(&Key::new(namespace, name));
            // All pods of a placed gang were created, so a missing pod has ended.
            existing.map_or(!to_come, |pod| matches!(PodUsage::of(pod), PodUsage::Done))
        })
        .collect();
    engine.restore_gang_with_flavors(
        restored,
        engine::placement_from_plan(plan),
        &engine::flavors_from_groups(&plan.groups),
        plan_start(plan)
            .map(engine::to_engine_time)
            .unwrap_or_default(),
    );
    for pod in over {
        engine.drop_assumed(&pod);
    }
}
