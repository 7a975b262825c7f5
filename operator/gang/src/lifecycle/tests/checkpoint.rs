use std::sync::Arc;

use super::*;
use crate::observed::Checkpoint;

fn says(case: &mut Case, index: u32, said: Checkpoint) {
    case.pod(index).checkpoint = Some(Arc::new(said));
}

fn last(case: &Case) -> Option<Time> {
    case.status.checkpoint.clone()?.last_time
}

#[test]
fn the_latest_checkpoint_that_a_pod_names_counts_and_none_in_the_future() {
    let mut case = Case::new(json!({}));
    case.second = 100;
    case.place(1, &PodPhase::Running);
    case.step();
    assert_eq!(case.status.checkpoint, None);

    case.second = 200;
    says(&mut case, 0, Checkpoint::At(at(150)));
    says(&mut case, 1, Checkpoint::At(at(140)));
    let next = case.step();
    assert_eq!(last(&case), time(150));
    let Wish::Run(run) = next.wish else { panic!() };
    assert_eq!(run.checkpoint, Some(at(150)), "preemption prices with it");

    // A time from a fast clock counts as the moment at which it is first seen, whatever time the
    // pod reports later, and the status is not written meanwhile.
    says(&mut case, 0, Checkpoint::At(at(230)));
    case.step();
    assert_eq!(last(&case), time(200));
    let before = case.status.checkpoint.clone();
    assert_eq!(before.clone().unwrap().problem, None);
    case.second = 240;
    case.step();
    assert_eq!(case.status.checkpoint, before, "it was seen at 200");
    says(&mut case, 0, Checkpoint::At(at(900)));
    case.step();
    let told = case.status.checkpoint.clone().unwrap();
    assert!(told.problem.unwrap().ends_with("which is to come"));
    assert_eq!(told.last_time, time(240));

    // A saved checkpoint stays saved.
    case.second = 300;
    case.pod(0).phase = exit(1);
    case.says(JobPhase::Restarting, Reason::PodFailed);
    case.clear();
    case.certify(Reason::InsufficientCapacity);
    case.step();
    assert_eq!(last(&case), time(240));
}

/// The grace period exists for this checkpoint.
#[test]
fn what_is_saved_while_the_pods_stop_counts() {
    let mut case = Case::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.step();
    case.preempt();
    case.second = 100;
    case.says(JobPhase::Restarting, Reason::Preempted);
    assert_eq!(case.attempt(), 2);
    case.pod(0).deleting = true;
    case.second = 110;
    says(&mut case, 0, Checkpoint::At(at(108)));
    case.step();
    assert_eq!(last(&case), time(108));
}

#[test]
fn what_is_no_time_is_said_and_does_not_count() {
    let mut case = Case::new(json!({}));
    case.place(1, &PodPhase::Running);
    says(&mut case, 1, Checkpoint::Unreadable("is none".to_owned()));
    case.step();
    let said = case.status.checkpoint.clone().unwrap();
    assert_eq!(said.last_time, None);
    let problem = said.problem.unwrap();
    assert_eq!(problem, "pod \"llm-worker-1\": is none");
    says(&mut case, 1, Checkpoint::At(at(0)));
    case.step();
    assert_eq!(case.status.checkpoint.unwrap().problem, None);
}

/// A pod that runs well has its full grace period when it is stopped. Ranks that hang because
/// another rank failed could not save together.
#[test]
fn only_an_attempt_that_was_hurried_is_stopped_in_a_hurry() {
    let hurries = |case: &mut Case| match case.step().wish {
        Wish::Run(run) => run.hurry,
        Wish::Finish { hurry, .. } => hurry,
        other => panic!("{other:?}"),
    };
    let placed = |more: Value| {
        let mut case = Case::new(more);
        case.place(1, &PodPhase::Running);
        case.step();
        case
    };
    let mut failed = placed(json!({}));
    failed.pod(0).phase = exit(1);
    assert!(hurries(&mut failed));
    let mut unhealthy = placed(json!({}));
    unhealthy.unhealthy.insert("node-0".to_owned());
    assert!(!hurries(&mut unhealthy));
    let mut both = placed(json!({}));
    both.unhealthy.insert("node-0".to_owned());
    both.pod(0).phase = exit(1);
    assert!(hurries(&mut both), "the others hang");
    // The kubelet evicted the pod because its node was short of memory.
    let mut evicted = placed(json!({}));
    evicted.pod(0).phase = exit(143);
    evicted.pod(0).disrupted = true;
    assert!(!hurries(&mut evicted));
    let mut lost = placed(json!({}));
    lost.lost.insert("node-0".to_owned());
    assert!(hurries(&mut lost));
    let mut slow = Case::new(json!({"deadlines": {"startupSeconds": 60}}));
    slow.place(1, &PodPhase::Pending);
    slow.step();
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
