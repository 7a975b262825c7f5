//! The operator is killed after the k-th write for a replica group that cannot return to its nodes:
//! another group replaces it, and it comes back elsewhere.

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::operator::{RECOVERY_TIMEOUT, Succession, kill_after_every_write};
use trellis_e2e::proxy::TrapTiming;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::pod_uids;
use trellis_e2e::wait::wait_for;

use super::{KillMoments, counted_write_filter, delete_jobs, start_succession};

/// Returns true if both groups run, and no pod is missing.
fn is_whole(job: &TrainingJob, disruptions: i64) -> bool {
    let status = job.status.as_ref();
    status.is_some_and(|s| {
        let awaited = s.internal.awaited_pods.as_ref();
        let missing = awaited.map_or(0, |awaited| awaited.pods.len());
        s.phase == Some(JobPhase::Running)
            && s.ready.as_deref() == Some("4/4")
            && (s.disruptions.unwrap_or(0), missing) == (disruptions, 0)
    })
}

async fn survives_kill(operators: &mut Succession, k: u64, moment: TrapTiming) -> bool {
    let nodes = NodeTemplate::new(6).gpus(8).racks(2);
    let site = TestSite::new(&operators.control_plane, "slices", nodes).await;
    let level = format!("{}-rack", site.name());
    let topology = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "Topology",
        "metadata": {"name": site.name()},
        "spec": {"levels": [{"name": level, "nodeLabel": "trellis.dev/rack"}]},
    });
    let topology = topology.to_string();
    operators.control_plane.apply_yaml(&topology).await.unwrap();
    let mut job = site.job("j", 4, 8);
    job["spec"]["taskGroups"][0]["minReplicas"] = json!(2);
    job["spec"]["taskGroups"][0]["topology"] = json!({"slices": [{"level": level, "pods": 2}]});
    site.create(job).await.unwrap();
    let api = site.api::<TrainingJob>();
    let begun = wait_for(&api, "j", RECOVERY_TIMEOUT, |job: &TrainingJob| {
        is_whole(job, 0)
    })
    .await;
    begun.unwrap_or_else(|e| panic!("{e:#}"));
    let pods = site.list_pods("j").await;
    let before = pod_uids(&pods);
    let first = pods
        .iter()
        .find(|pod| pod.metadata.name.as_deref() == Some("j-worker-0"));
    let node = first.unwrap().spec.as_ref().unwrap().node_name.clone();
    let fired = operators.kill_after_write(k, moment, counted_write_filter(site.name()));
    site.nodes().cordon(&node.unwrap()).await.unwrap();
    site.delete::<Pod>("j-worker-0").await;
    let (status, reached) = operators
        .wait_through_kill(&site, "j", (fired, k, moment), |job: &TrainingJob| {
            is_whole(job, 1)
        })
        .await;
    assert_eq!(
        (status.attempt, status.restarts, status.disruptions),
        (Some(1), Some(0), Some(1)),
        "after write {k} ({moment:?})"
    );
    let after = pod_uids(&site.list_pods("j").await);
    assert_eq!(before.intersection(&after).count(), 2, "after write {k}");
    assert_eq!(after.len(), 4, "after write {k}");
    delete_jobs(&site, &["j"]).await;
    reached
}

async fn replica_group_is_replaced_in_spite_of_a_crash_at_each_write(moments: KillMoments) {
    let mut operators = start_succession().await;
    // The writes are the status, two deletes, the journal, two creates and a status.
    kill_after_every_write(7, async |k| {
        survives_kill(&mut operators, k, moments.at_write(k)).await
    })
    .await;
}

at_both_moments!(replica_group_is_replaced_in_spite_of_a_crash_at_each_write);
