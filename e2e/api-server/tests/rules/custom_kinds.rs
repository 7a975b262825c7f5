//! Kinds of CustomResourceDefinitions.

use serde_json::{Value, json};

use super::{Cluster, WIDGETS, cause};

fn widget(size: i64) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": size}})
}

#[test]
fn unknown_fields_and_the_status_of_a_create_are_dropped() {
    let mut cluster = Cluster::new();
    let mut body = widget(1);
    body["spec"]["unknown"] = json!(1);
    body["status"] = json!({"ready": 1});
    let object = cluster.create(WIDGETS, &body);
    assert_eq!(object["spec"], json!({"size": 1}));
    assert_eq!(object.get("status"), None);
    assert_eq!(object["metadata"]["generation"], 1);
}

#[test]
fn invalid_object_is_refused_with_causes() {
    let mut cluster = Cluster::new();
    for (spec, expected) in [
        (json!({}), ("FieldValueRequired", "spec.size")),
        (json!({"size": "x"}), ("FieldValueTypeInvalid", "spec.size")),
        (json!({"size": 0}), ("FieldValueInvalid", "spec.size")),
        (
            json!({"size": 1, "color": "green"}),
            ("FieldValueNotSupported", "spec.color"),
        ),
        (
            json!({"size": 1, "count": true}),
            ("FieldValueTypeInvalid", "spec.count"),
        ),
    ] {
        let (code, status) =
            cluster.post(WIDGETS, &json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}));
        assert_eq!((code, cause(&status)), (422, expected), "{spec}");
        assert_eq!(status["details"]["kind"], "Widget");
    }
}

#[test]
fn generation_rises_with_the_spec_alone() {
    let mut cluster = Cluster::new();
    cluster.create(WIDGETS, &widget(1));
    let path = format!("{WIDGETS}/w");
    let labelled = cluster.change(&path, &json!({"metadata": {"labels": {"a": "b"}}}));
    assert_eq!(labelled["metadata"]["generation"], 1);
    let status =
        json!({"status": {"ready": 1}, "spec": {"size": 9}, "metadata": {"labels": {"c": "d"}}});
    let changed = cluster.change(&format!("{path}/status"), &status);
    assert_eq!(changed["metadata"]["generation"], 1);
    assert_eq!(changed["spec"]["size"], 1);
    assert_eq!(
        changed["metadata"]["labels"],
        json!({"a": "b"}),
        "a status write keeps the metadata"
    );
    assert_eq!(changed["status"], json!({"ready": 1}));
    let resized = cluster.change(&path, &json!({"spec": {"size": 2}, "status": {"ready": 5}}));
    assert_eq!(
        (
            &resized["metadata"]["generation"],
            &resized["status"]["ready"]
        ),
        (&json!(2), &json!(1))
    );
}

#[test]
fn status_patch_obeys_its_version_as_a_precondition() {
    let mut cluster = Cluster::new();
    let old = cluster.create(WIDGETS, &widget(1));
    cluster.change(&format!("{WIDGETS}/w"), &json!({"spec": {"size": 2}}));
    let version = &old["metadata"]["resourceVersion"];
    let patch = json!({"metadata": {"resourceVersion": version}, "status": {"ready": 1}});
    assert_eq!(cluster.patch(&format!("{WIDGETS}/w/status"), &patch).0, 409);
}

#[test]
fn put_needs_a_version() {
    let mut cluster = Cluster::new();
    let created = cluster.create(WIDGETS, &widget(1));
    let path = format!("{WIDGETS}/w");
    let (code, status) = cluster.put(&path, &widget(2));
    assert_eq!((code, cause(&status).1), (422, "metadata.resourceVersion"));
    let mut new = created;
    new["spec"]["size"] = json!(3);
    assert_eq!(cluster.put(&path, &new).0, 200);
}

#[test]
fn strategic_patch_is_no_media_type_of_custom_kinds() {
    let mut cluster = Cluster::new();
    cluster.create(WIDGETS, &widget(1));
    let (code, _) = cluster.send(
        http::Method::PATCH,
        &format!("{WIDGETS}/w"),
        super::STRATEGIC,
        &json!({}),
    );
    assert_eq!(code, 415);
}
