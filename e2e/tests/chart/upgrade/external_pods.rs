//! Gangs of external pods: one is placed, and one is pending until its second pod exists.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{ListParams, PostParams};
use serde_json::json;
use trellis_api::PodGroup;
use trellis_api::pod_group::PodGroupPhase;
use trellis_e2e::cluster::SCOPE_LABEL;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::{eventually, wait_for};

const POD_GROUP_LABEL: &str = "trellis.dev/pod-group";

pub(super) async fn submit_gangs(site: &TestSite) -> Result<()> {
    for name in ["placed", "parted"] {
        let group = json!({"metadata": {"name": name}, "spec": {"minMember": 2}});
        let group: PodGroup = serde_json::from_value(group)?;
        site.api().create(&PostParams::default(), &group).await?;
    }
    for name in ["placed-0", "placed-1", "parted-0"] {
        create_pod(site, name).await?;
    }
    wait_until_placed(site, "placed").await?;
    eventually(SOON, async || {
        let pod = site.api::<Pod>().get("parted-0").await?;
        let conditions = pod.status.unwrap_or_default().conditions;
        let condition_message = conditions.into_iter().flatten().find_map(|c| c.message);
        let condition_message = condition_message.unwrap_or_default();
        ensure!(
            condition_message.starts_with("MembersMissing: "),
            "{condition_message}"
        );
        Ok(())
    })
    .await
}

/// Returns the pods with their uids and nodes.
pub(super) async fn pod_placements(
    site: &TestSite,
) -> Result<BTreeMap<String, (String, Option<String>)>> {
    let all = ListParams::default().labels(POD_GROUP_LABEL);
    let pods = site.api::<Pod>().list(&all).await?.items.into_iter();
    let uids_and_nodes = pods.map(|pod| {
        let uid = pod.uid().unwrap_or_default();
        (pod.name_any(), (uid, pod.spec.and_then(|s| s.node_name)))
    });
    Ok(uids_and_nodes.collect())
}

/// Completes the pending gang, and waits until it is placed.
pub(super) async fn complete_waiting_gang(site: &TestSite) -> Result<()> {
    create_pod(site, "parted-1").await?;
    wait_until_placed(site, "parted").await
}

/// Creates a pod of a gang. The name of the pod starts with the name of the gang.
async fn create_pod(site: &TestSite, name: &str) -> Result<()> {
    let gang = name.split('-').next();
    let pod = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {POD_GROUP_LABEL: gang}},
        "spec": {
            "schedulerName": "trellis",
            "nodeSelector": {SCOPE_LABEL: site.name()},
            "containers": [{"name": "main", "image": "registry.example/sweep:1.0",
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
        },
    }))?;
    let pods = site.api::<Pod>();
    pods.create(&PostParams::default(), &pod).await?;
    Ok(())
}

async fn wait_until_placed(site: &TestSite, name: &str) -> Result<()> {
    let is_placed = |group: &PodGroup| {
        let status = group.status.as_ref();
        status.and_then(|status| status.phase) == Some(PodGroupPhase::Placed)
    };
    wait_for(&site.api::<PodGroup>(), name, SOON, is_placed).await?;
    let pod_names = [format!("{name}-0"), format!("{name}-1")];
    eventually(SOON, async || {
        let pods = pod_placements(site).await?;
        let is_bound = |pod: &String| pods.get(pod).is_some_and(|(_, node)| node.is_some());
        ensure!(pod_names.iter().all(is_bound), "{pods:?}");
        Ok(())
    })
    .await
}
