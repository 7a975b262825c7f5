//! Demands of jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::serde_json::{from_value, json};
use trellis_api::job::NetworkPort;
use trellis_compiler::{CompileContext, Demand, Endpoint, Peer, compile};

use super::support::{compile_facts, compile_job, job, resolve_job};

#[test]
fn minimal_job_demands_its_queue_and_image() {
    let job = compile_job(job(
        "taskGroups: [{name: w, image: 'a:1', resources: {limits: {cpu: 1, memory: 1Gi}}}]",
    ));
    let demands: Vec<_> = job.demands().iter().cloned().collect();
    assert_eq!(
        demands,
        [
            Demand::UseQueue("default".to_owned()),
            Demand::UseImage("a:1".to_owned())
        ]
    );
}

#[test]
fn job_demands_every_object_of_its_pods_and_network() {
    let job = resolve_job(job("\
priorityClassName: high
serviceAccountName: trainer
taskGroups:
- name: a
  image: a:1
  resources: {limits: {cpu: 1, memory: 1Gi}}
  imagePullSecrets: [{name: pull}]
  env:
  - {name: A, valueFrom: {secretKeyRef: {name: env-secret, key: k}}}
  - {name: B, valueFrom: {configMapKeyRef: {name: env-map, key: k}}}
  envFrom: [{secretRef: {name: bulk-secret}}, {configMapRef: {name: bulk-map}}]
  mounts:
  - {claimName: data, path: /a}
  - {secretName: mounted-secret, path: /b}
  - {configMapName: mounted-map, path: /c}
- {name: b, image: 'b:1', resources: {limits: {cpu: 1, memory: 1Gi}}}
network:
  egress: [{cidr: 10.0.0.0/8, ports: [{port: 443}]}, {service: db}]
  ingress: [{namespace: monitoring}]
"));
    let db: Service =
        from_value(json!({"spec": {"selector": {"app": "db"}, "ports": [{"port": 1}]}})).unwrap();
    let services = BTreeMap::from([("db".to_owned(), db)]);
    let surroundings = CompileContext::resolve(job.job(), compile_facts(&services)).unwrap();
    let compiled = compile(job, surroundings, &Arc::default());

    let text = |s: &str| s.to_owned();
    let endpoint = |peer, ports: &[i32]| Endpoint {
        peer,
        ports: ports.iter().map(|port| NetworkPort::tcp(*port)).collect(),
    };
    let expected = [
        Demand::UseQueue(text("default")),
        Demand::UsePriorityClass(text("high")),
        Demand::UseImage(text("a:1")),
        Demand::UseImage(text("b:1")),
        Demand::UseServiceAccount(text("trainer")),
        Demand::UseSecret(text("bulk-secret")),
        Demand::UseSecret(text("env-secret")),
        Demand::UseSecret(text("mounted-secret")),
        Demand::UseSecret(text("pull")),
        Demand::UseConfigMap(text("bulk-map")),
        Demand::UseConfigMap(text("env-map")),
        Demand::UseConfigMap(text("mounted-map")),
        Demand::UseVolume(text("data")),
        Demand::ConnectTo(endpoint(Peer::Cidr(text("10.0.0.0/8")), &[443])),
        Demand::ConnectTo(endpoint(Peer::Service(text("db")), &[])),
        Demand::AcceptFrom(endpoint(Peer::Namespace(text("monitoring")), &[])),
    ];
    let demands: Vec<_> = compiled.demands().iter().cloned().collect();
    assert_eq!(demands, expected);
}
