//! `trellis-operator`, as a user starts it, without any cluster.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::process::Command;

use serde_json::Value;

/// Exit status of the operator, and its standard error.
fn operator(arguments: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_trellis-operator"))
        .args(arguments)
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env("KUBECONFIG", "no-such-kubeconfig")
        .output()
        .unwrap();
    assert!(output.stdout.is_empty(), "{output:?}");
    let errors = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), errors)
}

#[test]
fn final_error_is_a_line_of_the_log() {
    let (code, errors) = operator(&["--log=json", "--snapshots=/no/such/folder"]);
    assert_eq!(code, 1, "{errors}");
    let last: Value = serde_json::from_str(errors.lines().last().unwrap()).unwrap();
    let message = last["fields"]["message"].as_str().unwrap();
    assert!(message.starts_with("--snapshots: "), "{message}");
    let (code, plain) = operator(&["--snapshots=/no/such/folder"]);
    assert_eq!((code, plain), (1, format!("error: {message}\n")));
}

#[test]
fn label_without_a_value_is_refused() {
    let (code, errors) = operator(&["--unhealthy-labels=foo"]);
    assert_eq!(code, 2, "{errors}");
    for expected in ["--unhealthy-labels", "must be KEY=VALUE: write foo=VALUE"] {
        assert!(errors.contains(expected), "{errors}");
    }
}

#[test]
fn missing_kubeconfig_is_named_once() {
    let (code, errors) = operator(&[]);
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains("no cluster is configured: "), "{errors}");
    assert_eq!(errors.matches("no-such-kubeconfig").count(), 1, "{errors}");
}
