//! Secrets that are kept outside the cluster.

use std::collections::BTreeSet;

use k8s_openapi::serde_json::{json, to_value};
use trellis_api::job::SecretStoreKind;
use trellis_compiler::{CompiledJob, Demand, RemoteSecret};

use super::support::{compile_job, first_pod, job, spec};

const GROUP: &str = "\
taskGroups:
- name: w
  image: a:1
  resources: {limits: {cpu: 1, memory: 1Gi}}
  imagePullSecrets: [{name: wandb}, {name: plain}]
  env: [{name: A, valueFrom: {secretKeyRef: {name: wandb, key: k}}}, {name: B, valueFrom: {secretKeyRef: {name: plain, key: k}}}]
  envFrom: [{secretRef: {name: wandb}}]
  mounts: [{secretName: wandb, path: /a}]
  podTemplate:
    spec:
      volumes:
      - {name: x, projected: {sources: [{secret: {name: wandb}}]}}
      initContainers:
      - name: i
        image: a:1
        resources: {limits: {cpu: 1, memory: 1Gi}}
        env: [{name: A, valueFrom: {secretKeyRef: {name: wandb, key: k}}}]
";

fn compiled_with_secrets(secrets: &str) -> CompiledJob {
    compile_job(job(&format!("secrets: [{secrets}]\n{GROUP}")))
}

const WANDB: &str = "{name: wandb, store: {kind: SecretStore, name: vault}, refreshSeconds: 90, \
                     data: {k: 'ml/a#b', l: ml/a, m: ml/c}}";

#[test]
fn store_secret_becomes_an_external_secret_with_a_new_target_name() {
    let job = compiled_with_secrets(WANDB);
    let [secret] = job.external_secrets().try_into().unwrap();
    assert_eq!(secret.metadata.name.as_deref(), Some("llm-wandb"));
    let owners = secret.metadata.owner_references.unwrap();
    assert_eq!(owners[0].controller, Some(true));
    let as_is = json!({"conversionStrategy": "Default", "decodingStrategy": "None", "metadataPolicy": "None"});
    let at = |key: &str, property: Option<&str>| {
        let mut remote = as_is.clone();
        remote["key"] = json!(key);
        if let Some(property) = property {
            remote["property"] = json!(property);
        }
        remote
    };
    let name = secret.spec.target.name.clone();
    assert_eq!(
        to_value(&secret.spec).unwrap(),
        json!({
            "secretStoreRef": {"kind": "SecretStore", "name": "vault"},
            "refreshInterval": "1m30s",
            "target": {"name": name, "creationPolicy": "Owner", "deletionPolicy": "Retain"},
            "data": [
                {"secretKey": "k", "remoteRef": at("ml/a", Some("b"))},
                {"secretKey": "l", "remoteRef": at("ml/a", None)},
                {"secretKey": "m", "remoteRef": at("ml/c", None)},
            ],
        })
    );
    let suffix = name.strip_prefix("llm-wandb-").unwrap();
    assert_eq!(suffix.len(), 8);
    let mut another = super::support::job(&format!("secrets: [{WANDB}]\n{GROUP}"));
    another.metadata.uid = Some("another".to_owned());
    let another = &compile_job(another).external_secrets()[0].spec.target.name;
    assert_ne!(*another, name);
}

#[test]
fn pod_references_use_the_target_name_of_a_store_secret() {
    let job = compiled_with_secrets(WANDB);
    let made = job.external_secrets()[0].spec.target.name.clone();
    let names = |job: &CompiledJob| {
        let pod = first_pod(job);
        let spec = spec(&pod);
        let containers = || {
            spec.containers
                .iter()
                .chain(spec.init_containers.iter().flatten())
        };
        let pull = spec.image_pull_secrets.iter().flatten();
        let mut all: Vec<_> = pull.map(|s| s.name.clone()).collect();
        for container in containers() {
            let sources = container
                .env
                .iter()
                .flatten()
                .filter_map(|v| v.value_from.clone());
            all.extend(sources.filter_map(|s| Some(s.secret_key_ref?.name)));
            let bulk = container.env_from.iter().flatten();
            all.extend(bulk.filter_map(|f| Some(f.secret_ref.clone()?.name)));
        }
        for volume in spec.volumes.iter().flatten() {
            all.extend(volume.secret.clone().and_then(|s| s.secret_name));
            let sources = volume
                .projected
                .iter()
                .flat_map(|p| p.sources.iter().flatten());
            all.extend(sources.filter_map(|s| Some(s.secret.clone()?.name)));
        }
        all
    };
    let (made, plain) = (made.as_str(), "plain");
    let mut found = names(&job);
    found.sort();
    let mut expected = [made, made, made, made, made, made, plain, plain].map(str::to_owned);
    expected.sort();
    assert_eq!(found, expected);
    // Without the entry it is a Secret of the namespace.
    let found: BTreeSet<_> = names(&compiled_with_secrets("")).into_iter().collect();
    assert_eq!(
        found,
        BTreeSet::from(["plain".to_owned(), "wandb".to_owned()])
    );
}

#[test]
fn store_path_is_a_demand_and_its_target_secret_none() {
    let secrets = |job: &CompiledJob| {
        let all = job.demands().iter().cloned();
        all.filter(|d| matches!(d, Demand::UseSecret(_) | Demand::UseRemoteSecret(_)))
            .collect::<Vec<_>>()
    };
    let remote = |path: &str| {
        Demand::UseRemoteSecret(RemoteSecret {
            kind: SecretStoreKind::SecretStore,
            store: "vault".to_owned(),
            path: path.to_owned(),
        })
    };
    let there = |name: &str| Demand::UseSecret(name.to_owned());
    let both = format!("{WANDB}, {{name: unused}}");
    assert_eq!(
        secrets(&compiled_with_secrets(&both)),
        [
            there("plain"),
            there("unused"),
            remote("ml/a"),
            remote("ml/c")
        ]
    );
}

#[test]
fn image_pull_secret_has_the_docker_config_type() {
    let pull =
        "{name: wandb, store: {kind: SecretStore, name: vault}, data: {.dockerconfigjson: a}}";
    let template = compiled_with_secrets(pull).external_secrets()[0]
        .spec
        .target
        .template
        .clone();
    assert_eq!(
        to_value(template).unwrap(),
        json!({"type": "kubernetes.io/dockerconfigjson", "engineVersion": "v2", "mergePolicy": "Replace"})
    );
}

#[test]
fn job_hash_changes_with_a_secret_and_ignores_an_empty_list() {
    let before = compiled_with_secrets(WANDB);
    let after = compiled_with_secrets(&WANDB.replace("ml/c", "ml/d"));
    assert_ne!(before.hash(), after.hash());
    let (none, absent) = (compiled_with_secrets(""), compile_job(job(GROUP)));
    assert_eq!(none.hash(), absent.hash());
}

#[test]
fn required_objects_have_the_field_that_names_them() {
    let group = "\
serviceAccountName: trainer
taskGroups:
- name: w
  image: a:1
  resources: {limits: {cpu: 1, memory: 1Gi}}
  imagePullSecrets: [{name: pull}]
  env: [{name: A, valueFrom: {secretKeyRef: {name: env-secret, key: k}}}, {name: B, valueFrom: {secretKeyRef: {name: wandb, key: k}}}]
  envFrom: [{configMapRef: {name: bulk-map}}]
  mounts: [{secretName: mounted-secret, path: /a}, {configMapName: bulk-map, path: /b}, {claimName: c, path: /c}]
  podTemplate:
    spec:
      volumes: [{name: x, configMap: {name: maybe, optional: true}}]
";
    let there = format!("secrets: [{WANDB}, {{name: listed}}]\n{group}");
    let needs = compile_job(job(&there)).required_objects();
    let needs: Vec<_> = needs
        .iter()
        .map(|(need, at)| (need.kind(), need.name(), at.as_str()))
        .collect();
    let of = |field: &str| format!("task group \"w\", {field} of its pods");
    let places = [
        of("spec.volumes[1].configMap"),
        of("spec.containers[0].env \"A\""),
        "spec.secrets[1]".to_owned(),
        of("spec.volumes[0].secret"),
        of("spec.serviceAccountName"),
    ];
    let [map, env, listed, mounted, account] = places.each_ref().map(String::as_str);
    let Some((_, _, map_at)) = needs.iter().find(|(_, name, _)| *name == "bulk-map") else {
        panic!("{needs:?}");
    };
    // The template's volumes come first.
    let map = if *map_at == map { map } else { *map_at };
    let mounted_at = needs.iter().find(|(_, name, _)| *name == "mounted-secret");
    let mounted = mounted_at.map_or(mounted, |(_, _, at)| *at);
    assert_eq!(
        needs,
        [
            ("ConfigMap", "bulk-map", map),
            ("Secret", "env-secret", env),
            ("Secret", "listed", listed),
            ("Secret", "mounted-secret", mounted),
            ("ServiceAccount", "trainer", account),
        ]
    );
}
