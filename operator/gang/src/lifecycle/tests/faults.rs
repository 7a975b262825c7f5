//! Failures of pods and nodes, and the budgets that they count against.

use std::time::Duration;

use super::*;

fn failed(code: i32, second: i64) -> PodPhase {
    PodPhase::Failed {
        exit_code: Some(code),
        reason: "Error".to_owned(),
        at: Some(at(second)),
        last_line: Some("CUDA error: uncorrectable ECC error".to_owned()),
    }
}

fn case_with_rules(rules: Value) -> JobCase {
    JobCase::new(json!({"restart": {"limit": 1, "rules": rules}}))
}

/// Returns the number of counted restarts and of disruptions.
pub(super) fn count_restarts(case: &JobCase) -> (i64, i64) {
    let count = |count: Option<i64>| count.unwrap_or(0);
    (count(case.status.restarts), count(case.status.disruptions))
}

#[test]
fn last_failure_names_the_rank_that_failed_first() {
    let mut case = JobCase::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.pod(0).phase = failed(143, 8);
    case.pod(1).phase = failed(1, 7);
    case.expect_status(JobPhase::Restarting, Reason::PodFailed);
    let last_failure = case.status.last_failure.clone().unwrap();
    assert_eq!(last_failure.pod, "llm-worker-1");
    assert_eq!(last_failure.exit_code, Some(1));
    let last_line = "CUDA error: uncorrectable ECC error";
    assert_eq!(last_failure.last_line.as_deref(), Some(last_line));
    assert!(case.status.message.as_deref().unwrap().contains(last_line));
    assert_eq!(count_restarts(&case), (1, 0));
}

/// Another client deletes a pod, which ends before the operator sees the deletion.
#[test]
fn exit_after_a_deletion_counts_as_a_disruption() {
    for (deletion_requested, is_own_failure) in
        [(Some(at(7)), false), (Some(at(9)), true), (None, true)]
    {
        let mut case = JobCase::new(json!({}));
        case.place(1, &PodPhase::Running);
        let pod = case.pod(1);
        pod.phase = failed(143, 8);
        (pod.deleting, pod.deletion_requested) = (deletion_requested.is_some(), deletion_requested);
        let reason = match is_own_failure {
            true => Reason::PodFailed,
            false => Reason::PodDisrupted,
        };
        case.expect_status(JobPhase::Restarting, reason);
        assert_eq!(
            count_restarts(&case),
            (i64::from(is_own_failure), i64::from(!is_own_failure))
        );
    }
}

#[test]
fn first_matching_restart_rule_decides() {
    let rule_for_code = |code: i32, action: &str| json!({"onExitCodes": [code], "action": action});
    let rule_for_group = json!({"groups": ["worker"], "action": "RestartWithoutCounting"});
    let rules = json!([
        rule_for_code(42, "Fail"),
        rule_for_code(7, "Restart"),
        rule_for_group
    ]);
    for (code, phase, reason, count) in [
        (42, JobPhase::Failed, Reason::FailedByRule, 0),
        (7, JobPhase::Restarting, Reason::PodFailed, 1),
        (1, JobPhase::Restarting, Reason::PodFailed, 0),
    ] {
        let mut case = case_with_rules(rules.clone());
        case.place(1, &PodPhase::Running);
        // The failure with the first matching rule wins, even if another pod ended before.
        case.pod(0).phase = failed(1, 0);
        case.pod(1).phase = failed(code, 5);
        case.expect_status(phase, reason);
        assert_eq!(count_restarts(&case), (count, 0), "{code}");
    }
}

#[test]
fn restart_rule_matches_reasons_of_trellis_and_of_the_kubelet() {
    for word in ["OOMKilled", "OutOfMemory"] {
        let mut case = case_with_rules(json!([{"onReasons": [word], "action": "Fail"}]));
        case.place(1, &PodPhase::Running);
        case.pod(1).phase = PodPhase::Failed {
            exit_code: Some(137),
            reason: "OOMKilled".to_owned(),
            at: None,
            last_line: None,
        };
        case.expect_status(JobPhase::Failed, Reason::FailedByRule);
        let message = case.status.message.clone().unwrap();
        assert!(
            message.ends_with("; restart.rules[0] says Fail"),
            "{message}"
        );
    }
    // Rules apply to failures of the cluster too.
    let mut case = case_with_rules(json!([{"onReasons": ["NodeLost"], "action": "Fail"}]));
    case.place(1, &PodPhase::Running);
    case.lost_nodes.insert("node-1".to_owned());
    case.expect_status(JobPhase::Failed, Reason::FailedByRule);
}

#[test]
fn ignored_failure_has_no_effect_while_other_pods_run() {
    let ignore = json!([{"onExitCodes": [3], "action": "Ignore"}]);
    let mut case = case_with_rules(ignore.clone());
    case.place(1, &PodPhase::Running);
    case.expect_status(JobPhase::Running, Reason::Running);
    case.pod(1).phase = failed(3, 0);
    case.expect_status(JobPhase::Running, Reason::Running);
    case.pod(0).phase = PodPhase::Succeeded;
    case.expect_status(JobPhase::Complete, Reason::Complete);
    // If no other pod runs, the failure is not ignored.
    let mut case = case_with_rules(ignore);
    case.place(1, &failed(3, 0));
    case.expect_status(JobPhase::Restarting, Reason::PodFailed);
}

#[test]
fn failure_of_rank_0_is_not_ignored_with_policy_leader() {
    let ignore = json!([{"onExitCodes": [3], "action": "Ignore"}]);
    let mut case = JobCase::new(json!({
        "restart": {"rules": ignore}, "success": {"policy": "Leader"},
    }));
    case.place(1, &PodPhase::Running);
    case.pod(1).phase = failed(3, 0);
    case.expect_status(JobPhase::Running, Reason::Running);
    case.pod(0).phase = failed(3, 0);
    case.expect_status(JobPhase::Restarting, Reason::PodFailed);
}

#[test]
fn ignored_failure_stays_ignored_when_its_node_becomes_unhealthy() {
    let ignore = json!([{"onExitCodes": [3], "action": "Ignore"}]);
    let mut case = case_with_rules(ignore);
    case.place(1, &PodPhase::Running);
    case.pod(1).phase = failed(3, 0);
    case.pod(1).is_disrupted = true;
    case.unhealthy_nodes.insert("node-1".to_owned());
    case.expect_status(JobPhase::Running, Reason::Running);
}

#[test]
fn restart_rule_matches_the_kubelet_reason_evicted() {
    let mut case = case_with_rules(json!([{"onReasons": ["Evicted"], "action": "Fail"}]));
    case.place(1, &PodPhase::Running);
    case.pod(1).is_disrupted = true;
    case.pod(1).phase = PodPhase::Failed {
        exit_code: Some(137),
        reason: "Evicted".to_owned(),
        at: None,
        last_line: None,
    };
    case.expect_status(JobPhase::Failed, Reason::FailedByRule);
}

#[test]
fn failure_on_an_unhealthy_node_counts_as_a_disruption() {
    for phase in [PodPhase::Running, failed(1, 0)] {
        let mut case = JobCase::new(json!({}));
        case.place(1, &PodPhase::Running);
        case.pod(1).phase = phase;
        case.unhealthy_nodes.insert("node-1".to_owned());
        case.expect_status(JobPhase::Restarting, Reason::NodeUnhealthy);
        assert_eq!(count_restarts(&case), (0, 1));
        assert_eq!(case.status.retry_time, None, "without back-off");
        let message = case.status.message.clone().unwrap();
        assert!(message.contains("is unhealthy: GpuMemWatch"), "{message}");
    }
    let mut case = JobCase::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.pod(1).phase = PodPhase::Succeeded;
    case.unhealthy_nodes.insert("node-1".to_owned());
    case.expect_status(JobPhase::Running, Reason::Running);
}

#[test]
fn gang_stays_on_an_unhealthy_node_until_eviction_is_allowed() {
    let case_with_decision = |decision: EvictionDecision| {
        let mut case = JobCase::new(json!({}));
        case.place(1, &PodPhase::Running);
        case.unhealthy_nodes.insert("node-1".to_owned());
        case.eviction_decision = decision;
        case
    };
    let wait = Duration::from_secs(7);
    let mut case = case_with_decision(EvictionDecision::After(wait));
    let next = case.expect_status(JobPhase::Running, Reason::Running);
    assert_eq!(next.next_check, Some(at(7)));
    let message = case.status.message.clone().unwrap();
    assert!(
        message.starts_with("all pods run, on 2 nodes: node-0 (1), node-1 (1); node \"node-1\""),
        "{message}"
    );
    // The pods may be evicted now.
    case.eviction_decision = EvictionDecision::Now;
    case.second = 7;
    case.expect_status(JobPhase::Restarting, Reason::NodeUnhealthy);

    let mut case = case_with_decision(EvictionDecision::PartialDisruption(wait));
    let next = case.expect_status(JobPhase::Running, Reason::PartialDisruption);
    assert_eq!(next.next_check, Some(at(7)));
    assert!(matches!(next.desired, DesiredGang::Run(_)));
    let message = case.status.message.clone().unwrap();
    assert!(message.contains("GpuMemWatch"), "{message}");
    // A pod that has ended on the unhealthy node counts as the node's failure.
    case.pod(1).phase = failed(1, 0);
    case.expect_status(JobPhase::Restarting, Reason::NodeUnhealthy);
    assert_eq!(count_restarts(&case), (0, 1));

    // The node is healthy again, and the message does not mention it any more.
    let mut case = case_with_decision(EvictionDecision::PartialDisruption(wait));
    case.expect_status(JobPhase::Running, Reason::PartialDisruption);
    case.unhealthy_nodes.clear();
    case.expect_status(JobPhase::Running, Reason::Running);
    let expected = "all pods run, on 2 nodes: node-0 (1), node-1 (1)";
    assert_eq!(case.status.message.as_deref(), Some(expected));

    let mut case = case_with_decision(EvictionDecision::PartialDisruption(wait));
    case.pod(0).phase = PodPhase::Pending;
    case.expect_status(JobPhase::Starting, Reason::PartialDisruption);
    // The gang leaves a lost node at once.
    case.lost_nodes.insert("node-1".to_owned());
    case.expect_status(JobPhase::Restarting, Reason::NodeLost);
}

pub(super) fn excluded_nodes(case: &JobCase) -> Vec<String> {
    match case.evaluate().desired {
        DesiredGang::Run(attempt) => attempt.excluded_nodes,
        _ => Vec::new(),
    }
}

#[test]
fn refusing_node_is_excluded_for_growing_times() {
    let refused = PodPhase::Refused {
        reason: "OutOfnvidia.com/gpu".to_owned(),
    };
    let mut case = JobCase::new(json!({}));
    let mut waits = Vec::new();
    for attempt in 1..=6 {
        case.place(attempt, &PodPhase::Pending);
        case.pod(1).phase = refused.clone();
        case.expect_status(JobPhase::Restarting, Reason::KubeletRefused);
        let [node] = case.status.excluded_nodes.as_slice() else {
            panic!("{:?}", case.status.excluded_nodes);
        };
        assert_eq!((node.node.as_str(), node.times), ("node-1", attempt));
        let until = node.until.0.as_second();
        waits.push(until - case.second);
        case.clear();
        assert_eq!(excluded_nodes(&case), ["node-1"]);
        assert_eq!(
            case.evaluate().next_check.map(|at| at.as_second() <= until),
            Some(true)
        );
        case.second = until;
        assert!(excluded_nodes(&case).is_empty());
    }
    assert_eq!(waits, [60, 120, 240, 480, 900, 900]);
    case.place(7, &PodPhase::Running);
    case.expect_status(JobPhase::Running, Reason::Running);
    assert!(case.status.excluded_nodes.is_empty());
}

#[test]
fn node_is_suspect_after_two_failures_in_a_row() {
    let mut case = JobCase::new(json!({"restart": {"limit": 9}}));
    let fail_on = |case: &mut JobCase, attempt, index| {
        case.place(attempt, &PodPhase::Running);
        case.expect_status(JobPhase::Running, Reason::Running);
        case.pod(index).phase = failed(1, 0);
        case.expect_status(JobPhase::Restarting, Reason::PodFailed);
        case.clear();
    };
    fail_on(&mut case, 1, 0);
    assert!(
        case.status.excluded_nodes.is_empty(),
        "one failure may be chance"
    );
    fail_on(&mut case, 2, 1);
    assert!(case.status.excluded_nodes.is_empty(), "another node");
    fail_on(&mut case, 3, 1);
    assert!(
        excluded_nodes(&case).is_empty(),
        "the ranks may be the cause"
    );
    let DesiredGang::Run(attempt) = case.evaluate().desired else {
        panic!("the job is to run");
    };
    assert_eq!(attempt.suspect_nodes, ["node-1"]);
    // The status keeps the node while the job runs on other nodes.
    case.place(4, &PodPhase::Running);
    case.expect_status(JobPhase::Running, Reason::Running);
    assert_eq!(case.status.excluded_nodes.len(), 1);
    case.pods
        .values_mut()
        .for_each(|pod| pod.phase = PodPhase::Succeeded);
    case.expect_status(JobPhase::Complete, Reason::Complete);
    assert!(case.status.excluded_nodes.is_empty());
}
