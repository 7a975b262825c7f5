//! The hash: of everything that would be created, and of nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use trellis_api::TrainingJob;
use trellis_compiler::{CompileContext, DnsPeer, PodPlacement, Settings, compile};

use super::support::{PLACEMENT, compile_facts, compile_job, job, resolve_job};

const SPEC: &str = "\
framework: PyTorch
taskGroups:
- {name: worker, replicas: 2, gpus: 8, image: 'a:1', resources: {limits: {cpu: 8, memory: 64Gi}}}
- {name: chief, image: 'a:1', resources: {limits: {cpu: 8, memory: 64Gi}}}
";

fn base() -> TrainingJob {
    job(SPEC)
}

fn hash(job: TrainingJob) -> String {
    compile_job(job).hash().to_owned()
}

/// The base with fields added to its spec, and to its first group.
fn base_with(spec: &str, group: &str) -> TrainingJob {
    let text = SPEC.replacen("gpus: 8", &format!("gpus: 8{group}"), 1);
    job(&format!("{text}{spec}\n"))
}

#[test]
fn job_hash_is_16_hexadecimal_characters_and_stable() {
    let first = hash(base());
    assert_eq!(first, hash(base()));
    assert_eq!(first.len(), 16);
    assert!(
        first
            .bytes()
            .all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
    );
    // Were this to change, every gang that is being placed during an upgrade
    // would be undone: it must be meant.
    insta::assert_snapshot!(first, @"28edc39e1ead3687");
}

#[test]
fn job_hash_changes_with_fields_of_compiled_objects() {
    let spec = [
        "priorityClassName: high",
        "serviceAccountName: trainer",
        "secrets: [{name: s, store: {kind: SecretStore, name: vault}, data: {k: a}}]",
        "secrets: [{name: s, store: {kind: SecretStore, name: vault}, data: {k: 'a#b'}}]",
        "securityContext: {runAsUser: 1000}",
        "securityContext: {fsGroup: 1000}",
        "network: {egress: [{cidr: 10.0.0.0/8}]}",
        "network: {egress: [{cidr: 10.0.0.0/8, ports: [{port: 443}]}]}",
        "network: {ingress: [{namespace: monitoring}]}",
        "podMetadata: {labels: {team: a}}",
        "podMetadata: {annotations: {note: a}}",
        "preemptibility: ProtectedWithinQuota",
        "minRuntimeSeconds: 60",
        "topology: {required: rack}",
        "topology: {preferred: rack}",
        "topology: {required: block, preferred: rack}",
    ];
    let group = [
        ", imagePullPolicy: Always",
        ", imagePullSecrets: [{name: registry}]",
        ", command: [train]",
        ", args: [train]",
        ", env: [{name: A, value: b}]",
        ", env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]",
        ", env: [{name: A, valueFrom: {configMapKeyRef: {name: s, key: k}}}]",
        ", env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]",
        ", envFrom: [{secretRef: {name: s}}]",
        ", envFrom: [{configMapRef: {name: s}}]",
        ", envFrom: [{secretRef: {name: s}, prefix: P_}]",
        ", workingDir: /work",
        ", gpuResource: amd.com/gpu",
        ", sharedMemory: 1Gi",
        ", sharedMemory: 0",
        ", mounts: [{claimName: c, path: /c}]",
        ", mounts: [{claimName: c, path: /c, readOnly: true}]",
        ", mounts: [{claimName: c, path: /c, subPath: d}]",
        ", mounts: [{secretName: c, path: /c}]",
        ", mounts: [{configMapName: c, path: /c}]",
        ", mounts: [{emptyDir: {}, path: /c}]",
        ", mounts: [{emptyDir: {sizeLimit: 1Gi}, path: /c}]",
        ", ports: [{name: http, port: 80}]",
        ", nodeSelector: {zone: a}",
        ", affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
         {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: Exists}]}]}}}",
        ", tolerations: [{key: dedicated, operator: Exists}]",
        ", topology: {required: rack}",
    ];
    let replaced = [
        ("framework: PyTorch", "framework: None"),
        ("replicas: 2", "replicas: 3"),
        ("gpus: 8", "gpus: 4"),
        ("image: 'a:1'", "image: 'a:2'"),
        ("cpu: 8", "cpu: 9"),
        ("memory: 64Gi", "memory: 65Gi"),
        ("memory: 64Gi", "memory: 64Gi, ephemeral-storage: 1Gi"),
        ("memory: 64Gi", "memory: 64Gi, rdma/hca: 1"),
        ("name: chief", "name: chief, role: Coordinator"),
        ("name: chief", "name: boss"),
    ];
    let jobs = spec.iter().map(|s| ((*s).to_owned(), base_with(s, "")));
    let jobs = jobs.chain(group.iter().map(|g| ((*g).to_owned(), base_with("", g))));
    let jobs = jobs.chain(
        replaced
            .iter()
            .map(|(old, new)| ((*new).to_owned(), job(&SPEC.replacen(old, new, 1)))),
    );
    let mut seen = BTreeMap::from([(hash(base()), "the base".to_owned())]);
    for (change, job) in jobs {
        if let Some(other) = seen.insert(hash(job), change.clone()) {
            panic!("{change:?} has the hash of {other:?}");
        }
    }
}

#[test]
fn job_hash_ignores_fields_that_no_object_has() {
    for spec in [
        "suspend: true",
        "restart: {limit: 9}",
        "placement: Spread",
        "deadlines: {activeSeconds: 60}",
        "success: {policy: Leader}",
        "cleanup: {childrenTTLSeconds: 60}",
    ] {
        assert_eq!(hash(base_with(spec, "")), hash(base()), "{spec}");
    }
    let mut later = base();
    later.metadata.generation = Some(9);
    later.metadata.resource_version = Some("99".to_owned());
    later.metadata.labels = Some(BTreeMap::from([("a".to_owned(), "b".to_owned())]));
    later.metadata.annotations = Some(BTreeMap::from([("a".to_owned(), "b".to_owned())]));
    later.status = Some(Default::default());
    assert_eq!(hash(later), hash(base()));
}

#[test]
fn job_hash_changes_with_the_uid() {
    let mut other = base();
    other.metadata.uid = Some("another".to_owned());
    assert_ne!(hash(other), hash(base()));
}

#[test]
fn job_hash_changes_with_queue_priority_and_settings() {
    let hash = |queue: &str, priority, restricted, settings: &Arc<Settings>| {
        let job = resolve_job(base());
        let services = BTreeMap::new();
        let found = trellis_compiler::CompileFacts {
            queue,
            priority,
            namespace_enforces_restricted: restricted,
            ..compile_facts(&services)
        };
        let surroundings = CompileContext::resolve(job.job(), found).unwrap();
        compile(job, surroundings, settings).hash().to_owned()
    };
    let settings = Arc::default();
    let domain = Arc::new(Settings {
        cluster_domain: "other".to_owned(),
        ..Settings::default()
    });
    let dns = Arc::new(Settings {
        dns: vec![DnsPeer::cidr("169.254.20.10/32")],
        ..Settings::default()
    });
    let all = [
        hash("default", 0, false, &settings),
        hash("other", 0, false, &settings),
        hash("default", 1, false, &settings),
        hash("default", 0, true, &settings),
        hash("default", 0, false, &domain),
        hash("default", 0, false, &dns),
    ];
    for (i, a) in all.iter().enumerate() {
        assert!(!all[..i].contains(a), "{i}");
    }
}

#[test]
fn job_hash_is_the_same_for_every_attempt_and_node() {
    let job = compile_job(base());
    let before = (job.hash().to_owned(), job.groups()[0].hash().to_owned());
    let one = job.groups()[0].pod(0, &PLACEMENT);
    let other = job.groups()[0].pod(
        0,
        &PodPlacement {
            attempt: 2,
            plan: "fedcba9876543210",
            node: "node-b",
            ..PodPlacement::UNPLACED
        },
    );
    assert_ne!(one, other);
    assert_eq!(
        (job.hash(), job.groups()[0].hash()),
        (before.0.as_str(), before.1.as_str())
    );
    assert_ne!(job.groups()[0].hash(), job.groups()[1].hash());
}

#[test]
fn task_group_has_its_own_hash() {
    let before = compile_job(base());
    let after = compile_job(base_with("", ", workingDir: /work"));
    assert_ne!(before.groups()[0].hash(), after.groups()[0].hash());
    assert_eq!(before.groups()[1].hash(), after.groups()[1].hash());
}
