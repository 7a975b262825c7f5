use super::*;

fn ended_job(more: Value, pods: &PodPhase) -> JobCase {
    let mut case = JobCase::new(more);
    case.place(1, pods);
    case.evaluate_and_store();
    assert!(case.status.phase.unwrap().is_terminal());
    case
}

#[test]
fn ended_job_never_reverts() {
    for pods in [PodPhase::Succeeded, exit(1)] {
        let mut case = ended_job(json!({"restart": {"limit": 0}}), &pods);
        let before = case.status.clone();
        case.spec.suspend = Some(true);
        assert_eq!(case.evaluate_and_store().status, None);
        case.spec.suspend = None;
        case.hold_job(JobPhase::Refused, Reason::PolicyDenied);
        assert_eq!(case.evaluate_and_store().status, None);
        case.place(1, &PodPhase::Running);
        assert_eq!(case.evaluate_and_store().desired, desired_finish(true));
        case.clear();
        assert_eq!(case.evaluate_and_store().status, None);
        assert_eq!(case.status, before);
    }
}

/// The status of an ended job must not say that pods run.
#[test]
fn ended_job_counts_no_running_pods() {
    let mut case = JobCase::new(json!({"restart": {"scope": "Never"}}));
    case.place(1, &PodPhase::Running);
    case.evaluate_and_store();
    assert_eq!(case.status.ready.as_deref(), Some("2/2"));
    case.pod(0).phase = exit(1);
    case.expect_status(JobPhase::Failed, Reason::NoRestart);
    let counts = case.status.pods.unwrap();
    assert_eq!((counts.running, counts.failed), (0, 1));
    assert_eq!(case.status.ready.as_deref(), Some("0/2"));
    assert_eq!(case.status.nodes, Some(0));
    // Succeeded pods still count.
    let complete = ended_job(json!({}), &PodPhase::Succeeded);
    assert_eq!(complete.status.ready.as_deref(), Some("2/2"));
}

#[test]
fn cleanup_deletes_finished_pods_by_the_end_of_the_job() {
    for (pods, cleanup, keep) in [
        (PodPhase::Succeeded, json!({}), true),
        (exit(1), json!({}), true),
        (
            PodPhase::Succeeded,
            json!({"podsOnSuccess": "Delete"}),
            false,
        ),
        (
            PodPhase::Succeeded,
            json!({"podsOnFailure": "Delete"}),
            true,
        ),
        (exit(1), json!({"podsOnFailure": "Delete"}), false),
        (exit(1), json!({"podsOnSuccess": "Delete"}), true),
    ] {
        let spec = json!({"restart": {"limit": 0}, "cleanup": cleanup});
        let case = ended_job(spec, &pods);
        assert_eq!(
            case.evaluate().desired,
            desired_finish(keep),
            "{pods:?} {cleanup}"
        );
    }
}

#[test]
fn children_and_ended_job_expire_after_their_ttl() {
    let day = 86_400;
    for (spec, children, job) in [
        (json!({}), day, None),
        (json!({"cleanup": {"childrenTTLSeconds": 60}}), 60, None),
        (
            json!({"cleanup": {"childrenTTLSeconds": day}, "ttlSecondsAfterFinished": 2 * day}),
            day,
            Some(2 * day),
        ),
        (
            json!({"cleanup": {"childrenTTLSeconds": 0}, "ttlSecondsAfterFinished": 60}),
            0,
            Some(60),
        ),
    ] {
        let mut case = ended_job(spec, &PodPhase::Succeeded);
        if children > 0 {
            case.second = children - 1;
            let next = case.evaluate();
            assert_eq!(
                (next.expired, next.next_check),
                (ExpiredObjects::Nothing, Some(at(children)))
            );
        }
        case.second = children;
        let next = case.evaluate();
        assert_eq!(
            (next.expired, next.next_check),
            (ExpiredObjects::Children, job.map(at))
        );
        assert_eq!(next.desired, desired_finish(false));
        if let Some(job) = job {
            case.second = job;
            let next = case.evaluate();
            assert_eq!((next.expired, next.next_check), (ExpiredObjects::Job, None));
        }
    }
}

#[test]
fn children_live_as_long_as_a_job_with_a_long_ttl() {
    let week = 604_800;
    let mut case = ended_job(
        json!({"ttlSecondsAfterFinished": week}),
        &PodPhase::Succeeded,
    );
    case.second = week - 1;
    let next = case.evaluate();
    assert_eq!(
        (next.expired, next.next_check),
        (ExpiredObjects::Nothing, Some(at(week)))
    );
    case.second = week;
    assert_eq!(case.evaluate().expired, ExpiredObjects::Job);
}

/// Children with a longer TTL are deleted with their job.
#[test]
fn children_with_a_longer_ttl_expire_with_their_job() {
    let spec = json!({"cleanup": {"childrenTTLSeconds": 600}, "ttlSecondsAfterFinished": 60});
    let mut case = ended_job(spec, &PodPhase::Succeeded);
    case.second = 59;
    assert_eq!(case.evaluate().next_check, Some(at(60)));
    case.second = 60;
    let next = case.evaluate();
    assert_eq!(
        (next.expired, next.desired),
        (ExpiredObjects::Job, desired_finish(false))
    );
}

/// For example, an operator that could not decode the job has set the phase.
#[test]
fn job_with_a_completion_time_has_ended_in_any_phase() {
    for phase in [JobPhase::Refused, JobPhase::Unrecognized] {
        let mut case = ended_job(json!({}), &PodPhase::Succeeded);
        case.status.phase = Some(phase);
        let next = case.evaluate_and_store();
        assert_eq!(next.status, None);
        assert!(matches!(
            next.desired,
            DesiredGang::Finish { keep: true, .. }
        ));
        assert_eq!(next.next_check, Some(at(86_400)));
    }
}
