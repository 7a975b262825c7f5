//! GPUs that turn unhealthy, as a device plugin says: the kubelet offers fewer, and kills nothing.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use trellis_api::job::JobPhase;
use trellis_e2e::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::scene::Weather::Storm;
use crate::scene::{End, GPUS, Place, Scene, is_undisturbed};

const INSUFFICIENT: &str = "InsufficientCapacity";

/// Marks these GPUs as unhealthy, and waits until the node offers only the others.
async fn only_unhealthy(scene: &Scene, node: &str, gpus: &[&str]) {
    scene.nodes.set_unhealthy(node, gpus).unwrap();
    let left = GPUS - u32::try_from(gpus.len()).unwrap();
    eventually(SOON, || scene.is_well(node, left))
        .await
        .unwrap();
}

/// The GPUs of a node that pods of a job have, as they say themselves.
async fn gpus(place: &Place, job: &str, node: &str) -> BTreeSet<String> {
    let is_there = |pod: &Pod| {
        let on = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        on == Some(node)
    };
    let pods = place.pods(job).await.into_iter().filter(is_there);
    let pods: BTreeSet<String> = pods.map(|pod| pod.name_any()).collect();
    eventually(SOON, || async {
        let logs = place.logs(job).await.into_iter();
        let there = logs.filter(|(pod, _)| pods.contains(pod));
        let has = |(pod, log): (String, String)| {
            let line = log
                .lines()
                .next()
                .and_then(|line| line.strip_prefix("has "));
            line.map(str::to_owned)
                .with_context(|| format!("{pod}: {log:?}"))
        };
        there.map(has).collect()
    })
    .await
    .unwrap()
}

/// Waits until a job is queued with that reason, and a message that begins so.
async fn waits_for(place: &Place, job: &str, why: &str, said: &str) {
    place
        .becomes(job, |status| {
            let reason = status.reason.map(|reason| reason.as_str());
            let message = status.full_message();
            status.phase == Some(JobPhase::Queued)
                && reason == Some(why)
                && message.starts_with(said)
        })
        .await;
}

/// Lets gangs that [wait](Place::waits) for it end.
fn end(shared: &Path, jobs: &[&str]) {
    for job in jobs {
        std::fs::write(shared.join(job), "").unwrap();
    }
}

/// A gang that has all GPUs of a node, and the node.
async fn fills(place: &Place, job: &str) -> String {
    place.create(place.waits(job, GPUS, 1)).await.unwrap();
    place.reaches(job, JobPhase::Running).await;
    let nodes = place.nodes(job).await;
    assert_eq!(nodes.len(), 1, "{nodes:?}");
    nodes.into_iter().next().unwrap()
}

/// No condition or taint reports the node as unhealthy, so its gang goes on.
pub(crate) async fn under(scene: &'static Scene, place: Place) -> End {
    let shared = place.shared_folder("shared").await;
    let node = fills(&place, "first").await;
    only_unhealthy(scene, &node, &["GPU-1"]).await;
    // More is held there than there is, which makes the other node no smaller.
    assert_ne!(fills(&place, "beside").await, node);
    place.create(place.waits("next", 3, 1)).await.unwrap();
    waits_for(
        &place,
        "next",
        INSUFFICIENT,
        "needs 3 nvidia.com/gpu, 0 are free",
    )
    .await;

    end(&shared, &["first"]);
    is_undisturbed(&place.ends("first").await);
    is_undisturbed(&place.reaches("next", JobPhase::Running).await);
    assert_eq!(gpus(&place, "next", &node).await, named(&[0, 2, 3]));
    end(&shared, &["beside", "next"]);
    is_undisturbed(&place.ends("beside").await);
    is_undisturbed(&place.ends("next").await);
    End::Passed
}

/// A restarted gang returns to its node, except for the unhealthy GPUs.
pub(crate) async fn fails(scene: &'static Scene, place: Place) -> End {
    let shared = place.shared_folder("shared").await;
    let node = fills(&place, "j").await;
    only_unhealthy(scene, &node, &["GPU-0"]).await;
    end(&shared, &["j-fails-1"]);
    let again = place.runs_again("j", 2).await.status.unwrap();
    assert_eq!((again.restarts, again.disruptions), (Some(1), Some(0)));
    assert_eq!(gpus(&place, "j", &node).await, named(&[1, 2, 3]));
    end(&shared, &["j"]);
    place.ends("j").await;
    End::Passed
}

/// A job that needs all GPUs waits. A job that needs only the healthy ones runs.
pub(crate) async fn all(scene: &'static Scene, place: Place) -> End {
    let shared = place.shared_folder("shared").await;
    place.create(place.waits("one", 1, 1)).await.unwrap();
    place.reaches("one", JobPhase::Running).await;
    place.create(place.waits("all", 2 * GPUS, 1)).await.unwrap();
    waits_for(
        &place,
        "all",
        INSUFFICIENT,
        "needs 8 nvidia.com/gpu, 7 are free",
    )
    .await;
    let [node, _] = Storm.nodes();
    only_unhealthy(scene, &node, &["GPU-2"]).await;
    let small = "needs 8 nvidia.com/gpu; 2 matching nodes have 7 even when empty";
    waits_for(&place, "all", "ExceedsCluster", small).await;

    end(&shared, &["one"]);
    place.ends("one").await;
    let well = place.waits("well", 2 * GPUS - 1, 1);
    place.create(well).await.unwrap();
    is_undisturbed(&place.reaches("well", JobPhase::Running).await);
    assert_eq!(gpus(&place, "well", &node).await, named(&[0, 1, 3]));

    only_unhealthy(scene, &node, &[]).await;
    waits_for(
        &place,
        "all",
        INSUFFICIENT,
        "needs 8 nvidia.com/gpu, 1 is free",
    )
    .await;
    end(&shared, &["well"]);
    is_undisturbed(&place.ends("well").await);
    is_undisturbed(&place.reaches("all", JobPhase::Running).await);
    assert_eq!(gpus(&place, "all", &node).await, named(&[0, 1, 2, 3]));
    end(&shared, &["all"]);
    is_undisturbed(&place.ends("all").await);
    End::Passed
}

fn named(gpus: &[u32]) -> BTreeSet<String> {
    gpus.iter().map(|gpu| format!("GPU-{gpu}")).collect()
}
