//! Elastic groups of slices: each slice restarts alone, and a slice outside the gang replaces a slice
//! that cannot return to its nodes.

use super::recovery::{add_pod, case_with_group, count_restarts, describe_awaited, run_job};
use super::*;
use crate::gang_step::SliceReplacement;
use crate::journal::replace_slice;

/// Returns a running job of three slices of two pods. The gang is one slice, and the pods of
/// `surplus` run, too.
fn sliced_case(surplus: &[u32]) -> JobCase {
    let slices = json!([{"level": "rack", "pods": 2}]);
    let group = json!({"replicas": 6, "minReplicas": 2, "topology": {"slices": slices}});
    let mut case = case_with_group(json!({}), group);
    case.commit(1);
    let mut case = run_job(case);
    let plan = case.journal.plan.as_mut().unwrap();
    plan.elastic = vec![trellis_api::pod_group::ElasticGroup {
        name: "worker".to_owned(),
        replicas: 6,
        slice_starts: Vec::new(),
    }];
    for index in surplus {
        add_pod(&mut case, "worker", *index, 0, PodPhase::Running);
    }
    case.evaluate_and_store();
    case
}

/// Returns, for each entry of awaited pods, true if another slice replaces them.
fn are_displaced(case: &JobCase) -> Vec<bool> {
    let awaited = case.status.internal.awaited_pods.iter();
    let pods = awaited.flat_map(|awaited| &awaited.pods);
    pods.map(|pods| pods.displaced).collect()
}

/// Replaces the first slice by the slice from pod 2 on, as the driver does.
fn replace_first_slice(case: &mut JobCase) {
    let replacement = SliceReplacement {
        group: "worker".to_owned(),
        leaving_start: 0,
        joining_start: 2,
        nodes: vec!["node-2".to_owned(), "node-3".to_owned()],
    };
    case.journal = replace_slice(&case.journal, "plan-1", &replacement).unwrap();
}

#[test]
fn failed_pod_restarts_its_slice_on_its_nodes() {
    let mut case = sliced_case(&[2, 3, 4, 5]);
    case.pod(1).phase = exit(1);
    case.expect_status(JobPhase::Running, Reason::Recovering);
    assert_eq!(describe_awaited(&case), ["worker 0-1 round 1"]);
    assert_eq!(are_displaced(&case), [false]);
    assert_eq!(count_restarts(&case), (1, 1, 0));
    // A slice outside the gang restarts alone, too.
    let mut case = sliced_case(&[2, 3, 4, 5]);
    case.pod(4).phase = exit(1);
    case.expect_status(JobPhase::Running, Reason::Recovering);
    assert_eq!(describe_awaited(&case), ["worker 4-5 round 1"]);
    assert_eq!(are_displaced(&case), [false]);
}

#[test]
fn slice_that_has_lost_a_node_is_replaced_by_a_running_slice() {
    let mut case = sliced_case(&[2, 3, 4, 5]);
    case.lost_nodes.insert("node-1".to_owned());
    for _ in 0..2 {
        case.expect_status(JobPhase::Running, Reason::Recovering);
        assert_eq!(describe_awaited(&case), ["worker 0-1 round 1"]);
        assert_eq!(are_displaced(&case), [true]);
        assert_eq!(count_restarts(&case), (1, 0, 1));
        case.pods.remove("llm-worker-0");
        case.pods.remove("llm-worker-1");
    }
    replace_first_slice(&mut case);
    case.expect_status(JobPhase::Running, Reason::Running);
    assert_eq!(count_restarts(&case), (1, 0, 1));
    // The slice that has left need not return before the job succeeds.
    for index in 2..6 {
        assert_ne!(case.status.phase, Some(JobPhase::Complete), "{index}");
        case.pod(index).phase = PodPhase::Succeeded;
        case.evaluate_and_store();
    }
    assert_eq!(case.status.phase, Some(JobPhase::Complete));
}

#[test]
fn replaced_slice_restarts_alone_when_it_is_back() {
    let mut case = sliced_case(&[2, 3]);
    case.lost_nodes.insert("node-1".to_owned());
    case.evaluate_and_store();
    replace_first_slice(&mut case);
    case.lost_nodes.clear();
    for index in 0..2 {
        add_pod(&mut case, "worker", index, 1, PodPhase::Running);
    }
    case.expect_status(JobPhase::Running, Reason::Running);
    assert_eq!(describe_awaited(&case), [""; 0]);
    // It is outside the gang now, so the loss of its nodes counts against nothing.
    case.lost_nodes.insert("node-0".to_owned());
    case.expect_status(JobPhase::Running, Reason::Recovering);
    assert_eq!(describe_awaited(&case), ["worker 0-1 round 2"]);
    assert_eq!(are_displaced(&case), [false]);
    assert_eq!(count_restarts(&case), (1, 0, 1));
}

#[test]
fn gang_restarts_if_no_whole_slice_can_replace_the_lost_one() {
    let no_spares: [&[u32]; 3] = [&[], &[3], &[3, 4]];
    for surplus in no_spares {
        let mut case = sliced_case(surplus);
        case.lost_nodes.insert("node-1".to_owned());
        case.evaluate_and_store();
        assert_eq!(case.attempt(), 2, "{surplus:?}");
        assert_eq!(count_restarts(&case), (2, 0, 1), "{surplus:?}");
    }
}

#[test]
fn gang_restarts_if_the_only_other_slice_is_lost_at_the_same_time() {
    let mut case = sliced_case(&[2, 3]);
    case.lost_nodes.insert("node-1".to_owned());
    case.lost_nodes.insert("node-2".to_owned());
    case.evaluate_and_store();
    assert_eq!(case.attempt(), 2);
    let mut case = sliced_case(&[2, 3, 4, 5]);
    case.lost_nodes.insert("node-1".to_owned());
    case.lost_nodes.insert("node-2".to_owned());
    case.expect_status(JobPhase::Running, Reason::Recovering);
    let awaited = ["worker 2-3 round 1", "worker 0-1 round 1"];
    assert_eq!(describe_awaited(&case), awaited);
    assert_eq!(are_displaced(&case), [false, true]);
}

#[test]
fn gang_restarts_if_the_replacement_is_lost_before_it_joins() {
    let mut case = sliced_case(&[2, 3]);
    case.lost_nodes.insert("node-1".to_owned());
    case.expect_status(JobPhase::Running, Reason::Recovering);
    case.pod(3).deleting = true;
    case.evaluate_and_store();
    assert_eq!(case.attempt(), 2);
}

#[test]
fn slice_whose_node_closes_while_it_restarts_is_replaced() {
    let mut case = sliced_case(&[4, 5]);
    case.pod(0).phase = exit(1);
    case.expect_status(JobPhase::Running, Reason::Recovering);
    assert_eq!(are_displaced(&case), [false]);
    case.pods.remove("llm-worker-0");
    case.pods.remove("llm-worker-1");
    case.second += 20;
    case.unhealthy_nodes.insert("node-0".to_owned());
    case.expect_status(JobPhase::Running, Reason::Recovering);
    assert_eq!(are_displaced(&case), [true]);
    assert_eq!(describe_awaited(&case), ["worker 0-1 round 2"]);
}

/// The rate at which unhealthy nodes are vacated counts one node at a time.
#[test]
fn slices_leave_unhealthy_nodes_one_after_the_other() {
    let slices = json!([{"level": "rack", "pods": 1}]);
    let group = json!({"replicas": 4, "minReplicas": 2, "topology": {"slices": slices}});
    let mut case = case_with_group(json!({}), group);
    case.commit(1);
    let mut case = run_job(case);
    for index in [2, 3] {
        add_pod(&mut case, "worker", index, 0, PodPhase::Running);
    }
    case.evaluate_and_store();
    for node in ["node-0", "node-1"] {
        case.unhealthy_nodes.insert(node.to_owned());
    }
    case.expect_status(JobPhase::Running, Reason::Recovering);
    assert_eq!(describe_awaited(&case), ["worker 0 round 1"]);
    let last = case.status.last_failure.clone().unwrap();
    assert_eq!(last.node.as_deref(), Some("node-0"));
    // The second node follows, although the failures belong to one wave.
    case.expect_status(JobPhase::Running, Reason::Recovering);
    let awaited = ["worker 0 round 1", "worker 1 round 2"];
    assert_eq!(describe_awaited(&case), awaited);
    let last = case.status.last_failure.clone().unwrap();
    assert_eq!(last.node.as_deref(), Some("node-1"));
    assert_eq!(count_restarts(&case), (1, 0, 1));
}

#[test]
fn slice_that_has_succeeded_replaces_the_lost_one() {
    let mut case = sliced_case(&[2, 3]);
    for index in 2..4 {
        case.pod(index).phase = PodPhase::Succeeded;
    }
    case.lost_nodes.insert("node-1".to_owned());
    case.expect_status(JobPhase::Running, Reason::Recovering);
    assert_eq!(are_displaced(&case), [true]);
}

/// Only the pod of rank 0 can make the job succeed.
#[test]
fn gang_restarts_if_the_slice_of_a_deciding_rank_0_is_lost() {
    let mut case = sliced_case(&[2, 3]);
    let success = json!({"policy": "Leader"});
    case.spec.success = Some(serde_json::from_value(success).unwrap());
    case.lost_nodes.insert("node-1".to_owned());
    case.evaluate_and_store();
    assert_eq!(case.attempt(), 2);
}

/// All pods of one torchrun world meet at rank 0.
#[test]
fn gang_of_one_world_restarts_if_a_slice_is_lost() {
    let mut case = sliced_case(&[2, 3]);
    let rules = json!([{"onReasons": ["NodeLost"], "action": "RestartSlice"}]);
    let restart = json!({"scope": "Gang", "rules": rules});
    case.spec.restart = Some(serde_json::from_value(restart).unwrap());
    case.lost_nodes.insert("node-1".to_owned());
    case.evaluate_and_store();
    assert_eq!(case.attempt(), 2);
}

#[test]
fn restart_scope_of_the_job_restarts_the_gang_instead() {
    let mut case = sliced_case(&[2, 3]);
    let restart = json!({"scope": "Gang"});
    case.spec.restart = Some(serde_json::from_value(restart).unwrap());
    case.pod(1).phase = exit(1);
    case.evaluate_and_store();
    assert_eq!(case.attempt(), 2);
    // A rule lets the slice restart alone.
    let mut case = sliced_case(&[2, 3]);
    let rules = json!([{"onExitCodes": [1], "action": "RestartSlice"}]);
    let restart = json!({"scope": "Gang", "rules": rules});
    case.spec.restart = Some(serde_json::from_value(restart).unwrap());
    case.pod(1).phase = exit(1);
    case.expect_status(JobPhase::Running, Reason::Recovering);
    assert_eq!(describe_awaited(&case), ["worker 0-1 round 1"]);
}
