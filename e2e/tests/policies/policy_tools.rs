//! The tools for policy authors on a live cluster: a change has the effect that they predict.

pub(super) mod plan;

use std::collections::BTreeSet;
use std::process::Output;

use serde_json::{Value, json};
use trellis_api::job::{JobPhase, PolicyDecision};

use super::fixtures::{apply_policy, cluster_policy_for, delete_policy};
use super::{create_site, operator_program, shared_control_plane};

/// Returns a policy that forbids jobs with 8 GPUs or more.
const FORBID_LARGE_JOBS: &str = "@id(\"large\") forbid(principal, action == Trellis::Action::\"Submit\", resource) \
                     when { context.gpus >= 8 };";

/// Runs `trellis policy` with the kubeconfig of the control plane.
pub(crate) async fn run_policy_command(arguments: &[&str]) -> Output {
    let kubeconfig = shared_control_plane().await.kubeconfig();
    let mut command = tokio::process::Command::new(operator_program());
    command.arg("policy").args(arguments).arg("--kubeconfig");
    command.arg(kubeconfig).output().await.unwrap()
}

pub(crate) fn json_report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// Returns the jobs of a namespace with a change in a diff: name, old decision, new decision.
fn changed_jobs(output: &Output, namespace: &str) -> BTreeSet<(String, String, String)> {
    let report = json_report(output);
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let all = report["changed"].as_array().unwrap().iter();
    all.filter_map(|job| {
        let name = word(&job["job"]);
        let name = name.strip_prefix(&format!("{namespace}/"))?.to_owned();
        Some((name, word(&job["before"]), word(&job["after"])))
    })
    .collect()
}

#[tokio::test]
async fn policy_diff_lists_the_jobs_that_a_change_affects() {
    let control_plane = shared_control_plane().await;
    let site = create_site("diff", 1).await;
    site.submit("runs", 1, 8).await;
    site.wait_for_phase("runs", JobPhase::Running).await;
    site.submit("waits", 1, 8).await;
    site.submit("small", 1, 4).await;
    site.wait_for_phase("waits", JobPhase::Queued).await;
    site.wait_for_phase("small", JobPhase::Queued).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("large.yaml");
    let change = cluster_policy_for(&site, FORBID_LARGE_JOBS, json!({}));
    std::fs::write(&file, change.to_string()).unwrap();
    let new = file.to_str().unwrap();

    let diff = ["diff", new, "--cluster", "-o", "json"];
    let output = run_policy_command(&diff).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let touched = |name: &str| {
        let (before, after) = ("Allowed".to_owned(), "Denied".to_owned());
        (name.to_owned(), before, after)
    };
    let expected: BTreeSet<_> = ["runs", "waits"].map(touched).into();
    assert_eq!(changed_jobs(&output, site.name()), expected);

    // The change is applied: exactly these jobs change.
    apply_policy(control_plane, &change).await;
    site.wait_for_phase("waits", JobPhase::Refused).await;
    let denied = |s: &trellis_api::job::TrainingJobStatus| {
        s.policy.as_ref().and_then(|p| p.decision) == Some(PolicyDecision::Denied)
    };
    let running = site.wait_for_status("runs", denied).await;
    assert_eq!(running.status.unwrap().phase, Some(JobPhase::Running));
    let small = site.wait_for_phase("small", JobPhase::Queued).await;
    assert!(!denied(&small.status.unwrap()));

    // A second diff shows no change.
    let output = run_policy_command(&diff).await;
    assert_eq!(changed_jobs(&output, site.name()), BTreeSet::new());
    assert_eq!(output.status.code(), Some(0), "{output:?}");

    // The command evaluates a new job against the policies on the cluster.
    let job = folder.path().join("job.yaml");
    std::fs::write(&job, site.job("next", 1, 8).to_string()).unwrap();
    let eval = [
        "eval",
        "-f",
        job.to_str().unwrap(),
        "-n",
        site.name(),
        "--cluster",
        "-o",
        "json",
    ];
    let output = run_policy_command(&eval).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let rows = json_report(&output)["jobs"][0]["demands"].clone();
    let submit = rows
        .as_array()
        .unwrap()
        .iter()
        .find(|r| r["action"] == "Submit");
    assert_eq!(
        submit.unwrap()["policies"],
        json!([format!("{}/large", site.name())])
    );
    delete_policy(control_plane, site.name()).await;
}
