use std::sync::Arc;

use super::*;
use crate::observed::PodCheckpoint;

fn report_checkpoint(case: &mut JobCase, index: u32, checkpoint: PodCheckpoint) {
    case.pod(index).checkpoint = Some(Arc::new(checkpoint));
}

fn last_checkpoint_time(case: &JobCase) -> Option<Time> {
    case.status.checkpoint.clone()?.last_time
}

#[test]
fn latest_checkpoint_counts_and_a_future_time_counts_as_now() {
    let mut case = JobCase::new(json!({}));
    case.second = 100;
    case.place(1, &PodPhase::Running);
    case.evaluate_and_store();
    assert_eq!(case.status.checkpoint, None);

    case.second = 200;
    report_checkpoint(&mut case, 0, PodCheckpoint::At(at(150)));
    report_checkpoint(&mut case, 1, PodCheckpoint::At(at(140)));
    let next = case.evaluate_and_store();
    assert_eq!(last_checkpoint_time(&case), time(150));
    let DesiredGang::Run(run) = next.desired else {
        panic!()
    };
    assert_eq!(
        run.checkpoint,
        Some(at(150)),
        "preemption counts only the work since the checkpoint"
    );

    // A time in the future, from a fast clock, counts as the time of the first evaluation with it.
    // Later evaluations do not change the status until the pod reports another time.
    report_checkpoint(&mut case, 0, PodCheckpoint::At(at(230)));
    case.evaluate_and_store();
    assert_eq!(last_checkpoint_time(&case), time(200));
    let before = case.status.checkpoint.clone();
    assert_eq!(before.clone().unwrap().problem, None);
    case.second = 240;
    case.evaluate_and_store();
    assert_eq!(case.status.checkpoint, before, "second 200 is recorded");
    report_checkpoint(&mut case, 0, PodCheckpoint::At(at(900)));
    case.evaluate_and_store();
    let checkpoint = case.status.checkpoint.clone().unwrap();
    assert!(checkpoint.problem.unwrap().ends_with("which is to come"));
    assert_eq!(checkpoint.last_time, time(240));

    // A saved checkpoint stays saved.
    case.second = 300;
    case.pod(0).phase = exit(1);
    case.expect_status(JobPhase::Restarting, Reason::PodFailed);
    case.clear();
    case.set_explanation(Reason::InsufficientCapacity);
    case.evaluate_and_store();
    assert_eq!(last_checkpoint_time(&case), time(240));
}

/// A pod may save a checkpoint during its grace period.
#[test]
fn checkpoint_of_a_stopping_pod_counts() {
    let mut case = JobCase::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.evaluate_and_store();
    case.preempt();
    case.second = 100;
    case.expect_status(JobPhase::Restarting, Reason::Preempted);
    assert_eq!(case.attempt(), 2);
    case.pod(0).deleting = true;
    case.second = 110;
    report_checkpoint(&mut case, 0, PodCheckpoint::At(at(108)));
    case.evaluate_and_store();
    assert_eq!(last_checkpoint_time(&case), time(108));
}

#[test]
fn unreadable_checkpoint_time_is_reported_and_ignored() {
    let mut case = JobCase::new(json!({}));
    case.place(1, &PodPhase::Running);
    report_checkpoint(
        &mut case,
        1,
        PodCheckpoint::Unreadable("is none".to_owned()),
    );
    case.evaluate_and_store();
    let checkpoint = case.status.checkpoint.clone().unwrap();
    assert_eq!(checkpoint.last_time, None);
    let problem = checkpoint.problem.unwrap();
    assert_eq!(problem, "pod \"llm-worker-1\": is none");
    report_checkpoint(&mut case, 1, PodCheckpoint::At(at(0)));
    case.evaluate_and_store();
    assert_eq!(case.status.checkpoint.unwrap().problem, None);
}

/// A healthy pod keeps its full grace period. Ranks that hang because another rank has failed
/// cannot save a checkpoint together.
#[test]
fn only_an_attempt_that_cannot_save_is_stopped_in_a_hurry() {
    let is_hurried = |case: &mut JobCase| match case.evaluate_and_store().desired {
        DesiredGang::Run(run) => run.hurry,
        DesiredGang::Finish { hurry, .. } => hurry,
        other => panic!("{other:?}"),
    };
    let placed = |more: Value| {
        let mut case = JobCase::new(more);
        case.place(1, &PodPhase::Running);
        case.evaluate_and_store();
        case
    };
    let mut failed = placed(json!({}));
    failed.pod(0).phase = exit(1);
    assert!(is_hurried(&mut failed));
    let mut unhealthy = placed(json!({}));
    unhealthy.unhealthy_nodes.insert("node-0".to_owned());
    assert!(!is_hurried(&mut unhealthy));
    let mut unhealthy_and_failed = placed(json!({}));
    unhealthy_and_failed
        .unhealthy_nodes
        .insert("node-0".to_owned());
    unhealthy_and_failed.pod(0).phase = exit(1);
    assert!(
        is_hurried(&mut unhealthy_and_failed),
        "the other rank hangs"
    );
    // The kubelet evicted the pod because its node was short of memory.
    let mut evicted = placed(json!({}));
    evicted.pod(0).phase = exit(143);
    evicted.pod(0).is_disrupted = true;
    assert!(!is_hurried(&mut evicted));
    let mut on_lost_node = placed(json!({}));
    on_lost_node.lost_nodes.insert("node-0".to_owned());
    assert!(is_hurried(&mut on_lost_node));
    let mut slow_start = JobCase::new(json!({"deadlines": {"startupSeconds": 60}}));
    slow_start.place(1, &PodPhase::Pending);
    slow_start.evaluate_and_store();
    slow_start.second = 60;
    assert!(is_hurried(&mut slow_start), "its pods never ran");
    let mut preempted = placed(json!({}));
    preempted.preempt();
    assert!(!is_hurried(&mut preempted));
    let mut past_deadline = placed(json!({"deadlines": {"activeSeconds": 60}}));
    past_deadline.second = 60;
    assert!(!is_hurried(&mut past_deadline));
    assert!(
        !is_hurried(&mut past_deadline),
        "the next evaluation gives the same result"
    );
    let mut never_restarts = placed(json!({"restart": {"scope": "Never"}}));
    never_restarts.pod(0).phase = exit(1);
    assert!(is_hurried(&mut never_restarts));
    assert!(is_hurried(&mut never_restarts));
}
