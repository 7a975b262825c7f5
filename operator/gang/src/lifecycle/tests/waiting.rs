use super::*;

#[test]
fn what_is_held_says_so_and_starts_nothing() {
    for (phase, reason, row) in [
        (JobPhase::Refused, Reason::PolicyDenied, "F------FFT"),
        (JobPhase::Waiting, Reason::QueueNotFound, "--FFFFFFTF"),
        (JobPhase::Blocked, Reason::NameConflict, "TFFFFFFFFT"),
    ] {
        let mut case = Case::new(json!({}));
        case.hold(phase, reason);
        assert_eq!(case.says(phase, reason).wish, Wish::Wait);
        assert_eq!(case.row(), row, "{phase:?}");
    }
}

/// `status.message` must fit into a table, whatever the reason; `explain` reads the whole text from
/// the conditions.
#[test]
fn message_of_every_reason_is_one_short_fact_and_the_condition_has_it_in_full() {
    let long = format!(
        "{}needs 8 GPUs; {}",
        "word ".repeat(20),
        "more ".repeat(200)
    );
    for reason in Reason::ALL.iter().copied() {
        for phase in [
            JobPhase::Refused,
            JobPhase::Waiting,
            JobPhase::Blocked,
            JobPhase::Queued,
        ] {
            let mut case = Case::new(json!({}));
            match phase {
                JobPhase::Queued => {
                    case.certificate = Some(Certificate::waits(reason, long.clone()));
                }
                phase => {
                    case.standing = Standing::Held(Held {
                        phase,
                        reason,
                        message: long.clone(),
                    });
                }
            }
            case.says(phase, reason);
            let message = case.status.message.clone().unwrap();
            assert!(message.chars().count() <= 160, "{reason}: {message}");
            assert!(message.ends_with("needs 8 GPUs"), "{reason}: {message}");
            assert_eq!(case.status.full_message(), long, "{reason}");
        }
    }
}

#[test]
fn a_gang_that_is_being_committed_may_be_blocked_with_its_quota() {
    let mut case = Case::new(json!({}));
    case.commit(2);
    case.hold(JobPhase::Blocked, Reason::NameConflict);
    case.says(JobPhase::Blocked, Reason::NameConflict);
    assert_eq!(case.row(), "TTFFFFFFFT");
}

#[test]
fn nothing_is_said_before_the_scheduler_has_answered() {
    let mut case = Case::new(json!({}));
    let run = runs(1, 0);
    let silent = case.step();
    assert_eq!((silent.status, silent.wish), (None, run.clone()));

    case.certify(Reason::InsufficientCapacity);
    let queued = case.says(JobPhase::Queued, Reason::InsufficientCapacity);
    assert_eq!(queued.wish, run);
    assert_eq!(case.row(), "TFFFFFFFTF");
    assert_eq!(case.status.message.as_deref(), Some("8 GPUs are missing"));
    assert_eq!(case.status.queued_time, time(0));
    assert_eq!(case.status.queue.as_deref(), Some("default"));
    assert_eq!(case.status.gpus, Some(16));
    assert_eq!(case.status.ready.as_deref(), Some("0/2"));
}

#[test]
fn what_the_scheduler_refuses_is_refused_until_there_is_room_and_wanted_all_the_while() {
    let mut case = Case::new(json!({}));
    case.certify(Reason::QuotaPolicyExceeded);
    if let Some(certificate) = &mut case.certificate {
        certificate.refused = true;
    }
    let refused = case.says(JobPhase::Refused, Reason::QuotaPolicyExceeded);
    assert!(matches!(refused.wish, Wish::Run(_)));
    assert_eq!(case.row(), "F------FFT");
    case.certify(Reason::QuotaPolicyExceeded);
    case.says(JobPhase::Queued, Reason::QuotaPolicyExceeded);
    assert_eq!(case.row(), "TFFFFFFFTF");
}

#[test]
fn a_failed_commit_tells_its_reason_until_it_is_tried_again() {
    let mut case = Case::new(json!({}));
    case.certify(Reason::Queued);
    case.journal.reason = Some(Reason::PodRefused);
    case.journal.retry_time = time(5);
    case.says(JobPhase::Queued, Reason::PodRefused);
    case.second = 5;
    case.says(JobPhase::Queued, Reason::Queued);
}

#[test]
fn back_off_holds_the_attempt_back_until_it_ends() {
    let mut case = Case::new(json!({}));
    case.certify(Reason::Queued);
    case.status.attempt = Some(2);
    case.status.retry_time = time(10);
    let next = case.says(JobPhase::Queued, Reason::BackingOff);
    assert_eq!(next.again, Some(at(10)));
    assert!(
        matches!(next.wish, Wish::Run(Attempt { number: 2, not_before: Some(t), .. }) if t == at(10))
    );

    case.second = 10;
    let next = case.says(JobPhase::Queued, Reason::Queued);
    assert!(matches!(
        next.wish,
        Wish::Run(Attempt {
            not_before: None,
            ..
        })
    ));
}

#[test]
fn a_commit_is_silent_at_first_and_shown_when_it_takes_long() {
    let mut case = Case::new(json!({}));
    case.commit(1);
    case.second = 19;
    let silent = case.step();
    assert_eq!((silent.status, silent.again), (None, Some(at(20))));

    case.second = 20;
    case.says(JobPhase::Starting, Reason::Committing);
    assert_eq!(case.row(), "TTTFFFFFTF");
    assert_eq!(case.status.admitted_time, time(20));

    // The reason for waiting is over; the reason why its commits fail is not.
    for (reason, told) in [(Reason::Fragmented, false), (Reason::BackingOff, true)] {
        case.certify(reason);
        case.says(JobPhase::Starting, Reason::Committing);
        let message = case.status.message.clone().unwrap();
        assert_eq!(message.contains("8 GPUs are missing"), told, "{message}");
    }
}

#[test]
fn a_plan_of_an_earlier_spec_is_undone() {
    for phase in [PodGroupPhase::Committing, PodGroupPhase::Placed] {
        let mut case = Case::new(json!({}));
        case.place(1, &PodPhase::Running);
        case.journal.phase = Some(phase);
        case.standing = Standing::Runnable {
            compiled: "second".to_owned(),
        };
        let next = case.step();
        assert_eq!(case.status.phase, Some(JobPhase::Restarting), "{phase:?}");
        assert_eq!(case.status.admitted_time, None, "{phase:?}");
        // A plan that is being carried out is rolled back by a new spec. A complete plan is kept as
        // long as its attempt is to run.
        let stops = matches!(next.wish, Wish::Stop { .. });
        assert_eq!(stops, phase == PodGroupPhase::Placed, "{phase:?}");
        assert!(matches!(
            next.wish,
            Wish::Stop { .. } | Wish::Run(Attempt { number: 1, .. })
        ));
    }
}

#[test]
fn an_admitted_gang_keeps_its_place_when_the_compiled_job_changes() {
    let mut case = Case::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.says(JobPhase::Running, Reason::Running);
    case.standing = Standing::Runnable {
        compiled: "second".to_owned(),
    };
    case.says(JobPhase::Running, Reason::Running);
}

#[test]
fn pods_of_an_earlier_attempt_are_awaited() {
    let mut case = Case::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.journal = PodGroupStatus::default();
    case.certify(Reason::Queued);
    case.says(JobPhase::Restarting, Reason::PodsTerminating);
    assert_eq!(case.row(), "TTTFFFFFTF");
    // Pods of the same name that belong to another job are not waited for here.
    for pod in case.pods.values_mut() {
        pod.job_uid = "another".to_owned();
    }
    case.says(JobPhase::Queued, Reason::Queued);
}

#[test]
fn the_queue_deadline_ends_the_wait_of_each_attempt() {
    let mut case = Case::new(json!({"deadlines": {"queueSeconds": 60}}));
    case.certify(Reason::InsufficientCapacity);
    case.second = 59;
    let next = case.says(JobPhase::Queued, Reason::InsufficientCapacity);
    assert_eq!(next.again, Some(at(60)));

    let mut failed_late = Case::new(json!({"deadlines": {"queueSeconds": 60}}));
    failed_late.second = 50;
    failed_late.place(1, &exit(1));
    failed_late.says(JobPhase::Restarting, Reason::PodFailed);
    failed_late.clear();
    failed_late.certify(Reason::InsufficientCapacity);
    failed_late.second = 109;
    failed_late.says(JobPhase::Queued, Reason::InsufficientCapacity);
    failed_late.second = 110;
    failed_late.says(JobPhase::Failed, Reason::QueueDeadlineExceeded);

    case.second = 60;
    case.says(JobPhase::Failed, Reason::QueueDeadlineExceeded);
}

/// A pod on a lost node may stay for long: the message names the pod and the node.
#[test]
fn pods_that_are_waited_for_are_named() {
    let mut case = Case::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.step();
    case.lost.insert("node-1".to_owned());
    case.says(JobPhase::Restarting, Reason::NodeLost);
    for _ in 0..2 {
        case.says(JobPhase::Restarting, Reason::NodeLost);
        let message = case.status.message.clone().unwrap();
        let (what, waits) = message.split_once("; waiting for ").unwrap();
        assert!(what.contains("node-1"), "{message}");
        assert_eq!(
            waits,
            "2 pods to end: \"llm-worker-1\" on lost node \"node-1\", \"llm-worker-0\" on \"node-0\""
        );
    }
    case.pods.clear();
    case.step();
    let message = case.status.message.clone().unwrap();
    assert!(!message.contains("waiting for"), "{message}");
}
