//! Requests to the whole server, in front of an API server that answers what a test says.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::ServiceExt as _;
use trellis_reads::Reader;

use super::*;
use crate::{ForwardedCredentials, LocalCredentials};

mod plan;

/// A client whose API server answers each request with this status and object. It has no queues.
fn client(code: u16, object: Value) -> Client {
    let answer = move |request: Request<kube::client::Body>| {
        let mut object = object.clone();
        if code == 200 && request.uri().path().ends_with("/queuestates") {
            object["items"] = json!([]);
        }
        let body = serde_json::to_vec(&object).unwrap();
        async move {
            let answer = Response::builder().status(code);
            Ok::<_, std::io::Error>(answer.body(kube::client::Body::from(body)).unwrap())
        }
    };
    Client::new(tower::service_fn(answer), "ml")
}

struct Scene {
    links: Arc<AccessLinks>,
    warnings: Arc<Mutex<Vec<String>>>,
    router: Router,
}

/// A page on the user's machine.
fn local(client: Client) -> Scene {
    let links = Arc::new(AccessLinks::default());
    let warnings: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = warnings.clone();
    let credentials = LocalCredentials {
        reader: Reader {
            client,
            namespace: "ml".to_owned(),
            scheduler_timeout: None,
        },
        context: Some("test".to_owned()),
    };
    let dashboard = Dashboard::local(credentials, links.clone(), move |text: &str| {
        heard.lock().push(text.to_owned());
    });
    Scene {
        links,
        warnings,
        router: dashboard.router(),
    }
}

fn request(method: Method, path: &str) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "127.0.0.1:8123")
        .header("sec-fetch-site", "same-origin")
}

async fn send(router: &Router, request: Request<Body>) -> (StatusCode, http::HeaderMap, Value) {
    let answer = router.clone().oneshot(request).await.unwrap();
    let (head, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    (head.status, head.headers, body)
}

async fn open(scene: &Scene, code: &str) -> (StatusCode, Value) {
    let body = Body::from(json!({"code": code}).to_string());
    let request = request(Method::POST, "/api/open").header("content-type", "application/json");
    let (status, _, body) = send(&scene.router, request.body(body).unwrap()).await;
    (status, body)
}

fn job_list() -> Value {
    json!({"apiVersion": "visibility.trellis.dev/v1alpha1", "kind": "JobStateList",
        "metadata": {"resourceVersion": "1"}, "items": [{
            "apiVersion": "visibility.trellis.dev/v1alpha1", "kind": "JobState",
            "metadata": {"namespace": "ml", "name": "llm"}, "queue": "research", "priority": 0,
            "gpus": 8, "pods": 1, "submitted": "2026-01-01T10:00:00Z",
            "since": "2026-01-01T10:00:00Z"}]})
}

const DATA_ROUTES: [&str; 10] = [
    "/api/session",
    "/api/attempts",
    "/api/namespaces",
    "/api/queue",
    "/api/nodes",
    "/api/policies",
    "/api/policies?namespace=ml",
    "/api/stream?queue=1",
    "/api/jobs/ml/llm",
    "/api/jobs/ml/llm/why",
];

#[tokio::test]
async fn every_route_of_data_needs_the_key() {
    let scene = local(client(200, job_list()));
    for path in DATA_ROUTES {
        for key in [None, Some("guess")] {
            let mut wrong = request(Method::GET, path);
            if let Some(key) = key {
                wrong = wrong.header("trellis-key", key);
            }
            let (status, headers, body) =
                send(&scene.router, wrong.body(Body::empty()).unwrap()).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
            assert_eq!(body["error"]["kind"], "key", "{path}");
            assert_eq!(headers["cache-control"], "no-store", "{path}");
        }
    }
}

#[tokio::test]
async fn page_with_its_key_gets_the_queue() {
    let scene = local(client(200, job_list()));
    let code = scene.links.create_code().unwrap();
    let (status, body) = open(&scene, &code).await;
    assert_eq!(status, StatusCode::OK);
    let key = body["key"].as_str().unwrap();
    let own = request(Method::GET, "/api/queue").header("trellis-key", key);
    let (status, headers, body) = send(&scene.router, own.body(Body::empty()).unwrap()).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!(headers["cache-control"], "no-store");
    assert_eq!(body["jobs"][0]["metadata"]["name"], "llm");
    let version: i64 = body["version"].as_str().unwrap().parse().unwrap();
    assert!(version > 0);
}

/// A stream goes on from a version. A tab that was hidden may ask with an old one.
#[tokio::test(start_paused = true)]
async fn list_that_is_read_anew_repeats_no_version() {
    let mut versions = Vec::new();
    for _server in 0..2 {
        let scene = local(client(200, job_list()));
        let code = scene.links.create_code().unwrap();
        let (_, body) = open(&scene, &code).await;
        let key = body["key"].as_str().unwrap();
        for _life in 0..2 {
            let own = request(Method::GET, "/api/queue").header("trellis-key", key);
            let (_, _, body) = send(&scene.router, own.body(Body::empty()).unwrap()).await;
            versions.push(body["version"].as_str().unwrap().to_owned());
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
    }
    let different: BTreeSet<_> = versions.iter().collect();
    assert_eq!(different.len(), versions.len(), "{versions:?}");
}

#[tokio::test]
async fn second_use_of_a_link_closes_all_pages_and_warns() {
    let scene = local(client(200, job_list()));
    let code = scene.links.create_code().unwrap();
    let (_, body) = open(&scene, &code).await;
    let key = body["key"].as_str().unwrap().to_owned();
    let (status, body) = open(&scene, &code).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert_eq!(body["error"]["kind"], "key");
    assert_eq!(scene.warnings.lock().len(), 1);
    let own = request(Method::GET, "/api/queue").header("trellis-key", key);
    let (status, ..) = send(&scene.router, own.body(Body::empty()).unwrap()).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn page_itself_needs_no_key_and_restricts_the_browser() {
    let scene = local(client(200, job_list()));
    for path in ["/", "/jobs/ml/llm", "/app.js"] {
        let page = request(Method::GET, path).body(Body::empty()).unwrap();
        let (status, headers, _) = send(&scene.router, page).await;
        assert_eq!(status, StatusCode::OK, "{path}");
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("default-src 'none'"), "{path}");
        assert!(policy.contains("trusted-types 'none'"), "{path}");
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
    }
    let link = Request::get("/")
        .header("host", "localhost:8123")
        .header("sec-fetch-site", "cross-site");
    let (status, ..) = send(&scene.router, link.body(Body::empty()).unwrap()).await;
    assert_eq!(
        status,
        StatusCode::OK,
        "a link of another page may lead here"
    );
}

#[tokio::test]
async fn only_documented_methods_are_served() {
    let scene = local(client(200, job_list()));
    let code = scene.links.create_code().unwrap();
    let (_, body) = open(&scene, &code).await;
    let key = body["key"].as_str().unwrap();
    for method in [Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS] {
        for path in DATA_ROUTES.into_iter().chain(["/", "/app.js", "/api/open"]) {
            let wrong = request(method.clone(), path)
                .header("origin", "http://127.0.0.1:8123")
                .header("trellis-key", key);
            let (status, ..) = send(&scene.router, wrong.body(Body::empty()).unwrap()).await;
            assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
        }
    }
}

/// A kind that the user may not list is a note: the page shows the other kinds.
#[tokio::test]
async fn policies_without_rights_are_notes() {
    let failure = |code: u16| {
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "no", "reason": "r", "code": code})
    };
    for (code, status) in [
        (403, StatusCode::OK),
        (401, StatusCode::UNAUTHORIZED),
        (500, StatusCode::BAD_GATEWAY),
    ] {
        let scene = local(client(code, failure(code)));
        let link = scene.links.create_code().unwrap();
        let (_, body) = open(&scene, &link).await;
        let key = body["key"].as_str().unwrap();
        let own = request(Method::GET, "/api/policies").header("trellis-key", key);
        let (answered, headers, body) = send(&scene.router, own.body(Body::empty()).unwrap()).await;
        assert_eq!(answered, status, "{body}");
        assert_eq!(headers["cache-control"], "no-store");
        if code == 403 {
            assert_eq!(body["jobPolicies"], json!([]));
            assert_eq!(body["unread"].as_array().unwrap().len(), 4);
            assert_eq!(body["notes"].as_array().unwrap().len(), 4);
            assert!(body["time"].is_string());
        }
    }
}

#[tokio::test]
async fn missing_right_and_unknown_user_are_told_apart() {
    let failure = |code: u16| {
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "no", "reason": "r", "code": code})
    };
    for (code, status, kind) in [
        (401, StatusCode::UNAUTHORIZED, "unauthorized"),
        (403, StatusCode::FORBIDDEN, "denied"),
        (503, StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
    ] {
        let scene = local(client(code, failure(code)));
        let link = scene.links.create_code().unwrap();
        let (_, body) = open(&scene, &link).await;
        let key = body["key"].as_str().unwrap();
        let own = request(Method::GET, "/api/nodes").header("trellis-key", key);
        let (answered, _, body) = send(&scene.router, own.body(Body::empty()).unwrap()).await;
        assert_eq!(answered, status, "{body}");
        assert_eq!(body["error"]["kind"], kind);
        assert!(!body["error"]["message"].as_str().unwrap().is_empty());
    }
}

#[tokio::test]
async fn names_in_paths_are_names_of_objects() {
    let scene = local(client(200, json!({})));
    let link = scene.links.create_code().unwrap();
    let (_, body) = open(&scene, &link).await;
    let key = body["key"].as_str().unwrap();
    for path in [
        "/api/jobs/ml/..%2F..%2Fsecrets",
        "/api/jobs/%2e%2e/llm",
        "/api/jobs/ml/a%3Fwatch=1",
        "/api/jobs/ML/llm/why",
        "/api/queue?namespace=..%2F..%2Fsecrets",
        "/api/queue?namespace=a%2Fjobstates%3Flimit=1",
        "/api/stream?queue=1&namespace=..",
        "/api/policies?namespace=..%2F..%2Fsecrets",
        "/api/policies?namespace=ml&name=a",
    ] {
        let wrong = request(Method::GET, path).header("trellis-key", key);
        let (status, _, body) = send(&scene.router, wrong.body(Body::empty()).unwrap()).await;
        let refused = [StatusCode::NOT_FOUND, StatusCode::BAD_REQUEST];
        assert!(refused.contains(&status), "{path}: {body}");
    }
}

#[tokio::test]
async fn page_behind_a_proxy_needs_a_token_and_has_no_links() {
    let cluster = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let credentials = ForwardedCredentials::new(cluster, std::time::Duration::from_millis(100));
    let url = "https://trellis.example.org".parse().unwrap();
    let router = Dashboard::behind_proxy(credentials, url, |_: &str| {}).router();
    let request = |path: &str| {
        Request::get(path)
            .header("host", "trellis.example.org")
            .header("sec-fetch-site", "same-origin")
    };
    for path in DATA_ROUTES {
        let (status, _, body) = send(&router, request(path).body(Body::empty()).unwrap()).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(body["error"]["kind"], "unauthorized", "{path}");
    }
    let open = Request::post("/api/open")
        .header("host", "trellis.example.org")
        .header("origin", "https://trellis.example.org")
        .header("content-type", "application/json")
        .body(Body::from("{\"code\": \"x\"}"));
    let (status, ..) = send(&router, open.unwrap()).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let probe = Request::get("/healthz").header("host", "10.0.0.7:8080");
    let (status, ..) = send(&router, probe.body(Body::empty()).unwrap()).await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn forecast_needs_the_key_and_refuses_a_body_that_is_no_list_of_changes() {
    let scene = local(client(200, json!({})));
    let link = scene.links.create_code().unwrap();
    let (_, body) = open(&scene, &link).await;
    let key = body["key"].as_str().unwrap().to_owned();
    let ask = async |key: &str, body: Value| {
        let request = request(Method::POST, "/api/what-if")
            .header("content-type", "application/json")
            .header("trellis-key", key);
        let body = Body::from(body.to_string());
        let (status, _, body) = send(&scene.router, request.body(body).unwrap()).await;
        (status, body)
    };
    let (status, body) = ask("guess", json!({"changes": []})).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert_eq!(body["error"]["kind"], "key");
    for wrong in [
        json!("changes"),
        json!({"changes": [{"removeNode": {"name": "a", "force": true}}]}),
        json!({"changes": [{"deleteNode": {"name": "a"}}]}),
        json!({"changes": [], "more": 1}),
        json!({"changes": "a".repeat(300 << 10)}),
    ] {
        let (status, body) = ask(&key, wrong).await;
        assert_eq!(body["error"]["kind"], "invalid", "{status}");
    }
}
