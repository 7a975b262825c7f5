//! Replica groups: one group fails and comes back, while the other group trains on.

use std::collections::BTreeMap;

use anyhow::ensure;
use kube::ResourceExt as _;
use serde_json::json;
use trellis_e2e::real_nodes::kill_rank;
use trellis_e2e::wait::eventually;

use crate::fixtures::{RealNodesFixture, TRAINING_TIMEOUT, TrialNamespace, TrialOutcome};

pub(crate) async fn test_failed_group(
    scene: &'static RealNodesFixture,
    place: TrialNamespace,
) -> TrialOutcome {
    if !scene.nodes.has_pytorch() {
        return TrialOutcome::Skipped(
            "no PyTorch: there was no package python3-torch, and may be when the cache has no folder `image`",
        );
    }
    let topology = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "Topology",
        "metadata": {"name": "real-nodes"},
        "spec": {"levels": [{"name": "real-node", "nodeLabel": "kubernetes.io/hostname"}]},
    });
    let topology = topology.to_string();
    scene.control_plane.apply_yaml(&topology).await.unwrap();
    let shared = place.create_shared_volume("state").await;
    place
        .create_program("groups.py", include_str!("replica_groups.py"))
        .await;
    let command = ["torchrun", "--monitor_interval=0.5", "/app/groups.py"];
    let mut job = place.job_running("ft", 4, &command);
    job["spec"]["restart"] = json!({"backoffSeconds": 1});
    let group = &mut job["spec"]["taskGroups"][0];
    group["minReplicas"] = json!(2);
    group["topology"] = json!({"slices": [{"level": "real-node", "pods": 2}]});
    group["resources"]["limits"]["cpu"] = json!("500m");
    group["env"] = json!([{"name": "REPLICA_GROUP_ID", "value": "$(TRELLIS_SLICE)"}]);
    let mounts = group["mounts"].as_array_mut().unwrap();
    mounts.push(json!({"claimName": "state", "path": "/shared-state"}));
    place.create(job).await.unwrap();
    eventually(TRAINING_TIMEOUT, || async {
        for state in ["group-0.pt", "group-1.pt"] {
            let logs = place.pod_logs("ft").await;
            ensure!(shared.join(state).is_file(), "no {state}: {logs:#?}");
        }
        Ok(())
    })
    .await
    .unwrap();
    let uids = async || -> BTreeMap<String, Option<String>> {
        let pods = place.list_pods("ft").await.into_iter();
        pods.map(|pod| (pod.name_any(), pod.uid())).collect()
    };
    let before = uids().await;
    kill_rank("ft", 1, "/app/groups.py").unwrap();
    let job = place.wait_until_complete("ft").await.status.unwrap();
    let logs = place.pod_logs("ft").await;
    assert_eq!((job.attempt, job.restarts), (Some(1), Some(1)), "{logs:#?}");
    let after = uids().await;
    for (pod, is_same) in [
        ("ft-worker-0", false),
        ("ft-worker-1", false),
        ("ft-worker-2", true),
        ("ft-worker-3", true),
    ] {
        assert_eq!(before[pod] == after[pod], is_same, "{pod}: {logs:#?}");
    }
    let start_of = |pod: &str| -> u32 {
        let (_, log) = logs.iter().find(|(name, _)| name == pod).unwrap();
        let mut starts = log
            .lines()
            .filter(|line| line.contains("of 2 pods starts at step"));
        let start = starts.next().unwrap_or_else(|| panic!("{pod}: {log}"));
        assert_eq!(starts.next(), None, "{pod}: {log}");
        start.rsplit(' ').next().unwrap().parse().unwrap()
    };
    // The group that failed goes on from the state of the other group, which began only once.
    assert!(start_of("ft-worker-1") > 0, "{logs:#?}");
    assert!(
        start_of("ft-worker-3") < start_of("ft-worker-1"),
        "{logs:#?}"
    );
    TrialOutcome::Passed
}
