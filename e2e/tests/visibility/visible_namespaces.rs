//! The namespaces whose jobs a user may list.

use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use trellis_api::job::JobPhase;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::fixtures::{VisibilityFixture, shared_fixture};

/// Lists the namespaces with kubectl.
async fn list(scene: &VisibilityFixture, kubeconfig: &Path) -> Result<Vec<Value>> {
    let asked = ["get", "visiblenamespaces", "-o", "json"];
    let (ok, output) = scene.run_kubectl(kubeconfig, &asked).await;
    ensure!(ok, "{output}");
    let list: Value = serde_json::from_str(&output)?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn user_finds_the_namespaces_whose_jobs_the_user_may_list() {
    let scene = shared_fixture().await;
    let (own, other) = (
        scene.create_site("own", 1).await,
        scene.create_site("other", 1).await,
    );
    own.create(own.job("runs", 1, 8)).await.unwrap();
    own.wait_for_phase("runs", JobPhase::Running).await;
    let viewer = scene.viewer_kubeconfig(&own).await;

    // The user may not list namespaces, and finds the own one with its jobs.
    let (ok, output) = scene.run_kubectl(&viewer, &["get", "namespaces"]).await;
    assert!(!ok && output.contains("cannot list resource"), "{output}");
    let listed = eventually(SOON, || async {
        let listed = list(scene, &viewer).await?;
        ensure!(listed.len() == 1 && listed[0]["jobs"] == 1, "{listed:?}");
        Ok(listed)
    });
    let listed = listed.await.unwrap();
    assert_eq!(listed[0]["metadata"]["name"], own.name());
    assert_eq!(listed[0]["maySubmit"], json!(false));
    let (ok, table) = scene.run_kubectl(&viewer, &["get", "vns"]).await;
    assert!(
        ok && table.contains("SUBMIT") && !table.contains(other.name()),
        "{table}"
    );

    // New rights show soon.
    scene.grant_role(&own, "edit").await;
    eventually(SOON, || async {
        let listed = list(scene, &viewer).await?;
        ensure!(listed[0]["maySubmit"] == json!(true), "{listed:?}");
        Ok(())
    })
    .await
    .unwrap();
    scene.grant_platform_role(&own).await;
    eventually(SOON, || async {
        let listed = list(scene, &viewer).await?;
        let found = listed
            .iter()
            .find(|row| row["metadata"]["name"] == other.name());
        ensure!(found.is_some_and(|row| row["jobs"] == 0), "{listed:?}");
        Ok(())
    })
    .await
    .unwrap();
}
