//! `queuestates` and `nodestates`, for cluster administrators.

use anyhow::{Context as _, ensure};
use kube::Api;
use kube::api::ListParams;
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_api::visibility::{NodeState, QueueState};
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::fixtures::shared_fixture;

const GPU: &str = "nvidia.com/gpu";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_and_nodes_are_listed_with_their_holders() {
    let scene = shared_fixture().await;
    let site = scene.create_site("states", 2).await;
    let queue = site.name();
    scene.create_queue(&site, 6).await;
    let control_plane = &scene.control_plane;
    for (name, phase) in [("runs", JobPhase::Running), ("waits", JobPhase::Queued)] {
        let mut job = site.job(name, 1, 4);
        job["spec"]["queueName"] = json!(queue);
        site.create(job).await.unwrap();
        site.wait_for_phase(name, phase).await;
    }
    let names = site.nodes().names();
    site.nodes().cordon(&names[1]).await.unwrap();

    let queues: Api<QueueState> = Api::all(control_plane.client());
    let nodes: Api<NodeState> = Api::all(control_plane.client());
    let states = eventually(SOON, || async {
        let state = queues.get(queue).await?;
        ensure!((state.pending, state.admitted) == (1, 1), "{state:?}");
        let cordoned = nodes.get(&names[1]).await?;
        ensure!(!cordoned.schedulable, "{cordoned:?}");
        Ok((state, cordoned))
    });
    let (state, cordoned) = states.await.unwrap();
    let line = state.resources.iter().find(|line| line.resource == GPU);
    let line = line.context("no GPUs").unwrap();
    let numbers = [&line.nominal_quota, &line.used, &line.borrowed].map(|q| q.as_str());
    assert_eq!(numbers, ["6", "4", "0"], "{line:?}");
    assert_eq!(line.available.as_ref().map(|q| q.as_str()), Some("2"));
    let pending = state.pending_resources.iter().find(|a| a.resource == GPU);
    assert_eq!(pending.map(|a| a.amount.as_str()), Some("4"), "{state:?}");
    assert_eq!(cordoned.reasons[0].reason, "SchedulingDisabled");

    let all = nodes.list(&ListParams::default()).await.unwrap();
    let held_node = all.items.iter().find(|node| {
        !node.jobs.is_empty() && {
            let mut jobs = node.jobs.iter();
            jobs.any(|hold| hold.job.namespace == site.name())
        }
    });
    let held_node = held_node.context("no node is held").unwrap();
    assert_eq!(
        (held_node.jobs[0].job.name.as_str(), held_node.jobs[0].pods),
        ("runs", 1)
    );
    assert_eq!(held_node.jobs[0].state.as_deref(), Some("Running"));
    let free = held_node.resources.iter().find(|line| line.resource == GPU);
    let free = free.and_then(|line| line.free.as_ref());
    assert_eq!(free.map(|free| free.as_str()), Some("4"), "{held_node:?}");

    // These kinds are cluster-scoped, so a viewer of one namespace does not see them.
    let viewer = scene.viewer_kubeconfig(&site).await;
    for kind in ["queuestates", "nodestates"] {
        let (ok, output) = scene.run_kubectl(&viewer, &["get", kind]).await;
        assert!(!ok && output.contains("Forbidden"), "{kind}: {output}");
    }
    // A user with the platform role sees them.
    scene.grant_platform_role(&site).await;
    for (kind, row, expected) in [
        ("queuestates", queue, "True"),
        ("nodestates", names[1].as_str(), "SchedulingDisabled"),
    ] {
        // The operator writes the status of a new queue after some time.
        let viewer_output = eventually(SOON, || async {
            let (ok, output) = scene.run_kubectl(&viewer, &["get", kind]).await;
            let row = output.lines().find(|line| line.starts_with(row));
            ensure!(
                ok && row.is_some_and(|row| row.contains(expected)),
                "{output}"
            );
            Ok(())
        });
        viewer_output.await.unwrap();
    }
}
