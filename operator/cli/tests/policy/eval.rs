//! `trellis policy eval`.

use serde_json::Value;

use super::{file, input, policy, policy_in, quiet};

#[test]
fn every_demand_of_a_job_is_listed() {
    let run = policy(&["eval", "-f", "job.yaml", "-f", "policies"]);
    assert_eq!(run.code, 1);
    insta::assert_snapshot!("eval", run.golden());
    let json = policy(&["eval", "-f", "job.yaml", "-f", "policies", "-o", "json"]);
    assert_eq!(json.code, 1);
    insta::assert_snapshot!("eval-json", json.golden());
}

#[test]
fn allowed_job_exits_with_zero() {
    let run = policy(&["eval", "-f", "job.yaml", "-f", "policies/base.yaml"]);
    assert_eq!(quiet(&run).0, 0);
    assert!(
        run.out.starts_with("TrainingJob vision/resnet allowed\n"),
        "{}",
        run.out
    );
}

/// Denials by Warn and Audit policies are reported too, and the requester matters.
#[test]
fn requester_and_unenforced_denials_are_reported() {
    let files = [
        "eval",
        "-f",
        "job.yaml",
        "-f",
        "policies/base.yaml",
        "-f",
        "beside.yaml",
    ];
    let run = policy(&files);
    assert_eq!(quiet(&run).0, 0);
    assert!(run.out.contains("audited by vision/later/0"), "{}", run.out);
    assert!(run.out.contains("warned of by soon/latest"), "{}", run.out);
    let run = policy(&[&files[..], &["--as", "ada"]].concat());
    assert!(run.out.contains("audited by vision/later/0"), "{}", run.out);
    let run = policy(&[&files[..], &["--as", "ada", "--as-group", "research"]].concat());
    assert!(!run.out.contains("audited"), "{}", run.out);
}

#[test]
fn missing_starter_set_is_noted() {
    let files = ["eval", "-f", "job.yaml", "-f", "policies/h100.yaml"];
    let run = policy(&files);
    assert_eq!(run.code, 1);
    assert!(
        run.err
            .starts_with("note: these policies do not include the starter set"),
        "{}",
        run.err
    );
    let starter = super::root().join("charts/trellis/files/policies.yaml");
    let arguments = [&files[..], &["-f", starter.to_str().unwrap()]].concat();
    assert_eq!(policy(&arguments).err, "");
}

/// Without any flavors, policies about flavors have no effect.
#[test]
fn missing_flavors_are_noted() {
    let job = file("job.yaml").replace("flavors: [h100]", "flavors: []");
    let files = ["eval", "-f", "-", "-f", "policies"];
    let run = policy_in(&input(), &files, &job);
    let expected = "note: UseFlavor is not evaluated for vision/resnet: it names no flavors";
    assert!(run.err.starts_with(expected), "{}", run.err);
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    // These policies do not mention flavors.
    let files = ["eval", "-f", "-", "-f", "policies/base.yaml"];
    assert_eq!(policy_in(&input(), &files, &job).err, "");
}

/// Without policy files the policies of a fresh install decide, and a note says so.
#[test]
fn starter_set_decides_without_policy_files() {
    let run = policy(&["eval", "-f", "job.yaml"]);
    assert_eq!(run.code, 0);
    assert_eq!(
        run.err,
        "note: no policy is given: the starter set decides\n"
    );
    assert!(run.out.contains("by starter/images"), "{}", run.out);
}

#[test]
fn fixed_rules_and_missing_objects_deny_the_job() {
    let eval_job = |job: &str| {
        let files = ["eval", "-f", "-", "-f", "policies/base.yaml"];
        let run = policy_in(&input(), &files, job);
        assert_eq!(run.code, 1, "{}", run.err);
        run.out
    };
    let job = file("job.yaml");
    let class = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: system-x}\nglobalDefault: true\nvalue: 5\n";
    let out = eval_job(&format!("{job}{class}"));
    assert!(
        out.starts_with("TrainingJob vision/resnet denied\n  the job has the priority class \"system-x\", which the rule user-priority denies: "),
        "{out}"
    );
    let out = eval_job(&job.replace("spec:\n", "spec:\n  queueName: prod\n"));
    assert!(
        out.starts_with("TrainingJob vision/resnet undecided\n  QueueNotFound: spec.queueName: "),
        "{out}"
    );
}

/// `trellis plan` makes the same decision from the same files.
#[test]
fn plan_and_eval_decide_alike() {
    let nodes = input().join("../../plan/input/nodes.yaml");
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_trellis"));
    let arguments = [
        "plan",
        "-f",
        "job.yaml",
        "-f",
        "policies",
        "--nodes",
        nodes.to_str().unwrap(),
    ];
    let plan = super::command::run(program, &input(), &arguments, "");
    let eval = policy(&["eval", "-f", "job.yaml", "-f", "policies", "-o", "json"]);
    let eval: Value = serde_json::from_str(&eval.out).unwrap();
    let rows = eval["jobs"][0]["demands"].as_array().unwrap();
    let denied = rows.iter().find(|r| r["decision"] == "Forbidden").unwrap();
    let reason = denied["because"][0].as_str().unwrap();
    assert!(
        plan.out.contains(&format!("PolicyDenied: {reason}")),
        "{reason}\n{}",
        plan.out
    );
}

/// A namespace that is in no file counts as one without labels.
/// A note reports this if labels matter.
#[test]
fn namespace_missing_from_the_files_is_noted() {
    let queue = "---\napiVersion: trellis.dev/v1alpha1\nkind: TrainingQueue\nmetadata: {name: q}\nspec: {namespaceSelector: {matchLabels: {trellis.dev/team: vision}}, defaultFor: {}}\n";
    let note = "note: namespace \"vision\" is in no file: ";
    let (namespace, jobs) = file("job.yaml")
        .split_once("---\n")
        .map(|(n, j)| (n.to_owned(), j.to_owned()))
        .unwrap();
    let without = format!("{jobs}{queue}");
    let arguments = ["eval", "-f", "-", "-f", "policies/base.yaml"];
    let run = policy_in(&input(), &arguments, &without);
    assert!(run.err.contains(note), "{}", run.err);
    let run = policy_in(&input(), &arguments, &format!("{without}---\n{namespace}"));
    assert!(!run.err.contains(note), "{}", run.err);
}
