//! Tests of the command line, and of clusters that cannot be read.

use std::path::Path;

use super::{file, plan, plan_with, run};

#[test]
fn job_is_read_from_standard_input() {
    let by_file = plan(&["--nodes", "nodes.yaml", "-f", "job.yaml"]);
    let by_pipe = plan_with(&["--nodes", "nodes.yaml", "-f", "-"], &file("job.yaml"));
    assert_eq!(by_file.golden(), by_pipe.golden());
    assert_eq!(by_file.code, 0);
}

#[test]
fn job_without_a_namespace_gets_the_requested_namespace() {
    let job = file("job.yaml").replace(", namespace: team-a", "");
    let plan_with = |options: &[&str]| {
        let arguments = [&["--nodes", "nodes.yaml", "-f", "-"], options].concat();
        plan_with(&arguments, &job).out
    };
    assert!(plan_with(&[]).starts_with("TrainingJob default/llm "));
    assert!(plan_with(&["-n", "team-b"]).starts_with("TrainingJob team-b/llm "));
}

#[test]
fn missing_cluster_error_names_the_offline_option() {
    let none = plan(&["-f", "job.yaml"]);
    assert_eq!((none.code, none.out.as_str()), (2, ""));
    insta::assert_snapshot!("no-kubeconfig", none.err);
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("config");
    // No server listens on port 1 of this machine.
    let text = "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: a, user: {token: t}}]}";
    std::fs::write(&kubeconfig, text).unwrap();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let deaf = plan(&["-f", "job.yaml", "--kubeconfig", kubeconfig]);
    assert_eq!((deaf.code, deaf.out.as_str()), (2, ""));
    insta::assert_snapshot!("no-answer", deaf.err);
    let context = plan(&[
        "-f",
        "job.yaml",
        "--kubeconfig",
        kubeconfig,
        "--context",
        "b",
    ]);
    assert_eq!(context.code, 2);
    assert!(
        context.err.contains("load current context: b"),
        "{}",
        context.err
    );
    assert!(context.err.contains("--nodes"), "{}", context.err);
}

/// A wrong file is reported before the cluster is read.
#[test]
fn invalid_input_is_reported_before_the_cluster_is_read() {
    let run = plan(&["-f", "second-wrong.yaml"]);
    assert_eq!(run.code, 2);
    assert!(
        run.err.starts_with("error: second-wrong.yaml:13:"),
        "{}",
        run.err
    );
}

#[test]
fn kubectl_plugin_uses_its_name_in_usage() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("kubectl-trellis");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_trellis"), &plugin).unwrap();
    let help = run(&plugin, &["plan", "--help"], "");
    assert_eq!(help.code, 0);
    assert!(
        help.out.contains("Usage: kubectl trellis plan "),
        "{}",
        help.out
    );
    let without_file = run(&plugin, &["plan"], "");
    assert_eq!(without_file.code, 2);
    assert!(
        without_file.err.contains("Usage: kubectl trellis plan "),
        "{}",
        without_file.err
    );
    let plain = run(
        Path::new(env!("CARGO_BIN_EXE_trellis")),
        &["plan", "--help"],
        "",
    );
    assert!(plain.out.contains("Usage: trellis plan "), "{}", plain.out);
}

/// Errors of the command line name the argument once.
#[test]
fn unreadable_argument_is_named_once() {
    let trellis = |arguments: &[&str]| run(Path::new(env!("CARGO_BIN_EXE_trellis")), arguments, "");
    let missing = plan(&["-f", "job.yaml", "--kubeconfig", "no-such-file"]).err;
    assert!(
        missing.starts_with("error: no cluster is configured: cannot read \"no-such-file\": "),
        "{missing}"
    );
    let crds = trellis(&["crds", "--out", "job.yaml/crds"]).err;
    assert!(crds.contains("\"job.yaml/crds\""), "{crds}");
    let seed = trellis(&["simulate", "--trace", "a", "--nodes", "b", "--seed", "-1"]).err;
    assert!(seed.contains("not a whole number from 0 to "), "{seed}");
}
