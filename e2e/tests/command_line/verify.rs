//! `trellis verify` on a cluster that keeps the promises, and on one that breaks one.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_verify::Rule;

use crate::fixtures::{CommandLineFixture, shared_fixture};

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
        let params = PatchParams::default();
        let jobs = site.api::<TrainingJob>();
        for restarts in [7, 2] {
            let patch = Patch::Merge(json!({"status": {"restarts": restarts}}));
            jobs.patch_status("j", &params, &patch).await.unwrap();
        }
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
