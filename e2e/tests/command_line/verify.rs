//! `trellis verify` on a cluster that keeps the promises, and on one that breaks one.

use std::path::Path;
use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::operator::{self, Operator};
use trellis_e2e::site::TestSite;
use trellis_verify::Rule;

use crate::fixtures::{CommandLineFixture, run_trellis_with, shared_fixture, trellis_program};

#[tokio::test]
async fn verify_names_what_it_has_seen_and_what_it_cannot_see() {
    let scene = CommandLineFixture::new().await.unwrap();
    let site = scene.create_site("cli-verify", 1).await;
    site.submit("runs", 1, 2).await;
    site.wait_for_phase("runs", JobPhase::Running).await;

    let output = scene.run_trellis(&["verify"]).await;
    assert_eq!(output.status, 0, "{output:?}");
    let seen = "judged rules hold, seen in one look: 1 jobs, 1 pods of Trellis and 1 nodes.";
    assert!(output.out.contains(seen), "{output:?}");
    assert!(
        output.out.contains("--for 10m judges all rules"),
        "{output:?}"
    );

    let output = scene
        .run_trellis(&["verify", "--for", "5s", "-o", "json"])
        .await;
    assert_eq!(output.status, 0, "{output:?}");
    let report = output.json();
    assert_eq!(report["findings"], json!([]), "{report}");
    assert_eq!(report["rules"].as_array().unwrap().len(), Rule::ALL.len());

    let elsewhere = ["verify", "--operator-namespace", "default"];
    let output = scene.run_trellis(&elsewhere).await;
    assert_eq!(output.status, 2, "{output:?}");
    assert!(
        output.out.contains("no replica of the operator"),
        "{output:?}"
    );

    let output = scene.run_as_viewer(&site, &["verify"]).await;
    assert_eq!(output.status, 2, "{output:?}");
    assert!(
        output.err.contains("ClusterRole trellis-verify"),
        "{output:?}"
    );
}

#[tokio::test]
async fn verify_reports_a_status_that_falls_back() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-verify-falls", 1).await;
    // This test writes the status that only the operator writes.
    site.expect_broken(Rule::Backwards);
    site.submit("j", 1, 2).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let falls = async {
        tokio::time::sleep(Duration::from_secs(4)).await;
        let_restarts_fall(&site, "j").await;
    };
    let verified = scene.run_trellis(&["verify", "--for", "12s"]);
    let (output, ()) = tokio::join!(verified, falls);
    assert_eq!(output.status, 1, "{output:?}");
    let object = format!("TrainingJob {}/j", site.name());
    for part in [
        "broken: backwards",
        &object,
        "restarts fell from 7 to",
        "look at",
    ] {
        assert!(output.out.contains(part), "{part}: {output:?}");
    }
}

/// The policy of docs/verify.md.
fn documented_audit_policy() -> &'static str {
    let page = include_str!("../../../docs/verify.md");
    let (_, policy) = page.split_once("```yaml\n").unwrap();
    policy.split_once("```").unwrap().0
}

/// Writes 7 restarts, and then 2.
async fn let_restarts_fall(site: &TestSite, job: &str) {
    let params = PatchParams::default();
    let jobs = site.api::<TrainingJob>();
    for restarts in [7, 2] {
        let patch = Patch::Merge(json!({"status": {"restarts": restarts}}));
        jobs.patch_status(job, &params, &patch).await.unwrap();
    }
}

#[tokio::test]
async fn audit_log_is_judged_if_it_has_the_objects() {
    let folder = tempfile::tempdir().unwrap();
    let (policy, log) = (folder.path().join("policy.yaml"), folder.path().join("log"));
    std::fs::write(&policy, documented_audit_policy()).unwrap();
    let mut options = operator::control_plane_options().unwrap();
    options.api_server_flags.extend([
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", log.display()),
    ]);
    let control_plane = ControlPlane::start(options).await.unwrap();
    operator::install_chart_objects(&control_plane)
        .await
        .unwrap();
    let _operator = Operator::start(&control_plane, trellis_program())
        .await
        .unwrap();
    let nodes = NodeTemplate::new(1).gpus(8);
    let site = TestSite::new(&control_plane, "audited", nodes).await;
    site.expect_broken(Rule::Backwards);
    site.submit("ends", 1, 2).await;
    site.wait_for_phase("ends", JobPhase::Running).await;
    site.end_pod("ends-worker-0", "0").await;
    site.wait_for_phase("ends", JobPhase::Complete).await;
    site.delete::<TrainingJob>("ends").await;
    site.submit("falls", 1, 2).await;
    site.wait_for_phase("falls", JobPhase::Running).await;
    // Time counts after a replica has led for 30 seconds. The leader then renews its Lease.
    tokio::time::sleep(Duration::from_secs(50)).await;

    let verify = async |file: &Path| {
        let file = file.display().to_string();
        let arguments = ["verify", "--audit", &file];
        run_trellis_with(&control_plane.kubeconfig(), &arguments, "").await
    };
    let output = verify(&log).await;
    assert_eq!(output.status, 0, "{output:?}");
    let seen = "judged rules hold, seen for";
    assert!(output.out.contains(seen), "{output:?}");
    assert!(
        output.out.contains("1 jobs, 1 pods of Trellis"),
        "{output:?}"
    );

    let_restarts_fall(&site, "falls").await;
    let output = verify(&log).await;
    assert_eq!(output.status, 1, "{output:?}");
    let object = format!("TrainingJob {}/falls", site.name());
    for part in [
        "broken: backwards",
        &object,
        "restarts fell from 7 to",
        "1 finding,",
    ] {
        assert!(output.out.contains(part), "{part}: {output:?}");
    }

    // The same log at level Metadata.
    let lines = std::fs::read_to_string(&log).unwrap();
    let lines = lines.lines().map(|line| {
        let mut event: Value = serde_json::from_str(line).unwrap();
        event["level"] = json!("Metadata");
        event.as_object_mut().unwrap().remove("responseObject");
        event.to_string()
    });
    let bare = folder.path().join("bare");
    std::fs::write(&bare, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let output = verify(&bare).await;
    assert_eq!(output.status, 2, "{output:?}");
    assert!(
        output
            .out
            .contains("writes of trainingjobs at level Metadata have no object"),
        "{output:?}"
    );
}
