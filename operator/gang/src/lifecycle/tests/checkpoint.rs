use std::sync::Arc;

use super::*;
use crate::observed::PodCheckpoint;

fn report_checkpoint(case: &mut JobCase, index: u32, said: PodCheckpoint) {
    case.pod(index).checkpoint = Some(Arc::new(said));
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
    assert_eq!(run.checkpoint, Some(at(150)), "preemption prices with it");

    // A time from a fast clock counts as the moment at which it is first seen, whatever time the
    // pod reports later, and the status is not written meanwhile.
    report_checkpoint(&mut case, 0, PodCheckpoint::At(at(230)));
    case.evaluate_and_store();
    assert_eq!(last_checkpoint_time(&case), time(200));
    let before = case.status.checkpoint.clone();
    assert_eq!(before.clone().unwrap().problem, None);
    case.second = 240;
    case.evaluate_and_store();
    assert_eq!(case.status.checkpoint, before, "it was seen at 200");
    report_checkpoint(&mut case, 0, PodCheckpoint::At(at(900)));
    case.evaluate_and_store();
    let told = case.status.checkpoint.clone().unwrap();
    assert!(told.problem.unwrap().ends_with("which is to come"));
    assert_eq!(told.last_time, time(240));

    // A saved checkpoint stays saved.
    case.second = 300;
    case.pod(0).phase = exit(1);
    case.expect_status(JobPhase::Restarting, Reason::PodFailed);
    case.clear();
    case.set_explanation(Reason::InsufficientCapacity);
    case.evaluate_and_store();
    assert_eq!(last_checkpoint_time(&case), time(240));
}

/// The grace period exists for this checkpoint.
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
    let said = case.status.checkpoint.clone().unwrap();
    assert_eq!(said.last_time, None);
    let problem = said.problem.unwrap();
    assert_eq!(problem, "pod \"llm-worker-1\": is none");
    report_checkpoint(&mut case, 1, PodCheckpoint::At(at(0)));
    case.evaluate_and_store();
    assert_eq!(case.status.checkpoint.unwrap().problem, None);
}

/// A pod that runs well has its full grace period when it is stopped. Ranks that hang because
/// another rank failed could not save together.
#[test]
fn only_an_attempt_that_cannot_save_is_stopped_in_a_hurry() {
    let hurries = |case: &mut JobCase| match case.evaluate_and_store().desired {
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
    assert!(hurries(&mut failed));
    let mut unhealthy = placed(json!({}));
    unhealthy.unhealthy_nodes.insert("node-0".to_owned());
    assert!(!hurries(&mut unhealthy));
    let mut both = placed(json!({}));
    both.unhealthy_nodes.insert("node-0".to_owned());
    both.pod(0).phase = exit(1);
    assert!(hurries(&mut both), "the others hang");
    // The kubelet evicted the pod because its node was short of memory.
    let mut evicted = placed(json!({}));
    evicted.pod(0).phase = exit(143);
    evicted.pod(0).is_disrupted = true;
    assert!(!hurries(&mut evicted));
    let mut lost = placed(json!({}));
    lost.lost_nodes.insert("node-0".to_owned());
    assert!(hurries(&mut lost));
    let mut slow = JobCase::new(json!({"deadlines": {"startupSeconds": 60}}));
    slow.place(1, &PodPhase::Pending);
    slow.evaluate_and_store();
    slow.second = 60;
    assert!(hurries(&mut slow), "it never ran");
    let mut preempted = placed(json!({}));
    preempted.preempt();
    assert!(!hurries(&mut preempted));
    let mut over = placed(json!({"deadlines": {"activeSeconds": 60}}));
    over.second = 60;
    assert!(!hurries(&mut over));
    assert!(!hurries(&mut over), "nor when it is looked at again");
    let mut never = placed(json!({"restart": {"scope": "Never"}}));
    never.pod(0).phase = exit(1);
    assert!(hurries(&mut never));
    assert!(hurries(&mut never));
}
