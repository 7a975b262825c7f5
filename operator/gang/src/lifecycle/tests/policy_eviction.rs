use super::*;

/// Returns the desired stop of a forbidden gang, with the short grace period.
fn desired_stop() -> DesiredGang<DesiredAttempt> {
    DesiredGang::Stop {
        reason: Reason::PolicyViolation,
        hurry: true,
    }
}

/// Returns a gang that runs since second 0.
fn running_job(more: Value) -> JobCase {
    let mut case = JobCase::new(more);
    case.place(1, &PodPhase::Running);
    case.expect_status(JobPhase::Running, Reason::Running);
    case.second = 100;
    case
}

#[test]
fn gang_forbidden_by_policy_is_evicted_without_charging_a_budget() {
    let mut case = running_job(json!({"restart": {"limit": 0, "disruptionLimit": 0}}));
    case.evict_by_policy();
    let next = case.expect_status(JobPhase::Restarting, Reason::PolicyViolation);
    assert_eq!(next.desired, desired_stop());
    let message = case.status.message.clone().unwrap();
    assert!(
        message.starts_with("stopped by a policy; waiting for 2 pods"),
        "{message}"
    );
    assert_eq!(case.attempt(), 2);
    assert_eq!(case.status.active_seconds, Some(100));
    assert_eq!(
        (case.status.restarts, case.status.disruptions),
        (Some(0), Some(0))
    );
    assert_eq!(case.status.scheduled_time, None);

    // The pods take time to stop.
    case.journal.phase = Some(PodGroupPhase::Unwinding);
    case.journal.reason = Some(Reason::PolicyViolation);
    case.pods.remove("llm-worker-0");
    let next = case.expect_status(JobPhase::Restarting, Reason::PolicyViolation);
    assert_eq!(next.desired, desired_stop());
    case.pods.clear();
    case.expect_status(JobPhase::Restarting, Reason::PolicyViolation);

    // The job is refused like a job that has never run.
    case.journal.phase = Some(PodGroupPhase::Pending);
    case.journal.plan = None;
    let next = case.expect_status(JobPhase::Refused, Reason::PolicyDenied);
    assert_eq!((next.desired, next.next_check), (DesiredGang::Wait, None));
    assert_eq!(case.condition_row(), "F------FFT");
    assert_eq!(case.attempt(), 2);

    case.second = 500;
    case.allow_by_policy();
    case.set_explanation(Reason::InsufficientCapacity);
    let next = case.expect_status(JobPhase::Queued, Reason::InsufficientCapacity);
    let run = desired_run(2, 100);
    assert_eq!(next.desired, run);
    case.place(2, &PodPhase::Running);
    case.expect_status(JobPhase::Running, Reason::Running);
}

/// The next leader may not have read the policies yet.
#[test]
fn next_leader_continues_an_eviction() {
    let mut case = running_job(json!({}));
    case.evict_by_policy();
    case.evaluate_and_store();
    case.eviction_reason = None;
    for (phase, reason) in [
        (JobPhase::Waiting, Reason::CacheNotReady),
        (JobPhase::Refused, Reason::PolicyDenied),
        (JobPhase::Blocked, Reason::NameConflict),
    ] {
        case.hold_job(phase, reason);
        let next = case.expect_status(JobPhase::Restarting, Reason::PolicyViolation);
        assert_eq!(next.desired, desired_stop());
    }
    assert_eq!(case.attempt(), 2);
}

#[test]
fn policy_corrected_during_the_eviction_applies_to_the_next_attempt() {
    let mut case = running_job(json!({}));
    case.evict_by_policy();
    case.evaluate_and_store();
    case.allow_by_policy();
    let next = case.expect_status(JobPhase::Restarting, Reason::PolicyViolation);
    assert!(matches!(
        next.desired,
        DesiredGang::Run(DesiredAttempt { number: 2, .. })
    ));
    case.clear();
    case.place(2, &PodPhase::Running);
    case.expect_status(JobPhase::Running, Reason::Running);
}

#[test]
fn eviction_does_not_replace_success_or_failure() {
    let mut case = running_job(json!({}));
    case.evict_by_policy();
    case.pod(0).phase = PodPhase::Succeeded;
    case.pod(1).phase = PodPhase::Succeeded;
    case.expect_status(JobPhase::Complete, Reason::Complete);

    let mut case = running_job(json!({}));
    case.evict_by_policy();
    case.pod(0).phase = exit(1);
    case.expect_status(JobPhase::Restarting, Reason::PodFailed);
    assert_eq!(case.status.restarts, Some(1));
    case.expect_status(JobPhase::Refused, Reason::PolicyDenied);
    assert_eq!(case.attempt(), 2);
}

#[test]
fn evicted_job_with_scope_never_fails() {
    let mut case = running_job(json!({"restart": {"scope": "Never"}}));
    case.evict_by_policy();
    let next = case.expect_status(JobPhase::Failed, Reason::NoRestart);
    // The gang was healthy, so its pods keep their grace period.
    let desired = DesiredGang::Finish {
        keep: true,
        hurry: false,
    };
    assert_eq!(next.desired, desired);
    assert_eq!(
        case.status.message.as_deref(),
        Some("stopped by a policy; restart.scope is Never")
    );
}

#[test]
fn starting_gang_is_evicted_and_suspended_job_stays_suspended() {
    let mut case = JobCase::new(json!({}));
    case.place(1, &PodPhase::Pending);
    case.expect_status(JobPhase::Starting, Reason::Starting);
    case.evict_by_policy();
    case.expect_status(JobPhase::Restarting, Reason::PolicyViolation);

    let mut case = running_job(json!({}));
    case.evict_by_policy();
    case.spec.suspend = Some(true);
    let next = case.expect_status(JobPhase::Restarting, Reason::PodsTerminating);
    assert_eq!(next.desired, DesiredGang::stop(Reason::Suspended));
}

/// The attempt has ended, so its place is released.
#[test]
fn refused_job_releases_the_place_of_an_earlier_attempt() {
    let mut case = running_job(json!({}));
    case.hold_job(JobPhase::Refused, Reason::PolicyDenied);
    case.expect_status(JobPhase::Running, Reason::Running);
    case.pod(0).phase = exit(1);
    case.expect_status(JobPhase::Restarting, Reason::PodFailed);
    let next = case.expect_status(JobPhase::Refused, Reason::PolicyDenied);
    let stop = DesiredGang::Stop {
        reason: Reason::Restarting,
        hurry: true,
    };
    assert_eq!(next.desired, stop);
    case.clear();
    let next = case.expect_status(JobPhase::Refused, Reason::PolicyDenied);
    assert_eq!(next.desired, DesiredGang::Wait);
}
