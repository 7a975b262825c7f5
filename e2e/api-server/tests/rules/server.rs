//! Paths, verbs, views, rights.

use http::Method;
use hyper::body::Bytes;
use serde_json::{Value, json};
use trellis_api_server::{KindRef, Response};

use super::{CONFIG_MAPS, Cluster, PODS};

#[test]
fn unknown_paths_verbs_and_types_are_refused() {
    let mut cluster = Cluster::new();
    cluster.config_map("m", &json!({}));
    let path = format!("{CONFIG_MAPS}/m");
    let cases = [
        (Method::GET, "/apis/absent.example/v1/things", "", 404),
        (Method::GET, "/api/v1/namespaces/a/things", "", 404),
        (Method::GET, &format!("{path}/status"), "", 404),
        (Method::POST, &path, "application/json", 405),
        (Method::POST, CONFIG_MAPS, "text/plain", 415),
        (Method::PATCH, &path, "application/json", 415),
    ];
    for (method, path, kind, code) in cases {
        let answer = cluster.send(method.clone(), path, kind, &json!({}));
        assert_eq!(answer.0, code, "{method} {path} {kind}");
    }
}

#[test]
fn metadata_alone_is_answered_on_request() {
    let mut cluster = Cluster::new();
    cluster.config_map("m", &json!({"a": "b"}));
    let mut get = |path: &str| {
        let request = http::Request::get(path)
            .header(
                "accept",
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            )
            .body(Bytes::new())
            .expect("a valid request");
        let Response::Answer(answer) = cluster.server.handle(&cluster.user, &request, cluster.now)
        else {
            panic!("it is no watch");
        };
        let value: Value = serde_json::from_slice(answer.body()).expect("JSON");
        value
    };
    let object = get(&format!("{CONFIG_MAPS}/m"));
    assert_eq!(object["kind"], "PartialObjectMetadata");
    assert_eq!(object["metadata"]["labels"], json!({"a": "b"}));
    let list = get(CONFIG_MAPS);
    assert_eq!(
        (&list["kind"], &list["items"][0]["kind"]),
        (
            &json!("PartialObjectMetadataList"),
            &json!("PartialObjectMetadata")
        )
    );
}

#[test]
fn authorizer_decides_by_verb_resource_and_place() {
    let mut cluster = Cluster::new();
    cluster
        .server
        .set_authorizer(|_, access| access.verb != "create" || access.subresource == "binding");
    assert_eq!(cluster.get(PODS).0, 200);
    let (code, status) = cluster.post(PODS, &super::pod("p"));
    let message = "pods is forbidden: User \"admin\" cannot create resource \"pods\" in API group \"\" in the namespace \"a\"";
    assert_eq!((code, status["message"].as_str()), (403, Some(message)));
    let binding = json!({"metadata": {"name": "p"}, "target": {"name": "n"}});
    assert_eq!(cluster.post(&format!("{PODS}/p/binding"), &binding).0, 404);
}

#[test]
fn reviews_tell_user_and_rights() {
    let mut cluster = Cluster::new();
    let (code, review) = cluster.post(
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        &json!({}),
    );
    assert_eq!(
        (code, &review["status"]["userInfo"]["username"]),
        (201, &json!("admin"))
    );
    cluster
        .server
        .set_authorizer(|user, access| user.name == "admin" || access.verb == "get");
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    for (verb, allowed) in [("get", true), ("delete", false)] {
        let spec =
            json!({"user": "guest", "resourceAttributes": {"verb": verb, "resource": "pods"}});
        let (_, review) = cluster.post(path, &json!({"spec": spec}));
        assert_eq!(review["status"]["allowed"], allowed, "{verb}");
    }
}

#[test]
fn world_reads_objects_without_requests() {
    let mut cluster = Cluster::new();
    cluster.config_map("m2", &json!({}));
    cluster.config_map("m1", &json!({}));
    let kind = KindRef::new("", "configmaps");
    let names: Vec<&str> = cluster
        .server
        .list(&kind)
        .map(|object| object.name())
        .collect();
    assert_eq!(names, ["m1", "m2"]);
    let object = cluster.server.get(&kind, "a", "m1").expect("it exists");
    assert_eq!(object.namespace(), "a");
    let last = cluster.server.history().last().expect("an entry");
    assert_eq!((last.revision, &*last.user), (object.revision(), "admin"));
}

#[test]
fn same_calls_give_the_same_bytes() {
    let run = || {
        let mut cluster = Cluster::new();
        cluster.create(PODS, &json!({"metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}));
        cluster.get(PODS)
    };
    assert_eq!(run().1.to_string(), run().1.to_string());
}

#[test]
fn discovery_lists_the_kinds() {
    let mut cluster = Cluster::new();
    let (_, list) = cluster.get("/apis/example.com/v1");
    assert_eq!(list["resources"][0]["kind"], "Widget");
    let (code, _) = cluster.get("/version");
    assert_eq!(code, 200);
}
