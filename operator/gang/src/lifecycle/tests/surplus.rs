//! Surplus pods: those that are not part of the gang.

use super::recovered::{awaited, case, counted, elastic, join, running};
use super::*;

#[test]
fn a_gang_runs_with_the_least_that_it_works_with() {
    let mut case = running(elastic());
    assert_eq!(case.status.ready.as_deref(), Some("2/4"));
    join(&mut case, "worker", 2, 0, PodPhase::Pending);
    case.says(JobPhase::Running, Reason::Running);
    join(&mut case, "worker", 2, 0, PodPhase::Running);
    case.step();
    assert_eq!(case.status.ready.as_deref(), Some("3/4"));
    // Surplus pods that exist count for the job's success.
    for index in 0..2 {
        case.pod(index).phase = PodPhase::Succeeded;
    }
    case.says(JobPhase::Running, Reason::Running);
    case.pod(2).phase = PodPhase::Succeeded;
    case.says(JobPhase::Complete, Reason::Complete);
}

#[test]
fn a_rule_may_end_the_job_by_its_surplus_too() {
    let rules = json!({"rules": [{"onExitCodes": [42], "action": "Fail"}]});
    let mut case = running(self::case(rules, json!({"replicas": 4, "minReplicas": 2})));
    join(&mut case, "worker", 3, 0, PodPhase::Running);
    case.step();
    case.pods.get_mut("llm-worker-3").unwrap().phase = exit(42);
    case.says(JobPhase::Failed, Reason::FailedByRule);
}

/// The job can run without its surplus pods, so their deletion is no failure.
#[test]
fn surplus_that_is_taken_away_is_no_failure() {
    let mut case = running(elastic());
    join(&mut case, "worker", 2, 0, PodPhase::Running);
    case.step();
    let pod = case.pods.get_mut("llm-worker-2").unwrap();
    (pod.deleting, pod.deleted) = (true, Some(at(0)));
    case.says(JobPhase::Running, Reason::Running);
    assert_eq!(case.status.last_failure, None);
    assert_eq!(case.status.internal.awaited_pods, None);
}

#[test]
fn surplus_never_restarts_the_gang() {
    type Fault = fn(&mut PodView);
    let faults: [(Fault, (i64, i64, i64)); 4] = [
        (|pod| pod.phase = exit(1), (1, 1, 0)),
        (|pod| pod.disrupted = true, (1, 0, 0)),
        (|pod| pod.node = Some("gone".to_owned()), (1, 0, 0)),
        (
            |pod| {
                pod.phase = PodPhase::Refused {
                    reason: "OutOfcpu".to_owned(),
                };
            },
            (1, 0, 0),
        ),
    ];
    for (at, (fault, counts)) in faults.into_iter().enumerate() {
        let mut case = elastic();
        case.lost.insert("gone".to_owned());
        let mut case = running(case);
        join(&mut case, "worker", 2, 0, PodPhase::Running);
        case.step();
        fault(case.pods.get_mut("llm-worker-2").unwrap());
        case.says(JobPhase::Running, Reason::Recovering);
        assert_eq!(counted(&case), counts, "{at}");
        assert_eq!(awaited(&case), ["worker 2 round 1"], "{at}");
        // The pod need not return.
        case.pods.remove("llm-worker-2");
        case.says(JobPhase::Running, Reason::Running);
        assert_eq!(counted(&case), counts, "{at}");
    }
}

#[test]
fn what_is_outside_the_gang_is_none_of_its_success_nor_of_its_failures() {
    let mut case = Case::new(json!({}));
    let mut spec = serde_json::to_value(&case.spec).unwrap();
    let board = json!({"name": "board", "membership": "BestEffort", "image": "i",
        "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}});
    spec["taskGroups"].as_array_mut().unwrap().push(board);
    case.spec = serde_json::from_value(spec).unwrap();
    let mut case = running(case);
    join(&mut case, "board", 0, 0, PodPhase::Running);
    for round in 1..9 {
        case.second += 100;
        case.pods.get_mut("llm-board-0").unwrap().phase = exit(1);
        case.says(JobPhase::Running, Reason::Recovering);
        assert_eq!(counted(&case), (1, 0, 0));
        join(&mut case, "board", 0, round, PodPhase::Running);
        case.says(JobPhase::Running, Reason::Running);
    }
    for index in 0..2 {
        case.pod(index).phase = PodPhase::Succeeded;
    }
    case.says(JobPhase::Complete, Reason::Complete);
}
