//! The kstatus status of Trellis objects in each state. Flux uses it.

use anyhow::{Result, ensure};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_api::status::condition::JobSummary;
use trellis_e2e::argocd::judge_kstatus;

/// Returns a job with this status of generation 2.
pub(crate) fn job_in_phase(phase: JobPhase) -> Value {
    let verdict = JobSummary {
        phase,
        reason: Reason::Queued,
        message: "with numbers".to_owned(),
        quota_reserved: false,
        scheduled: false,
    };
    let conditions = verdict.conditions(Some(2), &Time(Timestamp::UNIX_EPOCH), &[]);
    json!({
        "apiVersion": "trellis.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": phase.as_str(), "namespace": "team-a", "generation": 2},
        "spec": {"taskGroups": []},
        "status": {"observedGeneration": 2, "phase": phase, "reason": verdict.reason,
            "message": verdict.message, "conditions": conditions},
    })
}

/// Returns a job whose last change the operator has not processed yet.
pub(crate) fn with_unobserved_change(mut object: Value) -> Value {
    object["metadata"]["generation"] = json!(3);
    object
}

/// The expected status of each phase. The match has no wildcard, so a new phase must be added here.
fn expected_status(phase: JobPhase) -> &'static str {
    match phase {
        JobPhase::Refused | JobPhase::Blocked | JobPhase::Failed => "Failed",
        JobPhase::Waiting | JobPhase::Queued | JobPhase::Starting | JobPhase::Restarting => {
            "InProgress"
        }
        JobPhase::Running | JobPhase::Suspended | JobPhase::Complete => "Current",
        // Neither ready nor stalled.
        JobPhase::Unrecognized => "InProgress",
    }
}

pub(crate) fn test_job_phases() -> Result<()> {
    let objects: Vec<Value> = JobPhase::ALL
        .iter()
        .map(|phase| job_in_phase(*phase))
        .collect();
    for (phase, judged) in JobPhase::ALL.iter().zip(judge_kstatus(&objects)?) {
        ensure!(
            judged.status == expected_status(*phase),
            "{phase:?}: {judged:?}"
        );
    }
    let changed: Vec<Value> = objects.into_iter().map(with_unobserved_change).collect();
    for (phase, judged) in JobPhase::ALL.iter().zip(judge_kstatus(&changed)?) {
        ensure!(
            judged.status == "InProgress",
            "{phase:?}, changed: {judged:?}"
        );
    }
    Ok(())
}

/// Returns an object of another kind with these conditions.
pub(crate) fn object_with_conditions(kind: &str, conditions: &[(&str, bool, &str)]) -> Value {
    let condition = |(name, holds, reason): &(&str, bool, &str)| {
        let status = if *holds { "True" } else { "False" };
        json!({"type": name, "status": status, "reason": reason, "message": "why",
            "observedGeneration": 2, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let conditions: Vec<Value> = conditions.iter().map(condition).collect();
    json!({
        "apiVersion": "trellis.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": "one", "generation": 2},
        "spec": {},
        "status": {"observedGeneration": 2, "conditions": conditions},
    })
}

/// The kinds with the conditions `Ready`, `Reconciling` and `Stalled`.
pub(crate) const READY_KINDS: [&str; 4] = [
    "JobPolicy",
    "ClusterJobPolicy",
    "QuotaPolicy",
    "RuntimeProfile",
];

pub(crate) fn object_with_ready(kind: &str, ready: bool) -> Value {
    let reason = if ready { "Accepted" } else { "InvalidSpec" };
    let conditions = [
        ("Ready", ready),
        ("Reconciling", false),
        ("Stalled", !ready),
    ];
    object_with_conditions(kind, &conditions.map(|(name, holds)| (name, holds, reason)))
}

pub(crate) fn queue_with_active(active: bool, reason: &str) -> Value {
    object_with_conditions("TrainingQueue", &[("Active", active, reason)])
}

/// Returns the expected status of each phase of a gang's journal.
pub(crate) const GANG_PHASES: [(&str, &str); 6] = [
    ("Pending", "Progressing"),
    ("Nominated", "Progressing"),
    ("Committing", "Progressing"),
    ("Placed", "Healthy"),
    ("Unwinding", "Progressing"),
    ("Finished", "Healthy"),
];

/// Returns a PodGroup of external pods in this phase.
pub(crate) fn pod_group_in_phase(phase: &str) -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "one", "generation": 2},
        "spec": {},
        "status": {"phase": phase, "reason": "Preempting", "message": "why"},
    })
}

pub(crate) fn test_other_kinds() -> Result<()> {
    let mut cases = Vec::new();
    for kind in READY_KINDS {
        cases.push((object_with_ready(kind, true), "Current"));
        cases.push((object_with_ready(kind, false), "Failed"));
        cases.push((
            with_unobserved_change(object_with_ready(kind, true)),
            "InProgress",
        ));
    }
    // kstatus looks only at the observed generation of a queue.
    cases.push((queue_with_active(true, "Accepted"), "Current"));
    cases.push((queue_with_active(false, "QueueStopped"), "Current"));
    cases.push((
        with_unobserved_change(queue_with_active(true, "Accepted")),
        "InProgress",
    ));
    // kstatus ignores the phase of a journal, and a journal has no conditions.
    for (phase, _) in GANG_PHASES {
        cases.push((pod_group_in_phase(phase), "Current"));
    }
    // kstatus ignores conditions other than Ready, Stalled and Reconciling.
    let misconfigured = [("AutoscalerSuitable", false, "AutoscalerMisconfigured")];
    cases.push((
        object_with_conditions("ResourceFlavor", &misconfigured),
        "Current",
    ));
    // An object without status is Current as soon as it is applied.
    for kind in ["Topology", "ResourceFlavor", "PodGroup"] {
        cases.push((
            json!({"apiVersion": "trellis.dev/v1alpha1", "kind": kind,
            "metadata": {"name": "one", "generation": 1}, "spec": {}}),
            "Current",
        ));
    }
    let objects: Vec<Value> = cases.iter().map(|(object, _)| object.clone()).collect();
    for ((object, expected), judged) in cases.iter().zip(judge_kstatus(&objects)?) {
        ensure!(judged.status == *expected, "{object}: {judged:?}");
    }
    Ok(())
}
