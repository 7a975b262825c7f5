//! Paths, queries and headers as kubectl and client-go send them.

use axum::http::Request;

use std::time::Duration;

use super::super::query::WatchStart;
use super::*;

const BASE: &str = "/apis/visibility.trellis.dev/v1alpha1";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

fn read(method: Method, path: &str, accept: &str) -> Result<ApiRequest, Failure> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("accept", accept)
        .body(())
        .unwrap();
    ApiRequest::parse(&request.into_parts().0)
}

fn parse_get(path: &str, accept: &str) -> ObjectRequest {
    match read(Method::GET, &format!("{BASE}{path}"), accept).unwrap() {
        ApiRequest::Object(object) => object,
        ApiRequest::Document(document) => panic!("{document:?}"),
    }
}

#[test]
fn list_and_get_requests_are_distinguished() {
    let all = parse_get("/jobstates?limit=500", TABLE);
    assert_eq!((all.verb, all.namespace, all.name), ("list", None, None));
    assert_eq!(all.format, Format::Table(Include::Metadata));
    let here = parse_get("/namespaces/team-a/jobstates", "application/json");
    assert_eq!(here.namespace.as_deref(), Some("team-a"));
    assert_eq!(here.format, Format::Json);
    let one = parse_get("/namespaces/team-a/jobstates/llm", "*/*");
    assert_eq!((one.verb, one.name.as_deref()), ("get", Some("llm")));
    for one in [all.unsupported, here.unsupported, one.unsupported] {
        assert_eq!(one, None);
    }
}

#[test]
fn unsupported_request_is_refused_by_parameter_name() {
    for (path, accept, code, says) in [
        ("/namespaces/a/explanations?watch=true", TABLE, 405, "watch"),
        (
            "/jobstates?watch=1&resourceVersion=x",
            TABLE,
            400,
            "resourceVersion",
        ),
        (
            "/jobstates?watch=1&timeoutSeconds=x",
            TABLE,
            400,
            "timeoutSeconds",
        ),
        (
            "/jobstates?labelSelector=a%3Db",
            TABLE,
            400,
            "labelSelector",
        ),
        (
            "/jobstates?fieldSelector=a%3Db",
            TABLE,
            400,
            "fieldSelector",
        ),
        (
            "/jobstates?fieldSelector=metadata.name",
            TABLE,
            400,
            "metadata.name",
        ),
        (
            "/jobstates?fieldSelector=metadata.name%3Da,metadata.name%3Db",
            TABLE,
            400,
            "two values",
        ),
        ("/jobstates?continue=x", TABLE, 400, "continue"),
        (
            "/jobstates?resourceVersion=7&resourceVersionMatch=Exact",
            TABLE,
            400,
            "Exact",
        ),
        ("/jobstates?frobnicate=1", TABLE, 400, "frobnicate"),
        ("/jobstates?includeObject=All", TABLE, 400, "includeObject"),
        ("/jobstates", "application/yaml", 406, "application/json"),
    ] {
        let error = parse_get(path, accept).check_supported().unwrap_err();
        assert_eq!(error.code(), code, "{path}");
        assert!(error.to_string().contains(says), "{error}");
    }
    // Parameters that do not change the answer are accepted.
    let taken = "/jobstates?limit=5&timeoutSeconds=3&resourceVersion=0&labelSelector=";
    assert!(parse_get(taken, TABLE).check_supported().is_ok());
}

#[test]
fn watch_request_has_its_start_and_its_selection() {
    let all = parse_get("/jobstates?watch=true", TABLE);
    assert_eq!((all.verb, all.watch.start), ("watch", WatchStart::Rows));
    let one = "/namespaces/a/jobstates?watch=1&fieldSelector=metadata.name%3Dllm&resourceVersion=7&allowWatchBookmarks=true&timeoutSeconds=60";
    let one = parse_get(one, "application/json");
    assert!(one.check_supported().is_ok());
    assert_eq!(one.watch.start, WatchStart::Version(7));
    assert!(one.watch.bookmarks && !one.watch.ends_initial_events);
    assert_eq!(one.watch.timeout, Some(Duration::from_secs(60)));
    assert_eq!(one.right().name, Some("llm"));
    let none = parse_get("/jobstates?watch=1&sendInitialEvents=false", "*/*");
    assert_eq!(none.watch.start, WatchStart::Now);
    assert_eq!(parse_get("/jobstates?watch=false", "*/*").verb, "list");
    let again = "/jobstates?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=7";
    let again = parse_get(again, "application/json").watch;
    assert_eq!(
        (again.start, again.ends_initial_events),
        (WatchStart::Rows, true)
    );
}

#[test]
fn write_request_is_parsed_with_its_verb_and_refused() {
    for (method, path, verb) in [
        (Method::POST, "/namespaces/a/jobstates", "create"),
        (Method::PATCH, "/namespaces/a/jobstates/b", "patch"),
        (Method::DELETE, "/namespaces/a/jobstates/b", "delete"),
        (
            Method::DELETE,
            "/namespaces/a/jobstates",
            "deletecollection",
        ),
    ] {
        let read = read(method, &format!("{BASE}{path}"), "");
        let Ok(ApiRequest::Object(object)) = read else {
            panic!("{path}")
        };
        assert_eq!(object.verb, verb);
        assert_eq!(object.check_supported().unwrap_err().code(), 405);
    }
}

#[test]
fn unknown_path_gets_status_404() {
    for path in [
        "/apis/other.example",
        "/apis/visibility.trellis.dev/v2",
        "/apis/visibility.trellis.dev/v1alpha1/frobs",
        "/apis/visibility.trellis.dev/v1alpha1/jobstates/a",
        "/apis/visibility.trellis.dev/v1alpha1/namespaces/a/jobstates/b/status",
        "/openapi/v4",
    ] {
        let error = read(Method::GET, path, "").unwrap_err();
        assert_eq!(error.code(), 404, "{path}");
    }
    let error = read(Method::POST, BASE, "").unwrap_err();
    assert_eq!(error.code(), 405);
}

#[test]
fn aggregated_discovery_needs_its_accept_header() {
    let whole = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let later = "application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList";
    for (accept, expected) in [(whole, true), (later, false), ("application/json", false)] {
        let read = read(Method::GET, "/apis", accept).unwrap();
        assert_eq!(
            read,
            ApiRequest::Document(DiscoveryPath::Groups {
                aggregated: expected
            })
        );
    }
}
