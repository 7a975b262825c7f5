use super::*;

#[test]
fn placed_job_is_suspended_once_its_pods_are_gone() {
    let mut case = JobCase::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.expect_status(JobPhase::Running, Reason::Running);

    case.second = 30;
    case.spec.suspend = Some(true);
    let next = case.expect_status(JobPhase::Restarting, Reason::PodsTerminating);
    assert_eq!(next.desired, DesiredGang::stop(Reason::Suspended));
    assert_eq!(case.status.active_seconds, Some(30));

    case.journal = PodGroupStatus::default();
    case.expect_status(JobPhase::Restarting, Reason::PodsTerminating);

    case.pods.clear();
    let next = case.expect_status(JobPhase::Suspended, Reason::Suspended);
    assert_eq!(next.desired, DesiredGang::stop(Reason::Suspended));
    assert_eq!(case.condition_row(), "TFFFFFTTFF");
    assert_eq!(case.attempt(), 1);
}

#[test]
fn resumed_job_queues_last_with_a_new_attempt() {
    let mut case = JobCase::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.evaluate_and_store();
    case.clear();
    case.spec.suspend = Some(true);
    case.expect_status(JobPhase::Suspended, Reason::Suspended);

    case.second = 100;
    case.spec.suspend = None;
    // The status records the resumption first; the next evaluation acts on it.
    let next = case.expect_status(JobPhase::Queued, Reason::Queued);
    assert_eq!(
        (next.desired, next.next_check),
        (DesiredGang::Wait, Some(at(100)))
    );
    assert_eq!(case.condition_row(), "TFFFFFFFTF");
    case.set_explanation(Reason::InsufficientCapacity);
    let next = case.expect_status(JobPhase::Queued, Reason::InsufficientCapacity);
    let run = desired_run(2, 100);
    assert_eq!(next.desired, run);
    assert_eq!(case.status.queued_time, time(100));
    assert_eq!(case.status.restarts, Some(0));
}

/// The pods may end before the controller sees the resumption, or after it.
#[test]
fn job_resumed_while_its_pods_stop_gets_a_new_attempt() {
    for are_pods_gone in [false, true] {
        let mut case = JobCase::new(json!({}));
        case.place(1, &PodPhase::Running);
        case.expect_status(JobPhase::Running, Reason::Running);
        case.spec.suspend = Some(true);
        case.expect_status(JobPhase::Restarting, Reason::PodsTerminating);
        case.journal.phase = Some(PodGroupPhase::Unwinding);
        case.spec.suspend = None;
        if are_pods_gone {
            case.clear();
        }
        let next = case.expect_status(JobPhase::Queued, Reason::Queued);
        assert_eq!(next.desired, DesiredGang::Wait);
        assert_eq!((case.attempt(), case.status.restarts), (2, Some(0)));
        case.clear();
        for _ in 0..2 {
            let next = case.evaluate_and_store();
            assert!(
                matches!(
                    next.desired,
                    DesiredGang::Run(DesiredAttempt { number: 2, .. })
                ),
                "{next:?}"
            );
        }
    }
}

#[test]
fn job_created_suspended_starts_with_its_first_attempt() {
    let mut case = JobCase::new(json!({"suspend": true}));
    case.expect_status(JobPhase::Suspended, Reason::Suspended);
    case.spec.suspend = None;
    let next = case.expect_status(JobPhase::Queued, Reason::Queued);
    assert_eq!(next.desired, DesiredGang::Wait);
    let next = case.evaluate_and_store();
    assert!(matches!(
        next.desired,
        DesiredGang::Run(DesiredAttempt { number: 1, .. })
    ));
    case.place(1, &PodPhase::Pending);
    case.expect_status(JobPhase::Starting, Reason::Starting);
    assert_eq!(case.attempt(), 1);
}

/// The gang was nominated but never admitted.
#[test]
fn preemption_of_a_suspended_gang_is_no_disruption() {
    let mut case = JobCase::new(json!({}));
    case.spec.suspend = Some(true);
    case.evaluate_and_store();
    case.commit(1);
    case.journal.phase = Some(PodGroupPhase::Nominated);
    case.evaluate_and_store();
    case.preempt();
    case.evaluate_and_store();
    case.spec.suspend = Some(false);
    for _ in 0..3 {
        case.evaluate_and_store();
        assert_eq!((case.attempt(), case.status.disruptions), (2, Some(0)));
    }
}

/// The attempt number fences the pods, however often the job is suspended.
#[test]
fn resumed_job_never_reuses_an_attempt_number() {
    let mut case = JobCase::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.evaluate_and_store();
    case.clear();
    let mut wanted = Vec::new();
    for _ in 0..3 {
        case.spec.suspend = Some(true);
        case.expect_status(JobPhase::Suspended, Reason::Suspended);
        case.spec.suspend = None;
        for _ in 0..3 {
            if let DesiredGang::Run(run) = case.evaluate_and_store().desired {
                assert_ne!(case.status.phase, Some(JobPhase::Suspended));
                wanted.push(run.number);
            }
        }
    }
    wanted.dedup();
    assert_eq!(wanted, [2, 3, 4]);
}

#[test]
fn revoked_suspension_restores_the_full_startup_time() {
    let mut case = JobCase::new(json!({"deadlines": {"startupSeconds": 60}}));
    case.place(1, &PodPhase::Pending);
    case.expect_status(JobPhase::Starting, Reason::Starting);
    case.spec.suspend = Some(true);
    case.expect_status(JobPhase::Restarting, Reason::PodsTerminating);

    case.spec.suspend = None;
    case.journal.phase = Some(PodGroupPhase::Unwinding);
    case.evaluate_and_store();
    case.second = 100;
    case.place(2, &PodPhase::Pending);
    case.expect_status(JobPhase::Starting, Reason::Starting);
    assert_eq!(case.status.scheduled_time, time(100));
}

#[test]
fn suspended_job_stays_suspended_when_it_is_on_hold() {
    let mut case = JobCase::new(json!({"suspend": true}));
    case.hold_job(JobPhase::Waiting, Reason::QueueNotFound);
    case.expect_status(JobPhase::Suspended, Reason::Suspended);
}
