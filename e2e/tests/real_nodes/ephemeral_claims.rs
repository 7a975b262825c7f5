//! Ephemeral claims: a kubelet starts no container before the claims are bound.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt as _;
use serde_json::json;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::volumes::late_binding_class_yaml;
use trellis_e2e::wait::eventually;

use crate::fixtures::{RealNodesFixture, TrialNamespace, TrialOutcome};

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

pub(crate) async fn test_scratch_volumes(
    _: &'static RealNodesFixture,
    place: TrialNamespace,
) -> TrialOutcome {
    place.create_program("unused", "").await;
    let class = place.name().to_owned();
    place
        .apply_yaml(&late_binding_class_yaml(&class, Some("disks.example")))
        .await;
    let writes = "echo \"$HOSTNAME on $NODE\" > /scratch/who && cat /scratch/who";
    let mut job = place.job_running("j", 2, &["sh", "-c", writes]);
    let group = &mut job["spec"]["taskGroups"][0];
    group["gpus"] = json!(3);
    let claim_spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "resources": {"requests": {"storage": "1Gi"}}});
    group["podTemplate"] = json!({"spec": {
        "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec}}}],
        "containers": [{"name": "main",
            "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
            "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]}],
    }});
    place.create(job).await.unwrap();
    // The test acts as the provisioner: it creates a volume on the node that each claim names.
    let claims = place.api::<PersistentVolumeClaim>();
    let mut folders = Vec::new();
    for pod in ["j-worker-0", "j-worker-1"] {
        let name = format!("{pod}-scratch");
        let selection = eventually(SOON, || async {
            let claim = claims.get(&name).await?;
            let node = claim.annotations().get(SELECTED_NODE).cloned();
            Ok((node.context("no node is selected")?, claim.uid()))
        });
        let (node, uid) = selection.await.unwrap();
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": place.name(), "name": name, "uid": uid});
        folders.push((
            pod,
            node.clone(),
            place.create_disk(&name, &class, &node, &claim).await,
        ));
    }
    place.wait_until_complete("j").await;
    for (pod, node, folder) in folders {
        let pod_name = std::fs::read_to_string(folder.join("who")).unwrap();
        assert_eq!(pod_name, format!("{pod} on {node}\n"));
    }
    TrialOutcome::Passed
}
