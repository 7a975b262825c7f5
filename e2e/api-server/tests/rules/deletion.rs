//! Deletes.

use serde_json::{Value, json};

use super::{CONFIG_MAPS, Cluster, PODS, cause, names, uid};

#[test]
fn delete_answers_a_status_or_the_object_by_kind() {
    let mut cluster = Cluster::new();
    let map = cluster.config_map("m", &json!({}));
    let (code, status) = cluster.delete(&format!("{CONFIG_MAPS}/m"), &Value::Null);
    let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {"name": "m", "kind": "configmaps", "uid": uid(&map)}});
    assert_eq!((code, status), (200, expected));
    cluster.pod("p", None);
    let (code, pod) = cluster.delete(&format!("{PODS}/p"), &Value::Null);
    assert_eq!((code, pod["kind"].as_str()), (200, Some("Pod")));
    assert_eq!(cluster.delete(&format!("{PODS}/p"), &Value::Null).0, 404);
}

#[test]
fn delete_checks_its_preconditions() {
    let mut cluster = Cluster::new();
    let map = cluster.config_map("m", &json!({}));
    let path = format!("{CONFIG_MAPS}/m");
    let (code, status) = cluster.delete(&path, &json!({"preconditions": {"uid": "x"}}));
    assert_eq!(code, 409);
    let message = status["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("the UID in the precondition (x) does not match"),
        "{message}"
    );
    assert_eq!(
        cluster
            .delete(&path, &json!({"preconditions": {"resourceVersion": "1"}}))
            .0,
        409
    );
    assert_eq!(
        cluster
            .delete(&path, &json!({"preconditions": {"uid": uid(&map)}}))
            .0,
        200
    );
}

#[test]
fn running_pod_gets_its_grace() {
    let mut cluster = Cluster::new();
    cluster.pod("p", Some("n"));
    let path = format!("{PODS}/p");
    let (_, pod) = cluster.delete(&path, &Value::Null);
    let metadata = &pod["metadata"];
    assert_eq!(metadata["deletionTimestamp"], "2023-11-14T22:13:50Z");
    assert_eq!(
        (
            &metadata["deletionGracePeriodSeconds"],
            &metadata["generation"]
        ),
        (&json!(30), &json!(2))
    );
    // More time than it has does not count, less does.
    let (code, same) = cluster.delete(&path, &json!({"gracePeriodSeconds": 60}));
    assert_eq!((code, same), (200, pod));
    let (_, pod) = cluster.delete(&path, &json!({"gracePeriodSeconds": 10}));
    assert_eq!(pod["metadata"]["deletionTimestamp"], "2023-11-14T22:13:30Z");
    cluster.delete(&path, &json!({"gracePeriodSeconds": 0}));
    assert_eq!(cluster.get(&path).0, 404);
}

#[test]
fn pod_that_does_not_run_disappears_after_one_change() {
    let mut cluster = Cluster::new();
    let mut watch = cluster.watch(&format!("{PODS}?watch=1"));
    cluster.pod("unbound", None);
    cluster.pod("over", Some("n"));
    cluster.set_pod_phase("over", "Succeeded");
    cluster.event_names(&mut watch);
    for name in ["unbound", "over"] {
        cluster.delete(&format!("{PODS}/{name}"), &Value::Null);
        let expected = names(&[("MODIFIED", name), ("DELETED", name)]);
        assert_eq!(cluster.event_names(&mut watch), expected);
    }
}

#[test]
fn finalizer_keeps_a_deleted_object() {
    let mut cluster = Cluster::new();
    let body = json!({"metadata": {"name": "m", "finalizers": ["x.y/z"]}});
    cluster.create(CONFIG_MAPS, &body);
    let path = format!("{CONFIG_MAPS}/m");
    let (code, object) = cluster.delete(&path, &Value::Null);
    assert_eq!(
        (code, &object["metadata"]["deletionGracePeriodSeconds"]),
        (200, &json!(0))
    );
    let (code, status) = cluster.post(CONFIG_MAPS, &body);
    let message = status["message"].as_str().unwrap_or_default();
    assert!(
        code == 409 && message.starts_with("object is being deleted: "),
        "{message}"
    );
    let more = json!({"metadata": {"finalizers": ["x.y/z", "x.y/new"]}});
    let (code, status) = cluster.patch(&path, &more);
    assert_eq!(
        (code, cause(&status)),
        (422, ("FieldValueForbidden", "metadata.finalizers"))
    );
    assert_eq!(cluster.get(&path).0, 200);
    cluster.change(&path, &json!({"metadata": {"finalizers": null}}));
    assert_eq!(cluster.get(&path).0, 404);
}

#[test]
fn propagation_sets_the_finalizer_of_the_garbage_collector() {
    let mut cluster = Cluster::new();
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        cluster.config_map("m", &json!({}));
        let path = format!("{CONFIG_MAPS}/m");
        let (_, object) = cluster.delete(&path, &json!({"propagationPolicy": policy}));
        assert_eq!(object["metadata"]["finalizers"], json!([finalizer]));
        cluster.change(&path, &json!({"metadata": {"finalizers": []}}));
        assert_eq!(cluster.get(&path).0, 404);
    }
}

#[test]
fn namespace_only_begins_to_end() {
    let mut cluster = Cluster::new();
    let path = "/api/v1/namespaces/a";
    let (code, namespace) = cluster.delete(path, &Value::Null);
    assert_eq!(
        (code, &namespace["status"]["phase"]),
        (200, &json!("Terminating"))
    );
    let (code, status) = cluster.post(CONFIG_MAPS, &json!({"metadata": {"name": "m"}}));
    assert_eq!(
        (code, cause(&status)),
        (403, ("NamespaceTerminating", "metadata.namespace"))
    );
    let (_, mut namespace) = cluster.get(path);
    namespace["spec"]["finalizers"] = json!([]);
    assert_eq!(cluster.put(&format!("{path}/finalize"), &namespace).0, 200);
    assert_eq!(cluster.get(path).0, 404);
    let (code, status) = cluster.post(CONFIG_MAPS, &json!({"metadata": {"name": "m"}}));
    assert_eq!(
        (code, status["message"].as_str()),
        (404, Some("namespaces \"a\" not found"))
    );
}

#[test]
fn collection_is_deleted_by_its_selector() {
    let mut cluster = Cluster::new();
    cluster.config_map("m1", &json!({"app": "x"}));
    cluster.config_map("m2", &json!({}));
    cluster.delete(&format!("{CONFIG_MAPS}?labelSelector=app"), &Value::Null);
    assert_eq!(cluster.get(&format!("{CONFIG_MAPS}/m1")).0, 404);
    assert_eq!(cluster.get(&format!("{CONFIG_MAPS}/m2")).0, 200);
}
