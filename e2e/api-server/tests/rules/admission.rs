//! Admission: quotas, priorities, limits, hooks.

use serde_json::{Value, json};
use trellis_api_server::Operation;

use super::{CONFIG_MAPS, Cluster, PODS, pod};

const QUOTAS: &str = "/api/v1/namespaces/a/resourcequotas";

fn pod_with_cpu(name: &str, cpu: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
    pod
}

/// Creates a quota with its status, as its controller would set it.
fn quota(cluster: &mut Cluster, name: &str, spec: &Value, used: &Value) {
    cluster.create(QUOTAS, &json!({"metadata": {"name": name}, "spec": spec}));
    let status = json!({"status": {"hard": spec["hard"], "used": used}});
    cluster.change(&format!("{QUOTAS}/{name}/status"), &status);
}

#[test]
fn quota_counts_a_pod_at_once_and_refuses_too_many() {
    let mut cluster = Cluster::new();
    let hard = json!({"hard": {"requests.cpu": "1500m", "pods": "10"}});
    quota(
        &mut cluster,
        "q",
        &hard,
        &json!({"requests.cpu": "0", "pods": "0"}),
    );
    let dry_run = format!("{PODS}?dryRun=All");
    cluster.create(&dry_run, &pod_with_cpu("p1", "1"));
    cluster.create(PODS, &pod_with_cpu("p1", "1"));
    let (_, stored) = cluster.get(&format!("{QUOTAS}/q"));
    assert_eq!(
        stored["status"]["used"],
        json!({"pods": "1", "requests.cpu": "1"})
    );
    let expected = "pods \"p2\" is forbidden: exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=1, limited: requests.cpu=1500m";
    for path in [PODS, &dry_run] {
        let (code, status) = cluster.post(path, &pod_with_cpu("p2", "1"));
        assert_eq!((code, status["message"].as_str()), (403, Some(expected)));
    }
    let (code, status) = cluster.post(PODS, &pod("p3"));
    let message = "pods \"p3\" is forbidden: failed quota: q: must specify requests.cpu for: c";
    assert_eq!((code, status["message"].as_str()), (403, Some(message)));
}

#[test]
fn quota_without_a_status_refuses_pods() {
    let mut cluster = Cluster::new();
    cluster.create(
        QUOTAS,
        &json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}),
    );
    // The hard limits count from the status.
    cluster.create(PODS, &pod("p1"));
    cluster.change(
        &format!("{QUOTAS}/q/status"),
        &json!({"status": {"hard": {"pods": "1"}}}),
    );
    let (code, status) = cluster.post(PODS, &pod("p2"));
    let message = "pods \"p2\" is forbidden: status unknown for quota: q, resources: pods";
    assert_eq!((code, status["message"].as_str()), (403, Some(message)));
}

#[test]
fn quota_counts_only_pods_of_its_scope() {
    let mut cluster = Cluster::new();
    let class = json!({"metadata": {"name": "high"}, "value": 10});
    cluster.create("/apis/scheduling.k8s.io/v1/priorityclasses", &class);
    let spec = json!({"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [
        {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}});
    quota(&mut cluster, "q", &spec, &json!({"pods": "0"}));
    cluster.create(PODS, &pod("p"));
    let mut high = pod("h");
    high["spec"]["priorityClassName"] = "high".into();
    assert_eq!(cluster.post(PODS, &high).0, 403);
}

#[test]
fn quota_counts_objects() {
    let mut cluster = Cluster::new();
    let hard = json!({"hard": {"count/configmaps": "1"}});
    quota(&mut cluster, "q", &hard, &json!({"count/configmaps": "0"}));
    cluster.config_map("m1", &json!({}));
    assert_eq!(
        cluster
            .post(CONFIG_MAPS, &json!({"metadata": {"name": "m2"}}))
            .0,
        403
    );
}

#[test]
fn priority_comes_from_the_class() {
    let mut cluster = Cluster::new();
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let class = json!({"metadata": {"name": "high"}, "value": 10, "preemptionPolicy": "Never"});
    let class = cluster.create(classes, &class);
    assert_eq!(class["metadata"]["generation"], 1);
    let mut body = pod("p");
    body["spec"]["priorityClassName"] = "high".into();
    let created = cluster.create(PODS, &body);
    let spec = &created["spec"];
    assert_eq!(
        (&spec["priority"], &spec["preemptionPolicy"]),
        (&json!(10), &json!("Never"))
    );
    body["metadata"]["name"] = "q".into();
    body["spec"]["priorityClassName"] = "absent".into();
    let (code, status) = cluster.post(PODS, &body);
    let message = "pods \"q\" is forbidden: no PriorityClass with name absent was found";
    assert_eq!((code, status["message"].as_str()), (403, Some(message)));
    let default = json!({"metadata": {"name": "default"}, "value": 5, "globalDefault": true});
    cluster.create(classes, &default);
    let created = cluster.pod("r", None);
    assert_eq!(
        (
            &created["spec"]["priority"],
            &created["spec"]["priorityClassName"]
        ),
        (&json!(5), &json!("default"))
    );
}

#[test]
fn limit_range_sets_defaults_and_bounds() {
    let mut cluster = Cluster::new();
    let limit = json!({"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"}, "max": {"cpu": "2"}});
    let range = json!({"metadata": {"name": "l"}, "spec": {"limits": [limit]}});
    cluster.create("/api/v1/namespaces/a/limitranges", &range);
    let created = cluster.pod("p", None);
    let resources = &created["spec"]["containers"][0]["resources"];
    assert_eq!(
        *resources,
        json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}})
    );
    let note = "LimitRanger plugin set: cpu request for container c; cpu limit for container c";
    assert_eq!(
        created["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        note
    );
    let mut big = pod("big");
    big["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "3"}});
    let (code, status) = cluster.post(PODS, &big);
    let message = status["message"].as_str().unwrap_or_default();
    assert!(
        code == 403 && message.contains("maximum cpu usage per Container is 2, but limit is 3"),
        "{message}"
    );
}

#[test]
fn hooks_change_and_refuse_writes() {
    let mut cluster = Cluster::new();
    cluster.server.add_mutating_admission(|request, object| {
        if request.operation == Operation::Create && request.kind.plural == "configmaps" {
            object["metadata"]["labels"] = json!({"hooked": "yes"});
        }
        Ok(())
    });
    cluster.server.add_admission(|request| {
        let is_frozen = request
            .old
            .is_some_and(|old| old["data"]["frozen"] == "yes");
        if is_frozen {
            Err(request.forbid("it is frozen"))
        } else {
            Ok(())
        }
    });
    let map = cluster.config_map("m", &json!({}));
    assert_eq!(map["metadata"]["labels"]["hooked"], "yes");
    let path = format!("{CONFIG_MAPS}/m");
    cluster.change(&path, &json!({"data": {"frozen": "yes"}}));
    for (code, status) in [
        cluster.patch(&path, &json!({"data": {"frozen": "no"}})),
        cluster.delete(&path, &Value::Null),
    ] {
        let message = status["message"].as_str();
        assert_eq!(
            (code, message),
            (403, Some("configmaps \"m\" is forbidden: it is frozen"))
        );
    }
}

#[test]
fn service_account_is_required_if_the_server_is_told_so() {
    let mut cluster = Cluster::new();
    cluster.server.require_service_accounts();
    assert_eq!(cluster.post(PODS, &pod("p")).0, 403);
    let account = json!({"metadata": {"name": "default"}});
    cluster.create("/api/v1/namespaces/a/serviceaccounts", &account);
    cluster.pod("p", None);
}

#[test]
fn new_node_is_not_ready() {
    let mut cluster = Cluster::new();
    let node = cluster.create(
        "/api/v1/nodes",
        &json!({"metadata": {"name": "n"},
        "status": {"capacity": {"cpu": "4"}}}),
    );
    let taint = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
    assert_eq!(node["spec"]["taints"], taint);
    assert_eq!(node["status"]["allocatable"], json!({"cpu": "4"}));
}
