//! What is told of some jobs alone, and to scripts.

use serde_json::json;

use super::*;

#[test]
fn many_nodes_that_do_well_are_one_row() {
    let job = job(
        workers(32),
        json!({"phase": "Running", "reason": "Running", "attempt": 1, "ready": "31/32"}),
    );
    let mut pods: Vec<_> = (0..32)
        .map(|n| runs("worker", n, 1, &format!("gpu-{n}")))
        .collect();
    pods[17] = pod(
        "worker",
        17,
        1,
        "gpu-17",
        json!({"terminated": {"exitCode": 1}}),
        "Failed",
    );
    let text = text(&report(job, pods), false);
    let rows: Vec<_> = text
        .lines()
        .skip_while(|line| *line != "Pods")
        .skip(2)
        .take_while(|line| !line.is_empty())
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        rows,
        [
            "31 nodes worker 0-16,18-31 Running 31/31 0 -",
            "gpu-17 worker 17 Error 0/1 0 1"
        ]
    );
}

#[test]
fn a_pod_that_has_come_again_has_a_row_of_its_own_among_all_columns() {
    let mut report = second_attempt();
    report.pods[1].round = Some(2);
    let rows = |wide| {
        let text = text(&report, wide);
        text.lines()
            .filter(|line| line.starts_with("  gpu-0"))
            .count()
    };
    assert_eq!((rows(false), rows(true)), (1, 2));
}

#[test]
fn a_condition_that_is_not_as_the_phase_has_it_is_told() {
    let mut report = second_attempt();
    let conditions = &mut report.job.status.as_mut().unwrap().conditions;
    conditions.retain(|condition| condition.type_ != "Stalled");
    for condition in conditions.iter_mut().filter(|c| c.type_ == "Ready") {
        condition.status = "False".to_owned();
    }
    let text = text(&report, false);
    let told = "Conditions:   Ready is False, and of phase Running it is True: Running";
    assert!(text.contains(told), "{text}");
    assert!(
        text.contains("              Stalled is not there\n"),
        "{text}"
    );
}

#[test]
fn scripts_get_one_object_of_a_documented_shape() {
    let object = serde_json::to_value(second_attempt()).unwrap();
    let mut keys: Vec<_> = object.as_object().unwrap().keys().collect();
    // Another crate of the build may have serde_json keep the order in which they are written.
    keys.sort();
    assert_eq!(
        keys,
        ["events", "job", "missing", "objects", "pods", "unread"]
    );
    assert_eq!(
        object["pods"][3],
        json!({"name": "llm-worker-3", "group": "worker", "index": 3, "rank": 3, "attempt": 3,
            "node": "gpu-2", "state": "Running", "ready": 1, "containers": 1, "restarts": 0,
            "created": "2026-01-01T10:00:00Z"})
    );
    assert_eq!(object["objects"][2]["state"], "forbidden");
    assert_eq!(object["events"][2]["type"], "Normal");
}
