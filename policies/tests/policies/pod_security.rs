//! The walk over the final pod: one case for each way to a privilege.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, from_value, json};
use trellis_policies::privileges;

fn restricted() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
    })
}

/// A pod that is within "restricted", with one container of each kind.
fn base() -> Value {
    let container = json!({"name": "c", "image": "i", "securityContext": restricted()});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "initContainers": [container],
        "ephemeralContainers": [container],
        "volumes": [],
    }})
}

fn privileges_of(pod: &Value) -> Vec<String> {
    let pod: Pod = from_value(pod.clone()).unwrap();
    privileges(&pod).iter().map(ToString::to_string).collect()
}

/// The base pod with `value` at a JSON pointer, whose last step is created.
fn base_with(pointer: &str, value: &Value) -> Value {
    let mut pod = base();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = pod
        .pointer_mut(parent)
        .unwrap_or_else(|| panic!("{pointer}"));
    parent[key] = value.clone();
    pod
}

#[test]
fn restricted_pod_has_no_privileges() {
    assert_eq!(privileges_of(&base()), Vec::<String>::new());
    let kinds = json!([
        {"name": "a", "configMap": {"name": "x"}},
        {"name": "c", "downwardAPI": {}},
        {"name": "d", "emptyDir": {}},
        {"name": "e", "ephemeral": {}},
        {"name": "f", "persistentVolumeClaim": {"claimName": "x"}},
        {"name": "g", "projected": {}},
        {"name": "h", "secret": {"secretName": "x"}},
    ]);
    let main = "/spec/containers/0";
    let context = "/spec/containers/0/securityContext";
    for (pointer, value) in [
        ("/spec/volumes".to_owned(), kinds),
        ("/spec/hostNetwork".to_owned(), json!(false)),
        ("/spec/hostUsers".to_owned(), json!(false)),
        ("/spec/securityContext/runAsUser".to_owned(), json!(1000)),
        (
            "/spec/securityContext/seccompProfile".to_owned(),
            json!({"type": "Localhost", "localhostProfile": "p"}),
        ),
        (
            "/spec/securityContext/sysctls".to_owned(),
            json!([{"name": "net.ipv4.tcp_syncookies", "value": "1"}]),
        ),
        (
            "/spec/securityContext/seLinuxOptions".to_owned(),
            json!({"type": "container_t", "level": "s0:c1,c2"}),
        ),
        (
            format!("{context}/capabilities"),
            json!({"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}),
        ),
        (format!("{context}/procMount"), json!("Default")),
        (format!("{context}/privileged"), json!(false)),
        (
            format!("{context}/appArmorProfile"),
            json!({"type": "RuntimeDefault"}),
        ),
        (format!("{main}/ports"), json!([{"containerPort": 80}])),
        (
            format!("{main}/volumeMounts"),
            json!([{"name": "v", "mountPath": "/v", "mountPropagation": "HostToContainer"}]),
        ),
        (
            "/spec/tolerations".to_owned(),
            json!([{"key": "nvidia.com/gpu", "operator": "Exists"}]),
        ),
        (
            "/metadata/annotations".to_owned(),
            json!({
                "note": "b", "a_b-c": "d", "app.kubernetes.io/name": "c", "prometheus.io/scrape": "true",
                "trellis.dev/plan": "e", "karpenter.sh/do-not-disrupt": "true",
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
            }),
        ),
        (
            format!("{main}/livenessProbe"),
            json!({"httpGet": {"port": 80}}),
        ),
    ] {
        let none: Vec<String> = Vec::new();
        assert_eq!(
            privileges_of(&base_with(&pointer, &value)),
            none,
            "{pointer}: {value}"
        );
    }
}

#[test]
fn pod_fields_beyond_restricted_are_privileges() {
    let pod = "/spec/securityContext";
    for (pointer, value, expected) in [
        ("/spec/hostNetwork".to_owned(), json!(true), "hostNetwork"),
        ("/spec/hostPID".to_owned(), json!(true), "hostPID"),
        ("/spec/hostIPC".to_owned(), json!(true), "hostIPC"),
        (format!("{pod}/runAsNonRoot"), json!(false), "RunAsRoot"),
        (format!("{pod}/runAsNonRoot"), json!(null), "RunAsRoot"),
        (format!("{pod}/runAsUser"), json!(0), "RunAsRoot"),
        (format!("{pod}/seccompProfile"), json!(null), "seccomp"),
        (
            format!("{pod}/seccompProfile"),
            json!({"type": "Unconfined"}),
            "seccomp",
        ),
        (
            format!("{pod}/appArmorProfile"),
            json!({"type": "Unconfined"}),
            "appArmor",
        ),
        (
            format!("{pod}/seLinuxOptions"),
            json!({"type": "spc_t"}),
            "seLinux",
        ),
        (
            format!("{pod}/seLinuxOptions"),
            json!({"user": "system_u"}),
            "seLinux",
        ),
        (
            format!("{pod}/seLinuxOptions"),
            json!({"role": "system_r"}),
            "seLinux",
        ),
        (
            format!("{pod}/sysctls"),
            json!([{"name": "kernel.msgmax", "value": "1"}]),
            "sysctl kernel.msgmax",
        ),
        (
            format!("{pod}/windowsOptions"),
            json!({"hostProcess": true}),
            "hostProcess",
        ),
        (
            "/spec/runtimeClassName".to_owned(),
            json!("nvidia"),
            "runtimeClass nvidia",
        ),
        (
            "/spec/tolerations".to_owned(),
            json!([{"operator": "Exists"}]),
            "toleration *",
        ),
        (
            "/spec/tolerations".to_owned(),
            json!([{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]),
            "toleration node-role.kubernetes.io/control-plane",
        ),
        (
            "/spec/tolerations".to_owned(),
            json!([{"key": "a"}, {"key": "node.kubernetes.io/unreachable", "operator": "Exists"}]),
            "toleration node.kubernetes.io/unreachable",
        ),
        (
            "/metadata/annotations".to_owned(),
            json!({"k8s.v1.cni.cncf.io/networks": "rdma"}),
            "annotation k8s.v1.cni.cncf.io/networks",
        ),
        (
            "/metadata/annotations".to_owned(),
            json!({"io.kubernetes.cri-o.Devices": "/dev/sda"}),
            "annotation io.kubernetes.cri-o.Devices",
        ),
        (
            "/metadata/annotations".to_owned(),
            json!({"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}),
            "annotation seccomp.security.alpha.kubernetes.io/pod",
        ),
        // The effect of an annotation of an unknown domain is unknown.
        (
            "/metadata/annotations".to_owned(),
            json!({"example.com/a": "b"}),
            "annotation example.com/a",
        ),
        (
            "/metadata/annotations".to_owned(),
            json!({"not.prometheus.io/scrape": "true"}),
            "annotation not.prometheus.io/scrape",
        ),
        (
            "/metadata/annotations".to_owned(),
            json!({"run.oci.handler": "wasm"}),
            "annotation run.oci.handler",
        ),
        (
            "/metadata/annotations".to_owned(),
            json!({"cluster-autoscaler.kubernetes.io/enable-ds-eviction": "true"}),
            "annotation cluster-autoscaler.kubernetes.io/enable-ds-eviction",
        ),
        (
            "/metadata/annotations".to_owned(),
            json!({"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}),
            "appArmor",
        ),
    ] {
        assert_eq!(
            privileges_of(&base_with(&pointer, &value)),
            [expected],
            "{pointer}: {value}"
        );
    }
}

#[test]
fn volume_kinds_beyond_restricted_are_privileges() {
    for (volume, expected) in [
        (json!({"hostPath": {"path": "/"}}), "hostPath"),
        (json!({"nfs": {"server": "s", "path": "/"}}), "volume nfs"),
        (
            json!({"iscsi": {"targetPortal": "t", "iqn": "i", "lun": 0}}),
            "volume iscsi",
        ),
        (json!({"gitRepo": {"repository": "r"}}), "volume gitRepo"),
        (json!({"image": {"reference": "r"}}), "volume image"),
        (json!({"flexVolume": {"driver": "d"}}), "volume flexVolume"),
        (json!({"csi": {"driver": "d.example"}}), "csi d.example"),
        (
            json!({"projected": {"sources": [{"podCertificate": {"keyType": "RSA3072", "signerName": "s"}}]}}),
            "volume podCertificate",
        ),
        // Hidden beside an allowed one.
        (
            json!({"emptyDir": {}, "hostPath": {"path": "/"}}),
            "hostPath",
        ),
        (json!({}), "volume of unknown kind"),
    ] {
        let mut named = volume.clone();
        named["name"] = json!("v");
        assert_eq!(
            privileges_of(&base_with("/spec/volumes", &json!([named]))),
            [expected],
            "{volume}"
        );
    }
}

#[test]
fn container_fields_beyond_restricted_are_privileges() {
    let cases = [
        (
            "ports",
            json!([{"containerPort": 80, "hostPort": 80}]),
            "hostPort",
        ),
        (
            "volumeMounts",
            json!([{"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}]),
            "mountPropagation",
        ),
        (
            "livenessProbe",
            json!({"httpGet": {"port": 80, "host": "10.0.0.1"}}),
            "hostProbe",
        ),
        (
            "readinessProbe",
            json!({"tcpSocket": {"port": 80, "host": "10.0.0.1"}}),
            "hostProbe",
        ),
        (
            "startupProbe",
            json!({"httpGet": {"port": 80, "host": "10.0.0.1"}}),
            "hostProbe",
        ),
        (
            "lifecycle",
            json!({"postStart": {"httpGet": {"port": 80, "host": "h"}}}),
            "hostProbe",
        ),
        (
            "lifecycle",
            json!({"preStop": {"tcpSocket": {"port": 80, "host": "h"}}}),
            "hostProbe",
        ),
        ("securityContext/privileged", json!(true), "privileged"),
        (
            "securityContext/allowPrivilegeEscalation",
            json!(true),
            "allowPrivilegeEscalation",
        ),
        (
            "securityContext/allowPrivilegeEscalation",
            json!(null),
            "allowPrivilegeEscalation",
        ),
        (
            "securityContext/capabilities",
            json!({"drop": ["ALL"], "add": ["IPC_LOCK"]}),
            "IPC_LOCK",
        ),
        (
            "securityContext/capabilities",
            json!({"drop": ["NET_RAW"]}),
            "defaultCapabilities",
        ),
        (
            "securityContext/capabilities",
            json!(null),
            "defaultCapabilities",
        ),
        ("securityContext/procMount", json!("Unmasked"), "procMount"),
        ("securityContext/runAsNonRoot", json!(false), "RunAsRoot"),
        ("securityContext/runAsUser", json!(0), "RunAsRoot"),
        (
            "securityContext/seccompProfile",
            json!({"type": "Unconfined"}),
            "seccomp",
        ),
        (
            "securityContext/appArmorProfile",
            json!({"type": "Unconfined"}),
            "appArmor",
        ),
        (
            "securityContext/seLinuxOptions",
            json!({"type": "spc_t"}),
            "seLinux",
        ),
        (
            "securityContext/windowsOptions",
            json!({"hostProcess": true}),
            "hostProcess",
        ),
    ];
    for kind in ["containers", "initContainers", "ephemeralContainers"] {
        for (field, value, expected) in &cases {
            let pointer = format!("/spec/{kind}/0/{field}");
            assert_eq!(
                privileges_of(&base_with(&pointer, value)),
                [*expected],
                "{pointer}: {value}"
            );
        }
        // Not the first container alone.
        let mut pod = base();
        let second = json!({"name": "d", "securityContext": {"privileged": true}});
        pod["spec"][kind].as_array_mut().unwrap().push(second);
        assert_eq!(
            privileges_of(&pod),
            [
                "allowPrivilegeEscalation",
                "privileged",
                "defaultCapabilities"
            ],
            "{kind}"
        );
    }
}

#[test]
fn container_context_overrides_an_unset_pod_context() {
    let mut pod = base();
    pod["spec"]["securityContext"] = json!({});
    assert_eq!(privileges_of(&pod), ["RunAsRoot", "seccomp"]);
    let mut context = restricted();
    context["runAsNonRoot"] = json!(true);
    context["seccompProfile"] = json!({"type": "RuntimeDefault"});
    for kind in ["containers", "initContainers", "ephemeralContainers"] {
        pod["spec"][kind][0]["securityContext"] = context.clone();
    }
    assert_eq!(privileges_of(&pod), Vec::<String>::new());
    // And not the other way: root in one of them is root.
    pod["spec"]["initContainers"][0]["securityContext"]["runAsUser"] = json!(0);
    assert_eq!(privileges_of(&pod), ["RunAsRoot"]);
}

#[test]
fn pod_without_security_context_has_the_default_privileges() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c"}]}});
    assert_eq!(
        privileges_of(&pod),
        [
            "RunAsRoot",
            "allowPrivilegeEscalation",
            "defaultCapabilities",
            "seccomp"
        ]
    );
}
