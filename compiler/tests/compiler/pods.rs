//! Fields of pods: defaults, fixed values, and fields that are never set.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::serde_json::{Value, json, to_value};
use trellis_api::{TrainingJob, names};
use trellis_compiler::{CompileContext, CompileFacts, CompiledJob, compile};

use super::support::{
    PLACEMENT, UID, compile_facts, compile_job, compile_one_group, container, first_pod, job,
    resolve_job, spec,
};

const GROUP: &str = "taskGroups: [{name: w, image: i, resources: {limits: {cpu: 1, memory: 1Gi}}}]";

fn restricted(job: TrainingJob) -> CompiledJob {
    let job = resolve_job(job);
    let services = BTreeMap::new();
    let found = CompileFacts {
        namespace_enforces_restricted: true,
        ..compile_facts(&services)
    };
    let surroundings = CompileContext::resolve(job.job(), found).unwrap();
    compile(job, surroundings, &Arc::default())
}

fn json_spec(job: &CompiledJob) -> Value {
    to_value(first_pod(job)).unwrap()["spec"].clone()
}

#[test]
fn pods_of_a_group_differ_only_by_index() {
    let job = compile_one_group("PyTorch", "replicas: 3, gpus: 1");
    let group = &job.groups()[0];
    for index in 0..3 {
        let pod = group.pod(index, &PLACEMENT);
        let name = format!("llm-worker-{index}");
        assert_eq!(pod.metadata.name.as_ref(), Some(&name));
        assert_eq!(group.pod_name(index), name);
        assert_eq!(spec(&pod).hostname.as_ref(), Some(&name));
        assert_eq!(spec(&pod).subdomain.as_deref(), Some("llm"));
        assert_eq!(spec(&pod).node_name.as_deref(), Some("node-a"));
    }
    let pod = |index| to_value(group.pod(index, &PLACEMENT)).unwrap();
    let mut paths = Vec::new();
    differences(&pod(1), &pod(2), "", &mut paths);
    assert_eq!(
        paths,
        [
            "/metadata/labels/trellis.dev/index",
            "/metadata/name",
            "/spec/containers/0/env/TRELLIS_INDEX",
            "/spec/containers/0/env/TRELLIS_RANK",
            "/spec/containers/0/env/PET_NODE_RANK",
            "/spec/containers/0/env/RANK",
            "/spec/hostname",
        ]
    );
}

/// Where two values differ; variables by their name.
fn differences(a: &Value, b: &Value, path: &str, out: &mut Vec<String>) {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) if x.keys().eq(y.keys()) => {
            if let (Some(name), true) = (x.get("name"), x.contains_key("value")) {
                let folder = path.rsplit_once('/').unwrap().0;
                if a != b {
                    out.push(format!("{folder}/{}", name.as_str().unwrap()));
                }
                return;
            }
            for key in x.keys() {
                differences(&a[key], &b[key], &format!("{path}/{key}"), out);
            }
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
            for (i, (a, b)) in x.iter().zip(y).enumerate() {
                differences(a, b, &format!("{path}/{i}"), out);
            }
        }
        _ if a != b => out.push(path.to_owned()),
        _ => {}
    }
}

#[test]
fn user_metadata_is_added_without_overriding_trellis_metadata() {
    let text = format!(
        "{GROUP}\npodMetadata: {{labels: {{team: a}}, annotations: \
         {{karpenter.sh/do-not-disrupt: 'false', note: b}}}}"
    );
    let mut job = job(&text);
    job.metadata.labels = Some(BTreeMap::from([(
        "app.kubernetes.io/instance".to_owned(),
        "argo".to_owned(),
    )]));
    job.metadata.annotations = Some(BTreeMap::from([(
        "argocd.argoproj.io/tracking-id".to_owned(),
        "argo".to_owned(),
    )]));
    let compiled = compile_job(job);
    let pod = to_value(first_pod(&compiled)).unwrap();
    assert_eq!(
        pod["metadata"]["labels"],
        json!({
            "app.kubernetes.io/managed-by": "trellis",
            "team": "a",
            "trellis.dev/attempt": "1",
            "trellis.dev/group": "w",
            "trellis.dev/index": "0",
            "trellis.dev/job": "llm",
            "trellis.dev/job-uid": UID,
        })
    );
    assert_eq!(
        pod["metadata"]["annotations"],
        json!({
            "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
            "karpenter.sh/do-not-disrupt": "true",
            "note": "b",
            "trellis.dev/plan": "0123456789abcdef",
        })
    );
    for object in [
        to_value(&compiled.services()[0]).unwrap(),
        to_value(compiled.network_policy()).unwrap(),
        to_value(compiled.pod_group()).unwrap(),
    ] {
        assert_eq!(
            object["metadata"],
            json!({
                "name": "llm",
                "namespace": "team-a",
                "labels": {
                    "app.kubernetes.io/managed-by": "trellis",
                    "trellis.dev/job": "llm",
                    "trellis.dev/job-uid": UID,
                },
                "ownerReferences": [{
                    "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob", "name": "llm",
                    "uid": UID, "controller": true, "blockOwnerDeletion": true,
                }],
            })
        );
    }
}

#[test]
fn pod_runs_as_non_root_with_a_user_or_in_restricted_namespaces() {
    for (context, in_restricted, expected) in [
        ("", false, Value::Null),
        ("", true, json!(true)),
        ("securityContext: {runAsUser: 1000}", false, json!(true)),
        ("securityContext: {runAsUser: 0}", false, Value::Null),
        ("securityContext: {fsGroup: 7}", false, Value::Null),
    ] {
        let job = job(&format!("{GROUP}\n{context}"));
        let job = if in_restricted {
            restricted(job)
        } else {
            compile_job(job)
        };
        let spec = json_spec(&job);
        assert_eq!(
            spec["securityContext"]["runAsNonRoot"], expected,
            "{context}"
        );
        assert_eq!(
            spec["securityContext"]["seccompProfile"]["type"],
            "RuntimeDefault"
        );
        assert_eq!(
            spec["containers"][0]["securityContext"],
            json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}})
        );
    }
    let job = compile_job(job(&format!(
        "{GROUP}\nsecurityContext: {{runAsUser: 5, fsGroup: 7}}"
    )));
    let context = &json_spec(&job)["securityContext"];
    assert_eq!(context["runAsUser"], 5);
    assert_eq!(context["fsGroup"], 7);
    assert_eq!(context["fsGroupChangePolicy"], "OnRootMismatch");
}

#[test]
fn pod_mounts_a_token_only_with_a_service_account() {
    let spec = json_spec(&compile_job(job(GROUP)));
    assert_eq!(spec["automountServiceAccountToken"], false);
    assert_eq!(spec.get("serviceAccountName"), None);
    let asked = compile_job(job(&format!("{GROUP}\nserviceAccountName: trainer")));
    let spec = json_spec(&asked);
    assert_eq!(spec.get("automountServiceAccountToken"), None);
    assert_eq!(spec["serviceAccountName"], "trainer");
}

#[test]
fn pod_requests_its_limits_and_tolerates_its_devices() {
    let job = compile_one_group(
        "None",
        "gpus: 4, gpuResource: amd.com/gpu, \
         tolerations: [{key: amd.com/gpu, operator: Exists, effect: NoSchedule}, \
                       {key: dedicated, value: train, effect: NoExecute, tolerationSeconds: 5}]",
    );
    let spec = json_spec(&job);
    let resources = &spec["containers"][0]["resources"];
    assert_eq!(
        resources["requests"],
        json!({"amd.com/gpu": "4", "cpu": "1", "memory": "1Gi"})
    );
    assert_eq!(resources["requests"], resources["limits"]);
    assert_eq!(
        spec["tolerations"],
        json!([
            {"key": "trellis.dev/dedicated", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "amd.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "dedicated", "value": "train", "effect": "NoExecute", "tolerationSeconds": 5},
        ])
    );
    let request = job.groups()[0].request();
    let amounts: Vec<_> = request
        .iter()
        .map(|(name, amount)| (name.as_str(), amount.ceil_units().unwrap()))
        .collect();
    assert_eq!(
        amounts,
        [("amd.com/gpu", 4), ("cpu", 1), ("memory", 1 << 30)]
    );
}

#[test]
fn pod_requests_and_tolerates_other_devices_with_nonzero_limits() {
    let job = compile_job(job(
        "taskGroups: [{name: w, image: i, gpus: 2, resources: {limits: {cpu: 500m, memory: 1Gi, \
         ephemeral-storage: 10Gi, rdma/hca: 1, vendor.example/none: 0}}}]",
    ));
    let spec = json_spec(&job);
    assert_eq!(
        spec["containers"][0]["resources"]["limits"],
        json!({"cpu": "500m", "ephemeral-storage": "10Gi", "memory": "1Gi",
            "nvidia.com/gpu": "2", "rdma/hca": "1"})
    );
    let keys: Vec<_> = spec["tolerations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| &t["key"])
        .collect();
    assert_eq!(keys, [names::DEDICATED_NODE, "nvidia.com/gpu", "rdma/hca"]);
    assert_eq!(job.groups()[0].request()["cpu"].ceil_millis(), Some(500));
    let group = &job.pod_group().spec.groups[0];
    assert_eq!(group.resources["cpu"].as_str(), "500m");
    let plain = json_spec(&compile_one_group("None", ""));
    assert_eq!(plain["tolerations"].as_array().unwrap().len(), 1);
    assert_eq!(plain["tolerations"][0]["key"], names::DEDICATED_NODE);
}

#[test]
fn object_mounted_twice_is_one_volume() {
    let job = compile_one_group(
        "None",
        "mounts: [{claimName: data, path: /a, subPath: a, readOnly: true}, \
                  {secretName: s, path: /s}, \
                  {claimName: data, path: /b, subPath: b, readOnly: true}, \
                  {claimName: out, path: /o, readOnly: true}, {claimName: out, path: /p}, \
                  {configMapName: data, path: /c}, \
                  {emptyDir: {}, path: /d}, {emptyDir: {sizeLimit: 1Gi}, path: /e}, \
                  {emptyDir: {}, path: /f}]",
    );
    let spec = json_spec(&job);
    assert_eq!(
        spec["volumes"],
        json!([
            {"name": "claim-0", "persistentVolumeClaim": {"claimName": "data", "readOnly": true}},
            {"name": "secret-1", "secret": {"secretName": "s"}},
            // Written to by one of its mounts: not read-only as a whole.
            {"name": "claim-2", "persistentVolumeClaim": {"claimName": "out"}},
            {"name": "config-map-3", "configMap": {"name": "data"}},
            {"name": "empty-dir-4", "emptyDir": {}},
            {"name": "empty-dir-5", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "empty-dir-6", "emptyDir": {}},
        ])
    );
    assert_eq!(
        spec["containers"][0]["volumeMounts"],
        json!([
            {"name": "claim-0", "mountPath": "/a", "subPath": "a", "readOnly": true},
            {"name": "secret-1", "mountPath": "/s"},
            {"name": "claim-0", "mountPath": "/b", "subPath": "b", "readOnly": true},
            {"name": "claim-2", "mountPath": "/o", "readOnly": true},
            {"name": "claim-2", "mountPath": "/p"},
            {"name": "config-map-3", "mountPath": "/c"},
            {"name": "empty-dir-4", "mountPath": "/d"},
            {"name": "empty-dir-5", "mountPath": "/e"},
            {"name": "empty-dir-6", "mountPath": "/f"},
        ])
    );
}

#[test]
fn shared_memory_is_an_in_memory_volume() {
    let job = compile_one_group("None", "gpus: 1");
    let spec = json_spec(&job);
    assert_eq!(
        spec["volumes"],
        json!([{"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "512Mi"}}])
    );
    assert_eq!(
        spec["containers"][0]["volumeMounts"],
        json!([{"name": "shared-memory", "mountPath": "/dev/shm"}])
    );
    assert_eq!(
        json_spec(&compile_one_group("None", "")).get("volumes"),
        None
    );
}

#[test]
fn pod_has_the_fields_that_the_user_sets() {
    let job = compile_job(job("\
priorityClassName: high
taskGroups:
- name: w
  image: a:1
  imagePullPolicy: Always
  imagePullSecrets: [{name: pull}]
  command: [train]
  args: [--fast]
  workingDir: /work
  resources: {limits: {cpu: 1, memory: 1Gi}}
  env:
  - {name: EMPTY}
  - {name: SECRET, valueFrom: {secretKeyRef: {name: s, key: k, optional: true}}}
  - {name: MAP, valueFrom: {configMapKeyRef: {name: m, key: k}}}
  - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
  envFrom: [{secretRef: {name: bulk}, prefix: P_}, {configMapRef: {name: more, optional: false}}]
  nodeSelector: {zone: a}
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: Exists}]}]}}}
"));
    let pod = first_pod(&job);
    let spec = json_spec(&job);
    assert_eq!(spec["priorityClassName"], "high");
    assert_eq!(spec["nodeSelector"], json!({"zone": "a"}));
    assert_eq!(spec["imagePullSecrets"], json!([{"name": "pull"}]));
    assert_eq!(
        spec["affinity"],
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}}})
    );
    let main = to_value(container(&pod)).unwrap();
    assert_eq!(main["image"], "a:1");
    assert_eq!(main["imagePullPolicy"], "Always");
    assert_eq!(main["command"], json!(["train"]));
    assert_eq!(main["args"], json!(["--fast"]));
    assert_eq!(main["workingDir"], "/work");
    assert_eq!(
        main["envFrom"],
        json!([{"prefix": "P_", "secretRef": {"name": "bulk"}}, {"configMapRef": {"name": "more", "optional": false}}])
    );
    let env = main["env"].as_array().unwrap();
    assert_eq!(
        env[env.len() - 4..],
        [
            json!({"name": "EMPTY"}),
            json!({"name": "SECRET", "valueFrom": {"secretKeyRef": {"key": "k", "name": "s", "optional": true}}}),
            json!({"name": "MAP", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}),
            json!({"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}),
        ]
    );
}

#[test]
fn gang_has_all_pods_of_all_groups() {
    let job = compile_job(job("\
taskGroups:
- {name: a, replicas: 3, image: i, resources: {limits: {cpu: 1, memory: 1Gi}}}
- {name: b, image: i, resources: {limits: {cpu: 1, memory: 1Gi}}}
"));
    let spec = &job.pod_group().spec;
    assert_eq!(spec.min_member, 4);
    assert_eq!(spec.queue_name, "default");
    assert_eq!(job.queue(), "default");
    assert_eq!(job.priority(), 0);
    let counts: Vec<_> = spec
        .groups
        .iter()
        .map(|g| (g.name.as_str(), g.count))
        .collect();
    assert_eq!(counts, [("a", 3), ("b", 1)]);
    assert_eq!(job.job().uid(), UID);
}

#[test]
fn pod_has_grace_period_and_checkpoint_annotation_of_the_job() {
    let checkpoint =
        "checkpoint: {gracePeriodSeconds: 300, lastTimeAnnotation: acme.example/saved}";
    let saved = compile_job(job(&format!("{GROUP}\n{checkpoint}")));
    let pod = first_pod(&saved);
    assert_eq!(spec(&pod).termination_grace_period_seconds, Some(300));
    let annotations = pod.metadata.annotations.unwrap();
    assert_eq!(
        annotations[names::CHECKPOINT_ANNOTATION],
        "acme.example/saved"
    );
    assert_eq!(saved.pod_group().spec.grace_period_seconds, Some(300));

    let pod = first_pod(&compile_job(job(GROUP)));
    assert_eq!(spec(&pod).termination_grace_period_seconds, Some(30));
    let annotations = pod.metadata.annotations.unwrap();
    assert!(!annotations.contains_key(names::CHECKPOINT_ANNOTATION));
}
