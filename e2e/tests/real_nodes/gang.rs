//! A gang that runs on more than one node, and whose ranks find each other.

use std::collections::BTreeSet;

use serde_json::json;

use crate::scene::{End, Place, Scene};

pub(crate) async fn peers(_: &'static Scene, place: Place) -> End {
    place.program("peers.py", include_str!("peers.py")).await;
    let mut job = place.runs("j", 4, &["python3", "/app/peers.py"]);
    job["spec"]["taskGroups"][0]["env"] = json!([{"name": "NAMESPACE", "value": place.name()}]);
    place.create(job).await.unwrap();
    place.ends("j").await;
    let pods = place.pods("j").await;
    let nodes: BTreeSet<_> = pods
        .iter()
        .filter_map(|p| p.spec.as_ref()?.node_name.clone())
        .collect();
    assert_eq!(nodes.len(), 2, "{nodes:?}");
    for (pod, log) in place.logs("j").await {
        assert!(log.contains("GPU-"), "{pod}: {log}");
    }
    End::Passed
}
