//! Pods: defaults, binding, eviction.

use serde_json::{Value, json};

use super::{Cluster, PODS, cause, pod, uid, version};

const BUDGETS: &str = "/apis/policy/v1/namespaces/a/poddisruptionbudgets";

fn binding(name: &str, node: &str) -> Value {
    json!({"metadata": {"name": name, "annotations": {"x.y/plan": "1"}}, "target": {"kind": "Node", "name": node}})
}

#[test]
fn pod_gets_its_defaults() {
    let mut cluster = Cluster::new();
    let mut body = pod("p");
    body["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1000m"}});
    body["spec"]["volumes"] = json!([{"name": "v"}, {"name": "s", "secret": {"secretName": "x"}}]);
    let pod = cluster.create(PODS, &body);
    let spec = &pod["spec"];
    let expected = json!({
        "name": "c", "image": "i", "imagePullPolicy": "Always",
        "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    });
    assert_eq!(spec["containers"][0], expected);
    for (field, value) in [
        ("restartPolicy", json!("Always")),
        ("dnsPolicy", json!("ClusterFirst")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("schedulerName", json!("default-scheduler")),
        ("securityContext", json!({})),
        ("enableServiceLinks", json!(true)),
        ("serviceAccountName", json!("default")),
        ("priority", json!(0)),
        ("preemptionPolicy", json!("PreemptLowerPriority")),
    ] {
        assert_eq!(spec[field], value, "{field}");
    }
    assert_eq!(spec["volumes"][0], json!({"name": "v", "emptyDir": {}}));
    assert_eq!(spec["volumes"][1]["secret"]["defaultMode"], 420);
    assert_eq!(spec["tolerations"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        pod["status"],
        json!({"phase": "Pending", "qosClass": "Burstable"})
    );
}

#[test]
fn binding_sets_node_annotations_and_condition_in_one_write() {
    let mut cluster = Cluster::new();
    let before = cluster.pod("p", None);
    let (code, status) = cluster.post(&format!("{PODS}/p/binding"), &binding("p", "n"));
    assert_eq!((code, status["status"].as_str()), (201, Some("Success")));
    let (_, pod) = cluster.get(&format!("{PODS}/p"));
    assert_eq!(version(&pod), version(&before) + 1);
    assert_eq!(pod["spec"]["nodeName"], "n");
    assert_eq!(pod["metadata"]["annotations"], json!({"x.y/plan": "1"}));
    assert_eq!(pod["metadata"]["generation"], 1);
    let condition = &pod["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"]),
        (&json!("PodScheduled"), &json!("True"))
    );
}

#[test]
fn binding_is_refused_if_the_pod_is_not_the_one_or_not_free() {
    let mut cluster = Cluster::new();
    cluster.pod("bound", Some("n"));
    let mut gated = pod("gated");
    gated["spec"]["schedulingGates"] = json!([{"name": "x.y/g"}]);
    let gated = cluster.create(PODS, &gated);
    assert_eq!(
        gated["status"]["conditions"][0]["reason"],
        "SchedulingGated"
    );
    let mut deleting = pod("deleting");
    deleting["metadata"]["finalizers"] = json!(["x.y/z"]);
    cluster.create(PODS, &deleting);
    cluster.delete(&format!("{PODS}/deleting"), &Value::Null);
    for (name, why) in [
        ("bound", "already assigned to node"),
        ("gated", "non-empty .spec.schedulingGates"),
        ("deleting", "is being deleted"),
    ] {
        let (code, status) = cluster.post(&format!("{PODS}/{name}/binding"), &binding(name, "m"));
        let message = status["message"].as_str().unwrap_or_default();
        assert!(code == 409 && message.contains(why), "{message}");
        assert_eq!(status["details"]["kind"], "pods/binding");
    }
    cluster.pod("other", None);
    let mut wrong = binding("other", "m");
    wrong["metadata"]["uid"] = "x".into();
    assert_eq!(
        cluster.post(&format!("{PODS}/other/binding"), &wrong).0,
        409
    );
    assert_eq!(
        cluster
            .post(&format!("{PODS}/absent/binding"), &binding("absent", "m"))
            .0,
        404
    );
}

fn ready_pod(cluster: &mut Cluster) -> Value {
    let mut body = pod("p");
    body["metadata"]["labels"] = json!({"app": "x"});
    body["spec"]["nodeName"] = "n".into();
    let pod = cluster.create(PODS, &body);
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    cluster.change(&format!("{PODS}/p/status"), &status);
    pod
}

fn budget(cluster: &mut Cluster, name: &str, allowed: u32) {
    let body = json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": "x"}}, "minAvailable": 1}});
    cluster.create(BUDGETS, &body);
    let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": allowed,
        "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}});
    cluster.change(&format!("{BUDGETS}/{name}/status"), &status);
}

fn eviction(uid: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"},
        "deleteOptions": {"preconditions": {"uid": uid}}})
}

#[test]
fn budget_refuses_and_allows_an_eviction() {
    let mut cluster = Cluster::new();
    let pod = ready_pod(&mut cluster);
    budget(&mut cluster, "b", 0);
    let path = format!("{PODS}/p/eviction");
    let (code, status) = cluster.post(&path, &eviction(uid(&pod)));
    assert_eq!((code, cause(&status).0), (429, "DisruptionBudget"));
    let message = &status["details"]["causes"][0]["message"];
    assert_eq!(
        message,
        "The disruption budget b needs 1 healthy pods and has 1 currently"
    );
    cluster.change(
        &format!("{BUDGETS}/b/status"),
        &json!({"status": {"disruptionsAllowed": 1}}),
    );
    let before = cluster.server.revision();
    assert_eq!(
        cluster
            .post(&format!("{path}?dryRun=All"), &eviction(uid(&pod)))
            .0,
        201
    );
    assert_eq!(cluster.server.revision(), before);
    assert_eq!(cluster.post(&path, &eviction("x")).0, 409);
    assert_eq!(
        cluster.post(&path, &eviction(uid(&pod))).0,
        429,
        "the budget was charged before"
    );
    cluster.change(
        &format!("{BUDGETS}/b/status"),
        &json!({"status": {"disruptionsAllowed": 1}}),
    );
    assert_eq!(cluster.post(&path, &eviction(uid(&pod))).0, 201);
    let (_, pod) = cluster.get(&format!("{PODS}/p"));
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(pod["status"]["conditions"][1]["type"], "DisruptionTarget");
    let (_, budget) = cluster.get(&format!("{BUDGETS}/b"));
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert!(budget["status"]["disruptedPods"]["p"].is_string());
}

#[test]
fn two_budgets_refuse_every_eviction() {
    let mut cluster = Cluster::new();
    let pod = ready_pod(&mut cluster);
    budget(&mut cluster, "b", 1);
    budget(&mut cluster, "c", 1);
    let (code, status) = cluster.post(&format!("{PODS}/p/eviction"), &eviction(uid(&pod)));
    let message = status["message"].as_str().unwrap_or_default();
    assert!(
        code == 500 && message.contains("more than one PodDisruptionBudget"),
        "{message}"
    );
}

#[test]
fn spec_of_a_pod_may_hardly_change() {
    let mut cluster = Cluster::new();
    cluster.pod("p", None);
    let path = format!("{PODS}/p");
    let (code, status) = cluster.patch(&path, &json!({"spec": {"nodeName": "n"}}));
    assert_eq!(
        (code, cause(&status)),
        (422, ("FieldValueForbidden", "spec"))
    );
    let deadline = json!({"spec": {"activeDeadlineSeconds": 5}});
    let pod = cluster.change(&path, &deadline);
    assert_eq!(pod["metadata"]["generation"], 2);
}

#[test]
fn invalid_pod_names_its_fields() {
    let mut cluster = Cluster::new();
    let (code, status) = cluster.post(
        PODS,
        &json!({"metadata": {"name": "p"}, "spec": {"containers": []}}),
    );
    assert_eq!(
        (code, cause(&status)),
        (422, ("FieldValueRequired", "spec.containers"))
    );
    let mut unequal = pod("p");
    unequal["spec"]["containers"][0]["resources"] = json!({"requests": {"x.y/gpu": "1"}});
    let (code, status) = cluster.post(PODS, &unequal);
    assert_eq!(
        (code, cause(&status).1),
        (422, "spec.containers[0].resources.limits")
    );
}
