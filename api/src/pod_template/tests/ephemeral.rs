//! Claims that come with each pod.

use super::*;

fn template(template: Value) -> Value {
    spec(
        "volumes",
        json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]),
    )
}

fn asks(field: &str, value: Value) -> Value {
    let mut spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "100Gi"}},
    });
    spec[field] = value;
    template(json!({"spec": spec}))
}

#[test]
fn a_claim_that_kubernetes_takes_is_taken() {
    assert_eq!(wrong(asks("storageClassName", json!("fast"))), []);
    let metadata = json!({"labels": {"team": "a"}, "annotations": {"note": "b"}});
    let mut written = asks("volumeMode", json!("Filesystem"));
    written["spec"]["volumes"][0]["ephemeral"]["volumeClaimTemplate"]["metadata"] = metadata;
    assert_eq!(wrong(written), []);
}

#[test]
fn what_nobody_could_bind_is_told_with_its_field() {
    let at = "spec.volumes[0].ephemeral.volumeClaimTemplate";
    one(
        spec("volumes", json!([{"name": "v", "ephemeral": {}}])),
        at,
        "is required",
    );
    for (field, value, path, words) in [
        ("accessModes", json!([]), "accessModes", "ReadWriteOncePod"),
        (
            "accessModes",
            json!(["ReadWriteOnce", "Read"]),
            "accessModes[1]",
            "\"Read\" is none of",
        ),
        (
            "resources",
            json!({}),
            "resources.requests.storage",
            "100Gi",
        ),
        (
            "resources",
            json!({"requests": {"storage": "0"}}),
            "resources.requests.storage",
            "",
        ),
        ("volumeName", json!("disk"), "volumeName", "all pods"),
        (
            "dataSource",
            json!({"kind": "PersistentVolumeClaim", "name": "secret-data"}),
            "dataSource",
            "mount the claim",
        ),
        (
            "dataSourceRef",
            json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}),
            "dataSourceRef",
            "mount the claim",
        ),
    ] {
        one(asks(field, value), &format!("{at}.spec.{path}"), words);
    }
    for key in [
        "trellis.dev/plan",
        "volume.kubernetes.io/selected-node",
        "pv.kubernetes.io/bind-completed",
        "volume.beta.kubernetes.io/storage-class",
    ] {
        let mut written = asks("storageClassName", json!("fast"));
        let template = &mut written["spec"]["volumes"][0]["ephemeral"]["volumeClaimTemplate"];
        template["metadata"] = json!({"annotations": {key: "x"}});
        one(
            written,
            &format!("{at}.metadata.annotations[{key}]"),
            "leave it out",
        );
    }
}
