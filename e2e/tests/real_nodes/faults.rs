//! Faults of real nodes: the kubelet refuses a pod, and the node dies.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::ensure;
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::real_nodes::IMAGE_NAME;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::{eventually, wait_for};

use crate::fixtures::NodePair::Faulty;
use crate::fixtures::{RealNodesFixture, TrialNamespace, TrialOutcome};

/// Longest time until a silent node counts as lost (10 s and 40 s), its pods are deleted by force
/// (60 s), and the gang runs on other nodes.
const NODE_LOSS_TIMEOUT: Duration = Duration::from_secs(180);

/// A static pod holds GPUs. Only its kubelet knows it, from a file: the API server does not,
/// because the namespace of the pod does not exist.
pub(crate) async fn test_kubelet_refusal(
    scene: &'static RealNodesFixture,
    place: TrialNamespace,
) -> TrialOutcome {
    let shared = place.create_shared_volume("shared").await;
    // With the same free capacity, a gang gets the same nodes as an earlier equal gang.
    let mut first = place.gang_waiting_for_file("first", 4, 1);
    first["spec"]["taskGroups"][0]["command"] = json!(["true"]);
    place.create(first).await.unwrap();
    place.wait_until_complete("first").await;
    let full = place.nodes_of_job("first").await;
    assert_eq!(full.len(), 1, "{full:?}");
    let full = full.first().unwrap().clone();
    let thief = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "thief", "namespace": "nowhere"},
        "spec": {"containers": [{
            "name": "main", "image": IMAGE_NAME, "command": ["sleep", "1000"],
            "resources": {"limits": {"nvidia.com/gpu": "2"}},
        }]},
    });
    let file = scene.nodes.static_pods_folder(&full).join("thief.json");
    std::fs::write(&file, thief.to_string()).unwrap();
    eventually(SOON, || async {
        let has_pod = scene.nodes.has_pod(&full, "nowhere", "thief");
        ensure!(has_pod, "{full} does not run the pod of the file");
        Ok(())
    })
    .await
    .unwrap();

    place
        .create(place.gang_waiting_for_file("j", 4, 1))
        .await
        .unwrap();
    let other = Faulty
        .node_names()
        .into_iter()
        .find(|n| *n != full)
        .unwrap();
    let running = place
        .wait_for_phase("j", JobPhase::Running)
        .await
        .status
        .unwrap();
    assert_eq!(place.nodes_of_job("j").await, BTreeSet::from([other]));
    assert_eq!((running.restarts, running.disruptions), (Some(0), Some(1)));
    let failure = running.last_failure.clone().unwrap();
    assert_eq!(failure.node.as_deref(), Some(full.as_str()), "{failure:?}");
    assert_eq!(failure.reason, "UnexpectedAdmissionError", "{failure:?}");

    std::fs::remove_file(file).unwrap();
    std::fs::write(shared.join("j"), "").unwrap();
    place.wait_until_complete("j").await;
    TrialOutcome::Passed
}

/// This is the last test on these nodes, because the node stays dead.
pub(crate) async fn test_node_crash(
    scene: &'static RealNodesFixture,
    place: TrialNamespace,
) -> TrialOutcome {
    let shared = place.create_shared_volume("shared").await;
    place
        .create(place.gang_waiting_for_file("j", 4, 1))
        .await
        .unwrap();
    place.wait_for_phase("j", JobPhase::Running).await;
    let before = place.nodes_of_job("j").await;
    assert_eq!(before.len(), 1, "{before:?}");
    let dead = before.first().unwrap();
    scene.nodes.crash_node(dead).unwrap();
    let restarted = wait_for(&place.api(), "j", NODE_LOSS_TIMEOUT, |job: &TrainingJob| {
        job.status.as_ref().is_some_and(|status| {
            status.phase == Some(JobPhase::Running) && status.attempt == Some(2)
        })
    })
    .await
    .unwrap();
    let other = Faulty.node_names().into_iter().find(|n| n != dead).unwrap();
    assert_eq!(place.nodes_of_job("j").await, BTreeSet::from([other]));
    let status = restarted.status.unwrap();
    assert_eq!((status.restarts, status.disruptions), (Some(0), Some(1)));
    std::fs::write(shared.join("j"), "").unwrap();
    place.wait_until_complete("j").await;
    for (pod, log) in place.pod_logs("j").await {
        assert!(log.ends_with("ended in attempt 2\n"), "{pod}: {log}");
    }
    TrialOutcome::Passed
}
