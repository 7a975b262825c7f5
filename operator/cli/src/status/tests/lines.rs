//! Details of the report for special jobs, and the output for scripts.

use serde_json::json;

use super::*;

#[test]
fn healthy_nodes_share_one_row() {
    let job = job(
        workers(32),
        json!({"phase": "Running", "reason": "Running", "attempt": 1, "ready": "31/32"}),
    );
    let mut pods: Vec<_> = (0..32)
        .map(|n| running_pod("worker", n, 1, &format!("gpu-{n}")))
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
fn replaced_pod_has_its_own_row_in_the_wide_table() {
    let mut report = second_attempt_report();
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
fn condition_that_contradicts_the_phase_is_listed() {
    let mut report = second_attempt_report();
    let conditions = &mut report.job.status.as_mut().unwrap().conditions;
    conditions.retain(|condition| condition.type_ != "Stalled");
    for condition in conditions.iter_mut().filter(|c| c.type_ == "Ready") {
        condition.status = "False".to_owned();
    }
    let text = text(&report, false);
    let expected = "Conditions:   Ready is False, and in phase Running it must be True: Running";
    assert!(text.contains(expected), "{text}");
    assert!(
        text.contains("              Stalled is missing\n"),
        "{text}"
    );
}

#[test]
fn script_output_has_the_documented_fields() {
    let object = serde_json::to_value(second_attempt_report()).unwrap();
    let mut keys: Vec<_> = object.as_object().unwrap().keys().collect();
    // Another crate may enable the feature of serde_json that keeps the order of the fields.
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
