//! `explanations`: the complete explanation of one pending job.

use anyhow::ensure;
use kube::Api;
use serde_json::json;
use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_api::visibility::Explanation;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::fixtures::shared_fixture;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pending_job_is_explained_to_users_with_view_right() {
    let scene = shared_fixture().await;
    let site = scene.create_site("why", 2).await;
    let mut running = site.job("runs", 1, 8);
    running["spec"]["deadlines"] = json!({"activeSeconds": 3600});
    site.create(running).await.unwrap();
    site.wait_for_phase("runs", JobPhase::Running).await;
    site.submit("waits", 2, 8).await;
    site.wait_for_phase("waits", JobPhase::Queued).await;

    let api: Api<Explanation> = Api::namespaced(scene.control_plane.client(), site.name());
    let explanation = eventually(SOON, || async {
        let explanation = api.get("waits").await?;
        ensure!(explanation.expected_start.is_some(), "{explanation:?}");
        Ok(explanation)
    });
    let explanation = explanation.await.unwrap();
    assert_eq!(
        explanation.reason,
        Some(Reason::InsufficientCapacity),
        "{explanation:?}"
    );
    let shortage = explanation.shortage.as_ref().unwrap();
    let missing = shortage.missing.as_ref().map(|missing| missing.as_str());
    assert_eq!(
        (missing, shortage.nodes),
        (Some("8"), Some(2)),
        "{explanation:?}"
    );
    let [group] = explanation.task_groups.as_slice() else {
        panic!("{explanation:?}")
    };
    assert_eq!((group.pods, group.matching, group.room), (2, 2, 1));
    // Nodes of other tests do not match, because they have another label.
    let others = group.excluded.iter().map(|excluded| excluded.count);
    assert_eq!(others.sum::<i64>() + group.matching, group.nodes);
    let best = group.candidates.first().unwrap();
    assert_eq!(best.room, 1, "{group:?}");
    let free = &explanation.smallest_change.as_ref().unwrap().free;
    assert_eq!(free.len(), 1, "{explanation:?}");
    assert_ne!(free[0].node, best.node);

    let viewer = scene.viewer_kubeconfig(&site).await;
    let namespace = format!("--namespace={}", site.name());
    let get = |name| ["get", "why", name, namespace.as_str()];
    let viewer_output = eventually(SOON, || async {
        let (ok, output) = scene.run_kubectl(&viewer, &get("waits")).await;
        ensure!(ok && output.contains("8 are missing"), "{output}");
        Ok(())
    });
    viewer_output.await.unwrap();
    // A viewer of a namespace sees how many nodes there are, but not their names.
    let arguments = [&get("waits")[..], &["-o", "json"]].concat();
    let (ok, output) = scene.run_kubectl(&viewer, &arguments).await;
    assert!(ok, "{output}");
    for node in site.nodes().names() {
        assert!(!output.contains(node.as_str()), "{node}: {output}");
    }
    let visible: Explanation = serde_json::from_str(&output).unwrap();
    let [group] = visible.task_groups.as_slice() else {
        panic!("{visible:?}")
    };
    assert_eq!((group.matching, group.room), (2, 1), "{visible:?}");
    assert!(group.candidates.is_empty(), "{visible:?}");
    assert_eq!(visible.reason, explanation.reason);
    let (ok, output) = scene.run_kubectl(&viewer, &get("runs")).await;
    assert!(!ok && output.contains("NotFound"), "{output}");
    let elsewhere = ["get", "why", "waits", "--namespace=default"];
    let (ok, output) = scene.run_kubectl(&viewer, &elsewhere).await;
    assert!(!ok && output.contains("Forbidden"), "{output}");
    // An explanation is computed for one job, so the kind has no list.
    let all = ["get", "why", namespace.as_str()];
    let (ok, output) = scene
        .run_kubectl(&scene.control_plane.kubeconfig(), &all)
        .await;
    assert!(
        !ok && output.contains("cannot be asked to list"),
        "{output}"
    );
}
