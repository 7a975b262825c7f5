use super::*;

#[test]
fn job_on_hold_reports_its_reason_and_starts_nothing() {
    for (phase, reason, row) in [
        (JobPhase::Refused, Reason::PolicyDenied, "F------FFT"),
        (JobPhase::Waiting, Reason::QueueNotFound, "--FFFFFFTF"),
        (JobPhase::Blocked, Reason::NameConflict, "TFFFFFFFFT"),
    ] {
        let mut case = JobCase::new(json!({}));
        case.hold_job(phase, reason);
        assert_eq!(case.expect_status(phase, reason).desired, DesiredGang::Wait);
        assert_eq!(case.condition_row(), row, "{phase:?}");
    }
}

/// `status.message` must fit into a table. `trellis explain` reads the whole text from the
/// conditions.
#[test]
fn status_message_is_short_and_the_condition_has_the_full_text() {
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
            let mut case = JobCase::new(json!({}));
            match phase {
                JobPhase::Queued => {
                    case.explanation = Some(GangExplanation::waiting(reason, long.clone()));
                }
                phase => {
                    case.readiness = JobReadiness::OnHold(JobHold {
                        phase,
                        reason,
                        message: long.clone(),
                    });
                }
            }
            case.expect_status(phase, reason);
            let message = case.status.message.clone().unwrap();
            assert!(message.chars().count() <= 160, "{reason}: {message}");
            assert!(message.ends_with("needs 8 GPUs"), "{reason}: {message}");
            assert_eq!(case.status.full_message(), long, "{reason}");
        }
    }
}

#[test]
fn blocked_job_keeps_its_quota_while_committing() {
    let mut case = JobCase::new(json!({}));
    case.commit(2);
    case.hold_job(JobPhase::Blocked, Reason::NameConflict);
    case.expect_status(JobPhase::Blocked, Reason::NameConflict);
    assert_eq!(case.condition_row(), "TTFFFFFFFT");
}

#[test]
fn status_is_not_written_before_the_scheduler_explains() {
    let mut case = JobCase::new(json!({}));
    let run = desired_run(1, 0);
    let result = case.evaluate_and_store();
    assert_eq!((result.status, result.desired), (None, run.clone()));

    case.set_explanation(Reason::InsufficientCapacity);
    let queued = case.expect_status(JobPhase::Queued, Reason::InsufficientCapacity);
    assert_eq!(queued.desired, run);
    assert_eq!(case.condition_row(), "TFFFFFFFTF");
    assert_eq!(case.status.message.as_deref(), Some("8 GPUs are missing"));
    assert_eq!(case.status.queued_time, time(0));
    assert_eq!(case.status.queue.as_deref(), Some("default"));
    assert_eq!(case.status.gpus, Some(16));
    assert_eq!(case.status.ready.as_deref(), Some("0/2"));
}

#[test]
fn gang_refused_by_the_scheduler_stays_desired() {
    let mut case = JobCase::new(json!({}));
    case.set_explanation(Reason::QuotaPolicyExceeded);
    if let Some(explanation) = &mut case.explanation {
        explanation.refused = true;
    }
    let refused = case.expect_status(JobPhase::Refused, Reason::QuotaPolicyExceeded);
    assert!(matches!(refused.desired, DesiredGang::Run(_)));
    assert_eq!(case.condition_row(), "F------FFT");
    case.set_explanation(Reason::QuotaPolicyExceeded);
    case.expect_status(JobPhase::Queued, Reason::QuotaPolicyExceeded);
    assert_eq!(case.condition_row(), "TFFFFFFFTF");
}

#[test]
fn status_shows_why_a_commit_failed_until_the_retry() {
    let mut case = JobCase::new(json!({}));
    case.set_explanation(Reason::Queued);
    case.journal.reason = Some(Reason::PodRefused);
    case.journal.retry_time = time(5);
    case.expect_status(JobPhase::Queued, Reason::PodRefused);
    case.second = 5;
    case.expect_status(JobPhase::Queued, Reason::Queued);
}

#[test]
fn attempt_waits_until_its_back_off_ends() {
    let mut case = JobCase::new(json!({}));
    case.set_explanation(Reason::Queued);
    case.status.attempt = Some(2);
    case.status.retry_time = time(10);
    let next = case.expect_status(JobPhase::Queued, Reason::BackingOff);
    assert_eq!(next.next_check, Some(at(10)));
    assert!(
        matches!(next.desired, DesiredGang::Run(DesiredAttempt { number: 2, not_before: Some(t), .. }) if t == at(10))
    );

    case.second = 10;
    let next = case.expect_status(JobPhase::Queued, Reason::Queued);
    assert!(matches!(
        next.desired,
        DesiredGang::Run(DesiredAttempt {
            not_before: None,
            ..
        })
    ));
}

#[test]
fn commit_shows_in_the_status_after_20_seconds() {
    let mut case = JobCase::new(json!({}));
    case.commit(1);
    case.second = 19;
    let result = case.evaluate_and_store();
    assert_eq!((result.status, result.next_check), (None, Some(at(20))));

    case.second = 20;
    case.expect_status(JobPhase::Starting, Reason::Committing);
    assert_eq!(case.condition_row(), "TTTFFFFFTF");
    assert_eq!(case.status.admitted_time, time(20));

    // The message omits why the gang waited for a place, and shows why its commits fail.
    for (reason, is_shown) in [(Reason::Fragmented, false), (Reason::BackingOff, true)] {
        case.set_explanation(reason);
        case.expect_status(JobPhase::Starting, Reason::Committing);
        let message = case.status.message.clone().unwrap();
        assert_eq!(
            message.contains("8 GPUs are missing"),
            is_shown,
            "{message}"
        );
    }
}

/// `gang_step` rolls back the plan, and the same attempt is planned again.
#[test]
fn plan_of_an_earlier_spec_is_not_carried_out() {
    let mut case = JobCase::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.journal.phase = Some(PodGroupPhase::Committing);
    case.readiness = JobReadiness::Runnable {
        compiled: "second".to_owned(),
    };
    let next = case.evaluate_and_store();
    assert_eq!(case.status.phase, Some(JobPhase::Restarting));
    assert_eq!(case.status.admitted_time, None);
    let DesiredGang::Run(attempt) = next.desired else {
        panic!("{:?}", next.desired)
    };
    assert_eq!(attempt.number, 1);
}

/// No attempt is placed twice, so the next attempt has the changed spec.
#[test]
fn placed_gang_of_an_earlier_spec_is_followed_by_a_new_attempt() {
    let mut case = JobCase::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.readiness = JobReadiness::Runnable {
        compiled: "second".to_owned(),
    };
    let next = case.evaluate_and_store();
    assert_eq!(case.status.phase, Some(JobPhase::Restarting));
    assert_eq!(case.status.admitted_time, None);
    // The pods stay until the status is stored.
    assert!(matches!(next.desired, DesiredGang::Wait));
    let status = &case.status;
    let counts = (status.attempt, status.restarts, status.disruptions);
    assert_eq!(counts, (Some(2), Some(0), Some(0)));

    let next = case.evaluate_and_store();
    assert_eq!(case.status.attempt, Some(2));
    let DesiredGang::Run(attempt) = next.desired else {
        panic!("{:?}", next.desired)
    };
    assert_eq!((attempt.number, attempt.hurry), (2, true));
}

#[test]
fn an_admitted_gang_keeps_its_place_when_the_compiled_job_changes() {
    let mut case = JobCase::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.expect_status(JobPhase::Running, Reason::Running);
    case.readiness = JobReadiness::Runnable {
        compiled: "second".to_owned(),
    };
    case.expect_status(JobPhase::Running, Reason::Running);
}

#[test]
fn job_waits_for_pods_of_an_earlier_attempt() {
    let mut case = JobCase::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.journal = PodGroupStatus::default();
    case.set_explanation(Reason::Queued);
    case.expect_status(JobPhase::Restarting, Reason::PodsTerminating);
    assert_eq!(case.condition_row(), "TTTFFFFFTF");
    // The status does not wait for pods of another job of the same name.
    for pod in case.pods.values_mut() {
        pod.job_uid = "another".to_owned();
    }
    case.expect_status(JobPhase::Queued, Reason::Queued);
}

#[test]
fn queue_deadline_ends_the_wait_of_each_attempt() {
    let mut case = JobCase::new(json!({"deadlines": {"queueSeconds": 60}}));
    case.set_explanation(Reason::InsufficientCapacity);
    case.second = 59;
    let next = case.expect_status(JobPhase::Queued, Reason::InsufficientCapacity);
    assert_eq!(next.next_check, Some(at(60)));

    let mut failed_late = JobCase::new(json!({"deadlines": {"queueSeconds": 60}}));
    failed_late.second = 50;
    failed_late.place(1, &exit(1));
    failed_late.expect_status(JobPhase::Restarting, Reason::PodFailed);
    failed_late.clear();
    failed_late.set_explanation(Reason::InsufficientCapacity);
    failed_late.second = 109;
    failed_late.expect_status(JobPhase::Queued, Reason::InsufficientCapacity);
    failed_late.second = 110;
    failed_late.expect_status(JobPhase::Failed, Reason::QueueDeadlineExceeded);

    case.second = 60;
    case.expect_status(JobPhase::Failed, Reason::QueueDeadlineExceeded);
}

/// A pod on a lost node may stay for a long time, so the message names the pod and the node.
#[test]
fn message_names_remaining_pods_and_their_lost_nodes() {
    let mut case = JobCase::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.evaluate_and_store();
    case.lost_nodes.insert("node-1".to_owned());
    case.expect_status(JobPhase::Restarting, Reason::NodeLost);
    for _ in 0..2 {
        case.expect_status(JobPhase::Restarting, Reason::NodeLost);
        let message = case.status.message.clone().unwrap();
        let (cause, remaining_pods) = message.split_once("; waiting for ").unwrap();
        assert!(cause.contains("node-1"), "{message}");
        assert_eq!(
            remaining_pods,
            "2 pods to end: \"llm-worker-1\" on lost node \"node-1\", \"llm-worker-0\" on \"node-0\""
        );
    }
    case.pods.clear();
    case.evaluate_and_store();
    let message = case.status.message.clone().unwrap();
    assert!(!message.contains("waiting for"), "{message}");
}
