//! Scenarios and their results.

use serde_json::json;

use super::{event_tuples, job, root, scenario, simulate, simulate_text, trellis};

fn examples() -> Vec<std::path::PathBuf> {
    let folder = root().join("examples/scenarios");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries.map(|f| f.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 3);
    files
}

#[test]
fn every_example_passes_with_equal_output() {
    for example in examples() {
        let file = example.to_str().unwrap();
        let name = example.file_stem().unwrap().to_str().unwrap();
        let run = simulate(&[file]);
        assert_eq!(run.code, 0, "{name}: {}", run.golden());
        insta::assert_snapshot!(format!("example-{name}"), run.golden());
        let lines = simulate(&[file, "-o", "jsonl"]);
        insta::assert_snapshot!(format!("example-{name}-jsonl"), lines.golden());
        assert_eq!(simulate(&[file, "-o", "jsonl"]).golden(), lines.golden());
    }
}

#[test]
fn lines_are_exactly_as_documented() {
    let events = format!(
        "  - {{at: 1.5s, apply: {}, runtime: 10s}}
  - {{at: 2s, apply: {}, runtime: 5s}}
  - {{at: 3s, expect: {{placed: [a], pending: [b], preempted: []}}}}
",
        job("a", 2),
        job("b", 1)
    );
    let run = simulate_text(&scenario(&events), &["-o", "jsonl"]);
    let lines: Vec<&str> = run.out.lines().collect();
    assert_eq!(
        lines[..6],
        [
            r#"{"t":1.5,"event":"placed","job":"default/a","pods":{"a-w-0":"gpu-0","a-w-1":"gpu-1"},"reason":""}"#,
            r#"{"t":2.0,"event":"reserved","job":"default/b","pods":{"b-w-0":"gpu-0"},"reason":"no start is known"}"#,
            r#"{"t":2.0,"event":"waiting","job":"default/b","pods":{},"reason":"InsufficientCapacity: needs 8 nvidia.com/gpu, 0 are free on 2 matching nodes: 8 are missing; gangs hold 16, other pods 0"}"#,
            r#"{"t":11.5,"event":"finished","job":"default/a","pods":{},"reason":""}"#,
            r#"{"t":11.5,"event":"placed","job":"default/b","pods":{"b-w-0":"gpu-0"},"reason":""}"#,
            r#"{"t":16.5,"event":"finished","job":"default/b","pods":{},"reason":""}"#,
        ]
    );
    let last = &run.lines()[6];
    for (key, value) in [
        ("t", json!(16.5)),
        ("event", json!("summary")),
        ("jobs", json!(2)),
        ("mean_wait_seconds", json!(4.75)),
        ("p50_wait_seconds", json!(0.0)),
        ("p99_wait_seconds", json!(9.5)),
        ("mean_completion_seconds", json!(12.25)),
        ("stranded_gpus", json!(0.0)),
        ("preemptions", json!(0)),
        ("expects_held", json!(true)),
        ("expects", json!([{"t": 3.0, "held": true, "reason": ""}])),
        // The same input must always give the same output.
        ("wall_seconds", json!(null)),
    ] {
        assert_eq!(last[key], value, "{key}");
    }
    assert_eq!(lines.len(), 7);
    assert_eq!(run.code, 0);
}

#[test]
fn failed_expectation_is_reported_and_sets_the_exit_status() {
    let events = format!(
        "  - {{at: 0s, apply: {}, runtime: 10s}}
  - {{at: 5s, expect: {{pending: [a]}}}}
  - {{at: 5s, expect: {{placed: []}}}}
",
        job("a", 2)
    );
    let run = simulate_text(&scenario(&events), &["-o", "json"]);
    assert_eq!(run.code, 1);
    assert_eq!(
        run.err,
        "not as expected at 5 s: default/a is placed, expected pending
not as expected at 5 s: default/a is placed, expected none
"
    );
    let summary = &run.lines()[0];
    assert_eq!(summary["expects_held"], json!(false));
    assert!(summary["wall_seconds"].as_f64().is_some());
}

/// Without a runtime a job runs until its deadline, or without an end.
#[test]
fn job_without_a_runtime_runs_until_its_deadline() {
    let limited = job("limited", 1).replace("spec: {", "spec: {deadlines: {activeSeconds: 60}, ");
    let events = format!(
        "  - {{at: 0s, apply: {limited}}}
  - {{at: 0s, apply: {}}}
",
        job("forever", 1)
    );
    let run = simulate_text(&scenario(&events), &["-o", "jsonl"]);
    let lines = run.lines();
    let tuples: Vec<_> = lines
        .iter()
        .map(|l| (&l["t"], &l["event"], &l["job"]))
        .collect();
    let finished = (&json!(60.0), &json!("finished"), &json!("default/limited"));
    assert_eq!(tuples[2], finished);
    assert_eq!(tuples.len(), 4, "{tuples:?}");
    let longer = events.replacen("at: 0s, apply", "at: 0s, runtime: 90s, apply", 1);
    let run = simulate_text(&scenario(&longer), &["-o", "jsonl"]);
    let line = &run.lines()[2];
    assert_eq!(
        (&line["t"], &line["event"]),
        (&json!(60.0), &json!("failed"))
    );
    assert_eq!(
        line["reason"],
        "ActiveDeadlineExceeded: it has run for 60 s"
    );
}

/// A job waits for a missing queue, as in a cluster.
/// It starts when the queue appears.
#[test]
fn job_starts_when_its_queue_appears() {
    let queued = job("a", 1).replace("spec: {", "spec: {queueName: late, ");
    let queue = "{apiVersion: trellis.dev/v1alpha1, kind: TrainingQueue, metadata: {name: late}, spec: {namespaceSelector: {}}}";
    let events = format!(
        "  - {{at: 0s, apply: {queued}, runtime: 5s}}
  - {{at: 4s, expect: {{pending: [a]}}}}
  - {{at: 10s, apply: {queue}}}
  - {{at: 20s, delete: {{kind: TrainingQueue, name: late}}}}
  - {{at: 30s, delete: {{kind: TrainingJob, name: a}}}}
"
    );
    let run = simulate_text(&scenario(&events), &["-o", "jsonl"]);
    let lines = run.lines();
    assert_eq!(
        event_tuples(&lines),
        [
            (0.0, "waiting", "default/a"),
            (10.0, "placed", "default/a"),
            (15.0, "finished", "default/a"),
            (30.0, "deleted", "default/a"),
            (30.0, "summary", ""),
        ]
    );
    let reason = lines[0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("QueueNotFound: "), "{reason}");
    assert_eq!(lines[4]["mean_wait_seconds"], json!(10.0));
}

/// The queue selects no namespace, so the policy denies the job.
/// The job starts after the queue selects its namespace.
#[test]
fn job_denied_by_policy_is_refused() {
    let queued = job("a", 1).replace("spec: {", "spec: {queueName: closed, ");
    let queue =
        |spec: &str| format!("{{kind: TrainingQueue, metadata: {{name: closed}}, spec: {spec}}}");
    let events = format!(
        "  - {{at: 0s, apply: {}}}
  - {{at: 1s, apply: {queued}, runtime: 5s}}
  - {{at: 2s, expect: {{placed: [], pending: []}}}}
  - {{at: 9s, apply: {}}}
",
        queue("{}"),
        queue("{namespaceSelector: {}}")
    );
    let run = simulate_text(&scenario(&events), &["-o", "jsonl"]);
    let lines = run.lines();
    assert_eq!(
        event_tuples(&lines),
        [
            (1.0, "refused", "default/a"),
            (9.0, "placed", "default/a"),
            (14.0, "finished", "default/a"),
            (14.0, "summary", ""),
        ]
    );
    let reason = lines[0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("PolicyDenied: "), "{reason}");
    assert_eq!(run.code, 0);
}

/// Objects in the files exist from the beginning, with or without a scenario.
#[test]
fn objects_in_files_exist_from_the_beginning() {
    let objects = "apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n0}, status: {capacity: {cpu: 8, memory: 8Gi, nvidia.com/gpu: 2}}}
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {capacity: {cpu: 8, memory: 8Gi, nvidia.com/gpu: 2}, conditions: [{type: Ready, status: \"False\"}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: x}, spec: {nodeName: n0, containers: [{name: c, resources: {requests: {nvidia.com/gpu: 1}}}]}}
---
apiVersion: trellis.dev/v1alpha1
kind: TrainingJob
metadata: {name: a, namespace: team}
spec:
  deadlines: {activeSeconds: 5}
  taskGroups: [{name: w, gpus: 1, image: x, resources: {limits: {cpu: 1, memory: 1Gi}}}]
---
apiVersion: trellis.dev/v1alpha1
kind: TrainingJob
metadata: {name: b, namespace: team}
spec:
  deadlines: {activeSeconds: 5}
  taskGroups: [{name: w, gpus: 1, image: x, resources: {limits: {cpu: 1, memory: 1Gi}}}]
";
    let run = trellis(&["simulate", "-", "-o", "jsonl"], objects);
    let lines = run.lines();
    assert_eq!(
        event_tuples(&lines),
        [
            (0.0, "placed", "team/a"),
            (0.0, "reserved", "team/b"),
            (0.0, "waiting", "team/b"),
            (5.0, "finished", "team/a"),
            (5.0, "placed", "team/b"),
            (10.0, "finished", "team/b"),
            (10.0, "summary", ""),
        ]
    );
    // An external pod and a job hold 2 of the 4 GPUs.
    assert_eq!(lines[6]["allocated_gpu_percent"], json!(50.0));
}

#[test]
fn until_stops_the_simulation() {
    let events = format!("  - {{at: 0s, apply: {}, runtime: 1h}}\n", job("a", 1));
    let run = simulate_text(&scenario(&events), &["-o", "jsonl", "--until", "10m"]);
    let lines = run.lines();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1]["t"], json!(600.0));
    assert_eq!(lines[1]["allocated_gpu_percent"], json!(50.0));
    assert_eq!(lines[1]["stranded_gpus"], json!(0.0));
}

/// Names, labels and taints of nodes use the same pattern.
#[test]
fn patterns_expand_in_names_and_labels() {
    let text = "apiVersion: trellis.dev/v1alpha1
kind: Scenario
spec:
  seed: 7
  nodes:
  - count: 4
    name: \"gpu-{i}\"
    capacity: {cpu: \"96\", memory: 1Ti, nvidia.com/gpu: \"8\"}
    labels: {rack: \"r{i/2}\"}
    taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
  events:
  - at: 0s
    apply:
      kind: TrainingJob
      metadata: {name: a}
      spec:
        taskGroups: [{name: w, replicas: 2, gpus: 8, image: x, resources: {limits: {cpu: 8, memory: 1Gi}}, nodeSelector: {rack: r1}}]
";
    let run = simulate_text(text, &["-o", "jsonl"]);
    assert_eq!(
        run.lines()[0]["pods"],
        json!({"a-w-0": "gpu-2", "a-w-1": "gpu-3"})
    );
}

/// The table reports the failed expectation once.
#[test]
fn table_lists_a_failed_expectation_once() {
    let events = format!(
        "  - {{at: 0s, apply: {}, runtime: 9s}}\n  - {{at: 1s, expect: {{pending: [a]}}}}\n",
        job("a", 1)
    );
    let run = simulate_text(&scenario(&events), &[]);
    let output = format!("{}{}", run.out, run.err);
    assert_eq!(run.code, 1);
    assert_eq!(output.matches("not as expected").count(), 1, "{output}");
}
