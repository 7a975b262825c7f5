//! The NetworkPolicy: closed except for the requested peers.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::serde_json::{self, Value, json};
use trellis_compiler::{
    CompileContext, CompiledJob, DnsPeer, DnsServers, ServiceProblem, Settings, compile,
    required_services,
};

use super::support::{UID, compile_facts, compile_job, job, resolve_job};

const GROUP: &str = "taskGroups: [{name: w, image: i, resources: {limits: {cpu: 1, memory: 1Gi}}}]";

fn services() -> BTreeMap<String, Service> {
    let service = |value: Value| -> Service { serde_json::from_value(value).unwrap() };
    BTreeMap::from([
        (
            "db".to_owned(),
            service(json!({"spec": {"selector": {"app": "db"}, "ports": [
                {"port": 80, "targetPort": 8080, "protocol": "TCP"},
                {"port": 53, "targetPort": "dns", "protocol": "UDP"},
                {"port": 9000},
            ]}})),
        ),
        (
            "bare".to_owned(),
            service(json!({"spec": {"clusterIP": "None", "selector": {"app": "bare"}}})),
        ),
        (
            "manual".to_owned(),
            service(json!({"spec": {"ports": [{"port": 80}]}})),
        ),
        (
            "empty".to_owned(),
            service(json!({"spec": {"selector": {}, "ports": [{"port": 80}]}})),
        ),
        (
            "external".to_owned(),
            service(
                json!({"spec": {"type": "ExternalName", "externalName": "a.example",
                "selector": {"app": "db"}, "ports": [{"port": 80}]}}),
            ),
        ),
        ("hollow".to_owned(), Service::default()),
    ])
}

fn compiled_with_network(network: &str) -> CompiledJob {
    let job = resolve_job(job(&format!("{GROUP}\nnetwork: {network}")));
    let surroundings = CompileContext::resolve(job.job(), compile_facts(&services())).unwrap();
    compile(job, surroundings, &Arc::default())
}

fn spec(job: &CompiledJob) -> Value {
    serde_json::to_value(job.network_policy()).unwrap()["spec"].clone()
}

/// The rules beyond own pods (and DNS).
fn added_rules(job: &CompiledJob, direction: &str) -> Vec<Value> {
    let rules = spec(job)[direction].as_array().unwrap().clone();
    let given = if direction == "egress" { 2 } else { 1 };
    rules[given..].to_vec()
}

fn own_pods_peer() -> Value {
    json!({"podSelector": {"matchLabels": {"trellis.dev/job-uid": UID}}})
}

#[test]
fn network_policy_allows_only_own_pods_and_dns_by_default() {
    assert_eq!(
        spec(&compile_job(job(GROUP))),
        json!({
            "podSelector": {"matchLabels": {"trellis.dev/job-uid": UID}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [own_pods_peer()]}],
            "egress": [{"to": [own_pods_peer()]}, {
                "to": [{
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
                    "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
                }],
                "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
            }],
        })
    );
}

#[test]
fn network_policy_allows_the_configured_dns_servers() {
    let compiled = |dns| {
        let job = resolve_job(job(GROUP));
        let surroundings =
            CompileContext::resolve(job.job(), compile_facts(&BTreeMap::new())).unwrap();
        let settings = Arc::new(Settings {
            dns,
            ..Settings::default()
        });
        spec(&compile(job, surroundings, &settings))["egress"].clone()
    };
    assert_eq!(compiled(vec![]), json!([{"to": [own_pods_peer()]}]));
    let openshift = DnsPeer {
        servers: DnsServers::Pods {
            namespace: "openshift-dns".to_owned(),
            labels: BTreeMap::from([("dns".to_owned(), "default".to_owned())]),
        },
        port: 5353,
    };
    assert_eq!(
        compiled(vec![DnsPeer::cidr("169.254.20.10/32"), openshift]),
        json!([
            {"to": [own_pods_peer()]},
            {
                "to": [{"ipBlock": {"cidr": "169.254.20.10/32"}}],
                "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
            },
            {
                "to": [{
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "openshift-dns"}},
                    "podSelector": {"matchLabels": {"dns": "default"}},
                }],
                "ports": [{"protocol": "UDP", "port": 5353}, {"protocol": "TCP", "port": 5353}],
            },
        ])
    );
}

#[test]
fn egress_rule_opens_the_requested_peer_and_ports() {
    let db = json!([{"podSelector": {"matchLabels": {"app": "db"}}}]);
    for (rule, expected) in [
        (
            "{cidr: 10.20.0.0/16, ports: [{port: 443}, {port: 80}]}",
            json!({"to": [{"ipBlock": {"cidr": "10.20.0.0/16"}}],
                "ports": [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 80}]}),
        ),
        (
            "{cidr: '::/0'}",
            json!({"to": [{"ipBlock": {"cidr": "::/0"}}]}),
        ),
        (
            "{namespace: storage}",
            json!({"to": [{"namespaceSelector":
                {"matchLabels": {"kubernetes.io/metadata.name": "storage"}}}]}),
        ),
        // A rule without ports opens the pods' ports behind all ports of the Service.
        (
            "{service: db}",
            json!({"to": db, "ports": [
                {"protocol": "TCP", "port": 8080},
                {"protocol": "UDP", "port": "dns"},
                {"protocol": "TCP", "port": 9000},
            ]}),
        ),
        // With ports: the pods' port behind the Service's.
        (
            "{service: db, ports: [{port: 80}]}",
            json!({"to": db, "ports": [{"protocol": "TCP", "port": 8080}]}),
        ),
        // Not one of the Service's, or not over TCP: the pods' own.
        (
            "{service: db, ports: [{port: 53}, {port: 7000}]}",
            json!({"to": db, "ports": [
                {"protocol": "TCP", "port": 53}, {"protocol": "TCP", "port": 7000}]}),
        ),
        (
            "{service: db, ports: [{port: 53, protocol: UDP}]}",
            json!({"to": db, "ports": [{"protocol": "UDP", "port": "dns"}]}),
        ),
        // A range: every port of the Service in it, of the same protocol, and the pods' own.
        (
            "{service: db, ports: [{port: 1, endPort: 65535}]}",
            json!({"to": db, "ports": [
                {"protocol": "TCP", "port": 8080}, {"protocol": "TCP", "port": 9000},
                {"protocol": "TCP", "port": 1, "endPort": 65535}]}),
        ),
        (
            "{cidr: 10.0.0.0/8, ports: [{port: 30000, endPort: 30100, protocol: SCTP}]}",
            json!({"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
                "ports": [{"protocol": "SCTP", "port": 30000, "endPort": 30100}]}),
        ),
        (
            "{service: bare, ports: [{port: 5432}]}",
            json!({"to": [{"podSelector": {"matchLabels": {"app": "bare"}}}],
                "ports": [{"protocol": "TCP", "port": 5432}]}),
        ),
    ] {
        let job = compiled_with_network(&format!("{{egress: [{rule}]}}"));
        assert_eq!(added_rules(&job, "egress"), [expected], "{rule}");
        assert!(added_rules(&job, "ingress").is_empty());
    }
}

#[test]
fn ingress_rule_opens_ports_of_the_job() {
    for (rule, expected) in [
        (
            "{namespace: monitoring, ports: [{port: 9400}]}",
            json!({"from": [{"namespaceSelector":
                {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
                "ports": [{"protocol": "TCP", "port": 9400}]}),
        ),
        (
            "{service: db}",
            json!({"from": [{"podSelector": {"matchLabels": {"app": "db"}}}]}),
        ),
        (
            "{service: db, ports: [{port: 80}]}",
            json!({"from": [{"podSelector": {"matchLabels": {"app": "db"}}}],
                "ports": [{"protocol": "TCP", "port": 80}]}),
        ),
        // The Service's ports have no meaning here, so that it needs none.
        (
            "{service: bare}",
            json!({"from": [{"podSelector": {"matchLabels": {"app": "bare"}}}]}),
        ),
    ] {
        let job = compiled_with_network(&format!("{{ingress: [{rule}]}}"));
        assert_eq!(added_rules(&job, "ingress"), [expected], "{rule}");
        assert!(added_rules(&job, "egress").is_empty());
    }
}

#[test]
fn service_without_pods_or_ports_keeps_the_job_waiting() {
    for (name, problem) in [
        ("missing", ServiceProblem::NotFound),
        ("manual", ServiceProblem::NoSelector),
        ("empty", ServiceProblem::NoSelector),
        ("external", ServiceProblem::NoSelector),
        ("hollow", ServiceProblem::NoSelector),
        ("bare", ServiceProblem::NoPorts),
    ] {
        let spec = format!("{GROUP}\nnetwork: {{egress: [{{service: {name}}}, {{service: db}}]}}");
        let job = resolve_job(job(&spec));
        let names: Vec<_> = required_services(job.job()).into_iter().collect();
        let mut expected = vec!["db".to_owned(), name.to_owned()];
        expected.sort();
        assert_eq!(names, expected);
        let error = CompileContext::resolve(job.job(), compile_facts(&services())).unwrap_err();
        let problems: Vec<_> = error.services().iter().collect();
        assert_eq!(problems, [(&name.to_owned(), &problem)]);
        assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
    }
}

/// Facts for another job open nothing, and never everything.
#[test]
fn network_policy_leaves_out_unresolved_services() {
    let other = resolve_job(job(GROUP));
    let surroundings = CompileContext::resolve(other.job(), compile_facts(&services())).unwrap();
    let network = "network: {egress: [{service: db}], ingress: [{service: db}]}";
    let mine = resolve_job(job(&format!("{GROUP}\n{network}")));
    let compiled = compile(mine, surroundings, &Arc::default());
    assert!(added_rules(&compiled, "egress").is_empty());
    assert!(added_rules(&compiled, "ingress").is_empty());
    let demands = format!("{:?}", compiled.demands());
    assert!(!demands.contains("db"), "{demands}");
}
