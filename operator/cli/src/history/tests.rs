//! The table of ended attempts.

use serde_json::{Value, json};

use super::*;

fn ended(more: &Value) -> EndedAttempt {
    let mut ended = json!({
        "apiVersion": "visibility.trellis.dev/v1alpha1", "kind": "EndedAttempt",
        "metadata": {"namespace": "ml", "name": "llm.1.0"}, "job": "llm", "uid": "u",
        "attempt": 1, "queue": "research", "gpus": 16, "nodeCount": 2, "user": "ann",
        "placed": "2026-01-01T10:00:00Z", "ended": "2026-01-01T11:00:00Z",
    });
    for (field, value) in more.as_object().unwrap() {
        ended[field] = value.clone();
    }
    serde_json::from_value(ended).unwrap()
}

#[test]
fn table_tells_when_and_how_each_attempt_ended() {
    let failure = json!({"pod": "llm-worker-1", "reason": "Error", "exitCode": 3, "attempt": 1,
        "lastLine": "CUDA error \u{1b}[31m", "time": "2026-01-01T11:00:00Z"});
    let all = [
        ended(
            &json!({"phase": "Complete", "reason": "Complete", "running": "2026-01-01T10:05:00Z",
            "message": "all pods have succeeded"}),
        ),
        ended(
            &json!({"phase": "Queued", "reason": "Preempted", "preempted": true,
            "message": "for ml/urgent, whose priority is higher"}),
        ),
        ended(&json!({"phase": "Restarting", "reason": "Restarting", "failure": failure})),
        ended(&json!({"phase": "Suspended", "reason": "Suspended", "user": null})),
        ended(&json!({})),
        ended(&json!({"phase": "Starting", "reason": "NodeLost"})),
    ];
    let all: Vec<&EndedAttempt> = all.iter().collect();
    let now = "2026-01-01T12:30:00Z".parse().unwrap();
    let table = render_table(&all, now, true, None);
    let rows: Vec<&str> = table.lines().collect();
    for (row, parts) in rows.iter().skip(1).zip([
        &[
            "ml/llm",
            "ann",
            "16",
            "90m ago",
            "55m",
            "Complete",
            "research",
            "all pods have succeeded",
        ][..],
        &["Preempted", "for ml/urgent"],
        &["Failed", "llm-worker-1 Error, exit code 3: CUDA error"],
        &["Suspended", "-"],
        &["Deleted"],
        &["NodeLost"],
    ]) {
        for part in parts {
            assert!(row.contains(part), "{part}: {row}");
        }
    }
    // The only red text is the word "Failed": the last line cannot colour the terminal.
    assert_eq!(table.matches("\u{1b}[31m").count(), 1, "{table}");
    assert!(rows[0].contains("NODES") && !render_table(&all, now, false, None).contains("NODES"));
}
