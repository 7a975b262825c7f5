//! What Kubernetes knows is taken, as it is written.

use super::*;

#[test]
fn what_kubernetes_knows_and_trellis_leaves_to_people_is_taken() {
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
        // One of the profile's, of which something is changed.
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
        assert_eq!(wrong(written.clone()), [], "{written}");
    }
}

#[test]
fn what_kubernetes_does_not_know_is_refused_with_its_path() {
    one(json!({"sepc": {}}), "sepc", "no known field");
    one(
        spec("nodeSelecter", json!({"a": "b"})),
        "spec.nodeSelecter",
        "no known field",
    );
    one(
        container(
            "containers",
            "main",
            json!({"securityContext": {"privilegd": true}}),
        ),
        "spec.containers[0].securityContext.privilegd",
        "no known field",
    );
    one(
        spec(
            "volumes",
            json!([{"name": "v", "secret": {"secretNam": "s"}}]),
        ),
        "spec.volumes[0].secret.secretNam",
        "no known field",
    );
    one(
        spec("hostIPC", json!("yes")),
        "spec.hostIPC",
        "must be true or false, not the text",
    );
    one(spec("volumes", json!({})), "spec.volumes", "a list");
    let deep = (0..100).fold(json!(1), |inner, _| json!({"a": inner}));
    one(json!({"spec": deep}), "spec.a", "no known field");
}

#[test]
fn it_is_bounded() {
    let of = |length: usize| json!({"metadata": {"annotations": {"a": "x".repeat(length)}}});
    assert_eq!(wrong(of(MAX_TEMPLATE - 100)), []);
    one(of(MAX_TEMPLATE), "", "32768 bytes");
}

#[test]
fn what_is_written_stays_as_it_is_written() {
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
