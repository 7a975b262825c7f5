//! The journal: `PodGroup.status`, written by compare-and-set alone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::json;
use trellis_api::pod_group::{Assignment, Plan, PodGroupPhase, PodGroupStatus};
use trellis_api::{PodGroup, Reason, names};
use trellis_scheduler::Placement;

use super::wish::Run;
use crate::commands::{Commands, WriteError};
use crate::patch;

/// How long a plan may take until it is undone.
pub const PLAN_TIME: SignedDuration = SignedDuration::from_secs(120);
/// Back-off of a gang whose commit failed: the first, doubled each time.
const FIRST_RETRY: i64 = 5;
const LONGEST_RETRY: i64 = 300;

/// The plan of a placement.
#[must_use]
pub fn plan(run: &Run, placement: &Placement, now: Timestamp) -> Plan {
    let job = run.job.compiled();
    let assignments: Vec<Assignment> = placement
        .groups()
        .iter()
        .flat_map(|g| {
            g.runs.iter().map(|(node, count)| Assignment {
                group: g.group.as_str().to_owned(),
                node: node.as_str().to_owned(),
                count: i64::from(*count),
            })
        })
        .collect();
    // Of the time too: two plans with the same assignments are two plans.
    let text = json!([
        run.uid,
        run.attempt,
        job.hash(),
        assignments,
        now.as_nanosecond().to_string()
    ]);
    Plan {
        hash: trellis_compiler::hash_of(&text),
        attempt: run.attempt,
        generation: job.job().generation(),
        compiled: job.hash().to_owned(),
        deadline: now.saturating_add(PLAN_TIME).ok().map(Time),
        assignments,
    }
}

/// The status before the first pod of a plan.
#[must_use]
pub fn opened(before: &PodGroupStatus, plan: Plan) -> PodGroupStatus {
    PodGroupStatus {
        phase: Some(PodGroupPhase::Committing),
        plan: Some(plan),
        retry_time: None,
        reason: None,
        message: None,
        ..before.clone()
    }
}

/// The status once all pods are there.
#[must_use]
pub fn closed(before: &PodGroupStatus) -> PodGroupStatus {
    PodGroupStatus {
        phase: Some(PodGroupPhase::Placed),
        failures: None,
        retry_time: None,
        reason: None,
        message: None,
        ..before.clone()
    }
}

/// The status while a plan is being undone. A plan that failed costs the gang
/// its turn, longer each time, so that a gang that is refused for ever starves
/// no one.
#[must_use]
pub fn undone(
    before: &PodGroupStatus,
    reason: Reason,
    message: String,
    failed: bool,
    now: Timestamp,
) -> PodGroupStatus {
    let mut status = PodGroupStatus {
        phase: Some(PodGroupPhase::Unwinding),
        reason: Some(reason),
        message: Some(message),
        ..before.clone()
    };
    if failed {
        let (failures, retry) = lost_turn(before, now);
        status.failures = Some(failures);
        status.retry_time = Some(retry);
    } else {
        status.failures = None;
        status.retry_time = None;
    }
    status
}

/// The status of a gang that failed before its plan was written.
#[must_use]
pub fn put_off(
    before: &PodGroupStatus,
    reason: Reason,
    message: String,
    now: Timestamp,
) -> PodGroupStatus {
    let (failures, retry) = lost_turn(before, now);
    PodGroupStatus {
        phase: Some(PodGroupPhase::Pending),
        plan: None,
        failures: Some(failures),
        retry_time: Some(retry),
        reason: Some(reason),
        message: Some(message),
        ..before.clone()
    }
}

fn lost_turn(before: &PodGroupStatus, now: Timestamp) -> (i64, Time) {
    let failures = before.failures.unwrap_or(0).max(0);
    let doubled = i64::from(2).saturating_pow(u32::try_from(failures).unwrap_or(u32::MAX));
    let wait = FIRST_RETRY.saturating_mul(doubled).min(LONGEST_RETRY);
    let retry = now
        .saturating_add(SignedDuration::from_secs(wait))
        .unwrap_or(Timestamp::MAX);
    (failures.saturating_add(1), Time(retry))
}

/// The status once nothing is left of a plan.
#[must_use]
pub fn cleared(before: &PodGroupStatus) -> PodGroupStatus {
    PodGroupStatus {
        phase: Some(PodGroupPhase::Pending),
        plan: None,
        ..before.clone()
    }
}

/// The status of a gang whose job has ended.
#[must_use]
pub fn finished(before: &PodGroupStatus) -> PodGroupStatus {
    PodGroupStatus {
        phase: Some(PodGroupPhase::Finished),
        ..before.clone()
    }
}

/// Writes the status if the PodGroup is still the one that it was decided on.
///
/// # Errors
/// `Conflict` if it is not, or if a later leader has written it.
pub async fn write(
    commands: &Commands,
    before: &PodGroup,
    mut status: PodGroupStatus,
) -> Result<PodGroup, WriteError> {
    status.epoch = Some(commands.epoch()?.0);
    let namespace = before.metadata.namespace.as_deref().unwrap_or_default();
    let name = before.metadata.name.as_deref().unwrap_or_default();
    let patch = json!({
        "metadata": {
            "uid": before.metadata.uid,
            "resourceVersion": before.metadata.resource_version,
        },
        "status": patch::between(&before.status.clone().unwrap_or_default(), &status),
    });
    commands
        .patch_status(namespace, name, names::SCHEDULER_MANAGER, &patch)
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gang_that_is_refused_loses_its_turn_for_longer_each_time() {
        let now = Timestamp::UNIX_EPOCH;
        let mut status = PodGroupStatus::default();
        let mut waits = Vec::new();
        for _ in 0..9 {
            status = undone(&status, Reason::PodRefused, String::new(), true, now);
            waits.push(status.retry_time.as_ref().unwrap().0.as_second());
            status = cleared(&status);
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
        assert_eq!(closed(&status).failures, None);
    }

    #[test]
    fn a_patch_removes_what_is_gone() {
        let before = PodGroupStatus {
            phase: Some(PodGroupPhase::Unwinding),
            plan: Some(Plan {
                hash: "a".to_owned(),
                ..Plan::default()
            }),
            ..PodGroupStatus::default()
        };
        let patch = patch::between(&before, &cleared(&before));
        assert_eq!(patch["plan"], serde_json::Value::Null);
        assert_eq!(patch["phase"], "Pending");
    }
}
