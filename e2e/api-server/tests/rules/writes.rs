//! Creates, replaces and patches.

use serde_json::{Value, json};

use super::{CONFIG_MAPS, Cluster, PODS, STRATEGIC, cause, uid, version};
use http::Method;

#[test]
fn name_that_is_taken_is_refused() {
    let mut cluster = Cluster::new();
    cluster.config_map("m", &json!({}));
    let (code, status) = cluster.post(CONFIG_MAPS, &json!({"metadata": {"name": "m"}}));
    assert_eq!(
        (code, status["reason"].as_str()),
        (409, Some("AlreadyExists"))
    );
    assert_eq!(status["message"], "configmaps \"m\" already exists");
    assert_eq!(
        status["details"],
        json!({"name": "m", "kind": "configmaps"})
    );
}

#[test]
fn name_that_comes_again_has_a_new_uid() {
    let mut cluster = Cluster::new();
    let first = cluster.config_map("m", &json!({}));
    cluster.delete(&format!("{CONFIG_MAPS}/m"), &Value::Null);
    let second = cluster.config_map("m", &json!({}));
    assert_ne!(uid(&first), uid(&second));
}

#[test]
fn name_is_generated_from_a_prefix() {
    let mut cluster = Cluster::new();
    let body = json!({"metadata": {"generateName": "m-"}});
    let first = cluster.create(CONFIG_MAPS, &body);
    let second = cluster.create(CONFIG_MAPS, &body);
    let name = first["metadata"]["name"].as_str().expect("a name");
    assert!(name.starts_with("m-") && name.len() == 7, "{name}");
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
}

#[test]
fn stale_version_and_wrong_uid_are_conflicts() {
    let mut cluster = Cluster::new();
    let old = cluster.config_map("m", &json!({}));
    let path = format!("{CONFIG_MAPS}/m");
    cluster.change(&path, &json!({"data": {"k": "v"}}));
    let (code, status) = cluster.put(&path, &old);
    assert_eq!((code, status["reason"].as_str()), (409, Some("Conflict")));
    let stale =
        json!({"metadata": {"resourceVersion": version(&old).to_string()}, "data": {"k": "x"}});
    assert_eq!(cluster.patch(&path, &stale).0, 409);
    let other = json!({"metadata": {"name": "m", "uid": "x"}});
    let (code, status) = cluster.put(&path, &other);
    assert_eq!(code, 409);
    assert!(
        status["message"]
            .as_str()
            .is_some_and(|m| m.contains("UID in precondition: x"))
    );
    let (code, status) = cluster.patch(&path, &json!({"metadata": {"uid": "x"}}));
    assert_eq!(
        (code, cause(&status)),
        (422, ("FieldValueInvalid", "metadata.uid"))
    );
}

#[test]
fn write_without_effect_keeps_the_revision() {
    let mut cluster = Cluster::new();
    let object = cluster.config_map("m", &json!({"app": "x"}));
    let path = format!("{CONFIG_MAPS}/m");
    cluster.pass(10);
    let same = json!({"metadata": {"labels": {"app": "x"}}});
    assert_eq!(cluster.change(&path, &same), object);
    assert_eq!(cluster.put(&path, &object), (200, object.clone()));
    assert_eq!(cluster.server.revision(), version(&object));
}

#[test]
fn dry_run_answers_the_object_and_stores_nothing() {
    let mut cluster = Cluster::new();
    let before = cluster.server.revision();
    let object = cluster.create(&format!("{PODS}?dryRun=All"), &super::pod("p"));
    assert_eq!(object["spec"]["priority"], 0);
    assert_eq!(object["metadata"].get("resourceVersion"), None);
    assert_eq!(cluster.server.revision(), before);
    assert_eq!(cluster.get(&format!("{PODS}/p")).0, 404);
    cluster.pod("p", None);
    assert_eq!(
        cluster
            .delete(&format!("{PODS}/p?dryRun=All"), &Value::Null)
            .0,
        200
    );
    assert_eq!(cluster.get(&format!("{PODS}/p")).0, 200);
}

#[test]
fn put_of_an_absent_lease_creates_it() {
    let mut cluster = Cluster::new();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/a/leases";
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "x"}});
    let (code, created) = cluster.put(&format!("{leases}/l"), &lease);
    assert_eq!(code, 201);
    let (code, status) = cluster.put(&format!("{leases}/l"), &lease);
    assert_eq!(
        (code, cause(&status)),
        (422, ("FieldValueInvalid", "metadata.resourceVersion"))
    );
    assert_eq!(cluster.put(&format!("{leases}/l"), &created).0, 200);
    // The replace of a deleted one is a conflict, since it names a uid.
    cluster.delete(&format!("{leases}/l"), &Value::Null);
    assert_eq!(cluster.put(&format!("{leases}/l"), &created).0, 409);
    let map = json!({"metadata": {"name": "m"}});
    assert_eq!(cluster.put(&format!("{CONFIG_MAPS}/m"), &map).0, 404);
}

#[test]
fn system_fields_of_a_client_are_ignored() {
    let mut cluster = Cluster::new();
    let body = json!({"metadata": {"name": "m", "uid": "x", "creationTimestamp": "2000-01-01T00:00:00Z",
        "generation": 7, "deletionTimestamp": "2000-01-01T00:00:00Z"}, "unknown": 1});
    let object = cluster.create(CONFIG_MAPS, &body);
    let metadata = &object["metadata"];
    assert_ne!(metadata["uid"], "x");
    assert_eq!(metadata["creationTimestamp"], "2023-11-14T22:13:20Z");
    assert_eq!(metadata.get("deletionTimestamp"), None);
    assert_eq!(object.get("unknown"), None);
}

#[test]
fn managed_fields_tell_who_wrote_what_last() {
    let mut cluster = Cluster::new();
    cluster.pod("p", None);
    cluster.pass(5);
    let path = format!("{PODS}/p/status?fieldManager=kubelet");
    let pod = cluster.change(&path, &json!({"status": {"phase": "Running"}}));
    let entries = pod["metadata"]["managedFields"]
        .as_array()
        .expect("entries");
    let entry = |entry: &Value| {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        [text("manager"), text("subresource"), text("time")]
    };
    let found: Vec<_> = entries.iter().map(entry).collect();
    let expected = [
        ["rules", "", "2023-11-14T22:13:20Z"],
        ["kubelet", "status", "2023-11-14T22:13:25Z"],
    ];
    assert_eq!(found, expected);
}

#[test]
fn main_write_keeps_the_status_and_a_status_write_the_spec() {
    let mut cluster = Cluster::new();
    cluster.pod("p", None);
    let path = format!("{PODS}/p");
    let pod = cluster.change(
        &path,
        &json!({"status": {"phase": "Failed"}, "metadata": {"labels": {"a": "b"}}}),
    );
    assert_eq!(pod["status"]["phase"], "Pending");
    let change = json!({"status": {"phase": "Failed"}, "spec": {"nodeName": "n"}});
    let pod = cluster.change(&format!("{path}/status"), &change);
    assert_eq!(
        (&pod["status"]["phase"], pod["spec"].get("nodeName")),
        (&json!("Failed"), None)
    );
    assert_eq!(pod["metadata"]["generation"], 1);
}

#[test]
fn strategic_patch_merges_conditions_of_a_pod() {
    let mut cluster = Cluster::new();
    cluster.pod("p", None);
    let path = format!("{PODS}/p/status");
    for (kind, status) in [("A", "False"), ("B", "True"), ("A", "True")] {
        let patch = json!({"status": {"conditions": [{"type": kind, "status": status}]}});
        assert_eq!(cluster.send(Method::PATCH, &path, STRATEGIC, &patch).0, 200);
    }
    let (_, pod) = cluster.get(&path);
    let conditions = pod["status"]["conditions"].as_array().expect("conditions");
    let found: Vec<_> = conditions
        .iter()
        .map(|c| (c["type"].as_str(), c["status"].as_str()))
        .collect();
    assert_eq!(
        found,
        [(Some("B"), Some("True")), (Some("A"), Some("True"))]
    );
}

#[test]
fn names_in_body_and_path_must_agree() {
    let mut cluster = Cluster::new();
    cluster.config_map("m", &json!({}));
    let other = json!({"metadata": {"name": "n"}});
    assert_eq!(cluster.put(&format!("{CONFIG_MAPS}/m"), &other).0, 400);
    let elsewhere = json!({"metadata": {"name": "n", "namespace": "b"}});
    assert_eq!(cluster.post(CONFIG_MAPS, &elsewhere).0, 400);
    let wrong_kind = json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "n"}});
    assert_eq!(cluster.post(CONFIG_MAPS, &wrong_kind).0, 400);
    let (code, status) = cluster.post(CONFIG_MAPS, &json!({"metadata": {"name": "N"}}));
    assert_eq!(
        (code, cause(&status)),
        (422, ("FieldValueInvalid", "metadata.name"))
    );
    let (code, status) = cluster.post(CONFIG_MAPS, &json!({"metadata": {}}));
    assert_eq!(
        (code, cause(&status)),
        (422, ("FieldValueRequired", "metadata.name"))
    );
}
