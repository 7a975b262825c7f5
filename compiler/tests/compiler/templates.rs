//! Pod templates of jobs and profiles, below the short fields.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::serde_json::{Value, from_value, json, to_value};
use trellis_api::{RuntimeProfile, TrainingJob, ValidatedProfile};
use trellis_compiler::{CompileContext, CompiledJob, Demand, HashedProfile, Peer, compile};

use super::support::{compile_facts, first_pod, job, resolve_job, spec};

pub fn profile(spec: Value) -> Arc<HashedProfile> {
    let object: RuntimeProfile = from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile",
        "metadata": {"name": "p"}, "spec": spec,
    }))
    .unwrap();
    let valid = ValidatedProfile::try_from(object).unwrap_or_else(|e| panic!("{e}"));
    Arc::new(HashedProfile::new(valid))
}

/// A minimal job of one group, with these fields added.
pub fn job_with_group(group: Value) -> TrainingJob {
    let mut whole = job(
        "taskGroups: [{name: w, image: 'a:1', resources: {limits: {cpu: 2, memory: 1Gi, ephemeral-storage: 1Gi}}}]",
    );
    let mut written = to_value(&whole.spec.task_groups[0]).unwrap();
    let more = group.as_object().unwrap().clone();
    written.as_object_mut().unwrap().extend(more);
    whole.spec.task_groups = vec![from_value(written).unwrap()];
    whole
}

pub fn compile_with_profile(job: TrainingJob, profile: Option<Arc<HashedProfile>>) -> CompiledJob {
    let job = resolve_job(job);
    let surroundings = CompileContext::resolve(job.job(), compile_facts(&BTreeMap::new())).unwrap();
    compile(job, surroundings.with_profile(profile), &Arc::default())
}

pub fn first_pod_of(group: Value, below: Option<Value>) -> Pod {
    first_pod(&compile_with_profile(
        job_with_group(group),
        below.map(profile),
    ))
}

fn main_container(pod: &Pod) -> &Container {
    let main = &spec(pod).containers[0];
    assert_eq!(main.name, "main");
    main
}

fn env_value(pod: &Pod, name: &str) -> Option<String> {
    let all: Vec<_> = main_container(pod)
        .env
        .iter()
        .flatten()
        .filter(|v| v.name == name)
        .collect();
    assert!(all.len() <= 1, "{all:?}");
    all.first().and_then(|v| v.value.clone())
}

#[test]
fn empty_template_and_profile_change_nothing() {
    let bare = compile_with_profile(job_with_group(json!({})), None);
    let empty = compile_with_profile(
        job_with_group(json!({"podTemplate": {}})),
        Some(profile(json!({}))),
    );
    assert_eq!(bare.hash(), empty.hash());
    assert_eq!(bare.groups()[0].resources(), empty.groups()[0].resources());
}

#[test]
fn short_field_wins_over_template_and_template_over_profile() {
    let var = |value: &str| json!({"name": "A", "value": value});
    let template =
        |value: Value| json!({"spec": {"containers": [{"name": "main", "env": [value]}]}});
    let group = json!({"env": [var("short")], "podTemplate": template(var("template"))});
    let whole = json!({"env": [var("profile")], "podTemplate": template(var("below"))});
    assert_eq!(
        env_value(&first_pod_of(group.clone(), Some(whole.clone())), "A").unwrap(),
        "short"
    );
    let group = json!({"podTemplate": template(var("template"))});
    assert_eq!(
        env_value(&first_pod_of(group, Some(whole.clone())), "A").unwrap(),
        "template"
    );
    assert_eq!(
        env_value(&first_pod_of(json!({}), Some(whole)), "A").unwrap(),
        "profile"
    );
    let below = json!({"podTemplate": template(var("below"))});
    let pod = first_pod_of(json!({}), Some(below));
    assert_eq!(env_value(&pod, "A").unwrap(), "below");
    // Trellis' variables come first, so that later ones may refer to them.
    assert_eq!(
        main_container(&pod).env.as_ref().unwrap()[0].name,
        "TRELLIS_JOB"
    );
}

/// A variable is a value or a source; a merge of both would be invalid.
#[test]
fn template_replaces_exclusive_fields_as_a_whole() {
    let below = json!({"podTemplate": {"spec": {
        "containers": [{
            "name": "main",
            "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
            "volumeMounts": [{"name": "data", "mountPath": "/data", "subPath": "below", "readOnly": true}],
            "livenessProbe": {"exec": {"command": ["x"]}},
        }],
        "volumes": [{"name": "data", "emptyDir": {}}],
    }}});
    let group = json!({"mounts": [{"claimName": "data", "path": "/data"}], "podTemplate": {"spec": {
        "containers": [{
            "name": "main",
            "env": [{"name": "A", "value": "plain"}],
            "livenessProbe": {"httpGet": {"port": 80}},
        }],
        "volumes": [{"name": "data", "configMap": {"name": "m"}}],
    }}});
    let pod = first_pod_of(group, Some(below));
    let main = to_value(main_container(&pod)).unwrap();
    let variables = main["env"].as_array().unwrap();
    assert_eq!(
        variables.last().unwrap(),
        &json!({"name": "A", "value": "plain"})
    );
    assert_eq!(main["livenessProbe"], json!({"httpGet": {"port": 80}}));
    assert_eq!(
        main["volumeMounts"],
        json!([{"name": "claim-0", "mountPath": "/data"}])
    );
    let volumes = to_value(&spec(&pod).volumes).unwrap();
    assert_eq!(
        volumes[0],
        json!({"name": "data", "configMap": {"name": "m"}})
    );
    assert_eq!(volumes[1]["persistentVolumeClaim"]["claimName"], "data");
}

#[test]
fn template_merges_lists_by_key_or_appends() {
    let below = json!({
        "nodeSelector": {"pool": "below", "zone": "a"},
        "tolerations": [{"key": "fabric", "operator": "Exists"}],
        "podMetadata": {"labels": {"from": "profile", "scraped": "yes"}},
        "podTemplate": {
            "metadata": {"labels": {"from": "below"}, "annotations": {"example.com/a": "below"}},
            "spec": {"initContainers": [{"name": "side", "image": "s:1", "restartPolicy": "Always", "env": [{"name": "B", "value": "below"}], "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}]},
        },
    });
    let group = json!({
        "nodeSelector": {"pool": "own"},
        "tolerations": [{"key": "own", "operator": "Exists"}],
        "podTemplate": {
            "metadata": {"annotations": {"example.com/a": "template"}},
            "spec": {
                "initContainers": [{"name": "side", "env": [{"name": "B", "value": "template"}]}],
                "tolerations": [{"key": "template", "operator": "Exists"}],
            },
        },
    });
    let pod = first_pod_of(group, Some(below));
    let labels = pod.metadata.labels.as_ref().unwrap();
    assert_eq!(
        (labels["from"].as_str(), labels["scraped"].as_str()),
        ("profile", "yes")
    );
    assert_eq!(labels["trellis.dev/job"], "llm");
    assert_eq!(
        pod.metadata.annotations.as_ref().unwrap()["example.com/a"],
        "template"
    );
    let spec = spec(&pod);
    let selector = spec.node_selector.as_ref().unwrap();
    assert_eq!(
        (selector["pool"].as_str(), selector["zone"].as_str()),
        ("own", "a")
    );
    let keys: BTreeSet<_> = spec
        .tolerations
        .iter()
        .flatten()
        .filter_map(|t| t.key.as_deref())
        .collect();
    assert_eq!(
        keys,
        BTreeSet::from(["fabric", "own", "template", "trellis.dev/dedicated"])
    );
    let sides = to_value(&spec.init_containers).unwrap();
    assert_eq!(sides.as_array().unwrap().len(), 1);
    assert_eq!(sides[0]["image"], "s:1");
    assert_eq!(sides[0]["env"], json!([{"name": "B", "value": "template"}]));
    assert_eq!(
        sides[0]["resources"],
        json!({"limits": {"cpu": "1", "memory": "1Gi"}})
    );
    // Unset fields get the main container's defaults.
    assert_eq!(
        sides[0]["securityContext"],
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}})
    );
}

#[test]
fn template_may_override_security_defaults() {
    let group = json!({"podTemplate": {"spec": {
        "hostIPC": true,
        "securityContext": {"seccompProfile": {"type": "Unconfined"}},
        "containers": [{"name": "main", "securityContext": {"privileged": true, "allowPrivilegeEscalation": true, "capabilities": {"add": ["IPC_LOCK"]}}}],
    }}});
    let pod = first_pod_of(group, None);
    assert_eq!(spec(&pod).host_ipc, Some(true));
    assert_eq!(
        to_value(&main_container(&pod).security_context).unwrap(),
        json!({"privileged": true, "allowPrivilegeEscalation": true, "capabilities": {"add": ["IPC_LOCK"], "drop": ["ALL"]}})
    );
    let context = to_value(&spec(&pod).security_context).unwrap();
    assert_eq!(context["seccompProfile"]["type"], "Unconfined");
    // The rest is as it is without it.
    assert_eq!(spec(&pod).enable_service_links, Some(false));
    assert_eq!(spec(&pod).automount_service_account_token, Some(false));
    assert_eq!(main_container(&pod).image.as_deref(), Some("a:1"));
}

#[test]
fn pod_takes_shared_memory_and_runtime_class_from_the_profile() {
    let of = |group: Value| {
        let pod = first_pod_of(
            group,
            Some(json!({"sharedMemory": "2Gi", "runtimeClassName": "nvidia"})),
        );
        assert_eq!(spec(&pod).runtime_class_name.as_deref(), Some("nvidia"));
        let volumes = spec(&pod).volumes.clone().unwrap_or_default();
        let size = volumes.into_iter().find_map(|v| v.empty_dir?.size_limit);
        size.map(|size| size.0)
    };
    assert_eq!(of(json!({})).as_deref(), Some("2Gi"));
    assert_eq!(of(json!({"sharedMemory": "4Gi"})).as_deref(), Some("4Gi"));
    assert_eq!(of(json!({"sharedMemory": "0"})), None);
}

/// Everything that any part of the final pod uses is a demand, whatever its origin.
#[test]
fn job_demands_every_object_of_the_final_pod() {
    let template = json!({"spec": {
        "automountServiceAccountToken": true,
        "imagePullSecrets": [{"name": "pull"}],
        "containers": [{"name": "main", "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "in-main", "key": "k"}}}]}],
        "initContainers": [{
            "name": "fetch", "image": "fetch:1", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
            "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "in-init", "key": "k"}}}],
            "envFrom": [{"secretRef": {"name": "bulk"}}],
        }],
        "volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "b", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "of-driver"}}},
            {"name": "c", "image": {"reference": "model:1"}},
            {"name": "d", "projected": {"sources": [
                {"secret": {"name": "projected"}}, {"configMap": {"name": "settings"}},
                {"serviceAccountToken": {"path": "t"}},
            ]}},
            {"name": "e", "azureFile": {"secretName": "azure", "shareName": "s"}},
        ],
    }});
    let expected: BTreeSet<_> = [
        Demand::UseImage("a:1".to_owned()),
        Demand::UseImage("fetch:1".to_owned()),
        Demand::UseImage("model:1".to_owned()),
        Demand::UseServiceAccount("default".to_owned()),
        Demand::UseVolume("data".to_owned()),
        Demand::UseConfigMap("in-init".to_owned()),
        Demand::UseConfigMap("settings".to_owned()),
        Demand::UseQueue("default".to_owned()),
    ]
    .into_iter()
    .chain(
        ["pull", "in-main", "bulk", "of-driver", "projected", "azure"]
            .map(|name| Demand::UseSecret(name.to_owned())),
    )
    .collect();
    let of_job = compile_with_profile(job_with_group(json!({"podTemplate": template})), None);
    assert_eq!(*of_job.demands(), expected);
    let of_profile = compile_with_profile(
        job_with_group(json!({})),
        Some(profile(json!({"podTemplate": template}))),
    );
    assert_eq!(*of_profile.demands(), expected);
}

#[test]
fn profile_network_is_opened_and_demanded() {
    let network = json!({
        "egress": [{"cidr": "10.20.0.0/16", "ports": [{"port": 443}]}],
        "ingress": [{"namespace": "monitoring", "ports": [{"port": 9400}]}],
    });
    let job = compile_with_profile(
        job_with_group(json!({})),
        Some(profile(json!({"network": network}))),
    );
    let policy = to_value(job.network_policy().spec).unwrap();
    let text = policy.to_string();
    assert!(
        text.contains("10.20.0.0/16") && text.contains("monitoring"),
        "{text}"
    );
    let peers: Vec<_> = job
        .demands()
        .iter()
        .filter_map(|d| match d {
            Demand::ConnectTo(end) | Demand::AcceptFrom(end) => Some(end.peer.clone()),
            _ => None,
        })
        .collect();
    let expected = [
        Peer::Cidr("10.20.0.0/16".to_owned()),
        Peer::Namespace("monitoring".to_owned()),
    ];
    assert_eq!(peers, expected);
    let own = compile_with_profile(job_with_group(json!({})), None);
    assert_ne!(own.hash(), job.hash());
    assert_eq!(job.profile().unwrap().name(), "p");
    assert_eq!(job.profile().unwrap().hash().len(), 16);
}
