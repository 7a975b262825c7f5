//! The plan of an external gang, and the journal transitions that jobs do not have.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use trellis_api::Reason;
use trellis_api::pod_group::{
    Assignment, MAX_UNDONE_PLANS, Plan, PlannedPod, PodGroupPhase, PodGroupStatus,
};
use trellis_scheduler::PodKey;

use super::engine_gang;
use super::external_request::{AlikePods, ExternalRequest};
use crate::journal::PLAN_TIMEOUT;
use crate::key::Key;
use crate::observed::FlavorsByResource;
use crate::requirements::flavors::GangPlacement;

/// Returns the plan of a place for these pods.
#[must_use]
pub fn build_plan(
    unit_uid: &str,
    generation: i64,
    request: &ExternalRequest,
    place: &GangPlacement,
    now: Timestamp,
) -> Plan {
    let mut assignments = Vec::new();
    for (number, alike) in request.groups.iter().enumerate() {
        let name = engine_gang::group_name(number);
        let placed = place.placement.groups().iter();
        let runs = placed
            .filter(|g| g.group.as_str() == name)
            .flat_map(|g| &g.runs);
        let mut pods = alike.pods.iter().cloned();
        for (node, count) in runs {
            let node_pods: Vec<PlannedPod> = pods
                .by_ref()
                .take(usize::try_from(*count).unwrap_or(0))
                .collect();
            assignments.push(Assignment {
                group: name.clone(),
                node: node.as_str().to_owned(),
                count: i64::from(*count),
                pods: node_pods,
            });
        }
    }
    let text = json!([
        unit_uid,
        place.groups,
        assignments,
        now.as_nanosecond().to_string()
    ]);
    Plan {
        hash: trellis_compiler::hash_of(&text),
        attempt: 1,
        generation,
        queue: Some(request.queue.clone()),
        priority: Some(request.priority),
        resources_per_gpu: None,
        policy_set: Some(request.authorization.set_hash().to_owned()),
        deadline: now.saturating_add(PLAN_TIMEOUT).ok().map(Time),
        groups: place.groups.clone(),
        limits: place.limits.clone(),
        active_seconds: request.active_seconds,
        assignments,
        ..Plan::default()
    }
}

/// Returns the demand of a plan's pods, in the groups of the plan: victims have left for that
/// place, so it stays valid even if pods of one group differ by now. None if the plan has other
/// pods, or if pods of one group request different resources.
#[must_use]
pub fn regroup_like_plan(plan: &Plan, request: ExternalRequest) -> Option<ExternalRequest> {
    let mut groups_by_pod: BTreeMap<&str, &AlikePods> = BTreeMap::new();
    for current in &request.groups {
        let names = current.pods.iter().map(|pod| pod.name.as_str());
        groups_by_pod.extend(names.map(|name| (name, current)));
    }
    let mut groups: Vec<(&str, AlikePods)> = Vec::new();
    for run in &plan.assignments {
        for pod in &run.pods {
            let current = *groups_by_pod.get(pod.name.as_str())?;
            let known = groups.iter_mut().find(|(name, _)| *name == run.group);
            match known {
                Some((_, group)) if group.request == current.request => {
                    group.pods.push(pod.clone())
                }
                Some(_) => return None,
                None => {
                    let pods = vec![pod.clone()];
                    groups.push((
                        &run.group,
                        AlikePods {
                            pods,
                            ..current.clone()
                        },
                    ));
                }
            }
        }
    }
    let groups = groups.into_iter().map(|(_, group)| group).collect();
    Some(ExternalRequest { groups, ..request })
}

/// Returns the flavors that the plan gives to a group, by resource.
#[must_use]
pub fn group_flavors<'a>(plan: &'a Plan, group: &str) -> Option<&'a FlavorsByResource> {
    let found = plan.groups.iter().find(|planned| planned.name == group);
    found.map(|planned| &planned.flavors)
}

/// Returns the pods of a plan, with their nodes.
pub fn planned_pods(plan: &Plan) -> impl Iterator<Item = (&PlannedPod, &str)> {
    plan.assignments
        .iter()
        .flat_map(|run| run.pods.iter().map(|pod| (pod, run.node.as_str())))
}

/// Returns the engine's names of the pods of a plan, for that place of the gang.
#[must_use]
pub fn engine_pod_names(unit: &Key, place: u64, plan: &Plan) -> BTreeMap<Key, PodKey> {
    let mut next: BTreeMap<&str, usize> = BTreeMap::new();
    let mut names = BTreeMap::new();
    for run in &plan.assignments {
        let index = next.entry(run.group.as_str()).or_default();
        for pod in &run.pods {
            let key = Key::new(&unit.namespace, &pod.name);
            names.insert(key, engine_gang::pod_key(unit, place, &run.group, *index));
            *index = index.saturating_add(1);
        }
    }
    names
}

/// Returns the status of a gang that is not placed, with the reason.
#[must_use]
pub fn set_wait_reason(
    before: &PodGroupStatus,
    reason: Reason,
    message: &str,
) -> Option<PodGroupStatus> {
    let is_pending = before.phase.unwrap_or_default() == PodGroupPhase::Pending;
    is_pending.then(|| PodGroupStatus {
        phase: Some(PodGroupPhase::Pending),
        reason: Some(reason),
        message: Some(message.to_owned()),
        ..before.clone()
    })
}

/// Returns the status of a gang whose pods are bound and that has no journal. Its plan names the
/// queue in which it counts.
#[must_use]
pub fn adopt(before: &PodGroupStatus, plan: Plan) -> Option<PodGroupStatus> {
    let is_pending = before.phase.unwrap_or_default() == PodGroupPhase::Pending;
    is_pending.then(|| PodGroupStatus {
        phase: Some(PodGroupPhase::Placed),
        plan: Some(plan),
        reason: None,
        message: None,
        ..before.clone()
    })
}

/// Returns the rolled back plans whose bindings may still take effect, the latest last.
fn rolled_back_plans(before: &PodGroupStatus) -> Vec<String> {
    let mut undone = before.undone_plans.clone();
    if before.phase == Some(PodGroupPhase::Unwinding)
        && let Some(plan) = &before.plan
    {
        undone.push(plan.hash.clone());
    }
    let too_many = undone.len().saturating_sub(MAX_UNDONE_PLANS);
    undone.split_off(too_many)
}

/// Returns the status once a placed gang has no pods left.
#[must_use]
pub fn clear_place(before: &PodGroupStatus) -> Option<PodGroupStatus> {
    let had_place = matches!(
        before.phase,
        Some(PodGroupPhase::Placed | PodGroupPhase::Unwinding)
    );
    had_place.then(|| PodGroupStatus {
        phase: Some(PodGroupPhase::Pending),
        plan: None,
        evict_until: None,
        undone_plans: rolled_back_plans(before),
        ..before.clone()
    })
}
