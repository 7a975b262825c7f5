//! `trellis plan`, as a user runs it.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn plan(gpus: &str) -> Output {
    let yaml = format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: gpu-0}}\nstatus:\n  allocatable: {{cpu: '96', memory: 1Ti, pods: '110', nvidia.com/gpu: '8'}}\n  conditions: [{{type: Ready, status: 'True'}}]\n---\napiVersion: trellis.dev/v1alpha1\nkind: TrainingJob\nmetadata: {{name: llm, namespace: team-a}}\nspec:\n  taskGroups: [{{name: worker, {gpus}, image: 'train:1', resources: {{cpu: 4, memory: 1Gi}}}}]\n"
    );
    let mut child = Command::new(env!("CARGO_BIN_EXE_trellis"))
        .args(["plan", "-f", "-", "--nodes", "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(yaml.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn fits_waits_or_is_invalid() {
    let fits = plan("gpus: 4, replicas: 2");
    assert_eq!(fits.status.code(), Some(0), "{fits:?}");
    assert!(String::from_utf8_lossy(&fits.stdout).contains("worker: 2 pods on gpu-0"));
    let waits = plan("gpus: 8, replicas: 2");
    assert_eq!(waits.status.code(), Some(1), "{waits:?}");
    assert!(String::from_utf8_lossy(&waits.stdout).contains("waits: ExceedsCluster"));
    let invalid = plan("gpuss: 8");
    assert_eq!(invalid.status.code(), Some(2), "{invalid:?}");
    assert!(String::from_utf8_lossy(&invalid.stderr).contains("gpuss"));
}
