//! Tests of pods: surplus pods, changed pods and expectations on pods.
//! A changed pod fails, leaves or finishes.

use super::{event_tuples, job, scenario, simulate_text};

/// An elastic job whose pods need a whole node each.
fn elastic(name: &str, minimum: u32, maximum: u32) -> String {
    let replicas = format!("minReplicas: {minimum}, replicas: {maximum}, gpus: 8");
    let elastic = job(name, 1).replace("replicas: 1, gpus: 8", &replicas);
    elastic.replace("spec: {", "spec: {framework: None, ")
}

#[test]
fn failed_expectations_name_counts_nodes_pods_and_flavors() {
    let events = format!(
        "  - {{at: 0s, apply: {}}}
  - {{at: 0s, apply: {}}}
  - at: 1s
    expect:
      placed: {{exactly: 2, of: [a, b]}}
      pending: {{atLeast: 2, of: [a, b]}}
      preempted: {{atMost: 0, of: [a, b]}}
      on: {{a: [gpu-1], b: [gpu-0]}}
      running: {{a: 2, b: 0}}
      flavors: {{a: [spot], b: []}}
",
        job("a", 1),
        job("b", 2)
    );
    let run = simulate_text(&scenario(&events), &["-o", "json"]);
    assert_eq!(run.code, 1, "{}", run.err);
    assert_eq!(
        run.err,
        "not as expected at 1 s: 1 of 2 jobs are placed (default/a), expected exactly 2; \
1 of 2 jobs are pending (default/b), expected at least 2; \
default/a runs on gpu-0, expected on gpu-1; \
default/b runs on none, expected on gpu-0; \
default/a has 1 running pods, expected 2; \
default/a holds flavors none, expected spot
"
    );
}

#[test]
fn surplus_pods_join_after_the_gang_with_their_own_events() {
    let events = format!(
        "  - {{at: 0s, runtime: 60s, apply: {}}}
  - {{at: 1s, expect: {{placed: [a], on: {{a: [gpu-0, gpu-1]}}, running: {{a: 2}}}}}}
  - {{at: 5s, apply: {}}}
  - {{at: 6s, expect: {{placed: [a], pending: [b]}}}}
  - {{at: 36s, expect: {{placed: [a, b], preempted: [], on: {{a: [gpu-0], b: [gpu-1]}}}}}}
",
        elastic("a", 1, 2),
        job("b", 1)
    );
    let run = simulate_text(&scenario(&events), &["-o", "jsonl"]);
    let lines = run.lines();
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    let expected = [
        (0.0, "placed", "default/a"),
        (0.0, "grown", "default/a"),
        (5.0, "nominated", "default/b"),
        (5.0, "shrunk", "default/a"),
    ];
    assert_eq!(event_tuples(&lines)[..4], expected);
    assert_eq!(lines[1]["pods"]["a-w-1"], "gpu-1");
}

#[test]
fn event_of_a_stopped_pod_is_a_failed_expectation() {
    let events = format!(
        "  - {{at: 0s, apply: {}}}
  - {{at: 0s, apply: {}}}
  - {{at: 5s, fail: {{pod: b-w-0}}}}
",
        job("a", 2),
        job("b", 1)
    );
    let run = simulate_text(&scenario(&events), &["-o", "json"]);
    assert_eq!(run.code, 1);
    assert_eq!(
        run.err,
        "not as expected at 5 s: pod b-w-0 cannot fail: it is not running\n"
    );
}

#[test]
fn job_finishes_after_its_gang_and_running_surplus_pods() {
    let events = format!(
        "  - {{at: 0s, apply: {}}}
  - {{at: 1s, expect: {{running: {{a: 2}}}}}}
  - {{at: 100s, finish: {{pod: a-w-0}}}}
  - {{at: 100s, expect: {{placed: [a], running: {{a: 1}}, on: {{a: [gpu-1]}}}}}}
  - {{at: 200s, finish: {{pod: a-w-1}}}}
  - {{at: 200s, expect: {{placed: [], pending: []}}}}
",
        elastic("a", 1, 3)
    );
    let run = simulate_text(&scenario(&events), &["-o", "jsonl"]);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    let lines = run.lines();
    let expected = [
        (0.0, "placed", "default/a"),
        (0.0, "grown", "default/a"),
        (100.0, "podended", "default/a"),
        (200.0, "podended", "default/a"),
        (200.0, "finished", "default/a"),
    ];
    assert_eq!(event_tuples(&lines)[..5], expected);
}

#[test]
fn group_restarts_together_while_the_other_groups_go_on() {
    let spec = "restart: {scope: Group}, taskGroups: [{name: v, image: x, resources: {limits: {cpu: 1, memory: 1Gi}}}, ";
    let two_groups = job("a", 2).replace("taskGroups: [", spec);
    let events = format!(
        "  - {{at: 0s, apply: {two_groups}}}
  - {{at: 100s, fail: {{pod: a-w-1}}}}
  - {{at: 100s, expect: {{placed: [a], running: {{a: 1}}}}}}
  - {{at: 110s, expect: {{placed: [a], running: {{a: 3}}}}}}
  - {{at: 200s, delete: {{kind: Pod, name: a-v-0}}}}
  - {{at: 200s, expect: {{placed: [a], running: {{a: 3}}}}}}
"
    );
    let run = simulate_text(&scenario(&events), &["-o", "jsonl"]);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
}
