use super::*;
use crate::{TrainingJob, ValidatedJob};
use serde_json::json;

fn template(written: Value) -> PodTemplate {
    serde_json::from_value(written).unwrap()
}

/// Path and message of all that is wrong.
fn wrong(written: Value) -> Vec<(String, String)> {
    let violations = template(written).violations();
    violations
        .into_iter()
        .map(|v| (v.path, v.message))
        .collect()
}

#[track_caller]
fn one(written: Value, path: &str, words: &str) {
    let all = wrong(written.clone());
    assert_eq!(all.len(), 1, "{written}: {all:?}");
    assert_eq!(all[0].0, path, "{written}");
    assert!(all[0].1.contains(words), "{}", all[0].1);
}

fn spec(field: &str, value: Value) -> Value {
    json!({"spec": {field: value}})
}

/// A container of this kind and name that says this.
fn container(kind: &str, name: &str, says: Value) -> Value {
    let mut container = json!({"name": name});
    let says = says.as_object().unwrap().clone();
    container.as_object_mut().unwrap().extend(says);
    json!({"spec": {kind: [container]}})
}

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
fn what_is_trellis_own_is_refused_with_the_way_out() {
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
        (
            "resourceClaims",
            json!([{"name": "c"}]),
            "resources.extended",
        ),
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
        one(spec(field, value), &format!("spec.{field}"), words);
    }
    for field in [
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
    ] {
        one(
            json!({"metadata": {field: "x"}}),
            &format!("metadata.{field}"),
            "is Trellis' to set",
        );
    }
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]);
    one(
        json!({"metadata": {"ownerReferences": owner}}),
        "metadata.ownerReferences",
        "is Trellis' to set",
    );
    one(
        json!({"metadata": {"finalizers": ["f"]}}),
        "metadata.finalizers",
        "is Trellis' to set",
    );
    for key in [
        "trellis.dev/job-uid",
        "container.apparmor.security.beta.kubernetes.io/main",
        "cdi.k8s.io/gpu",
    ] {
        one(
            json!({"metadata": {"annotations": {key: "x"}}}),
            "metadata.annotations",
            "reserved",
        );
        one(
            json!({"metadata": {"labels": {key: "x"}}}),
            "metadata.labels",
            "reserved",
        );
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let affinity = json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": []}});
        one(
            spec("affinity", affinity),
            &format!("spec.affinity.{kind}"),
            "nodeAffinity",
        );
    }
}

#[test]
fn what_the_task_group_says_of_its_container_is_said_there() {
    for (field, value) in [
        ("image", json!("i")),
        ("imagePullPolicy", json!("Always")),
        ("resources", json!({"requests": {"nvidia.com/gpu": "8"}})),
        ("restartPolicy", json!("Always")),
        ("restartPolicyRules", json!([])),
    ] {
        let written = container("containers", "main", json!({field: value}));
        one(written, &format!("spec.containers[0].{field}"), "set ");
    }
}

#[test]
fn other_containers() {
    for kind in ["containers", "initContainers"] {
        let path = |field: &str| format!("spec.{kind}[0].{field}");
        let of = |says: Value| container(kind, "side", says);
        one(container(kind, "", json!({})), &path("name"), "is required");
        one(
            of(json!({"env": [{"name": "TRELLIS_RANK", "value": "0"}]})),
            &path("env[0].name"),
            "TRELLIS_*",
        );
        one(
            of(json!({"envFrom": [{"prefix": "TRELLIS_", "secretRef": {"name": "s"}}]})),
            &path("envFrom[0].prefix"),
            "TRELLIS_",
        );
        one(
            of(json!({"ports": [{"containerPort": 1, "hostPort": 1}]})),
            &path("ports[0].hostPort"),
            "leave it out",
        );
        one(
            of(
                json!({"resources": {"claims": [{"name": "c"}], "limits": {"cpu": 1, "memory": "1Gi"}}}),
            ),
            &path("resources.claims"),
            "dynamic resource allocation",
        );
        // What would be had past quotas and policies on GPUs.
        one(
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
            one(
                of(json!({"resources": {"limits": limits}})),
                &path(&format!("resources.limits.{name}")),
                words,
            );
        }
    }
    one(
        container("initContainers", "main", json!({})),
        "spec.initContainers[0].name",
        "choose another",
    );
    one(
        container("initContainers", "i", json!({"restartPolicy": "OnFailure"})),
        "spec.initContainers[0].restartPolicy",
        "Always",
    );
    one(
        container("initContainers", "i", json!({"restartPolicyRules": []})),
        "spec.initContainers[0].restartPolicyRules",
        "leave it out",
    );
    one(
        container("containers", "c", json!({"restartPolicy": "Always"})),
        "spec.containers[0].restartPolicy",
        "initContainers",
    );
    let twice = json!({"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "a"}]}});
    one(twice, "spec.initContainers[0].name", "stands twice");
}

/// What a pod uses is what is judged, placed and charged for it.
#[test]
fn another_container_is_limited_to_what_is_counted() {
    for kind in ["containers", "initContainers"] {
        let path = |field: &str| format!("spec.{kind}[0].resources.{field}");
        let of = |resources: Value| {
            container(kind, "side", json!({"image": "i", "resources": resources}))
        };
        one(
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
            one(of(resources.clone()), &path("limits"), missing);
            // Nor may one of the profile's be changed to that.
            let changed = container(kind, "side", json!({"resources": resources}));
            one(changed, &path("limits"), missing);
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
            one(
                of(json!({"limits": limits, "requests": {name: amount}})),
                &path(&format!("requests.{name}")),
                "leave requests out",
            );
        }
    }
}

#[test]
fn volumes() {
    for name in [
        "shared-memory",
        "claim-0",
        "config-map-12",
        "secret-",
        "empty-dir-3",
    ] {
        one(
            spec("volumes", json!([{"name": name, "emptyDir": {}}])),
            "spec.volumes[0].name",
            "choose another",
        );
    }
    assert_eq!(
        wrong(spec(
            "volumes",
            json!([{"name": "claim-a", "emptyDir": {}}])
        )),
        []
    );
    one(
        spec("volumes", json!([{"name": "v", "ephemeral": {}}])),
        "spec.volumes[0].ephemeral",
        "emptyDir",
    );
    one(
        spec("volumes", json!([{"emptyDir": {}}])),
        "spec.volumes[0].name",
        "is required",
    );
}

#[test]
fn it_is_bounded() {
    let of = |length: usize| json!({"metadata": {"annotations": {"a": "x".repeat(length)}}});
    assert_eq!(wrong(of(MAX_TEMPLATE - 100)), []);
    one(of(MAX_TEMPLATE), "", "32768 bytes");
}

fn job(framework: &str, template: Value) -> TrainingJob {
    serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "j", "namespace": "n"},
        "spec": {"framework": framework, "taskGroups": [
            {"name": "a", "image": "i", "resources": {"cpu": 1, "memory": "1Gi"}},
            {"name": "b", "image": "i", "resources": {"cpu": 1, "memory": "1Gi"}, "podTemplate": template},
        ]},
    }))
    .unwrap()
}

#[test]
fn a_job_with_it_is_refused_by_the_whole_path_or_has_it_read() {
    let node = job("None", spec("nodeName", json!("n")));
    let error = ValidatedJob::try_from(node).unwrap_err();
    assert_eq!(
        error.as_slice()[0].path,
        "spec.taskGroups[1].podTemplate.spec.nodeName"
    );
    let rank = container(
        "containers",
        "main",
        json!({"env": [{"name": "RANK", "value": "0"}]}),
    );
    let error = ValidatedJob::try_from(job("PyTorch", rank.clone())).unwrap_err();
    let path = "spec.taskGroups[1].podTemplate.spec.containers[0].env[0].name";
    assert_eq!(error.as_slice().len(), 1);
    assert_eq!(error.as_slice()[0].path, path);
    let valid = ValidatedJob::try_from(job("None", rank)).unwrap();
    assert!(valid.template(0).is_none() && valid.template(2).is_none());
    let spec = valid.template(1).unwrap().spec.as_ref().unwrap();
    assert_eq!(spec.containers[0].name, "main");
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

#[test]
fn a_profile_is_held_to_the_same() {
    use crate::{RuntimeProfile, ValidatedProfile};
    let profile = |spec: Value| -> RuntimeProfile {
        serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile",
            "metadata": {"name": "p"}, "spec": spec,
        }))
        .unwrap()
    };
    let rank = container(
        "containers",
        "main",
        json!({"env": [{"name": "RANK", "value": "0"}]}),
    );
    for (wrong, path) in [
        (
            json!({"podTemplate": spec("nodeName", json!("n"))}),
            "spec.podTemplate.spec.nodeName",
        ),
        (json!({"podTemplate": rank}), "spec.podTemplate"),
        (
            json!({"env": [{"name": "PET_NNODES", "value": "1"}]}),
            "spec.env",
        ),
        (
            json!({"network": {"egress": [{"service": "s"}]}}),
            "spec.network",
        ),
        (
            json!({"network": {"ingress": [{"service": "s"}]}}),
            "spec.network",
        ),
        (json!({"runtimeClassName": "A b"}), "spec.runtimeClassName"),
        (
            json!({"podMetadata": {"labels": {"trellis.dev/job": "x"}}}),
            "spec.podMetadata.labels",
        ),
    ] {
        let error = ValidatedProfile::try_from(profile(wrong.clone())).unwrap_err();
        let paths: Vec<_> = error.as_slice().iter().map(|v| v.path.as_str()).collect();
        assert_eq!(paths, [path], "{wrong}");
    }
    let good = json!({
        "globalDefault": true, "env": [{"name": "NCCL_DEBUG", "value": "INFO"}],
        "network": {"ingress": [{"namespace": "monitoring", "ports": [8080]}]},
        "podTemplate": spec("hostIPC", json!(true)),
    });
    let valid = ValidatedProfile::try_from(profile(good)).unwrap();
    assert_eq!((valid.name(), valid.spec().is_default()), ("p", true));
    assert!(valid.template().is_some());
}
