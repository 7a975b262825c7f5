use super::*;

/// A forbidden gang is stopped with the short grace period.
fn stop() -> Wish<Attempt> {
    Wish::Stop {
        reason: Reason::PolicyViolation,
        hurry: true,
    }
}

/// A gang that runs since second 0.
fn running(more: Value) -> Case {
    let mut case = Case::new(more);
    case.place(1, &PodPhase::Running);
    case.says(JobPhase::Running, Reason::Running);
    case.second = 100;
    case
}

#[test]
fn what_policies_forbid_is_stopped_whole_and_for_no_budget() {
    let mut case = running(json!({"restart": {"limit": 0, "disruptionLimit": 0}}));
    case.evict();
    let next = case.says(JobPhase::Restarting, Reason::PolicyViolation);
    assert_eq!(next.wish, stop());
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
    let next = case.says(JobPhase::Restarting, Reason::PolicyViolation);
    assert_eq!(next.wish, stop());
    case.pods.clear();
    case.says(JobPhase::Restarting, Reason::PolicyViolation);

    // The job is refused like a job that has never run.
    case.journal.phase = Some(PodGroupPhase::Pending);
    case.journal.plan = None;
    let next = case.says(JobPhase::Refused, Reason::PolicyDenied);
    assert_eq!((next.wish, next.again), (Wish::Wait, None));
    assert_eq!(case.row(), "F------FFT");
    assert_eq!(case.attempt(), 2);

    case.second = 500;
    case.allow();
    case.certify(Reason::InsufficientCapacity);
    let next = case.says(JobPhase::Queued, Reason::InsufficientCapacity);
    let run = runs(2, 100);
    assert_eq!(next.wish, run);
    case.place(2, &PodPhase::Running);
    case.says(JobPhase::Running, Reason::Running);
}

/// The next leader may not have read the policies yet.
#[test]
fn what_has_begun_is_finished_whoever_leads() {
    let mut case = running(json!({}));
    case.evict();
    case.step();
    case.evicted = None;
    for (phase, reason) in [
        (JobPhase::Waiting, Reason::CacheNotReady),
        (JobPhase::Refused, Reason::PolicyDenied),
        (JobPhase::Blocked, Reason::NameConflict),
    ] {
        case.hold(phase, reason);
        let next = case.says(JobPhase::Restarting, Reason::PolicyViolation);
        assert_eq!(next.wish, stop());
    }
    assert_eq!(case.attempt(), 2);
}

#[test]
fn a_policy_that_is_mended_meanwhile_is_for_the_next_attempt() {
    let mut case = running(json!({}));
    case.evict();
    case.step();
    case.allow();
    let next = case.says(JobPhase::Restarting, Reason::PolicyViolation);
    assert!(matches!(next.wish, Wish::Run(Attempt { number: 2, .. })));
    case.clear();
    case.place(2, &PodPhase::Running);
    case.says(JobPhase::Running, Reason::Running);
}

#[test]
fn what_has_ended_by_itself_has() {
    let mut case = running(json!({}));
    case.evict();
    case.pod(0).phase = PodPhase::Succeeded;
    case.pod(1).phase = PodPhase::Succeeded;
    case.says(JobPhase::Complete, Reason::Complete);

    let mut case = running(json!({}));
    case.evict();
    case.pod(0).phase = exit(1);
    case.says(JobPhase::Restarting, Reason::PodFailed);
    assert_eq!(case.status.restarts, Some(1));
    case.says(JobPhase::Refused, Reason::PolicyDenied);
    assert_eq!(case.attempt(), 2);
}

#[test]
fn a_job_that_is_never_to_run_twice_has_failed() {
    let mut case = running(json!({"restart": {"scope": "Never"}}));
    case.evict();
    let next = case.says(JobPhase::Failed, Reason::NoRestart);
    // The gang ran well until then.
    let wish = Wish::Finish {
        keep: true,
        hurry: false,
    };
    assert_eq!(next.wish, wish);
    assert_eq!(
        case.status.message.as_deref(),
        Some("stopped by a policy; restart.scope is Never")
    );
}

#[test]
fn what_starts_is_stopped_and_what_is_suspended_is_that() {
    let mut case = Case::new(json!({}));
    case.place(1, &PodPhase::Pending);
    case.says(JobPhase::Starting, Reason::Starting);
    case.evict();
    case.says(JobPhase::Restarting, Reason::PolicyViolation);

    let mut case = running(json!({}));
    case.evict();
    case.spec.suspend = Some(true);
    let next = case.says(JobPhase::Restarting, Reason::PodsTerminating);
    assert_eq!(next.wish, Wish::stop(Reason::Suspended));
}

/// This holds even if the operator did not know of the eviction: the place of an attempt that is
/// over is released.
#[test]
fn a_job_that_may_not_run_keeps_no_place_of_an_earlier_attempt() {
    let mut case = running(json!({}));
    case.hold(JobPhase::Refused, Reason::PolicyDenied);
    case.says(JobPhase::Running, Reason::Running);
    case.pod(0).phase = exit(1);
    case.says(JobPhase::Restarting, Reason::PodFailed);
    let next = case.says(JobPhase::Refused, Reason::PolicyDenied);
    let stop = Wish::Stop {
        reason: Reason::Restarting,
        hurry: true,
    };
    assert_eq!(next.wish, stop);
    case.clear();
    let next = case.says(JobPhase::Refused, Reason::PolicyDenied);
    assert_eq!(next.wish, Wish::Wait);
}
