//! Fields of Trellis or of the task group are refused in a template.

use super::*;

#[test]
fn template_field_that_trellis_sets_is_refused_with_the_fix() {
    for (field, value, words) in [
        ("nodeName", json!("n"), "nodeSelector"),
        ("hostname", json!("h"), "leave it out"),
        ("hostnameOverride", json!("h"), "leave it out"),
        ("subdomain", json!("s"), "leave it out"),
        ("setHostnameAsFQDN", json!(true), "leave it out"),
        ("restartPolicy", json!("Always"), "spec.restart"),
        ("schedulerName", json!("other"), "trellis"),
        ("schedulingGates", json!([{"name": "g"}]), "leave it out"),
        (
            "schedulingGroup",
            json!({"podGroupName": "g"}),
            "leave it out",
        ),
        ("priority", json!(7), "spec.priorityClassName"),
        ("priorityClassName", json!("high"), "spec.priorityClassName"),
        ("preemptionPolicy", json!("Never"), "leave it out"),
        ("serviceAccountName", json!("a"), "spec.serviceAccountName"),
        ("serviceAccount", json!("a"), "spec.serviceAccountName"),
        ("activeDeadlineSeconds", json!(1), "spec.deadlines"),
        ("terminationGracePeriodSeconds", json!(1), "leave it out"),
        ("overhead", json!({"cpu": 1}), "runtimeClassName"),
        (
            "resources",
            json!({"requests": {"cpu": 1}}),
            "resources of the task group",
        ),
        ("resourceClaims", json!([{"name": "c"}]), "resources.limits"),
        (
            "ephemeralContainers",
            json!([{"name": "e"}]),
            "kubectl debug",
        ),
        (
            "evictionResponders",
            json!([{"name": "a", "priority": 1}]),
            "leave it out",
        ),
        ("os", json!({"name": "windows"}), "Linux"),
        (
            "topologySpreadConstraints",
            json!([{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]),
            "topology",
        ),
        (
            "readinessGates",
            json!([{"conditionType": "c"}]),
            "leave it out",
        ),
    ] {
        assert_one_violation(spec(field, value), &format!("spec.{field}"), words);
    }
    for field in [
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
    ] {
        assert_one_violation(
            json!({"metadata": {field: "x"}}),
            &format!("metadata.{field}"),
            "is Trellis' to set",
        );
    }
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]);
    assert_one_violation(
        json!({"metadata": {"ownerReferences": owner}}),
        "metadata.ownerReferences",
        "is Trellis' to set",
    );
    assert_one_violation(
        json!({"metadata": {"finalizers": ["f"]}}),
        "metadata.finalizers",
        "is Trellis' to set",
    );
    for key in [
        "trellis.dev/job-uid",
        "container.apparmor.security.beta.kubernetes.io/main",
        "cdi.k8s.io/gpu",
    ] {
        assert_one_violation(
            json!({"metadata": {"annotations": {key: "x"}}}),
            "metadata.annotations",
            "reserved",
        );
        assert_one_violation(
            json!({"metadata": {"labels": {key: "x"}}}),
            "metadata.labels",
            "reserved",
        );
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let affinity = json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": []}});
        assert_one_violation(
            spec("affinity", affinity),
            &format!("spec.affinity.{kind}"),
            "nodeAffinity",
        );
    }
}

#[test]
fn template_field_that_the_task_group_sets_is_refused() {
    for (field, value) in [
        ("image", json!("i")),
        ("imagePullPolicy", json!("Always")),
        ("resources", json!({"requests": {"nvidia.com/gpu": "8"}})),
        ("restartPolicy", json!("Always")),
        ("restartPolicyRules", json!([])),
    ] {
        let written = container("containers", "main", json!({field: value}));
        assert_one_violation(written, &format!("spec.containers[0].{field}"), "set ");
    }
}

#[test]
fn template_volume_with_a_reserved_name_is_refused() {
    for name in [
        "shared-memory",
        "claim-0",
        "config-map-12",
        "secret-",
        "empty-dir-3",
    ] {
        assert_one_violation(
            spec("volumes", json!([{"name": name, "emptyDir": {}}])),
            "spec.volumes[0].name",
            "choose another",
        );
    }
    assert_eq!(
        violation_rows(spec(
            "volumes",
            json!([{"name": "claim-a", "emptyDir": {}}])
        )),
        []
    );
    assert_one_violation(
        spec("volumes", json!([{"emptyDir": {}}])),
        "spec.volumes[0].name",
        "is required",
    );
}
