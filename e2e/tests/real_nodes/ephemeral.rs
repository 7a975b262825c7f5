//! Volumes whose claims come with the pods: a kubelet starts nothing before they are bound.

use serde_json::json;
use trellis_e2e::volumes::late_class;

use crate::scene::{End, Place, Scene, Weather};

pub(crate) async fn scratch(_: &'static Scene, place: Place) -> End {
    place.program("unused", "").await;
    let class = place.name().to_owned();
    place.apply(&late_class(&class, None)).await;
    let mut disks = Vec::new();
    for node in Weather::Calm.nodes() {
        for at in ["x", "y"] {
            let name = format!("{node}-{at}");
            let folder = place.disk(&name, &class, &node).await;
            disks.push((node.clone(), folder));
        }
    }
    let writes = "echo \"$HOSTNAME on $NODE\" > /scratch/who && cat /scratch/who";
    let mut job = place.runs("j", 2, &["sh", "-c", writes]);
    let group = &mut job["spec"]["taskGroups"][0];
    group["gpus"] = json!(3);
    let asked = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "resources": {"requests": {"storage": "1Gi"}}});
    group["podTemplate"] = json!({"spec": {
        "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": asked}}}],
        "containers": [{"name": "main",
            "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
            "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]}],
    }});
    place.create(job).await.unwrap();
    place.ends("j").await;
    let written: Vec<_> = disks
        .iter()
        .filter_map(|(node, folder)| {
            let who = std::fs::read_to_string(folder.join("who")).ok()?;
            assert!(who.ends_with(&format!("on {node}\n")), "{who} on {node}");
            Some(who)
        })
        .collect();
    let logs = place.logs("j").await;
    assert_eq!(written.len(), 2, "{logs:?}");
    assert_ne!(written[0], written[1]);
    End::Passed
}
