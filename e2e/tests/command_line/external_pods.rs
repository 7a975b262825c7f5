//! External pods with their names in `trellis queue`.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use serde_json::json;
use trellis_api::PodGroup;
use trellis_e2e::cluster::SCOPE_LABEL;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::fixtures::{CommandOutput, shared_fixture};

async fn create_pod_group(site: &TestSite, name: &str, members: u32) {
    let group: PodGroup = serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": name}, "spec": {"minMember": members},
    }))
    .unwrap();
    let api = site.api::<PodGroup>();
    api.create(&PostParams::default(), &group).await.unwrap();
}

async fn create_pod(site: &TestSite, group: &str, name: &str) {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"trellis.dev/pod-group": group}},
        "spec": {
            "schedulerName": "trellis", "nodeSelector": {SCOPE_LABEL: site.name()},
            "containers": [{"name": "main", "image": "registry.example/train:1.0",
                "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
        },
    }))
    .unwrap();
    let api = site.api::<Pod>();
    api.create(&PostParams::default(), &pod).await.unwrap();
}

#[tokio::test]
async fn explain_shows_why_external_pods_wait() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-others", 2).await;
    let explains = async |what: &str, words: &str| -> CommandOutput {
        let output = eventually(SOON, || async {
            let output = scene
                .run_trellis(&["explain", what, "-n", site.name()])
                .await;
            ensure!(
                output.status == 0 && output.out.contains(words),
                "{output:?}"
            );
            Ok(output)
        });
        output.await.unwrap()
    };
    create_pod_group(&site, "small", 1).await;
    create_pod(&site, "small", "small-0").await;
    explains("podgroup/small", "  Running\n").await;

    create_pod_group(&site, "sweep", 2).await;
    create_pod(&site, "sweep", "sweep-0").await;
    // The engine may not know the PodGroup yet.
    let output = explains("podgroup/sweep", "MembersMissing: ").await;
    let title = format!("{}/PodGroup/sweep  Waiting\n", site.name());
    assert!(output.out.starts_with(&title), "{output:?}");
    explains("pod/sweep-0", "MembersMissing: ").await;

    create_pod(&site, "sweep", "sweep-1").await;
    // The operator writes the phase after the reason.
    let output = explains("PodGroup/sweep", "  Queued").await;
    for words in [
        "The smallest change",
        "number ",
        "8 are missing",
        "Next steps",
    ] {
        assert!(output.out.contains(words), "{words}: {output:?}");
    }
    let unwrapped: Vec<_> = output.out.split_whitespace().collect();
    let holder = format!("held by {}/PodGroup/small (8 nvidia.com/gpu)", site.name());
    assert!(unwrapped.join(" ").contains(&holder), "{output:?}");
    // A pod waits with its gang, and its own status says so.
    let output = explains("pod/sweep-1", "/Pod/sweep-1  Queued").await;
    assert!(output.out.contains("The smallest change"), "{output:?}");
    let row = scene.run_trellis(&["queue", "-n", site.name()]).await;
    assert!(
        row.line_with("PodGroup/sweep").contains("Queued"),
        "{row:?}"
    );
}
