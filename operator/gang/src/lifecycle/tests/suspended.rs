use super::*;

#[test]
fn a_placed_job_is_suspended_once_all_is_gone() {
    let mut case = Case::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.says(JobPhase::Running, Reason::Running);

    case.second = 30;
    case.spec.suspend = Some(true);
    let next = case.says(JobPhase::Restarting, Reason::PodsTerminating);
    assert_eq!(next.wish, Wish::stop(Reason::Suspended));
    assert_eq!(case.status.active_seconds, Some(30));

    case.journal = PodGroupStatus::default();
    case.says(JobPhase::Restarting, Reason::PodsTerminating);

    case.pods.clear();
    let next = case.says(JobPhase::Suspended, Reason::Suspended);
    assert_eq!(next.wish, Wish::stop(Reason::Suspended));
    assert_eq!(case.row(), "TFFFFFTTFF");
    assert_eq!(case.attempt(), 1);
}

#[test]
fn to_go_on_is_a_new_attempt_at_the_end_of_the_queue() {
    let mut case = Case::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.step();
    case.clear();
    case.spec.suspend = Some(true);
    case.says(JobPhase::Suspended, Reason::Suspended);

    case.second = 100;
    case.spec.suspend = None;
    // The status records the resumption first; the next evaluation acts on it.
    let next = case.says(JobPhase::Queued, Reason::Queued);
    assert_eq!((next.wish, next.again), (Wish::Wait, Some(at(100))));
    assert_eq!(case.row(), "TFFFFFFFTF");
    case.certify(Reason::InsufficientCapacity);
    let next = case.says(JobPhase::Queued, Reason::InsufficientCapacity);
    let run = runs(2, 100);
    assert_eq!(next.wish, run);
    assert_eq!(case.status.queued_time, time(100));
    assert_eq!(case.status.restarts, Some(0));
}

#[test]
fn a_job_that_was_created_suspended_starts_with_its_first_attempt() {
    let mut case = Case::new(json!({"suspend": true}));
    case.says(JobPhase::Suspended, Reason::Suspended);
    case.spec.suspend = None;
    let next = case.says(JobPhase::Queued, Reason::Queued);
    assert_eq!(next.wish, Wish::Wait);
    let next = case.step();
    assert!(matches!(next.wish, Wish::Run(Attempt { number: 1, .. })));
    case.place(1, &PodPhase::Pending);
    case.says(JobPhase::Starting, Reason::Starting);
    assert_eq!(case.attempt(), 1);
}

/// This holds however often and quickly the job is suspended: the attempt number fences its pods.
#[test]
fn no_attempt_is_gone_on_with_twice() {
    let mut case = Case::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.step();
    case.clear();
    let mut wanted = Vec::new();
    for _ in 0..3 {
        case.spec.suspend = Some(true);
        case.says(JobPhase::Suspended, Reason::Suspended);
        case.spec.suspend = None;
        for _ in 0..3 {
            if let Wish::Run(run) = case.step().wish {
                assert_ne!(case.status.phase, Some(JobPhase::Suspended));
                wanted.push(run.number);
            }
        }
    }
    wanted.dedup();
    assert_eq!(wanted, [2, 3, 4]);
}

#[test]
fn a_suspension_taken_back_gives_the_attempt_its_whole_startup_time() {
    let mut case = Case::new(json!({"deadlines": {"startupSeconds": 60}}));
    case.place(1, &PodPhase::Pending);
    case.says(JobPhase::Starting, Reason::Starting);
    case.spec.suspend = Some(true);
    case.says(JobPhase::Restarting, Reason::PodsTerminating);

    case.spec.suspend = None;
    case.journal.phase = Some(PodGroupPhase::Unwinding);
    case.step();
    case.second = 100;
    case.place(1, &PodPhase::Pending);
    case.says(JobPhase::Starting, Reason::Starting);
    assert_eq!(case.status.scheduled_time, time(100));
}

#[test]
fn a_suspended_job_is_not_judged_by_its_standing() {
    let mut case = Case::new(json!({"suspend": true}));
    case.hold(JobPhase::Waiting, Reason::QueueNotFound);
    case.says(JobPhase::Suspended, Reason::Suspended);
}
