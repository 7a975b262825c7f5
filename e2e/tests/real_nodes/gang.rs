//! A gang on more than one node, whose ranks connect to each other.

use std::collections::BTreeSet;

use serde_json::json;

use crate::fixtures::{RealNodesFixture, TrialNamespace, TrialOutcome};

pub(crate) async fn test_peer_names(
    _: &'static RealNodesFixture,
    place: TrialNamespace,
) -> TrialOutcome {
    place
        .create_program("peers.py", include_str!("peers.py"))
        .await;
    let mut job = place.job_running("j", 4, &["python3", "/app/peers.py"]);
    job["spec"]["taskGroups"][0]["env"] = json!([{"name": "NAMESPACE", "value": place.name()}]);
    place.create(job).await.unwrap();
    place.wait_until_complete("j").await;
    let pods = place.list_pods("j").await;
    let nodes: BTreeSet<_> = pods
        .iter()
        .filter_map(|p| p.spec.as_ref()?.node_name.clone())
        .collect();
    assert_eq!(nodes.len(), 2, "{nodes:?}");
    for (pod, log) in place.pod_logs("j").await {
        assert!(log.contains("GPU-"), "{pod}: {log}");
    }
    TrialOutcome::Passed
}
