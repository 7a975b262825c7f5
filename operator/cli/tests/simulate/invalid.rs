//! Tests that rejected input is reported with its position, the rule and the fix.

use super::{job, scenario, simulate, simulate_text};

#[test]
fn problem_has_its_place_and_fix() {
    let good = job("a", 1);
    let cases = [
        ("field", "  - {at: 0s, aply: {}}\n".to_owned()),
        ("time", "  - {at: soon, expect: {placed: []}}\n".to_owned()),
        (
            "negative-time",
            "  - {at: -5s, expect: {placed: []}}\n".to_owned(),
        ),
        ("nothing", "  - {at: 0s}\n".to_owned()),
        (
            "two-things",
            format!("  - {{at: 0s, apply: {good}, expect: {{placed: []}}}}\n"),
        ),
        (
            "job",
            format!(
                "  - {{at: 0s, apply: {}}}\n",
                good.replace("replicas: 1", "replicas: 0")
            ),
        ),
        (
            "job-field",
            format!("  - {{at: 0s, apply: {}}}\n", good.replace("gpus", "gpu")),
        ),
        (
            "kind",
            "  - {at: 0s, apply: {kind: Deployment, metadata: {name: a}}}\n".to_owned(),
        ),
        (
            "no-kind",
            "  - {at: 0s, apply: {metadata: {name: a}}}\n".to_owned(),
        ),
        (
            "nameless",
            "  - {at: 0s, apply: {kind: Node, metadata: {}}}\n".to_owned(),
        ),
        (
            "runtime",
            "  - {at: 0s, runtime: 5s, apply: {kind: Node, metadata: {name: a}}}\n".to_owned(),
        ),
        (
            "gone",
            "  - {at: 0s, delete: {kind: Node, name: gpu-9}}\n".to_owned(),
        ),
        (
            "expected",
            "  - {at: 0s, expect: {placed: [nobody]}}\n".to_owned(),
        ),
        (
            "pod",
            format!("  - {{at: 0s, apply: {good}}}\n  - {{at: 1s, fail: {{pod: a-w-1}}}}\n"),
        ),
        (
            "pod-field",
            format!("  - {{at: 0s, apply: {good}}}\n  - {{at: 1s, fail: {{name: a-w-0}}}}\n"),
        ),
        (
            "finished-pod",
            "  - {at: 1s, finish: {pod: a-w-0}}\n".to_owned(),
        ),
        (
            "expected-on",
            "  - {at: 0s, expect: {on: {nobody: [gpu-0]}}}\n".to_owned(),
        ),
        (
            "expected-count",
            format!(
                "  - {{at: 0s, apply: {good}}}\n  - {{at: 1s, expect: {{placed: {{of: [a]}}}}}}\n"
            ),
        ),
        (
            "expected-count-of",
            format!(
                "  - {{at: 0s, apply: {good}}}\n  - {{at: 1s, expect: {{placed: {{exactly: 2, of: [a]}}}}}}\n"
            ),
        ),
        (
            "expected-count-job",
            "  - {at: 1s, expect: {placed: {exactly: 1, of: [nobody]}}}\n".to_owned(),
        ),
        (
            "expected-jobs",
            "  - {at: 1s, expect: {placed: 2}}\n".to_owned(),
        ),
        (
            "twice",
            format!("  - {{at: 0s, apply: {good}}}\n  - {{at: 0s, apply: {good}}}\n"),
        ),
    ];
    let mut output = String::new();
    for (name, events) in cases {
        let run = simulate_text(&scenario(&events), &[]);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{name}: {}", run.err);
        output.push_str(&format!("# {name}\n{}\n", run.err));
    }
    insta::assert_snapshot!("invalid", output);
}

#[test]
fn invalid_nodes_are_refused() {
    let cases = [
        ("count: 2", "count: 0"),
        ("count: 2", "count: 200000"),
        ("\"gpu-{i}\"", "gpu"),
        ("\"gpu-{i}\"", "\"\""),
        ("1Ti", "1Tx"),
        ("1Ti", "-1"),
        ("capacity", "capacities"),
    ];
    let mut output = String::new();
    let good = scenario(&format!("  - {{at: 0s, apply: {}}}\n", job("a", 1)));
    for (from, to) in cases {
        let run = simulate_text(&good.replacen(from, to, 1), &[]);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{to}: {}", run.err);
        output.push_str(&run.err);
    }
    insta::assert_snapshot!("invalid-nodes", output);
}

#[test]
fn invalid_autoscalers_are_refused() {
    let flavor = "---\napiVersion: trellis.dev/v1alpha1\nkind: ResourceFlavor\nmetadata: {name: h100}\nspec: {provisioning: {by: Placeholders, node: {allocatable: {nvidia.com/gpu: 8}}, maxNodes: 4}}\n";
    let good = scenario(&format!("  - {{at: 0s, apply: {}}}\n", job("a", 1)));
    let mut output = String::new();
    for autoscaler in [
        "{a100: {}}",
        "{h100: {arriveAfter: 8m..3m}}",
        "{h100: {arriveAfter: soon}}",
        "{h100: {removeIdleAfter: -1}}",
        "{h100: {stock: -1}}",
        "{h100: {delay: 5m}}",
    ] {
        let given = good.replacen(
            "spec:\n",
            &format!("spec:\n  autoscaler: {autoscaler}\n"),
            1,
        );
        let run = simulate_text(&[&given, flavor].concat(), &[]);
        let result = (run.code, run.out.as_str());
        assert_eq!(result, (2, ""), "{autoscaler}: {}", run.err);
        output.push_str(&run.err);
    }
    let events = "  - {at: 0s, expect: {nodes: {a100: 1}}}\n";
    let run = simulate_text(&[&scenario(events), flavor].concat(), &[]);
    output.push_str(&run.err);
    insta::assert_snapshot!("invalid-autoscaler", output);
}

#[test]
fn all_problems_are_reported_together() {
    let events = format!(
        "  - {{at: 0s, apply: {}}}\n  - {{at: 1s, delete: {{kind: TrainingQueue, name: q}}}}\n",
        job("a", 0)
    );
    let run = simulate_text(&scenario(&events), &[]);
    assert_eq!(run.err.matches("error: ").count(), 2, "{}", run.err);
}

#[test]
fn invalid_arguments_are_refused() {
    let cases: [&[&str]; 14] = [
        &["--workload", "gangs", "--autoscale", "--close", "40"],
        &["--workload", "gangs", "--arrive-after", "5m"],
        &["--workload", "gangs", "--autoscale", "--cpu-jobs", "30"],
        &["--autoscale"],
        &[],
        &["no-such-file.yaml"],
        &["--trace", "jobs.csv"],
        &["--trace", "jobs.csv", "--nodes", "a=2"],
        &["--workload", "gangs", "--jobs", "0"],
        &["--workload", "gangs", "--nodes", "a=1x8,b=1x8"],
        &["--workload", "gangs", "--unknown", "101"],
        &["-", "--until", "5"],
        &["-", "--packing", "spread"],
        &[
            "--trace",
            "jobs.csv",
            "--nodes",
            "big=2x8,small=1x4",
            "--close",
            "9",
        ],
    ];
    for arguments in cases {
        let run = simulate(arguments);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{arguments:?}");
        assert!(run.err.starts_with("error: "), "{arguments:?}: {}", run.err);
    }
}
