//! Claims that are created with each pod.

use super::*;

fn ephemeral_volume(template: Value) -> Value {
    spec(
        "volumes",
        json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]),
    )
}

fn ephemeral_volume_with(field: &str, value: Value) -> Value {
    let mut spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "100Gi"}},
    });
    spec[field] = value;
    ephemeral_volume(json!({"spec": spec}))
}

#[test]
fn valid_claim_template_is_accepted() {
    assert_eq!(
        violation_rows(ephemeral_volume_with("storageClassName", json!("fast"))),
        []
    );
    let metadata = json!({"labels": {"team": "a"}, "annotations": {"note": "b"}});
    let mut written = ephemeral_volume_with("volumeMode", json!("Filesystem"));
    written["spec"]["volumes"][0]["ephemeral"]["volumeClaimTemplate"]["metadata"] = metadata;
    assert_eq!(violation_rows(written), []);
}

#[test]
fn unbindable_claim_template_is_refused_with_its_field() {
    let at = "spec.volumes[0].ephemeral.volumeClaimTemplate";
    assert_one_violation(
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
        assert_one_violation(
            ephemeral_volume_with(field, value),
            &format!("{at}.spec.{path}"),
            words,
        );
    }
    for key in [
        "trellis.dev/plan",
        "volume.kubernetes.io/selected-node",
        "pv.kubernetes.io/bind-completed",
        "volume.beta.kubernetes.io/storage-class",
    ] {
        let mut written = ephemeral_volume_with("storageClassName", json!("fast"));
        let template = &mut written["spec"]["volumes"][0]["ephemeral"]["volumeClaimTemplate"];
        template["metadata"] = json!({"annotations": {key: "x"}});
        assert_one_violation(
            written,
            &format!("{at}.metadata.annotations[{key}]"),
            "leave it out",
        );
    }
}
