use super::*;

/// A pod disappears with its node, or because another client deletes it.
fn remove_pod(case: &mut JobCase, index: u32) {
    case.pods.remove(&format!("llm-worker-{index}")).unwrap();
}

fn recorded_indexes(case: &JobCase) -> Option<(String, String)> {
    let finished = case.status.internal.finished_pods.clone()?;
    assert_eq!(finished.attempt, case.attempt());
    let group = finished.groups.into_iter().next()?;
    assert_eq!(group.name, "worker");
    Some((group.completed_indexes, group.failed_indexes))
}

fn running_job(more: Value) -> JobCase {
    let mut case = JobCase::new(more);
    case.place(1, &PodPhase::Running);
    case.expect_status(JobPhase::Running, Reason::Running);
    assert_eq!(recorded_indexes(&case), None);
    case
}

#[test]
fn succeeded_pod_may_disappear() {
    let mut case = running_job(json!({}));
    case.pod(1).phase = PodPhase::Succeeded;
    case.expect_status(JobPhase::Running, Reason::Running);
    assert_eq!(
        recorded_indexes(&case),
        Some(("1".to_owned(), String::new()))
    );
    remove_pod(&mut case, 1);
    case.expect_status(JobPhase::Running, Reason::Running);
    assert_eq!(case.status.ready.as_deref(), Some("2/2"));
    case.pod(0).phase = PodPhase::Succeeded;
    case.expect_status(JobPhase::Complete, Reason::Complete);
    assert_eq!(
        case.status.message.as_deref(),
        Some("all 2 pods have succeeded")
    );
}

#[test]
fn pod_with_an_ignored_failure_may_disappear() {
    let ignore = json!({"restart": {"rules": [{"onExitCodes": [3], "action": "Ignore"}]}});
    let mut case = running_job(ignore);
    case.pod(1).phase = exit(3);
    case.expect_status(JobPhase::Running, Reason::Running);
    assert_eq!(
        recorded_indexes(&case),
        Some((String::new(), "1".to_owned()))
    );
    remove_pod(&mut case, 1);
    case.expect_status(JobPhase::Running, Reason::Running);
    case.pod(0).phase = PodPhase::Succeeded;
    case.expect_status(JobPhase::Complete, Reason::Complete);
}

#[test]
fn missing_running_pod_restarts_all_pods_in_the_next_attempt() {
    let mut case = running_job(json!({}));
    case.pod(1).phase = PodPhase::Succeeded;
    case.expect_status(JobPhase::Running, Reason::Running);
    remove_pod(&mut case, 0);
    case.expect_status(JobPhase::Restarting, Reason::PodDisrupted);
    case.place(2, &PodPhase::Running);
    case.expect_status(JobPhase::Running, Reason::Running);
    assert_eq!(recorded_indexes(&case), None);
    remove_pod(&mut case, 1);
    case.expect_status(JobPhase::Restarting, Reason::PodDisrupted);
}

/// The pod counts in the status stay the same, because the status records finished pods.
#[test]
fn next_leader_counts_finished_pods_from_the_status() {
    let mut case = running_job(json!({"success": {"policy": "Leader"}}));
    case.pod(1).phase = PodPhase::Succeeded;
    case.expect_status(JobPhase::Running, Reason::Running);
    let before = case.status.clone();
    remove_pod(&mut case, 1);
    let next = case.evaluate_and_store();
    assert_eq!(next.status.unwrap().pods, before.pods);
    case.pod(0).phase = PodPhase::Succeeded;
    case.expect_status(JobPhase::Complete, Reason::Complete);
}
