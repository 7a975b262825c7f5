//! A kubelet that is stopped for a moment: its containers and the gang keep running.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::ensure;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::site::jobs::{SOON, phase};
use trellis_e2e::site::pod_history::PodHistory;
use trellis_e2e::wait::eventually;

use crate::fixtures::NodePair::Faulty;
use crate::fixtures::{
    GPUS_PER_NODE, RealNodesFixture, TrialNamespace, TrialOutcome, assert_undisturbed,
};

/// Waits until a node's kubelet has reported Ready after `since`, and the node offers all GPUs
/// again.
async fn wait_for_kubelet(scene: &RealNodesFixture, node: &str, since: Timestamp) {
    eventually(SOON, || async {
        let ready = scene.ready_condition(node).await?;
        let heartbeat = ready.last_heartbeat_time.as_ref();
        ensure!(
            heartbeat.is_some_and(|heartbeat| heartbeat.0 > since),
            "{ready:?}"
        );
        scene.check_node_ready(node, GPUS_PER_NODE).await
    })
    .await
    .unwrap();
}

async fn wait_until_not_ready(scene: &RealNodesFixture, node: &str) {
    eventually(SOON, || async {
        let ready = scene.ready_condition(node).await?;
        ensure!(ready.status != "True", "{node} is Ready");
        Ok(())
    })
    .await
    .unwrap();
}

/// Returns the id and the number of restarts of each pod's container.
async fn container_states(
    place: &TrialNamespace,
    job: &str,
) -> BTreeMap<String, (Option<String>, i32)> {
    let container = |pod: Pod| {
        let name = pod.name_any();
        let status = pod.status?.container_statuses?.into_iter().next()?;
        Some((name, (status.container_id, status.restart_count)))
    };
    place
        .list_pods(job)
        .await
        .into_iter()
        .filter_map(container)
        .collect()
}

/// Returns the time since which a job has run without an interruption.
fn running_since(job: &TrainingJob) -> Timestamp {
    let mut conditions = job.status.iter().flat_map(|status| &status.conditions);
    let running = conditions.find(|c| c.type_ == "Running" && c.status == "True");
    let running = running.unwrap_or_else(|| panic!("the job does not run: {job:#?}"));
    running.last_transition_time.0
}

/// Stops the kubelet twice: shortly, so that its node may stay Ready, and for longer, so that it
/// does not.
pub(crate) async fn test_kubelet_restart(
    scene: &'static RealNodesFixture,
    place: TrialNamespace,
) -> TrialOutcome {
    let shared = place.create_shared_volume("shared").await;
    let history = PodHistory::record(place.api::<Pod>());
    place
        .create(place.gang_waiting_for_file("j", 3, 1))
        .await
        .unwrap();
    let running = place.wait_for_phase("j", JobPhase::Running).await;
    let nodes = place.nodes_of_job("j").await;
    assert_eq!(nodes.len(), 1, "{nodes:?}");
    let node = nodes.first().unwrap();
    let before = container_states(&place, "j").await;
    assert_eq!(before.len(), 3, "{before:?}");

    for is_long in [false, true] {
        scene.nodes.stop_kubelet(node).unwrap();
        let stopped = Timestamp::now();
        if is_long {
            wait_until_not_ready(scene, node).await;
        }
        scene.nodes.start_kubelet(node).unwrap();
        wait_for_kubelet(scene, node, stopped).await;
        let job = place.api::<TrainingJob>().get("j").await.unwrap();
        assert_eq!(phase(&job), Some(JobPhase::Running), "{job:#?}");
        assert_eq!(running_since(&job), running_since(&running), "{job:#?}");
        assert_undisturbed(&job);
        assert_eq!(container_states(&place, "j").await, before);
    }

    // The operator offers the free GPUs of the node again, and no others.
    place
        .create(place.gang_waiting_for_file("rest", 5, 1))
        .await
        .unwrap();
    let rest = place.wait_for_phase("rest", JobPhase::Running).await;
    assert_undisturbed(&rest);
    assert_eq!(
        place.nodes_of_job("rest").await,
        BTreeSet::from(Faulty.node_names())
    );
    for job in ["j", "rest"] {
        std::fs::write(shared.join(job), "").unwrap();
    }
    for job in ["j", "rest"] {
        assert_undisturbed(&place.wait_until_complete(job).await);
    }
    for (pod, log) in place.pod_logs("j").await {
        assert!(log.ends_with("ended in attempt 1\n"), "{pod}: {log}");
    }
    assert_eq!(history.recreated_pods(), BTreeMap::new());
    TrialOutcome::Passed
}
