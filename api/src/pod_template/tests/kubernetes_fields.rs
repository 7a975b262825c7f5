//! Fields of Kubernetes are accepted as they are written.

use super::*;

#[test]
fn template_with_kubernetes_fields_is_accepted() {
    for written in [
        json!({}),
        json!({"metadata": {"labels": {"team": "a"}, "annotations": {"example.com/x": "y"}}}),
        json!({"metadata": null, "spec": null}),
        spec("hostIPC", json!(true)),
        spec("runtimeClassName", json!("nvidia")),
        spec(
            "dnsConfig",
            json!({"options": [{"name": "ndots", "value": "1"}]}),
        ),
        spec("tolerations", json!([{"key": "a", "operator": "Exists"}])),
        spec(
            "volumes",
            json!([{"name": "dev", "hostPath": {"path": "/dev"}}]),
        ),
        spec(
            "volumes",
            json!([{"name": "scratch", "emptyDir": {"sizeLimit": 1048576}}]),
        ),
        container(
            "initContainers",
            "fetch",
            json!({
                "image": "i", "restartPolicy": "Always",
                "resources": {"requests": {"cpu": 1, "memory": "64Mi"}, "limits": {"cpu": "1000m", "memory": "64Mi"}},
            }),
        ),
        container(
            "containers",
            "beside",
            json!({"image": "i", "resources": {"limits": {"cpu": 1, "memory": "64Mi", "ephemeral-storage": "1Gi"}}}),
        ),
        // A patch of one of the profile's containers.
        container(
            "initContainers",
            "fetch",
            json!({"env": [{"name": "A", "value": "b"}]}),
        ),
        container(
            "containers",
            "main",
            json!({
                "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                "env": [{"name": "NCCL_DEBUG", "value": "INFO"}],
                "livenessProbe": {"httpGet": {"port": 8080}},
            }),
        ),
    ] {
        assert_eq!(violation_rows(written.clone()), [], "{written}");
    }
}

#[test]
fn template_field_unknown_to_kubernetes_is_refused_with_its_path() {
    assert_one_violation(json!({"sepc": {}}), "sepc", "no known field");
    assert_one_violation(
        spec("nodeSelecter", json!({"a": "b"})),
        "spec.nodeSelecter",
        "no known field",
    );
    assert_one_violation(
        container(
            "containers",
            "main",
            json!({"securityContext": {"privilegd": true}}),
        ),
        "spec.containers[0].securityContext.privilegd",
        "no known field",
    );
    assert_one_violation(
        spec(
            "volumes",
            json!([{"name": "v", "secret": {"secretNam": "s"}}]),
        ),
        "spec.volumes[0].secret.secretNam",
        "no known field",
    );
    assert_one_violation(
        spec("hostIPC", json!("yes")),
        "spec.hostIPC",
        "must be true or false, not the text",
    );
    assert_one_violation(spec("volumes", json!({})), "spec.volumes", "a list");
    let deep = (0..100).fold(json!(1), |inner, _| json!({"a": inner}));
    assert_one_violation(json!({"spec": deep}), "spec.a", "no known field");
}

#[test]
fn template_beyond_the_size_bound_is_refused() {
    let of = |length: usize| json!({"metadata": {"annotations": {"a": "x".repeat(length)}}});
    assert_eq!(violation_rows(of(MAX_TEMPLATE - 100)), []);
    assert_one_violation(of(MAX_TEMPLATE), "", "32768 bytes");
}

#[test]
fn template_is_serialized_as_written() {
    let written = container(
        "initContainers",
        "i",
        json!({"resources": {"requests": {"cpu": 1}}}),
    );
    assert_eq!(
        serde_json::to_value(template(written.clone())).unwrap(),
        written
    );
}
