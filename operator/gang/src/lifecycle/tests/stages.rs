//! Stages: a group that depends on the completion of another group runs after it as a separate
//! gang.

use std::sync::Arc;

use super::*;
use crate::observed::PodCheckpoint;

/// Returns a job of three stages with two pods each.
pub(super) fn staged_case(more: Value) -> JobCase {
    let group = |name: &str, replicas: u32, after: Option<&str>| {
        let after = after.map(|group| json!({"group": group, "status": "Complete"}));
        json!({"name": name, "replicas": replicas, "image": "i",
            "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
            "dependsOn": after.into_iter().collect::<Vec<_>>()})
    };
    let mut spec = json!({"taskGroups": [
        group("worker", 2, None), group("train", 2, Some("worker")),
        group("look", 2, Some("train")),
    ]});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let mut case = JobCase::new(json!({}));
    case.spec = serde_json::from_value(spec).unwrap();
    case
}

/// Adds pods of this group for the attempt; earlier pods stay.
fn place_group(case: &mut JobCase, group: &str, attempt: i64, phase: &PodPhase) {
    assert_eq!(case.group(), group);
    let before = std::mem::take(&mut case.pods);
    case.place(attempt, phase);
    let placed = std::mem::replace(&mut case.pods, before);
    case.pods.extend(placed);
}

fn stage_numbers(case: &JobCase) -> (i64, i64, i64) {
    let stage = case.status.stage.as_ref().unwrap();
    (stage.number, stage.of, stage.first_attempt)
}

#[test]
fn stages_run_one_after_the_other() {
    let mut case = staged_case(json!({}));
    case.set_explanation(Reason::Queued);
    case.expect_status(JobPhase::Queued, Reason::Queued);
    assert_eq!(stage_numbers(&case), (1, 3, 1));
    assert_eq!(case.status.pods.unwrap().total, 2);
    case.place(1, &PodPhase::Running);
    case.expect_status(JobPhase::Running, Reason::Running);
    case.second = 60;
    case.place(1, &PodPhase::Succeeded);
    let next = case.expect_status(JobPhase::Queued, Reason::StageComplete);
    // The next stage begins only after the status records the end of this one.
    let stop = DesiredGang::Stop {
        reason: Reason::StageComplete,
        hurry: true,
    };
    assert_eq!(next.desired, stop);
    assert_eq!(stage_numbers(&case), (2, 3, 2));
    assert_eq!(
        case.status.message.as_deref(),
        Some("stage 1 of 3 is complete: all 2 pods have succeeded"),
    );
    // The stage used no budget, and ran for a minute.
    let status = &case.status;
    assert_eq!((status.restarts, status.disruptions), (Some(0), Some(0)));
    assert_eq!(status.active_seconds, Some(60));
    assert_eq!((case.attempt(), &status.scheduled_time), (2, &None));

    // The place is being released, and the status stays the same.
    case.journal.phase = Some(PodGroupPhase::Unwinding);
    case.journal.reason = Some(Reason::StageComplete);
    let next = case.expect_status(JobPhase::Queued, Reason::StageComplete);
    assert!(matches!(
        next.desired,
        DesiredGang::Run(DesiredAttempt { number: 2, .. })
    ));
    // The next stage does not wait for finished pods.
    case.journal = PodGroupStatus::default();
    case.expect_status(JobPhase::Queued, Reason::Queued);

    place_group(&mut case, "train", 2, &PodPhase::Running);
    case.expect_status(JobPhase::Running, Reason::Running);
    assert_eq!(case.status.ready.as_deref(), Some("2/2"));
    place_group(&mut case, "train", 2, &PodPhase::Succeeded);
    case.expect_status(JobPhase::Queued, Reason::StageComplete);
    place_group(&mut case, "look", 3, &PodPhase::Succeeded);
    case.expect_status(JobPhase::Complete, Reason::Complete);
    assert_eq!(stage_numbers(&case), (3, 3, 3));
}

#[test]
fn failure_restarts_only_its_own_stage() {
    let mut case = staged_case(json!({"restart": {"limit": 1, "backoffSeconds": 1}}));
    case.place(1, &PodPhase::Running);
    case.evaluate_and_store();
    case.place(1, &PodPhase::Succeeded);
    case.expect_status(JobPhase::Queued, Reason::StageComplete);
    place_group(&mut case, "train", 2, &PodPhase::Running);
    case.expect_status(JobPhase::Running, Reason::Running);
    case.pods.get_mut("llm-train-1").unwrap().phase = exit(1);
    case.expect_status(JobPhase::Restarting, Reason::PodFailed);
    assert_eq!((stage_numbers(&case), case.attempt()), ((2, 3, 2), 3));
    // The job does not wait for finished pods of the first stage.
    let message = case.status.message.clone().unwrap();
    assert!(message.ends_with("waiting for 2 pods to end: \"llm-train-0\" on \"node-0\", \"llm-train-1\" on \"node-1\""), "{message}");
    case.second = 100;
    place_group(&mut case, "train", 3, &PodPhase::Running);
    case.expect_status(JobPhase::Running, Reason::Running);
    case.pods.get_mut("llm-train-0").unwrap().phase = exit(1);
    // The limit applies to the whole job.
    case.expect_status(JobPhase::Failed, Reason::RestartLimitReached);
}

#[test]
fn suspended_job_resumes_in_its_stage() {
    let mut case = staged_case(json!({}));
    case.place(1, &PodPhase::Running);
    case.evaluate_and_store();
    case.place(1, &PodPhase::Succeeded);
    case.expect_status(JobPhase::Queued, Reason::StageComplete);
    case.journal = PodGroupStatus::default();
    case.spec.suspend = Some(true);
    // Finished pods of the first stage do not delay the suspension.
    case.expect_status(JobPhase::Suspended, Reason::Suspended);
    case.spec.suspend = Some(false);
    case.expect_status(JobPhase::Queued, Reason::Queued);
    assert_eq!((stage_numbers(&case), case.attempt()), ((2, 3, 2), 3));
    place_group(&mut case, "train", 3, &PodPhase::Running);
    case.expect_status(JobPhase::Running, Reason::Running);
}

#[test]
fn each_stage_has_its_own_queue_deadline() {
    let mut case = staged_case(json!({"deadlines": {"queueSeconds": 100}}));
    case.place(1, &PodPhase::Running);
    case.evaluate_and_store();
    case.second = 1_000;
    case.place(1, &PodPhase::Succeeded);
    case.expect_status(JobPhase::Queued, Reason::StageComplete);
    case.journal = PodGroupStatus::default();
    case.set_explanation(Reason::Queued);
    case.second = 1_099;
    case.expect_status(JobPhase::Queued, Reason::Queued);
    case.second = 1_100;
    case.expect_status(JobPhase::Failed, Reason::QueueDeadlineExceeded);
}

/// Another client may have written this status: a spec cannot lose a stage once it has one.
#[test]
fn stage_number_beyond_the_spec_is_the_last_stage() {
    let mut case = staged_case(json!({}));
    case.status.stage = Some(trellis_api::job::JobStage {
        number: 9,
        of: 9,
        first_attempt: 1,
        since: None,
    });
    case.set_explanation(Reason::Queued);
    case.evaluate_and_store();
    assert_eq!(stage_numbers(&case), (3, 3, 1));
    case.spec.task_groups.truncate(1);
    case.evaluate_and_store();
    assert_eq!(case.status.stage, None);
}

/// Each group depends on the group before it, in the same stage or in an earlier one.
#[test]
fn each_stage_has_its_own_groups_with_dependencies() {
    let group = |name: &str, dependencies: &[(&str, &str)]| {
        let dependencies = dependencies
            .iter()
            .map(|(group, status)| json!({"group": group, "status": status}));
        json!({"name": name, "image": "i", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
            "dependsOn": dependencies.collect::<Vec<_>>()})
    };
    let mut case = JobCase::new(json!({}));
    case.spec = serde_json::from_value(json!({"taskGroups": [
        group("a", &[]), group("b", &[("a", "Ready")]),
        group("c", &[("a", "Complete"), ("b", "Complete")]), group("d", &[("c", "Ready")]),
    ]}))
    .unwrap();
    let held_groups = |case: &JobCase| {
        let awaited = case.status.internal.awaited_pods.clone().unwrap();
        (awaited.attempt, awaited.held_groups)
    };
    case.set_explanation(Reason::Queued);
    case.evaluate_and_store();
    assert_eq!(held_groups(&case), (1, vec!["b".to_owned()]));
    case.place(1, &PodPhase::Succeeded);
    let first = case.pods.pop_first().unwrap().1;
    let second = PodView {
        group: "b".to_owned(),
        index: 0,
        ..first.clone()
    };
    case.pods = BTreeMap::from([
        ("llm-a-0".to_owned(), first),
        ("llm-b-0".to_owned(), second),
    ]);
    case.journal.plan.as_mut().unwrap().assignments[1].group = "b".to_owned();
    case.expect_status(JobPhase::Queued, Reason::StageComplete);
    assert_eq!(held_groups(&case), (2, vec!["d".to_owned()]));
}

#[test]
fn eviction_does_not_wait_for_pods_of_a_complete_stage() {
    let mut case = staged_case(json!({}));
    case.place(1, &PodPhase::Succeeded);
    case.expect_status(JobPhase::Queued, Reason::StageComplete);
    place_group(&mut case, "train", 2, &PodPhase::Running);
    case.expect_status(JobPhase::Running, Reason::Running);
    case.evict_by_policy();
    case.expect_status(JobPhase::Restarting, Reason::PolicyViolation);
    case.pods.retain(|_, pod| pod.group == "worker");
    case.journal = PodGroupStatus::default();
    case.expect_status(JobPhase::Refused, Reason::PolicyDenied);
}

#[test]
fn pods_of_a_complete_stage_report_no_checkpoint() {
    let mut case = staged_case(json!({}));
    case.place(1, &PodPhase::Succeeded);
    case.pod(0).checkpoint = Some(Arc::new(PodCheckpoint::At(at(9_999))));
    case.expect_status(JobPhase::Queued, Reason::StageComplete);
    place_group(&mut case, "train", 2, &PodPhase::Running);
    case.pods.get_mut("llm-train-0").unwrap().checkpoint = Some(Arc::new(PodCheckpoint::At(at(5))));
    case.second = 10;
    case.expect_status(JobPhase::Running, Reason::Running);
    let checkpoint = case.status.checkpoint.clone().unwrap();
    assert_eq!(
        (checkpoint.last_time, checkpoint.problem),
        (Some(Time(at(5))), None)
    );
}

/// The reason of the roll-back replaces the reason `StageComplete`.
#[test]
fn status_shows_why_the_next_stage_rolled_back() {
    let mut case = staged_case(json!({}));
    case.place(1, &PodPhase::Succeeded);
    case.expect_status(JobPhase::Queued, Reason::StageComplete);
    place_group(&mut case, "train", 2, &PodPhase::Pending);
    case.journal.phase = Some(PodGroupPhase::Unwinding);
    case.journal.reason = Some(Reason::PodRefused);
    case.expect_status(JobPhase::Restarting, Reason::PodRefused);
}

/// If finished pods are to be deleted, each stage waits for the deletion of the stage before.
#[test]
fn next_stage_waits_for_the_deletion_of_finished_pods() {
    let mut case = staged_case(json!({"cleanup": {"podsOnSuccess": "Delete"}}));
    case.place(1, &PodPhase::Succeeded);
    case.expect_status(JobPhase::Queued, Reason::StageComplete);
    let message = case.status.message.clone().unwrap();
    assert!(message.contains("waiting for 2 pods to end"), "{message}");
}
