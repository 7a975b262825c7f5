use super::*;

#[test]
fn who_makes_room_is_back_in_its_place_of_the_queue_and_is_counted_once() {
    let mut case = Case::new(json!({"restart": {"limit": 0, "disruptionLimit": 1}}));
    case.second = 100;
    case.place(1, &PodPhase::Running);
    case.says(JobPhase::Running, Reason::Running);
    case.preempt();
    case.second = 160;
    let next = case.says(JobPhase::Restarting, Reason::Preempted);
    let message = case.status.message.clone().unwrap();
    assert!(
        message.starts_with("for another; waiting for 2 pods"),
        "{message}"
    );
    // The next attempt is queued at once and keeps its place in the queue.
    let run = runs(2, 0);
    assert_eq!(next.wish, run);
    assert_eq!(
        (case.status.restarts, case.status.disruptions),
        (Some(0), Some(1))
    );
    let last = case.status.last_preemption.clone().unwrap();
    assert_eq!((last.attempt, Some(last.time)), (1, time(160)));
    assert!(case.status.last_failure.is_none());
    assert!(case.status.was_preempted());
    // The pods take time to stop.
    case.pod(0).deleting = true;
    case.second = 170;
    case.says(JobPhase::Restarting, Reason::Preempted);
    assert_eq!(case.attempt(), 2);
    case.pods.clear();
    case.says(JobPhase::Restarting, Reason::Preempted);
    // The journal keeps the reason until the next plan.
    case.journal.phase = Some(PodGroupPhase::Pending);
    case.journal.plan = None;
    assert_eq!(case.step().status, None, "until the scheduler has answered");
    case.certify(Reason::InsufficientCapacity);
    case.says(JobPhase::Queued, Reason::InsufficientCapacity);
    // An attempt after a later failure does not count as preempted.
    case.place(2, &exit(1));
    case.says(JobPhase::Failed, Reason::RestartLimitReached);
    case.status.attempt = Some(3);
    assert!(!case.status.was_preempted());
}

#[test]
fn a_job_that_is_held_is_counted_and_one_at_its_limit_ends() {
    let mut case = Case::new(json!({"restart": {"disruptionLimit": 1}}));
    case.place(1, &PodPhase::Running);
    case.step();
    case.hold(JobPhase::Refused, Reason::PolicyDenied);
    case.preempt();
    case.says(JobPhase::Restarting, Reason::Preempted);
    case.says(JobPhase::Refused, Reason::PolicyDenied);
    assert_eq!((case.attempt(), case.status.disruptions), (2, Some(1)));

    let mut case = Case::new(json!({"restart": {"disruptionLimit": 0}}));
    case.place(1, &PodPhase::Running);
    case.step();
    case.preempt();
    case.says(JobPhase::Failed, Reason::DisruptionLimitReached);
}

#[test]
fn a_job_that_has_succeeded_meanwhile_has() {
    let mut case = Case::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.step();
    case.pod(0).phase = PodPhase::Succeeded;
    case.pod(1).phase = PodPhase::Succeeded;
    case.preempt();
    case.says(JobPhase::Complete, Reason::Complete);
}

#[test]
fn who_follows_others_waits_in_its_queue_and_says_whom_for() {
    let mut case = Case::new(json!({"deadlines": {"queueSeconds": 50}}));
    case.commit(1);
    case.journal.phase = Some(PodGroupPhase::Nominated);
    case.journal.reason = Some(Reason::Preempting);
    case.journal.message = Some("1 job is leaving".to_owned());
    case.certify(Reason::InsufficientCapacity);
    let next = case.says(JobPhase::Queued, Reason::Preempting);
    assert_eq!(case.status.message.as_deref(), Some("1 job is leaving"));
    assert_eq!(case.row(), "TTFFFFFFTF");
    assert_eq!(next.again, Some(at(50)));
    assert!(case.status.admitted_time.is_none());
    case.second = 50;
    case.says(JobPhase::Failed, Reason::QueueDeadlineExceeded);
}
