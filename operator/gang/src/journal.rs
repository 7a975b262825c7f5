//! The journal: `PodGroup.status`, written only by compare-and-set.
//!
//! A transition is a function from the status before to the status after. It returns None in a
//! phase that it does not start from: then the decision was based on another state, and nothing is
//! written.

pub mod epoch;
pub mod eviction;
mod members;
pub mod open_plan_demand;

pub use members::{is_plan_complete, members};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::json;
use trellis_api::Reason;
use trellis_api::pod_group::{
    Assignment, ElasticGroup, FlavorNodes, JournaledOrder, NominatedVictim, Plan, PlannedGroup,
    PodGroupPhase, PodGroupStatus,
};

use super::desired_gang::AuthorizedAttempt;
use crate::gang_step::SliceReplacement;
use crate::journal::epoch::Epoch;
use crate::requirements::flavors::GangPlacement;

/// Time after which a plan that is not complete is rolled back.
pub const PLAN_TIMEOUT: SignedDuration = SignedDuration::from_secs(120);
/// Longest time for which PodDisruptionBudgets may delay the eviction of a gang. After that its
/// remaining pods are deleted.
const EVICTION_TIMEOUT: SignedDuration = SignedDuration::from_secs(120);
/// Back-off of a gang whose commit failed, in seconds: the first, doubled each time.
const FIRST_RETRY: i64 = 5;
const MAX_RETRY: i64 = 300;

/// Returns the plan of a placement.
#[must_use]
pub fn build_plan(run: &AuthorizedAttempt, place: &GangPlacement, now: Timestamp) -> Plan {
    let job = run.job.compiled();
    let deadlines = job.job().spec().deadlines.as_ref();
    let assignments: Vec<Assignment> = place
        .placement
        .groups()
        .iter()
        .flat_map(|g| {
            g.runs.iter().map(|(node, count)| Assignment {
                group: g.group.as_str().to_owned(),
                node: node.as_str().to_owned(),
                count: i64::from(*count),
                pods: Vec::new(),
            })
        })
        .collect();
    // The hash includes the time: two plans with the same assignments differ.
    let text = json!([
        run.uid,
        run.attempt.number,
        job.hash(),
        place.groups,
        assignments,
        now.as_nanosecond().to_string()
    ]);
    Plan {
        hash: trellis_compiler::hash_of(&text),
        attempt: run.attempt.number,
        generation: job.job().generation(),
        compiled: job.hash().to_owned(),
        queue: Some(job.queue().to_owned()),
        priority: Some(job.priority()),
        resources_per_gpu: job.queue_resources().per_gpu(),
        policy_set: Some(run.job.set_hash().to_owned()),
        deadline: now.saturating_add(PLAN_TIMEOUT).ok().map(Time),
        groups: place.groups.clone(),
        elastic: job
            .job()
            .spec()
            .task_groups
            .iter()
            .filter(|group| group.min_replicas.is_some())
            .map(|group| ElasticGroup {
                name: group.name.clone(),
                replicas: i64::from(group.replicas()),
                slice_starts: Vec::new(),
            })
            .collect(),
        active_seconds: deadlines.and_then(|d| d.active_seconds),
        requester: place.requester.clone(),
        limits: place.limits.clone(),
        assignments,
    }
}

/// Returns when a plan was made, which is when the gang got its place. None if the plan has no
/// deadline, because an earlier version or another program wrote it.
#[must_use]
pub fn plan_start(plan: &Plan) -> Option<Timestamp> {
    let deadline = plan.deadline.as_ref()?;
    deadline.0.saturating_sub(PLAN_TIMEOUT).ok()
}

/// Returns the plan with the hash of an earlier plan that differs only in its time.
#[must_use]
pub fn reuse_plan_hash(plan: Plan, earlier: &Plan) -> Plan {
    let same = Plan {
        hash: earlier.hash.clone(),
        ..plan.clone()
    };
    let without_time = |plan: &Plan| Plan {
        deadline: None,
        ..plan.clone()
    };
    if without_time(&same) == without_time(earlier) {
        same
    } else {
        plan
    }
}

/// Returns true if the gang is rolled back because it was preempted or its queue is drained: its
/// pods are evicted, and the end counts as a disruption.
#[must_use]
pub fn is_preempted(journal: &PodGroupStatus) -> bool {
    journal.phase == Some(PodGroupPhase::Unwinding) && journal.reason == Some(Reason::Preempted)
}

/// Returns the status before, if it is in one of these phases.
fn status_in_phase(before: &PodGroupStatus, phases: &[PodGroupPhase]) -> Option<PodGroupStatus> {
    phases
        .contains(&before.phase.unwrap_or_default())
        .then(|| before.clone())
}

/// Returns the status that is written before the first pod of a plan is created.
#[must_use]
pub fn open_plan(before: &PodGroupStatus, plan: Plan) -> Option<PodGroupStatus> {
    Some(PodGroupStatus {
        phase: Some(PodGroupPhase::Committing),
        plan: Some(plan),
        ..without_intent(before)?
    })
}

/// Returns the status that is written before the first victim is asked to leave the plan's place.
#[must_use]
pub fn nominate(
    before: &PodGroupStatus,
    plan: Plan,
    victims: Vec<NominatedVictim>,
    message: String,
) -> Option<PodGroupStatus> {
    Some(PodGroupStatus {
        phase: Some(PodGroupPhase::Nominated),
        plan: Some(plan),
        victims,
        reason: Some(Reason::Preempting),
        message: Some(message),
        ..without_intent(before)?
    })
}

/// Returns the status of a gang without a plan of pods: without its nomination, and without the new
/// nodes that are on order for it. None: its plan is being carried out.
fn without_intent(before: &PodGroupStatus) -> Option<PodGroupStatus> {
    let phases = [
        PodGroupPhase::Pending,
        PodGroupPhase::Provisioning,
        PodGroupPhase::Nominated,
    ];
    Some(PodGroupStatus {
        phase: Some(PodGroupPhase::Pending),
        plan: None,
        provisioning: None,
        victims: Vec::new(),
        retry_time: None,
        reason: None,
        message: None,
        ..status_in_phase(before, &phases)?
    })
}

/// Returns the status that is written before an autoscaler is asked for nodes.
#[must_use]
pub fn provision(before: &PodGroupStatus, nodes: JournaledOrder) -> Option<PodGroupStatus> {
    Some(PodGroupStatus {
        phase: Some(PodGroupPhase::Provisioning),
        provisioning: Some(nodes),
        ..without_intent(before)?
    })
}

/// Returns the status of a gang that gives up the new nodes that are on order for it.
#[must_use]
pub fn end_provisioning(before: &PodGroupStatus) -> Option<PodGroupStatus> {
    status_in_phase(before, &[PodGroupPhase::Provisioning])?;
    without_intent(before)
}

/// Returns the journal's record of new nodes.
#[must_use]
pub fn build_provisioning(
    run: &AuthorizedAttempt,
    groups: Vec<PlannedGroup>,
    nodes: Vec<FlavorNodes>,
    (since, until): (Timestamp, Timestamp),
) -> JournaledOrder {
    let compiled = run.job.compiled().hash();
    let text = json!([
        run.uid,
        run.attempt.number,
        compiled,
        groups,
        nodes,
        since.as_nanosecond().to_string()
    ]);
    JournaledOrder {
        hash: trellis_compiler::hash_of(&text),
        attempt: run.attempt.number,
        compiled: compiled.to_owned(),
        groups,
        nodes,
        since: Time(since),
        until: Time(until),
    }
}

/// Returns the status of a gang that gives up the place that it was nominated for.
#[must_use]
pub fn cancel_nomination(before: &PodGroupStatus) -> Option<PodGroupStatus> {
    status_in_phase(before, &[PodGroupPhase::Nominated])?;
    without_intent(before)
}

/// Returns the status of a plan or order that this leader continues. Only the epoch changes, so
/// that the previous leader cannot write the status any more.
#[must_use]
pub fn take_over(before: &PodGroupStatus) -> Option<PodGroupStatus> {
    status_in_phase(
        before,
        &[
            PodGroupPhase::Provisioning,
            PodGroupPhase::Committing,
            PodGroupPhase::Nominated,
        ],
    )
}

/// Returns the status once all pods of the plan with that hash exist.
#[must_use]
pub fn close_plan(before: &PodGroupStatus, hash: &str) -> Option<PodGroupStatus> {
    let status = status_in_phase(before, &[PodGroupPhase::Committing])?;
    status.plan.as_ref().filter(|p| p.hash == hash)?;
    Some(PodGroupStatus {
        phase: Some(PodGroupPhase::Placed),
        failures: None,
        retry_time: None,
        reason: None,
        message: None,
        ..status
    })
}

/// Returns the status in which another slice replaces a slice of the gang. The plan keeps its hash,
/// which the pods carry.
#[must_use]
pub fn replace_slice(
    before: &PodGroupStatus,
    hash: &str,
    replacement: &SliceReplacement,
) -> Option<PodGroupStatus> {
    let mut status = status_in_phase(before, &[PodGroupPhase::Placed])?;
    let plan = status.plan.as_mut().filter(|plan| plan.hash == hash)?;
    replacement.apply(plan)?;
    Some(status)
}

/// Returns the status while a plan is rolled back. A failed plan delays the gang's next attempt,
/// longer each time, so that a gang that fails every time does not starve others.
#[must_use]
pub fn roll_back(
    before: &PodGroupStatus,
    reason: Reason,
    message: String,
    failed: bool,
    now: Timestamp,
) -> Option<PodGroupStatus> {
    let mut status = PodGroupStatus {
        phase: Some(PodGroupPhase::Unwinding),
        reason: Some(reason),
        message: Some(message),
        ..status_in_phase(before, &[PodGroupPhase::Committing, PodGroupPhase::Placed])?
    };
    if failed {
        let (failures, retry) = next_retry(before, now);
        status.failures = Some(failures);
        status.retry_time = Some(retry);
    } else {
        status.failures = None;
        status.retry_time = None;
    }
    if is_preempted(&status) {
        status.evict_until = now.saturating_add(EVICTION_TIMEOUT).ok().map(Time);
    }
    Some(status)
}

/// Returns the status of a gang that failed before its plan was written.
#[must_use]
pub fn postpone(
    before: &PodGroupStatus,
    reason: Reason,
    message: String,
    now: Timestamp,
) -> Option<PodGroupStatus> {
    let (failures, retry) = next_retry(before, now);
    Some(PodGroupStatus {
        failures: Some(failures),
        retry_time: Some(retry),
        reason: Some(reason),
        message: Some(message),
        ..without_intent(before)?
    })
}

fn next_retry(before: &PodGroupStatus, now: Timestamp) -> (i64, Time) {
    let failures = before.failures.unwrap_or(0).max(0);
    let doubled = i64::from(2).saturating_pow(u32::try_from(failures).unwrap_or(u32::MAX));
    let wait = FIRST_RETRY.saturating_mul(doubled).min(MAX_RETRY);
    let retry = now
        .saturating_add(SignedDuration::from_secs(wait))
        .unwrap_or(Timestamp::MAX);
    (failures.saturating_add(1), Time(retry))
}

/// Returns the status once no pod of a plan is left.
#[must_use]
pub fn clear_plan(before: &PodGroupStatus) -> Option<PodGroupStatus> {
    Some(PodGroupStatus {
        phase: Some(PodGroupPhase::Pending),
        plan: None,
        evict_until: None,
        ..status_in_phase(before, &[PodGroupPhase::Unwinding])?
    })
}

/// Returns the status of a gang whose job has ended, possibly before its plan was closed.
#[must_use]
pub fn finish(before: &PodGroupStatus) -> Option<PodGroupStatus> {
    Some(PodGroupStatus {
        phase: Some(PodGroupPhase::Finished),
        ..status_in_phase(before, &[PodGroupPhase::Committing, PodGroupPhase::Placed])?
    })
}

/// Author of an open plan or order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanAuthor {
    /// This leader.
    ThisLeader,
    /// An earlier leader, before this one led: the plan is continued.
    Predecessor,
    /// A process that did not lead any more when it wrote the plan: the plan is rolled back.
    Stale,
}

/// Returns the hash of the journal's plan, or of the nodes on order.
#[must_use]
pub fn intent_hash(journal: &PodGroupStatus) -> Option<&str> {
    let nodes = journal.provisioning.as_ref().map(|nodes| &nodes.hash);
    let hash = journal.plan.as_ref().map(|plan| &plan.hash).or(nodes);
    hash.map(String::as_str)
}

/// Returns the author of a journal's open plan or order. `inherited` is the hash that existed when
/// this process began to lead.
#[must_use]
pub fn plan_author(
    journal: &PodGroupStatus,
    current: Epoch,
    inherited: Option<&str>,
) -> PlanAuthor {
    if journal.epoch == Some(current.0) {
        return PlanAuthor::ThisLeader;
    }
    let hash = intent_hash(journal);
    if hash.is_some() && hash == inherited {
        PlanAuthor::Predecessor
    } else {
        PlanAuthor::Stale
    }
}

#[cfg(test)]
mod tests;
