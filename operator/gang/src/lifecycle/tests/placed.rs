use super::*;

#[test]
fn placed_starts_then_runs_then_succeeds() {
    let mut case = Case::new(json!({}));
    case.place(1, &PodPhase::Pending);
    case.says(JobPhase::Starting, Reason::Starting);
    assert_eq!(case.row(), "TTTFFFFFTF");
    case.pod(0).phase = PodPhase::Running;
    case.says(JobPhase::Starting, Reason::Starting);
    case.pod(1).phase = PodPhase::Running;
    case.says(JobPhase::Running, Reason::Running);
    assert_eq!(case.row(), "TTTTFFFTFF");
    case.pod(0).phase = PodPhase::Succeeded;
    case.says(JobPhase::Running, Reason::Running);
    case.pod(1).phase = PodPhase::Succeeded;
    case.says(JobPhase::Complete, Reason::Complete);
    assert_eq!(case.row(), "TFFFTFFTFF");
}

/// The write that closes the plan waits for the pods of other gangs.
#[test]
fn a_gang_that_has_ended_before_its_plan_is_closed_has_ended() {
    let mut case = Case::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.journal.phase = Some(PodGroupPhase::Committing);
    case.pod(0).phase = PodPhase::Succeeded;
    assert_eq!(case.step().status, None, "one still runs");
    case.pod(1).phase = PodPhase::Succeeded;
    let next = case.says(JobPhase::Complete, Reason::Complete);
    assert_eq!(next.wish, finishes(true));
    assert_eq!(case.row(), "TFFFTFFTFF");
    assert_eq!(case.status.scheduled_time, time(case.second));

    let mut case = Case::new(json!({}));
    case.place(1, &exit(1));
    case.journal.phase = Some(PodGroupPhase::Committing);
    case.says(JobPhase::Restarting, Reason::PodFailed);
    assert_eq!(case.attempt(), 2);
    // Not all pods existed: the scheduler rolls the plan back.
    let mut case = Case::new(json!({}));
    case.place(1, &exit(1));
    case.journal.phase = Some(PodGroupPhase::Committing);
    case.pods.pop_last();
    assert_eq!(case.step().status, None);
}

#[test]
fn success_is_all_any_or_the_leader() {
    for (policy, done, succeeds) in [
        ("All", 0, false),
        ("Any", 1, true),
        ("Leader", 0, true),
        ("Leader", 1, false),
    ] {
        let mut case = Case::new(json!({"success": {"policy": policy}}));
        case.place(1, &PodPhase::Running);
        case.pod(done).phase = PodPhase::Succeeded;
        case.step();
        let complete = case.status.phase == Some(JobPhase::Complete);
        assert_eq!(complete, succeeds, "{policy} {done}");
    }
}

#[test]
fn the_jobs_own_faults_cost_restarts_and_double_the_wait() {
    let restart = json!({"limit": 4, "backoffSeconds": 10, "maxBackoffSeconds": 30});
    let mut case = Case::new(json!({"restart": restart}));
    for (attempt, wait) in [(1, 10), (2, 20), (3, 30), (4, 30)] {
        // Both ranks fail together: this ends one attempt.
        case.place(attempt, &exit(1));
        case.says(JobPhase::Restarting, Reason::PodFailed);
        assert_eq!(case.attempt(), attempt + 1);
        assert_eq!(case.status.restarts, Some(attempt));
        assert_eq!(case.status.disruptions, Some(0));
        assert_eq!(case.status.retry_time, time(wait));
    }
    case.place(5, &exit(1));
    case.says(JobPhase::Failed, Reason::RestartLimitReached);
    assert_eq!(case.row(), "TFFFFTFFFT");
    assert_eq!(case.status.restarts, Some(4));
}

#[test]
fn the_clusters_faults_cost_disruptions_alone() {
    let mut case = Case::new(json!({"restart": {"limit": 0, "disruptionLimit": 1}}));
    case.place(1, &PodPhase::Running);
    case.lost.insert("node-1".to_owned());
    case.pod(0).phase = exit(1);
    case.says(JobPhase::Restarting, Reason::NodeLost);
    assert_eq!(case.status.restarts, Some(0));
    assert_eq!(case.status.disruptions, Some(1));
    assert_eq!(case.status.retry_time, None);
    case.place(2, &PodPhase::Running);
    case.says(JobPhase::Failed, Reason::DisruptionLimitReached);
}

#[test]
fn scope_never_ends_with_the_first_fault() {
    let mut case = Case::new(json!({"restart": {"scope": "Never"}}));
    case.place(1, &exit(3));
    case.says(JobPhase::Failed, Reason::NoRestart);
    let failure = case.status.last_failure.unwrap();
    assert_eq!((failure.exit_code, failure.attempt), (Some(3), 1));
}

#[test]
fn a_slow_start_is_the_jobs_own_fault() {
    let mut case = Case::new(json!({"deadlines": {"startupSeconds": 60}}));
    case.place(1, &PodPhase::Pending);
    let next = case.says(JobPhase::Starting, Reason::Starting);
    assert_eq!(next.again, Some(at(60)));
    case.second = 60;
    case.says(JobPhase::Restarting, Reason::StartupTimeout);
    assert_eq!(case.status.restarts, Some(1));
}

/// Another client has deleted the PodGroup, and a new one exists: the end of the attempt is a
/// disruption, and the next attempt has its full startup time.
#[test]
fn a_gang_whose_journal_is_gone_is_placed_anew_at_nobodys_cost() {
    let spec = json!({"deadlines": {"startupSeconds": 60, "queueSeconds": 60}});
    let mut case = Case::new(spec);
    case.place(1, &PodPhase::Running);
    case.says(JobPhase::Running, Reason::Running);
    case.second = 1000;
    case.journal = PodGroupStatus::default();

    // The PodGroup may only be missing from the cache.
    case.has_journal = false;
    let silent = case.step();
    assert_eq!((silent.status, silent.again), (None, Some(at(1005))));
    assert!(matches!(silent.wish, Wish::Run(Attempt { number: 1, .. })));
    // For example, another object has the PodGroup's name.
    let runnable = case.standing.clone();
    case.hold(JobPhase::Blocked, Reason::NameConflict);
    assert_eq!(case.look().wish, Wish::Wait);
    case.standing = runnable;

    case.has_journal = true;
    let next = case.says(JobPhase::Restarting, Reason::JournalLost);
    assert!(matches!(next.wish, Wish::Run(Attempt { number: 2, .. })));
    let counts = (case.status.restarts, case.status.disruptions);
    assert_eq!(counts, (Some(0), Some(1)));
    assert_eq!(case.status.scheduled_time, None);
    let message = case.status.message.clone().unwrap();
    assert!(message.contains("was deleted") && message.contains("2 pods to end"));
    // The loss counts once.
    case.says(JobPhase::Restarting, Reason::JournalLost);
    assert_eq!(case.attempt(), 2);
    case.place(2, &PodPhase::Pending);
    case.says(JobPhase::Starting, Reason::Starting);
    assert_eq!(case.status.scheduled_time, time(1000));
}

#[test]
fn a_gang_that_has_succeeded_needs_no_journal() {
    let mut case = Case::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.step();
    case.pod(0).phase = PodPhase::Succeeded;
    case.pod(1).phase = PodPhase::Succeeded;
    case.journal = PodGroupStatus::default();
    case.says(JobPhase::Complete, Reason::Complete);
}

#[test]
fn the_active_deadline_counts_running_time_over_attempts() {
    let mut case = Case::new(json!({"deadlines": {"activeSeconds": 100}}));
    case.place(1, &PodPhase::Running);
    case.says(JobPhase::Running, Reason::Running);
    case.second = 40;
    case.pod(1).phase = exit(1);
    case.says(JobPhase::Restarting, Reason::PodFailed);
    assert_eq!(case.status.active_seconds, Some(40));
    case.second = 1000;
    case.place(2, &PodPhase::Running);
    let next = case.says(JobPhase::Running, Reason::Running);
    assert_eq!(next.again, Some(at(1060)));
    case.second = 1060;
    case.says(JobPhase::Failed, Reason::ActiveDeadlineExceeded);
    assert_eq!(case.status.active_seconds, Some(100));
}

#[test]
fn who_may_not_have_a_later_deadline_keeps_the_one_that_it_was_placed_with() {
    let mut case = Case::new(json!({"deadlines": {"activeSeconds": 5000}}));
    case.place(1, &PodPhase::Running);
    if let Some(plan) = &mut case.journal.plan {
        plan.active_seconds = Some(100);
    }
    let next = case.step();
    assert_eq!(next.again, Some(at(5000)), "it may be changed");
    case.hold(JobPhase::Refused, Reason::QuotaPolicyExceeded);
    assert_eq!(case.step().again, Some(at(100)));
    case.second = 100;
    case.says(JobPhase::Failed, Reason::ActiveDeadlineExceeded);
}

#[test]
fn refusals_in_a_row_wait_longer_each_time() {
    let restart = json!({"backoffSeconds": 10, "maxBackoffSeconds": 30});
    let mut case = Case::new(json!({"restart": restart}));
    for (attempt, wait) in [(1, None), (2, time(10)), (3, time(20)), (4, time(30))] {
        case.place(attempt, &PodPhase::Pending);
        case.pod(1).phase = PodPhase::Refused {
            reason: "OutOfnvidia.com/gpu".to_owned(),
        };
        case.says(JobPhase::Restarting, Reason::KubeletRefused);
        assert_eq!(case.status.retry_time, wait, "attempt {attempt}");
        assert_eq!(case.status.restarts, Some(0));
    }
}
