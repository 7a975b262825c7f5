use super::*;

/// A pod disappears with its node, or because another client deletes it.
fn goes(case: &mut Case, index: u32) {
    case.pods.remove(&format!("llm-worker-{index}")).unwrap();
}

fn told(case: &Case) -> Option<(String, String)> {
    let finished = case.status.internal.finished_pods.clone()?;
    assert_eq!(finished.attempt, case.attempt());
    let group = finished.groups.into_iter().next()?;
    assert_eq!(group.name, "worker");
    Some((group.completed_indexes, group.failed_indexes))
}

fn running(more: Value) -> Case {
    let mut case = Case::new(more);
    case.place(1, &PodPhase::Running);
    case.says(JobPhase::Running, Reason::Running);
    assert_eq!(told(&case), None);
    case
}

#[test]
fn a_pod_that_has_succeeded_is_not_missed_when_it_goes() {
    let mut case = running(json!({}));
    case.pod(1).phase = PodPhase::Succeeded;
    case.says(JobPhase::Running, Reason::Running);
    assert_eq!(told(&case), Some(("1".to_owned(), String::new())));
    goes(&mut case, 1);
    case.says(JobPhase::Running, Reason::Running);
    assert_eq!(case.status.ready.as_deref(), Some("2/2"));
    case.pod(0).phase = PodPhase::Succeeded;
    case.says(JobPhase::Complete, Reason::Complete);
    assert_eq!(
        case.status.message.as_deref(),
        Some("all 2 pods have succeeded")
    );
}

#[test]
fn a_pod_whose_failure_is_ignored_is_not_missed_when_it_goes() {
    let ignore = json!({"restart": {"rules": [{"onExitCodes": [3], "action": "Ignore"}]}});
    let mut case = running(ignore);
    case.pod(1).phase = exit(3);
    case.says(JobPhase::Running, Reason::Running);
    assert_eq!(told(&case), Some((String::new(), "1".to_owned())));
    goes(&mut case, 1);
    case.says(JobPhase::Running, Reason::Running);
    case.pod(0).phase = PodPhase::Succeeded;
    case.says(JobPhase::Complete, Reason::Complete);
}

#[test]
fn a_pod_that_runs_is_missed_and_the_next_attempt_has_all_its_pods_to_run() {
    let mut case = running(json!({}));
    case.pod(1).phase = PodPhase::Succeeded;
    case.says(JobPhase::Running, Reason::Running);
    goes(&mut case, 0);
    case.says(JobPhase::Restarting, Reason::PodDisrupted);
    case.place(2, &PodPhase::Running);
    case.says(JobPhase::Running, Reason::Running);
    assert_eq!(told(&case), None);
    goes(&mut case, 1);
    case.says(JobPhase::Restarting, Reason::PodDisrupted);
}

/// The pod counts in the status stay the same, because the status records finished pods.
#[test]
fn who_leads_now_misses_nothing_that_ended_before() {
    let mut case = running(json!({"success": {"policy": "Leader"}}));
    case.pod(1).phase = PodPhase::Succeeded;
    case.says(JobPhase::Running, Reason::Running);
    let before = case.status.clone();
    goes(&mut case, 1);
    let next = case.step();
    assert_eq!(next.status.unwrap().pods, before.pods);
    case.pod(0).phase = PodPhase::Succeeded;
    case.says(JobPhase::Complete, Reason::Complete);
}
