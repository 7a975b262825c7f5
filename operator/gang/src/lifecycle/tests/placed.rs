use super::*;

#[test]
fn placed_job_starts_then_runs_then_succeeds() {
    let mut case = JobCase::new(json!({}));
    case.place(1, &PodPhase::Pending);
    case.expect_status(JobPhase::Starting, Reason::Starting);
    assert_eq!(case.condition_row(), "TTTFFFFFTF");
    case.pod(0).phase = PodPhase::Running;
    case.expect_status(JobPhase::Starting, Reason::Starting);
    case.pod(1).phase = PodPhase::Running;
    case.expect_status(JobPhase::Running, Reason::Running);
    assert_eq!(case.condition_row(), "TTTTFFFTFF");
    case.pod(0).phase = PodPhase::Succeeded;
    case.expect_status(JobPhase::Running, Reason::Running);
    case.pod(1).phase = PodPhase::Succeeded;
    case.expect_status(JobPhase::Complete, Reason::Complete);
    assert_eq!(case.condition_row(), "TFFFTFFTFF");
}

/// The write that closes the plan may be delayed by the pods of other gangs.
#[test]
fn gang_can_end_before_its_plan_is_closed() {
    let mut case = JobCase::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.journal.phase = Some(PodGroupPhase::Committing);
    case.pod(0).phase = PodPhase::Succeeded;
    assert_eq!(case.evaluate_and_store().status, None, "one pod still runs");
    case.pod(1).phase = PodPhase::Succeeded;
    let next = case.expect_status(JobPhase::Complete, Reason::Complete);
    assert_eq!(next.desired, desired_finish(true));
    assert_eq!(case.condition_row(), "TFFFTFFTFF");
    assert_eq!(case.status.scheduled_time, time(case.second));

    let mut case = JobCase::new(json!({}));
    case.place(1, &exit(1));
    case.journal.phase = Some(PodGroupPhase::Committing);
    case.expect_status(JobPhase::Restarting, Reason::PodFailed);
    assert_eq!(case.attempt(), 2);
    // Not all pods existed: the scheduler rolls the plan back.
    let mut case = JobCase::new(json!({}));
    case.place(1, &exit(1));
    case.journal.phase = Some(PodGroupPhase::Committing);
    case.pods.pop_last();
    assert_eq!(case.evaluate_and_store().status, None);
}

#[test]
fn success_policy_decides_when_a_job_succeeds() {
    for (policy, done, succeeds) in [
        ("All", 0, false),
        ("Any", 1, true),
        ("Leader", 0, true),
        ("Leader", 1, false),
    ] {
        let mut case = JobCase::new(json!({"success": {"policy": policy}}));
        case.place(1, &PodPhase::Running);
        case.pod(done).phase = PodPhase::Succeeded;
        case.evaluate_and_store();
        let complete = case.status.phase == Some(JobPhase::Complete);
        assert_eq!(complete, succeeds, "{policy} {done}");
    }
}

#[test]
fn job_failure_counts_a_restart_and_doubles_the_back_off() {
    let restart = json!({"limit": 4, "backoffSeconds": 10, "maxBackoffSeconds": 30});
    let mut case = JobCase::new(json!({"restart": restart}));
    for (attempt, wait) in [(1, 10), (2, 20), (3, 30), (4, 30)] {
        // Both ranks fail together: this ends one attempt.
        case.place(attempt, &exit(1));
        case.expect_status(JobPhase::Restarting, Reason::PodFailed);
        assert_eq!(case.attempt(), attempt + 1);
        assert_eq!(case.status.restarts, Some(attempt));
        assert_eq!(case.status.disruptions, Some(0));
        assert_eq!(case.status.retry_time, time(wait));
    }
    case.place(5, &exit(1));
    case.expect_status(JobPhase::Failed, Reason::RestartLimitReached);
    assert_eq!(case.condition_row(), "TFFFFTFFFT");
    assert_eq!(case.status.restarts, Some(4));
}

#[test]
fn cluster_failure_counts_only_a_disruption() {
    let mut case = JobCase::new(json!({"restart": {"limit": 0, "disruptionLimit": 1}}));
    case.place(1, &PodPhase::Running);
    case.lost_nodes.insert("node-1".to_owned());
    case.pod(0).phase = exit(1);
    case.expect_status(JobPhase::Restarting, Reason::NodeLost);
    assert_eq!(case.status.restarts, Some(0));
    assert_eq!(case.status.disruptions, Some(1));
    assert_eq!(case.status.retry_time, None);
    case.place(2, &PodPhase::Running);
    case.expect_status(JobPhase::Failed, Reason::DisruptionLimitReached);
}

#[test]
fn job_with_scope_never_fails_with_the_first_failure() {
    let mut case = JobCase::new(json!({"restart": {"scope": "Never"}}));
    case.place(1, &exit(3));
    case.expect_status(JobPhase::Failed, Reason::NoRestart);
    let failure = case.status.last_failure.unwrap();
    assert_eq!((failure.exit_code, failure.attempt), (Some(3), 1));
}

#[test]
fn startup_timeout_counts_a_restart_of_the_job() {
    let mut case = JobCase::new(json!({"deadlines": {"startupSeconds": 60}}));
    case.place(1, &PodPhase::Pending);
    let next = case.expect_status(JobPhase::Starting, Reason::Starting);
    assert_eq!(next.next_check, Some(at(60)));
    case.second = 60;
    case.expect_status(JobPhase::Restarting, Reason::StartupTimeout);
    assert_eq!(case.status.restarts, Some(1));
}

/// Another client has deleted the PodGroup, and a new one exists: the end of the attempt is a
/// disruption, and the next attempt has its full startup time.
#[test]
fn gang_with_a_deleted_journal_restarts_as_a_disruption() {
    let spec = json!({"deadlines": {"startupSeconds": 60, "queueSeconds": 60}});
    let mut case = JobCase::new(spec);
    case.place(1, &PodPhase::Running);
    case.expect_status(JobPhase::Running, Reason::Running);
    case.second = 1000;
    case.journal = PodGroupStatus::default();

    // The PodGroup may only be missing from the cache.
    case.has_journal = false;
    let result = case.evaluate_and_store();
    assert_eq!((result.status, result.next_check), (None, Some(at(1005))));
    assert!(matches!(
        result.desired,
        DesiredGang::Run(DesiredAttempt { number: 1, .. })
    ));
    // For example, another object has the PodGroup's name.
    let runnable = case.readiness.clone();
    case.hold_job(JobPhase::Blocked, Reason::NameConflict);
    assert_eq!(case.evaluate().desired, DesiredGang::Wait);
    case.readiness = runnable;

    case.has_journal = true;
    let next = case.expect_status(JobPhase::Restarting, Reason::JournalLost);
    assert!(matches!(
        next.desired,
        DesiredGang::Run(DesiredAttempt { number: 2, .. })
    ));
    let counts = (case.status.restarts, case.status.disruptions);
    assert_eq!(counts, (Some(0), Some(1)));
    assert_eq!(case.status.scheduled_time, None);
    let message = case.status.message.clone().unwrap();
    assert!(message.contains("was deleted") && message.contains("2 pods to end"));
    // The loss counts once.
    case.expect_status(JobPhase::Restarting, Reason::JournalLost);
    assert_eq!(case.attempt(), 2);
    case.place(2, &PodPhase::Pending);
    case.expect_status(JobPhase::Starting, Reason::Starting);
    assert_eq!(case.status.scheduled_time, time(1000));
}

#[test]
fn succeeded_gang_completes_without_a_journal() {
    let mut case = JobCase::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.evaluate_and_store();
    case.pod(0).phase = PodPhase::Succeeded;
    case.pod(1).phase = PodPhase::Succeeded;
    case.journal = PodGroupStatus::default();
    case.expect_status(JobPhase::Complete, Reason::Complete);
}

#[test]
fn active_deadline_counts_running_time_over_all_attempts() {
    let mut case = JobCase::new(json!({"deadlines": {"activeSeconds": 100}}));
    case.place(1, &PodPhase::Running);
    case.expect_status(JobPhase::Running, Reason::Running);
    case.second = 40;
    case.pod(1).phase = exit(1);
    case.expect_status(JobPhase::Restarting, Reason::PodFailed);
    assert_eq!(case.status.active_seconds, Some(40));
    case.second = 1000;
    case.place(2, &PodPhase::Running);
    let next = case.expect_status(JobPhase::Running, Reason::Running);
    assert_eq!(next.next_check, Some(at(1060)));
    case.second = 1060;
    case.expect_status(JobPhase::Failed, Reason::ActiveDeadlineExceeded);
    assert_eq!(case.status.active_seconds, Some(100));
}

#[test]
fn job_on_hold_keeps_the_active_deadline_of_its_plan() {
    let mut case = JobCase::new(json!({"deadlines": {"activeSeconds": 5000}}));
    case.place(1, &PodPhase::Running);
    if let Some(plan) = &mut case.journal.plan {
        plan.active_seconds = Some(100);
    }
    let next = case.evaluate_and_store();
    assert_eq!(
        next.next_check,
        Some(at(5000)),
        "the deadline of a running job may change"
    );
    case.hold_job(JobPhase::Refused, Reason::QuotaPolicyExceeded);
    assert_eq!(case.evaluate_and_store().next_check, Some(at(100)));
    case.second = 100;
    case.expect_status(JobPhase::Failed, Reason::ActiveDeadlineExceeded);
}

#[test]
fn back_off_grows_with_consecutive_refusals() {
    let restart = json!({"backoffSeconds": 10, "maxBackoffSeconds": 30});
    let mut case = JobCase::new(json!({"restart": restart}));
    for (attempt, wait) in [(1, None), (2, time(10)), (3, time(20)), (4, time(30))] {
        case.place(attempt, &PodPhase::Pending);
        case.pod(1).phase = PodPhase::Refused {
            reason: "OutOfnvidia.com/gpu".to_owned(),
        };
        case.expect_status(JobPhase::Restarting, Reason::KubeletRefused);
        assert_eq!(case.status.retry_time, wait, "attempt {attempt}");
        assert_eq!(case.status.restarts, Some(0));
    }
}
