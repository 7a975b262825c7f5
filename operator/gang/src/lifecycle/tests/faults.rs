//! Failures, their consequences, and the budgets that they count against.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::observed::{Obstacle, Stuck};

fn failed(code: i32, second: i64) -> PodPhase {
    PodPhase::Failed {
        exit_code: Some(code),
        reason: "Error".to_owned(),
        at: Some(at(second)),
        last_line: Some("CUDA error: uncorrectable ECC error".to_owned()),
    }
}

fn stuck(obstacle: Obstacle, since: i64) -> Option<Arc<Stuck>> {
    Some(Arc::new(Stuck {
        obstacle,
        container: "main".to_owned(),
        message: "the kubelet's words".to_owned(),
        since: Some(at(since)),
    }))
}

fn rules(rules: Value) -> Case {
    Case::new(json!({"restart": {"limit": 1, "rules": rules}}))
}

/// Number of counted restarts and of disruptions.
fn counted(case: &Case) -> (i64, i64) {
    let count = |count: Option<i64>| count.unwrap_or(0);
    (count(case.status.restarts), count(case.status.disruptions))
}

#[test]
fn of_ranks_that_fail_together_the_first_is_told_with_its_last_line() {
    let mut case = Case::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.pod(0).phase = failed(143, 8);
    case.pod(1).phase = failed(1, 7);
    case.says(JobPhase::Restarting, Reason::PodFailed);
    let told = case.status.last_failure.clone().unwrap();
    assert_eq!(told.pod, "llm-worker-1");
    assert_eq!(told.exit_code, Some(1));
    let line = "CUDA error: uncorrectable ECC error";
    assert_eq!(told.last_line.as_deref(), Some(line));
    assert!(case.status.message.as_deref().unwrap().contains(line));
    assert_eq!(counted(&case), (1, 0));
}

/// Another client deletes a pod, which ends before the operator sees the deletion.
#[test]
fn how_a_pod_takes_being_deleted_is_not_its_own_failure() {
    for (asked, own) in [(Some(at(7)), false), (Some(at(9)), true), (None, true)] {
        let mut case = Case::new(json!({}));
        case.place(1, &PodPhase::Running);
        let pod = case.pod(1);
        pod.phase = failed(143, 8);
        (pod.deleting, pod.deleted) = (asked.is_some(), asked);
        let reason = match own {
            true => Reason::PodFailed,
            false => Reason::PodDisrupted,
        };
        case.says(JobPhase::Restarting, reason);
        assert_eq!(counted(&case), (i64::from(own), i64::from(!own)));
    }
}

#[test]
fn the_first_rule_that_matches_decides() {
    let on = |code: i32, action: &str| json!({"onExitCodes": [code], "action": action});
    let any = json!({"groups": ["worker"], "action": "RestartWithoutCounting"});
    let all = json!([on(42, "Fail"), on(7, "Restart"), any]);
    for (code, phase, reason, count) in [
        (42, JobPhase::Failed, Reason::FailedByRule, 0),
        (7, JobPhase::Restarting, Reason::PodFailed, 1),
        (1, JobPhase::Restarting, Reason::PodFailed, 0),
    ] {
        let mut case = rules(all.clone());
        case.place(1, &PodPhase::Running);
        // The failure with the first matching rule wins, whichever pod ended first.
        case.pod(0).phase = failed(1, 0);
        case.pod(1).phase = failed(code, 5);
        case.says(phase, reason);
        assert_eq!(counted(&case), (count, 0), "{code}");
    }
}

#[test]
fn a_rule_may_speak_of_reasons_ours_and_the_kubelets() {
    for word in ["OOMKilled", "OutOfMemory"] {
        let mut case = rules(json!([{"onReasons": [word], "action": "Fail"}]));
        case.place(1, &PodPhase::Running);
        case.pod(1).phase = PodPhase::Failed {
            exit_code: Some(137),
            reason: "OOMKilled".to_owned(),
            at: None,
            last_line: None,
        };
        case.says(JobPhase::Failed, Reason::FailedByRule);
        let message = case.status.message.clone().unwrap();
        assert!(
            message.ends_with("; restart.rules[0] says Fail"),
            "{message}"
        );
    }
    // Rules apply to failures of the cluster too.
    let mut case = rules(json!([{"onReasons": ["NodeLost"], "action": "Fail"}]));
    case.place(1, &PodPhase::Running);
    case.lost.insert("node-1".to_owned());
    case.says(JobPhase::Failed, Reason::FailedByRule);
}

#[test]
fn a_failure_that_is_ignored_does_nothing_as_long_as_others_go_on() {
    let ignore = json!([{"onExitCodes": [3], "action": "Ignore"}]);
    let mut case = rules(ignore.clone());
    case.place(1, &PodPhase::Running);
    case.says(JobPhase::Running, Reason::Running);
    case.pod(1).phase = failed(3, 0);
    case.says(JobPhase::Running, Reason::Running);
    case.pod(0).phase = PodPhase::Succeeded;
    case.says(JobPhase::Complete, Reason::Complete);
    // If no other pod runs on, the failure is not ignored.
    let mut case = rules(ignore);
    case.place(1, &failed(3, 0));
    case.says(JobPhase::Restarting, Reason::PodFailed);
}

#[test]
fn rank_0_is_not_ignored_where_its_success_is_the_jobs() {
    let ignore = json!([{"onExitCodes": [3], "action": "Ignore"}]);
    let mut case = Case::new(json!({
        "restart": {"rules": ignore}, "success": {"policy": "Leader"},
    }));
    case.place(1, &PodPhase::Running);
    case.pod(1).phase = failed(3, 0);
    case.says(JobPhase::Running, Reason::Running);
    case.pod(0).phase = failed(3, 0);
    case.says(JobPhase::Restarting, Reason::PodFailed);
}

#[test]
fn what_is_ignored_stays_so_whatever_becomes_of_its_node() {
    let ignore = json!([{"onExitCodes": [3], "action": "Ignore"}]);
    let mut case = rules(ignore);
    case.place(1, &PodPhase::Running);
    case.pod(1).phase = failed(3, 0);
    case.pod(1).disrupted = true;
    case.unhealthy.insert("node-1".to_owned());
    case.says(JobPhase::Running, Reason::Running);
}

#[test]
fn a_rule_speaks_of_an_eviction_in_the_kubelets_word() {
    let mut case = rules(json!([{"onReasons": ["Evicted"], "action": "Fail"}]));
    case.place(1, &PodPhase::Running);
    case.pod(1).disrupted = true;
    case.pod(1).phase = PodPhase::Failed {
        exit_code: Some(137),
        reason: "Evicted".to_owned(),
        at: None,
        last_line: None,
    };
    case.says(JobPhase::Failed, Reason::FailedByRule);
}

#[test]
fn what_a_kubelet_cannot_set_up_has_a_minute_and_then_another_node() {
    let mut case = Case::new(json!({}));
    case.place(1, &PodPhase::Pending);
    case.pod(0).stuck = stuck(Obstacle::Setup, 0);
    case.second = 59;
    case.says(JobPhase::Starting, Reason::ContainerConfigError);
    case.second = 60;
    case.says(JobPhase::Restarting, Reason::ContainerConfigError);
    assert_eq!(counted(&case), (0, 1));
    assert_eq!(case.status.excluded_nodes[0].node, "node-0");
}

#[test]
fn what_counts_against_nothing_does_not_go_round_and_round() {
    let no_wait = json!({"backoffSeconds": 0, "maxBackoffSeconds": 0});
    let mut case = Case::new(json!({"restart": no_wait}));
    case.place(1, &PodPhase::Pending);
    case.pod(0).stuck = stuck(Obstacle::Config, 0);
    case.says(JobPhase::Restarting, Reason::ContainerConfigError);
    assert_eq!(case.status.retry_time, time(10));
}

#[test]
fn ranks_on_a_node_that_falls_ill_are_stopped_and_it_is_not_their_fault() {
    for phase in [PodPhase::Running, failed(1, 0)] {
        let mut case = Case::new(json!({}));
        case.place(1, &PodPhase::Running);
        case.pod(1).phase = phase;
        case.unhealthy.insert("node-1".to_owned());
        case.says(JobPhase::Restarting, Reason::NodeUnhealthy);
        assert_eq!(counted(&case), (0, 1));
        assert_eq!(case.status.retry_time, None, "at once");
        let message = case.status.message.clone().unwrap();
        assert!(message.contains("is unhealthy: GpuMemWatch"), "{message}");
    }
    let mut case = Case::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.pod(1).phase = PodPhase::Succeeded;
    case.unhealthy.insert("node-1".to_owned());
    case.says(JobPhase::Running, Reason::Running);
}

#[test]
fn a_node_that_is_not_left_yet_keeps_the_gang_and_it_says_why() {
    let of = |leave: Leave| {
        let mut case = Case::new(json!({}));
        case.place(1, &PodPhase::Running);
        case.unhealthy.insert("node-1".to_owned());
        case.leave = leave;
        case
    };
    let wait = Duration::from_secs(7);
    let mut case = of(Leave::After(wait));
    let next = case.says(JobPhase::Running, Reason::Running);
    assert_eq!(next.again, Some(at(7)));
    let message = case.status.message.clone().unwrap();
    assert!(
        message.starts_with("all pods run, on 2 nodes: node-0 (1), node-1 (1); node \"node-1\""),
        "{message}"
    );
    // The node may be left now.
    case.leave = Leave::Now;
    case.second = 7;
    case.says(JobPhase::Restarting, Reason::NodeUnhealthy);

    let mut case = of(Leave::PartialDisruption(wait));
    let next = case.says(JobPhase::Running, Reason::PartialDisruption);
    assert_eq!(next.again, Some(at(7)));
    assert!(matches!(next.wish, Wish::Run(_)));
    let message = case.status.message.clone().unwrap();
    assert!(message.contains("GpuMemWatch"), "{message}");
    // A pod that has ended on the unhealthy node counts as the node's failure.
    case.pod(1).phase = failed(1, 0);
    case.says(JobPhase::Restarting, Reason::NodeUnhealthy);
    assert_eq!(counted(&case), (0, 1));

    // The node is healthy again, and the message does not mention it any more.
    let mut case = of(Leave::PartialDisruption(wait));
    case.says(JobPhase::Running, Reason::PartialDisruption);
    case.unhealthy.clear();
    case.says(JobPhase::Running, Reason::Running);
    let all = "all pods run, on 2 nodes: node-0 (1), node-1 (1)";
    assert_eq!(case.status.message.as_deref(), Some(all));

    let mut case = of(Leave::PartialDisruption(wait));
    case.pod(0).phase = PodPhase::Pending;
    case.says(JobPhase::Starting, Reason::PartialDisruption);
    // A lost node is left at once.
    case.lost.insert("node-1".to_owned());
    case.says(JobPhase::Restarting, Reason::NodeLost);
}

#[test]
fn room_is_held_for_an_image_for_five_minutes() {
    let mut case = Case::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.pod(1).phase = PodPhase::Pending;
    case.pod(1).stuck = stuck(Obstacle::Image, 20);
    case.second = 30;
    let next = case.says(JobPhase::Starting, Reason::ImagePullFailed);
    assert_eq!(next.again, Some(at(320)));
    case.second = 320;
    case.says(JobPhase::Restarting, Reason::ImagePullFailed);
    assert_eq!(counted(&case), (1, 0));
    // The pods are being deleted; the status shows the journal's reason.
    case.journal.phase = Some(PodGroupPhase::Unwinding);
    case.journal.reason = Some(Reason::Restarting);
    case.says(JobPhase::Restarting, Reason::Restarting);
    // The job is blocked until the next attempt, and keeps saying so.
    case.clear();
    for _ in 0..2 {
        case.says(JobPhase::Blocked, Reason::ImagePullFailed);
        let message = case.status.message.clone().unwrap();
        assert!(
            message.starts_with("pod \"llm-worker-1\": the kubelet's words; attempt 2"),
            "{message}"
        );
    }
    case.second = 330;
    case.certify(Reason::InsufficientCapacity);
    case.says(JobPhase::Queued, Reason::InsufficientCapacity);
}

#[test]
fn what_cannot_come_right_by_itself_is_undone_at_once() {
    for (obstacle, reason, count) in [
        (Obstacle::NoImage, Reason::ImagePullFailed, 1),
        (Obstacle::Root, Reason::ContainerConfigError, 1),
        // A missing Secret counts against no budget, because it may still be created.
        (Obstacle::Config, Reason::ContainerConfigError, 0),
    ] {
        let mut case = Case::new(json!({}));
        case.place(1, &PodPhase::Pending);
        case.pod(0).stuck = stuck(obstacle, 0);
        case.says(JobPhase::Restarting, reason);
        assert_eq!(counted(&case), (count, 0), "{obstacle:?}");
    }
}

#[test]
fn a_volume_of_a_pods_own_has_ten_minutes_and_then_the_gang_goes_elsewhere() {
    let mut case = Case::new(json!({"deadlines": {"startupSeconds": 900}}));
    case.place(1, &PodPhase::Pending);
    case.pod(0).stuck = stuck(Obstacle::Claim, 0);
    case.second = 599;
    case.says(JobPhase::Starting, Reason::ClaimNotBound);
    let message = case.status.message.clone().unwrap();
    assert!(
        message.starts_with("PersistentVolumeClaim \"main\" of pod \"llm-worker-0\" "),
        "{message}"
    );
    case.second = 600;
    case.says(JobPhase::Restarting, Reason::ClaimNotBound);
    // A provisioner may be down for hours: no limit ends the job for that.
    assert_eq!(counted(&case), (0, 0));
    assert_eq!(case.status.excluded_nodes[0].node, "node-0");
    assert!(
        excluded(&case).is_empty(),
        "it is tried there if nowhere else"
    );
}

#[test]
fn a_volume_that_cannot_be_is_not_waited_for() {
    let mut case = Case::new(json!({}));
    case.place(1, &PodPhase::Pending);
    case.pod(0).stuck = stuck(Obstacle::Volume, 0);
    case.says(JobPhase::Restarting, Reason::ClaimNotBound);
    // A startup deadline that is shorter than the claim's: it is not the job's fault.
    let mut case = Case::new(json!({"deadlines": {"startupSeconds": 60}}));
    case.place(1, &PodPhase::Pending);
    case.pod(0).stuck = stuck(Obstacle::Claim, 0);
    case.says(JobPhase::Starting, Reason::ClaimNotBound);
    case.second = 60;
    case.says(JobPhase::Restarting, Reason::ClaimNotBound);
    assert_eq!(counted(&case), (0, 0));
}

#[test]
fn what_is_missing_is_waited_for_longer_each_time_and_for_ever() {
    let restart = json!({"limit": 0, "scope": "Never", "backoffSeconds": 10,
        "maxBackoffSeconds": 30});
    let mut case = Case::new(json!({"restart": restart}));
    for (attempt, wait) in [(1, 10), (2, 20), (3, 30), (4, 30)] {
        case.place(attempt, &PodPhase::Pending);
        case.pod(0).stuck = stuck(Obstacle::Config, 0);
        case.says(JobPhase::Restarting, Reason::ContainerConfigError);
        assert_eq!(case.status.retry_time, time(wait));
        assert_eq!(case.status.internal.failed_starts, Some(attempt));
        case.clear();
        case.says(JobPhase::Queued, Reason::ContainerConfigError);
    }
    case.place(5, &PodPhase::Running);
    case.says(JobPhase::Running, Reason::Running);
    assert_eq!(case.status.internal.failed_starts, None);
}

fn excluded(case: &Case) -> Vec<String> {
    match case.look().wish {
        Wish::Run(attempt) => attempt.excluded,
        _ => Vec::new(),
    }
}

#[test]
fn a_node_that_refuses_is_kept_away_from_and_that_survives_the_operator() {
    let refused = PodPhase::Refused {
        reason: "OutOfnvidia.com/gpu".to_owned(),
    };
    let mut case = Case::new(json!({}));
    let mut waits = Vec::new();
    for attempt in 1..=6 {
        case.place(attempt, &PodPhase::Pending);
        case.pod(1).phase = refused.clone();
        case.says(JobPhase::Restarting, Reason::KubeletRefused);
        let [node] = case.status.excluded_nodes.as_slice() else {
            panic!("{:?}", case.status.excluded_nodes);
        };
        assert_eq!((node.node.as_str(), node.times), ("node-1", attempt));
        let until = node.until.0.as_second();
        waits.push(until - case.second);
        case.clear();
        assert_eq!(excluded(&case), ["node-1"]);
        assert_eq!(
            case.look().again.map(|at| at.as_second() <= until),
            Some(true)
        );
        case.second = until;
        assert!(excluded(&case).is_empty());
    }
    assert_eq!(waits, [60, 120, 240, 480, 900, 900]);
    case.place(7, &PodPhase::Running);
    case.says(JobPhase::Running, Reason::Running);
    assert!(case.status.excluded_nodes.is_empty());
}

#[test]
fn a_node_on_which_ranks_fail_first_twice_in_a_row_is_kept_away_from() {
    let mut case = Case::new(json!({"restart": {"limit": 9}}));
    let fail_on = |case: &mut Case, attempt, index| {
        case.place(attempt, &PodPhase::Running);
        case.says(JobPhase::Running, Reason::Running);
        case.pod(index).phase = failed(1, 0);
        case.says(JobPhase::Restarting, Reason::PodFailed);
        case.clear();
    };
    fail_on(&mut case, 1, 0);
    assert!(case.status.excluded_nodes.is_empty(), "once may be chance");
    fail_on(&mut case, 2, 1);
    assert!(case.status.excluded_nodes.is_empty(), "another node");
    fail_on(&mut case, 3, 1);
    assert!(excluded(&case).is_empty(), "it may be the ranks' own doing");
    let Wish::Run(attempt) = case.look().wish else {
        panic!("it is to run");
    };
    assert_eq!(attempt.suspects, ["node-1"]);
    // The node is not forgotten when the job runs elsewhere.
    case.place(4, &PodPhase::Running);
    case.says(JobPhase::Running, Reason::Running);
    assert_eq!(case.status.excluded_nodes.len(), 1);
    case.pods
        .values_mut()
        .for_each(|pod| pod.phase = PodPhase::Succeeded);
    case.says(JobPhase::Complete, Reason::Complete);
    assert!(case.status.excluded_nodes.is_empty());
}
