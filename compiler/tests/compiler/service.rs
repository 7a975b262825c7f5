//! The headless Service.

use k8s_openapi::api::core::v1::ServicePort;
use trellis_compiler::CompiledJob;

use super::support::{UID, compile_job, compile_one_group, container, first_pod, job};

fn ports(job: &CompiledJob) -> Vec<(i32, String)> {
    let spec = job.services()[0].spec.clone().unwrap();
    let ports = spec.ports.iter().flatten();
    ports
        .map(|p: &ServicePort| (p.port, p.name.clone().unwrap()))
        .collect()
}

fn port(number: i32, name: &str) -> (i32, String) {
    (number, name.to_owned())
}

#[test]
fn service_is_headless_and_publishes_pods_that_are_not_ready() {
    let job = compile_one_group("None", "replicas: 2");
    let spec = job.services()[0].spec.clone().unwrap();
    assert_eq!(spec.cluster_ip.as_deref(), Some("None"));
    assert_eq!(spec.publish_not_ready_addresses, Some(true));
    let selector = spec.selector.as_ref().unwrap();
    assert_eq!(selector.len(), 1);
    assert_eq!(selector["trellis.dev/job-uid"], UID);
    // Kubernetes takes a headless Service without ports, and not an empty list.
    assert_eq!(spec.ports, None);
}

#[test]
fn service_lists_each_port_number_and_name_once() {
    let group = |name: &str, ports: &str| {
        format!(
            "- {{name: {name}, image: i, resources: {{limits: {{cpu: 1, memory: 1Gi}}}}, ports: [{ports}]}}\n"
        )
    };
    let spec = [
        group("a", "{name: http, port: 80}, {name: rpc, port: 90}"),
        group("b", "{name: web, port: 80}, {name: rpc, port: 91}"),
        group("c", "{name: http, port: 8080}"),
    ];
    let job = compile_job(job(&format!("taskGroups:\n{}", spec.concat())));
    assert_eq!(
        ports(&job),
        [
            port(80, "http"),
            port(90, "rpc"),
            port(91, "container-port-91"),
            port(8080, "container-port-8080"),
        ]
    );
}

#[test]
fn pytorch_adds_its_port_unless_the_number_is_taken() {
    let container_ports = |job: &CompiledJob| {
        let pod = first_pod(job);
        let ports = container(&pod).ports.iter().flatten();
        ports
            .map(|p| (p.container_port, p.name.clone().unwrap_or_default()))
            .collect::<Vec<_>>()
    };
    let job = compile_one_group("PyTorch", "");
    assert_eq!(container_ports(&job), [port(29500, "rendezvous")]);
    assert_eq!(ports(&job), [port(29500, "rendezvous")]);

    let job = compile_one_group("PyTorch", "ports: [{name: master, port: 29500}]");
    assert_eq!(container_ports(&job), [port(29500, "master")]);
    assert_eq!(ports(&job), [port(29500, "master")]);

    let job = compile_one_group("PyTorch", "ports: [{name: rendezvous, port: 1234}]");
    assert_eq!(
        container_ports(&job),
        [port(1234, "rendezvous"), port(29500, "")]
    );
    assert_eq!(
        ports(&job),
        [
            port(1234, "rendezvous"),
            port(29500, "container-port-29500")
        ]
    );

    assert_eq!(container_ports(&compile_one_group("None", "")), []);
}
