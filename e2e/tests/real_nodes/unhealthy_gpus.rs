//! GPUs that a device plugin reports as unhealthy: the kubelet offers fewer GPUs and kills no pod.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use trellis_api::job::JobPhase;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::fixtures::NodePair::Faulty;
use crate::fixtures::{
    GPUS_PER_NODE, RealNodesFixture, TrialNamespace, TrialOutcome, assert_undisturbed,
};

const INSUFFICIENT_CAPACITY: &str = "InsufficientCapacity";

/// Marks these GPUs as unhealthy, and waits until the node offers only the others.
async fn set_unhealthy_gpus(scene: &RealNodesFixture, node: &str, gpus: &[&str]) {
    scene.nodes.set_unhealthy_gpus(node, gpus).unwrap();
    let remaining = GPUS_PER_NODE - u32::try_from(gpus.len()).unwrap();
    eventually(SOON, || scene.check_node_ready(node, remaining))
        .await
        .unwrap();
}

/// Returns the GPUs of a node that the pods of a job print.
async fn gpus_of_job(place: &TrialNamespace, job: &str, node: &str) -> BTreeSet<String> {
    let matches = |pod: &Pod| {
        let on = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        on == Some(node)
    };
    let pods = place.list_pods(job).await.into_iter().filter(matches);
    let pods: BTreeSet<String> = pods.map(|pod| pod.name_any()).collect();
    eventually(SOON, || async {
        let logs = place.pod_logs(job).await.into_iter();
        let pod_logs = logs.filter(|(pod, _)| pods.contains(pod));
        let visible_gpus = |(pod, log): (String, String)| {
            let line = log
                .lines()
                .next()
                .and_then(|line| line.strip_prefix("has "));
            line.map(str::to_owned)
                .with_context(|| format!("{pod}: {log:?}"))
        };
        pod_logs.map(visible_gpus).collect()
    })
    .await
    .unwrap()
}

/// Waits until a job is queued with this reason and a message that starts with this text.
async fn wait_until_queued_for(
    place: &TrialNamespace,
    job: &str,
    expected: &str,
    message_start: &str,
) {
    place
        .wait_for_status(job, |status| {
            let reason = status.reason.map(|reason| reason.as_str());
            let message = status.full_message();
            status.phase == Some(JobPhase::Queued)
                && reason == Some(expected)
                && message.starts_with(message_start)
        })
        .await;
}

/// Ends the gangs that [wait](Place::waits) for this file.
fn end_jobs(shared: &Path, jobs: &[&str]) {
    for job in jobs {
        std::fs::write(shared.join(job), "").unwrap();
    }
}

/// Runs a gang that uses all GPUs of a node. Returns its node.
async fn fill_node(place: &TrialNamespace, job: &str) -> String {
    place
        .create(place.gang_waiting_for_file(job, GPUS_PER_NODE, 1))
        .await
        .unwrap();
    place.wait_for_phase(job, JobPhase::Running).await;
    let nodes = place.nodes_of_job(job).await;
    assert_eq!(nodes.len(), 1, "{nodes:?}");
    nodes.into_iter().next().unwrap()
}

/// No condition or taint reports the node as unhealthy, so its gang goes on.
pub(crate) async fn test_running_gang(
    scene: &'static RealNodesFixture,
    place: TrialNamespace,
) -> TrialOutcome {
    let shared = place.create_shared_volume("shared").await;
    let node = fill_node(&place, "first").await;
    set_unhealthy_gpus(scene, &node, &["GPU-1"]).await;
    // The gang holds more GPUs than the node offers. This does not reduce the capacity of the other
    // node.
    assert_ne!(fill_node(&place, "beside").await, node);
    place
        .create(place.gang_waiting_for_file("next", 3, 1))
        .await
        .unwrap();
    wait_until_queued_for(
        &place,
        "next",
        INSUFFICIENT_CAPACITY,
        "needs 3 nvidia.com/gpu, 0 are free",
    )
    .await;

    end_jobs(&shared, &["first"]);
    assert_undisturbed(&place.wait_until_complete("first").await);
    assert_undisturbed(&place.wait_for_phase("next", JobPhase::Running).await);
    assert_eq!(
        gpus_of_job(&place, "next", &node).await,
        gpu_names(&[0, 2, 3])
    );
    end_jobs(&shared, &["beside", "next"]);
    assert_undisturbed(&place.wait_until_complete("beside").await);
    assert_undisturbed(&place.wait_until_complete("next").await);
    TrialOutcome::Passed
}

/// A restarted gang returns to its node, except for the unhealthy GPUs.
pub(crate) async fn test_restarted_gang(
    scene: &'static RealNodesFixture,
    place: TrialNamespace,
) -> TrialOutcome {
    let shared = place.create_shared_volume("shared").await;
    let node = fill_node(&place, "j").await;
    set_unhealthy_gpus(scene, &node, &["GPU-0"]).await;
    end_jobs(&shared, &["j-fails-1"]);
    let restarted = place.wait_for_running_attempt("j", 2).await.status.unwrap();
    assert_eq!(
        (restarted.restarts, restarted.disruptions),
        (Some(1), Some(0))
    );
    assert_eq!(gpus_of_job(&place, "j", &node).await, gpu_names(&[1, 2, 3]));
    end_jobs(&shared, &["j"]);
    place.wait_until_complete("j").await;
    TrialOutcome::Passed
}

/// A job that needs all GPUs waits. A job that needs only the healthy ones runs.
pub(crate) async fn test_pending_gang(
    scene: &'static RealNodesFixture,
    place: TrialNamespace,
) -> TrialOutcome {
    let shared = place.create_shared_volume("shared").await;
    place
        .create(place.gang_waiting_for_file("one", 1, 1))
        .await
        .unwrap();
    place.wait_for_phase("one", JobPhase::Running).await;
    place
        .create(place.gang_waiting_for_file("all", 2 * GPUS_PER_NODE, 1))
        .await
        .unwrap();
    wait_until_queued_for(
        &place,
        "all",
        INSUFFICIENT_CAPACITY,
        "needs 8 nvidia.com/gpu, 7 are free",
    )
    .await;
    let [node, _] = Faulty.node_names();
    set_unhealthy_gpus(scene, &node, &["GPU-2"]).await;
    let small = "needs 8 nvidia.com/gpu; 2 matching nodes have 7 even when empty";
    wait_until_queued_for(&place, "all", "ExceedsCluster", small).await;

    end_jobs(&shared, &["one"]);
    place.wait_until_complete("one").await;
    let well = place.gang_waiting_for_file("well", 2 * GPUS_PER_NODE - 1, 1);
    place.create(well).await.unwrap();
    assert_undisturbed(&place.wait_for_phase("well", JobPhase::Running).await);
    assert_eq!(
        gpus_of_job(&place, "well", &node).await,
        gpu_names(&[0, 1, 3])
    );

    set_unhealthy_gpus(scene, &node, &[]).await;
    wait_until_queued_for(
        &place,
        "all",
        INSUFFICIENT_CAPACITY,
        "needs 8 nvidia.com/gpu, 1 is free",
    )
    .await;
    end_jobs(&shared, &["well"]);
    assert_undisturbed(&place.wait_until_complete("well").await);
    assert_undisturbed(&place.wait_for_phase("all", JobPhase::Running).await);
    assert_eq!(
        gpus_of_job(&place, "all", &node).await,
        gpu_names(&[0, 1, 2, 3])
    );
    end_jobs(&shared, &["all"]);
    assert_undisturbed(&place.wait_until_complete("all").await);
    TrialOutcome::Passed
}

fn gpu_names(gpus: &[u32]) -> BTreeSet<String> {
    gpus.iter().map(|gpu| format!("GPU-{gpu}")).collect()
}
