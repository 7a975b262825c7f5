//! The tools for policy authors on a live cluster: a change has the effect that they predict.

use std::collections::BTreeSet;
use std::process::Output;

use serde_json::{Value, json};
use trellis_api::job::{JobPhase, PolicyDecision};

use super::scene::{about, apply, delete};
use super::{program, shared, site};

/// Forbids jobs of 8 GPUs and more.
const LARGE: &str = "@id(\"large\") forbid(principal, action == Trellis::Action::\"Submit\", resource) \
                     when { context.gpus >= 8 };";

/// `trellis policy` with the kubeconfig of the control plane.
pub(crate) async fn policy(arguments: &[&str]) -> Output {
    let kubeconfig = shared().await.kubeconfig();
    let mut command = tokio::process::Command::new(program());
    command.arg("policy").args(arguments).arg("--kubeconfig");
    command.arg(kubeconfig).output().await.unwrap()
}

pub(crate) fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// The jobs of a namespace for which a diff says that something changes: name, before, after.
fn changed(output: &Output, namespace: &str) -> BTreeSet<(String, String, String)> {
    let report = report(output);
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
async fn a_diff_tells_which_jobs_a_change_touches() {
    let control_plane = shared().await;
    let site = site("diff", 1).await;
    site.submit("runs", 1, 8).await;
    site.reaches("runs", JobPhase::Running).await;
    site.submit("waits", 1, 8).await;
    site.submit("small", 1, 4).await;
    site.reaches("waits", JobPhase::Queued).await;
    site.reaches("small", JobPhase::Queued).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("large.yaml");
    let change = about(&site, LARGE, json!({}));
    std::fs::write(&file, change.to_string()).unwrap();
    let new = file.to_str().unwrap();

    let diff = ["diff", new, "--cluster", "-o", "json"];
    let said = policy(&diff).await;
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    let touched = |name: &str| {
        let (before, after) = ("Allowed".to_owned(), "Denied".to_owned());
        (name.to_owned(), before, after)
    };
    let wanted: BTreeSet<_> = ["runs", "waits"].map(touched).into();
    assert_eq!(changed(&said, site.name()), wanted);

    // The change is made: they, and no other.
    apply(control_plane, &change).await;
    site.reaches("waits", JobPhase::Refused).await;
    let denied = |s: &trellis_api::job::TrainingJobStatus| {
        s.policy.as_ref().and_then(|p| p.decision) == Some(PolicyDecision::Denied)
    };
    let runs = site.becomes("runs", denied).await;
    assert_eq!(runs.status.unwrap().phase, Some(JobPhase::Running));
    let small = site.reaches("small", JobPhase::Queued).await;
    assert!(!denied(&small.status.unwrap()));

    // Nothing is left to change.
    let said = policy(&diff).await;
    assert_eq!(changed(&said, site.name()), BTreeSet::new());
    assert_eq!(said.status.code(), Some(0), "{said:?}");

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
    let said = policy(&eval).await;
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    let rows = report(&said)["jobs"][0]["demands"].clone();
    let submit = rows
        .as_array()
        .unwrap()
        .iter()
        .find(|r| r["action"] == "Submit");
    assert_eq!(
        submit.unwrap()["policies"],
        json!([format!("{}/large", site.name())])
    );
    delete(control_plane, site.name()).await;
}
