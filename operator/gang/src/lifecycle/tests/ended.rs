use super::*;

fn ended(more: Value, pods: &PodPhase) -> Case {
    let mut case = Case::new(more);
    case.place(1, pods);
    case.step();
    assert!(case.status.phase.unwrap().is_terminal());
    case
}

#[test]
fn terminal_never_reverts() {
    for pods in [PodPhase::Succeeded, exit(1)] {
        let mut case = ended(json!({"restart": {"limit": 0}}), &pods);
        let before = case.status.clone();
        case.spec.suspend = Some(true);
        assert_eq!(case.step().status, None);
        case.spec.suspend = None;
        case.hold(JobPhase::Refused, Reason::PolicyDenied);
        assert_eq!(case.step().status, None);
        case.place(1, &PodPhase::Running);
        assert_eq!(case.step().wish, finishes(true));
        case.clear();
        assert_eq!(case.step().status, None);
        assert_eq!(case.status, before);
    }
}

/// The status of an ended job must not say that pods run.
#[test]
fn of_a_job_that_has_ended_nothing_runs() {
    let mut case = Case::new(json!({"restart": {"scope": "Never"}}));
    case.place(1, &PodPhase::Running);
    case.step();
    assert_eq!(case.status.ready.as_deref(), Some("2/2"));
    case.pod(0).phase = exit(1);
    case.says(JobPhase::Failed, Reason::NoRestart);
    let counts = case.status.pods.unwrap();
    assert_eq!((counts.running, counts.failed), (0, 1));
    assert_eq!(case.status.ready.as_deref(), Some("0/2"));
    assert_eq!(case.status.nodes, Some(0));
    // Succeeded pods still count.
    let complete = ended(json!({}), &PodPhase::Succeeded);
    assert_eq!(complete.status.ready.as_deref(), Some("2/2"));
}

#[test]
fn finished_pods_stay_or_go_by_how_the_job_ended() {
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
        let case = ended(spec, &pods);
        assert_eq!(case.look().wish, finishes(keep), "{pods:?} {cleanup}");
    }
}

#[test]
fn what_is_left_expires() {
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
        let mut case = ended(spec, &PodPhase::Succeeded);
        if children > 0 {
            case.second = children - 1;
            let next = case.look();
            assert_eq!(
                (next.expired, next.again),
                (Expired::Nothing, Some(at(children)))
            );
        }
        case.second = children;
        let next = case.look();
        assert_eq!((next.expired, next.again), (Expired::Children, job.map(at)));
        assert_eq!(next.wish, finishes(false));
        if let Some(job) = job {
            case.second = job;
            let next = case.look();
            assert_eq!((next.expired, next.again), (Expired::Job, None));
        }
    }
}

#[test]
fn what_a_job_has_made_lives_as_long_as_the_job() {
    let week = 604_800;
    let mut case = ended(
        json!({"ttlSecondsAfterFinished": week}),
        &PodPhase::Succeeded,
    );
    case.second = week - 1;
    let next = case.look();
    assert_eq!(
        (next.expired, next.again),
        (Expired::Nothing, Some(at(week)))
    );
    case.second = week;
    assert_eq!(case.look().expired, Expired::Job);
}

/// Children with a longer TTL are deleted with their job.
#[test]
fn what_a_job_has_made_goes_with_it() {
    let spec = json!({"cleanup": {"childrenTTLSeconds": 600}, "ttlSecondsAfterFinished": 60});
    let mut case = ended(spec, &PodPhase::Succeeded);
    case.second = 59;
    assert_eq!(case.look().again, Some(at(60)));
    case.second = 60;
    let next = case.look();
    assert_eq!((next.expired, next.wish), (Expired::Job, finishes(false)));
}

/// An operator that could not decode the job may have left this state.
#[test]
fn a_job_with_a_completion_time_has_ended_whatever_its_phase_says() {
    for phase in [JobPhase::Refused, JobPhase::Unrecognized] {
        let mut case = ended(json!({}), &PodPhase::Succeeded);
        case.status.phase = Some(phase);
        let next = case.step();
        assert_eq!(next.status, None);
        assert!(matches!(next.wish, Wish::Finish { keep: true, .. }));
        assert_eq!(next.again, Some(at(86_400)));
    }
}
