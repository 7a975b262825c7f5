//! Containers other than the task group's own.

use super::*;

#[test]
fn other_container_with_reserved_or_missing_fields_is_refused() {
    for kind in ["containers", "initContainers"] {
        let path = |field: &str| format!("spec.{kind}[0].{field}");
        let of = |says: Value| container(kind, "side", says);
        assert_one_violation(container(kind, "", json!({})), &path("name"), "is required");
        assert_one_violation(
            of(json!({"env": [{"name": "TRELLIS_RANK", "value": "0"}]})),
            &path("env[0].name"),
            "TRELLIS_*",
        );
        assert_one_violation(
            of(json!({"envFrom": [{"prefix": "TRELLIS_", "secretRef": {"name": "s"}}]})),
            &path("envFrom[0].prefix"),
            "TRELLIS_",
        );
        assert_one_violation(
            of(json!({"ports": [{"containerPort": 1, "hostPort": 1}]})),
            &path("ports[0].hostPort"),
            "leave it out",
        );
        assert_one_violation(
            of(
                json!({"resources": {"claims": [{"name": "c"}], "limits": {"cpu": 1, "memory": "1Gi"}}}),
            ),
            &path("resources.claims"),
            "dynamic resource allocation",
        );
        // GPUs here would bypass quotas and policies on GPUs.
        assert_one_violation(
            of(json!({"resources": {"limits": {"nvidia.com/gpu": 8, "cpu": 1, "memory": "1Gi"}}})),
            &path("resources.limits.nvidia.com/gpu"),
            "gpus",
        );
        for (name, amount, words) in [
            ("cpu", "-1", "amount of CPU"),
            ("memory", "9e99", "amount of bytes"),
            ("memory", "1", "amount of bytes"),
        ] {
            let mut limits = json!({"cpu": 1, "memory": "1Gi"});
            limits[name] = json!(amount);
            assert_one_violation(
                of(json!({"resources": {"limits": limits}})),
                &path(&format!("resources.limits.{name}")),
                words,
            );
        }
    }
    assert_one_violation(
        container("initContainers", "main", json!({})),
        "spec.initContainers[0].name",
        "choose another",
    );
    assert_one_violation(
        container("initContainers", "i", json!({"restartPolicy": "OnFailure"})),
        "spec.initContainers[0].restartPolicy",
        "Always",
    );
    assert_one_violation(
        container("initContainers", "i", json!({"restartPolicyRules": []})),
        "spec.initContainers[0].restartPolicyRules",
        "leave it out",
    );
    assert_one_violation(
        container("containers", "c", json!({"restartPolicy": "Always"})),
        "spec.containers[0].restartPolicy",
        "initContainers",
    );
    let twice = json!({"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "a"}]}});
    assert_one_violation(twice, "spec.initContainers[0].name", "stands twice");
}

/// Policies, placement and quota account for every resource that a pod uses.
#[test]
fn other_container_must_limit_its_counted_resources() {
    for kind in ["containers", "initContainers"] {
        let path = |field: &str| format!("spec.{kind}[0].resources.{field}");
        let of = |resources: Value| {
            container(kind, "side", json!({"image": "i", "resources": resources}))
        };
        assert_one_violation(
            container(kind, "side", json!({"image": "i"})),
            &path("limits"),
            "must name cpu and memory",
        );
        for (resources, missing) in [
            (json!({}), "must name cpu and memory"),
            (
                json!({"requests": {"cpu": 1, "memory": "1Gi"}}),
                "must name cpu and memory",
            ),
            (json!({"limits": {"cpu": 1}}), "must name memory"),
            (
                json!({"limits": {"memory": "1Gi"}, "requests": {"cpu": 1}}),
                "must name cpu",
            ),
        ] {
            assert_one_violation(of(resources.clone()), &path("limits"), missing);
            // A patch of a profile's container must not remove its limits either.
            let changed = container(kind, "side", json!({"resources": resources}));
            assert_one_violation(changed, &path("limits"), missing);
        }
        for (name, amount) in [
            ("cpu", "999m"),
            ("memory", "512Mi"),
            ("cpu", "2"),
            ("ephemeral-storage", "1Gi"),
            ("cpu", "what"),
            ("nvidia.com/gpu", "1"),
        ] {
            let limits = json!({"cpu": 1, "memory": "1Gi"});
            assert_one_violation(
                of(json!({"limits": limits, "requests": {name: amount}})),
                &path(&format!("requests.{name}")),
                "leave requests out",
            );
        }
    }
}
