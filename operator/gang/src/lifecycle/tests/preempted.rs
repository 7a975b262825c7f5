use super::*;

#[test]
fn preempted_gang_keeps_its_queue_position_and_counts_one_disruption() {
    let mut case = JobCase::new(json!({"restart": {"limit": 0, "disruptionLimit": 1}}));
    case.second = 100;
    case.place(1, &PodPhase::Running);
    case.expect_status(JobPhase::Running, Reason::Running);
    case.preempt();
    case.second = 160;
    let next = case.expect_status(JobPhase::Restarting, Reason::Preempted);
    let message = case.status.message.clone().unwrap();
    assert!(
        message.starts_with("for another; waiting for 2 pods"),
        "{message}"
    );
    // The next attempt is queued at once and keeps its place in the queue.
    let run = desired_run(2, 0);
    assert_eq!(next.desired, run);
    assert_eq!(
        (case.status.restarts, case.status.disruptions),
        (Some(0), Some(1))
    );
    let preemption = case.status.last_preemption.clone().unwrap();
    assert_eq!((preemption.attempt, Some(preemption.time)), (1, time(160)));
    assert!(case.status.last_failure.is_none());
    assert!(case.status.was_preempted());
    // The pods take time to stop.
    case.pod(0).deleting = true;
    case.second = 170;
    case.expect_status(JobPhase::Restarting, Reason::Preempted);
    assert_eq!(case.attempt(), 2);
    case.pods.clear();
    case.expect_status(JobPhase::Restarting, Reason::Preempted);
    // The journal keeps the reason until the next plan.
    case.journal.phase = Some(PodGroupPhase::Pending);
    case.journal.plan = None;
    assert_eq!(
        case.evaluate_and_store().status,
        None,
        "the scheduler has not explained the wait yet"
    );
    case.set_explanation(Reason::InsufficientCapacity);
    case.expect_status(JobPhase::Queued, Reason::InsufficientCapacity);
    // An attempt after a later failure does not count as preempted.
    case.place(2, &exit(1));
    case.expect_status(JobPhase::Failed, Reason::RestartLimitReached);
    case.status.attempt = Some(3);
    assert!(!case.status.was_preempted());
}

#[test]
fn preemption_of_a_job_on_hold_counts_a_disruption() {
    let mut case = JobCase::new(json!({"restart": {"disruptionLimit": 1}}));
    case.place(1, &PodPhase::Running);
    case.evaluate_and_store();
    case.hold_job(JobPhase::Refused, Reason::PolicyDenied);
    case.preempt();
    case.expect_status(JobPhase::Restarting, Reason::Preempted);
    case.expect_status(JobPhase::Refused, Reason::PolicyDenied);
    assert_eq!((case.attempt(), case.status.disruptions), (2, Some(1)));

    let mut case = JobCase::new(json!({"restart": {"disruptionLimit": 0}}));
    case.place(1, &PodPhase::Running);
    case.evaluate_and_store();
    case.preempt();
    case.expect_status(JobPhase::Failed, Reason::DisruptionLimitReached);
}

#[test]
fn job_that_succeeds_during_preemption_is_complete() {
    let mut case = JobCase::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.evaluate_and_store();
    case.pod(0).phase = PodPhase::Succeeded;
    case.pod(1).phase = PodPhase::Succeeded;
    case.preempt();
    case.expect_status(JobPhase::Complete, Reason::Complete);
}

#[test]
fn nominated_gang_waits_in_its_queue_and_names_its_victims() {
    let mut case = JobCase::new(json!({"deadlines": {"queueSeconds": 50}}));
    case.commit(1);
    case.journal.phase = Some(PodGroupPhase::Nominated);
    case.journal.reason = Some(Reason::Preempting);
    case.journal.message = Some("1 job is leaving".to_owned());
    case.set_explanation(Reason::InsufficientCapacity);
    let next = case.expect_status(JobPhase::Queued, Reason::Preempting);
    assert_eq!(case.status.message.as_deref(), Some("1 job is leaving"));
    assert_eq!(case.condition_row(), "TTFFFFFFTF");
    assert_eq!(next.next_check, Some(at(50)));
    assert!(case.status.admitted_time.is_none());
    case.second = 50;
    case.expect_status(JobPhase::Failed, Reason::QueueDeadlineExceeded);
}
