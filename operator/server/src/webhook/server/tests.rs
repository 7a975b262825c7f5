use axum::body::Body;
use futures::stream;
use serde_json::{Value, json};
use tower::Service as _;
use trellis_api::ClusterJobPolicy;
use trellis_cache::Cache;
use trellis_gang::fixtures::spec_with;
use trellis_gang::key::Key;
use trellis_policies::cedar::{PolicyObject, starter_set};

use super::*;
use crate::webhook::fixtures;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
const NONE: &str = "forbid(principal, action, resource);";

/// Returns a server that knows the namespace `ns`, a default queue, and this policy besides the
/// starter set.
fn server(cedar: Option<&str>) -> WebhookServer {
    let context = fixtures::context();
    let loader = PolicyLoader::new().unwrap();
    replace_policies(&context.cache, &loader, cedar);
    let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    WebhookServer::new(
        WebhookCaches::fixed(context),
        loader,
        Arc::default(),
        Identity::default(),
        Client::try_from(nowhere).unwrap(),
        CancellationToken::new(),
    )
}

fn replace_policies(cache: &Cache, loader: &PolicyLoader, cedar: Option<&str>) {
    let mut objects = starter_set::starter_objects();
    objects.extend(cedar.map(|cedar| {
        let policy: ClusterJobPolicy = serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "ClusterJobPolicy",
            "metadata": {"name": "x"}, "spec": {"cedar": cedar},
        }))
        .unwrap();
        PolicyObject::from(&policy)
    }));
    cache
        .policies
        .replace(Arc::new(loader.load(None, objects).0));
}

fn review(uid: &str) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": uid, "operation": "CREATE", "userInfo": {"username": "ada"},
            "kind": {"group": "trellis.dev", "version": "v1alpha1", "kind": "TrainingJob"},
            "resource": {"group": "trellis.dev", "version": "v1alpha1", "resource": "trainingjobs"},
            "name": "j", "namespace": "ns", "oldObject": null,
            "object": {
                "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
                "metadata": {"name": "j", "namespace": "ns", "uid": "u"},
                "spec": spec_with(json!({})),
            },
        },
    })
}

async fn send(router: &Router, body: Body) -> (u16, Value) {
    send_request(router, HttpRequest::post(VALIDATE_PATH).body(body).unwrap()).await
}

async fn send_request(router: &Router, request: HttpRequest) -> (u16, Value) {
    let answer = router.clone().call(request).await.unwrap();
    let code = answer.status().as_u16();
    let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
    (code, serde_json::from_slice(&body.unwrap()).unwrap())
}

async fn review_allowed(router: &Router, uid: &str) -> Value {
    review_from(router, HERE, uid).await
}

async fn review_from(router: &Router, from: IpAddr, uid: &str) -> Value {
    let body = review(uid).to_string();
    let request = HttpRequest::post(VALIDATE_PATH)
        .header(header::CONTENT_LENGTH, body.len())
        .extension(ClientCertificates::default().with_address(from))
        .body(Body::from(body));
    let (code, body) = send_request(router, request.unwrap()).await;
    assert_eq!(code, 200, "{body}");
    assert_eq!(body["response"]["uid"], uid, "{body}");
    assert_eq!(body["apiVersion"], "admission.k8s.io/v1");
    body["response"].clone()
}

#[tokio::test]
async fn review_is_answered_with_its_uid() {
    let allowed = review_allowed(&router(server(None)), "one").await;
    assert_eq!(allowed["allowed"], true);
    assert_eq!(allowed.get("warnings"), None);
    let refused = review_allowed(&router(server(Some(NONE))), "two").await;
    assert_eq!(refused["allowed"], false);
    assert_eq!(refused["status"]["reason"], "PolicyDenied");
    assert_eq!(refused["status"]["code"], 403);
}

#[tokio::test]
async fn stamp_review_is_answered_with_a_patch_or_passes_without_a_core() {
    let server = Arc::new(server(Some(NONE)));
    let router = Router::new()
        .route(STAMP_PATH, post(write_stamp))
        .with_state(server.clone());
    let stamp = async || {
        let body = Body::from(review("u").to_string());
        let request = HttpRequest::post(STAMP_PATH).body(body).unwrap();
        let (code, answer) = send_request(&router, request).await;
        assert_eq!((code, &answer["response"]["allowed"]), (200, &json!(true)));
        assert_eq!(answer["response"]["uid"], "u");
        answer["response"].clone()
    };
    assert_eq!(stamp().await["patchType"], "JSONPatch");
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let all = u32::try_from(all).unwrap();
    let _cores = server.cores.acquire_many(HERE, all).await.unwrap();
    let skipped = stamp().await;
    assert_eq!(skipped.get("patch"), None);
    let warning = "the requester of the job was not recorded: Trellis decides once it is stored";
    assert_eq!(skipped["warnings"], json!([warning]));
    let text = server.metrics.render(&Identity::default()).unwrap();
    for decision in ["Stamped", "Undecided"] {
        let line = format!(
            "trellis_webhook_requests_total{{kind=\"TrainingJob\",decision=\"{decision}\"}} 1"
        );
        assert!(text.lines().any(|l| l == line), "{text}");
    }
}

#[tokio::test]
async fn invalid_review_is_a_bad_request() {
    let router = router(server(None));
    let cut = review("u").to_string();
    let cut = cut[..cut.len() - 9].to_owned();
    let mut wrong = review("u");
    wrong["request"]["operation"] = json!("MEND");
    for body in [
        Body::empty(),
        Body::from(vec![0xff_u8; 4096]),
        Body::from("{}"),
        Body::from(cut),
        Body::from(wrong.to_string()),
        Body::from("[".repeat(1 << 20)),
    ] {
        let (code, said) = send(&router, body).await;
        assert_eq!(code, 400, "{said}");
        let message = said["message"].as_str().unwrap();
        assert!(
            message.starts_with("the body is no AdmissionReview"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn too_large_body_is_refused_with_or_without_content_length() {
    let router = router(server(None));
    let large = vec![b' '; MAX_BODY + 1];
    let chunks = large.chunks(1 << 16).map(|c| Ok::<_, String>(c.to_vec()));
    let chunks: Vec<_> = chunks.collect();
    let undeclared = Body::from_stream(stream::iter(chunks));
    for body in [Body::from(large), undeclared] {
        let (code, said) = send(&router, body).await;
        assert_eq!(code, 413, "{said}");
    }
    let declared = HttpRequest::post(VALIDATE_PATH).header(header::CONTENT_LENGTH, MAX_BODY + 1);
    let mut router = router;
    let answer = router.call(declared.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.unwrap().status().as_u16(), 413);
}

#[tokio::test(start_paused = true)]
async fn slow_body_does_not_block_other_addresses() {
    let router = router(server(None));
    let never = || Body::from_stream(stream::pending::<Result<Vec<u8>, String>>());
    // This many bodies fit into the memory. One further body waits for memory.
    let slow = (0..BODY_MEMORY_KIB / (MAX_BODY >> 10) + 1).map(|_| {
        let router = router.clone();
        tokio::spawn(async move { send(&router, never()).await.0 })
    });
    let slow: Vec<_> = slow.collect();
    tokio::task::yield_now().await;
    // Other addresses do not wait for the slow ones.
    let began = Instant::now();
    let other = IpAddr::from([10, 0, 0, 2]);
    assert_eq!(review_from(&router, other, "u").await["allowed"], true);
    assert!(began.elapsed() < READ_TIMEOUT, "{:?}", began.elapsed());
    for code in slow {
        assert_eq!(code.await.unwrap(), 408);
    }
    assert_eq!(review_allowed(&router, "u").await["allowed"], true);
}

/// A pod opens three hundred connections, and the API server opens one.
#[tokio::test]
async fn flooding_address_does_not_delay_another_address() {
    let server = Arc::new(server(None));
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let all = u32::try_from(all).unwrap();
    let cores = server.cores.acquire_many(HERE, all).await.unwrap();
    let router = Router::new()
        .route(VALIDATE_PATH, post(validate))
        .with_state(server.clone());
    let done = Arc::new(AtomicU64::new(0));
    let asks = |from: IpAddr| {
        let (router, done) = (router.clone(), done.clone());
        async move {
            let answer = review_from(&router, from, "u").await;
            let place = done.fetch_add(1, Ordering::SeqCst);
            (answer, place)
        }
    };
    let pod: Vec<_> = (0..300).map(|_| tokio::spawn(asks(HERE))).collect();
    tokio::task::yield_now().await;
    let other = tokio::spawn(asks([10, 0, 0, 2].into()));
    tokio::time::sleep(CORE_TIMEOUT / 10).await;
    drop(cores);
    let (answer, place) = other.await.unwrap();
    assert_eq!(answer.get("warnings"), None, "{answer}");
    assert!(place < 20, "{place} were answered before it");
    for pod in pod {
        pod.await.unwrap();
    }
}

/// The reviews of one namespace take long.
#[tokio::test]
async fn namespace_takes_at_most_half_of_the_cores() {
    let server = server(None);
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let half = u32::try_from(all.div_ceil(2)).unwrap();
    let busy = (HERE, "busy".to_owned());
    let turns = server.namespaces.acquire_many(busy.clone(), half);
    let turns = turns.await.unwrap();
    let next = tokio::time::timeout(CORE_TIMEOUT / 10, server.namespaces.acquire(busy));
    assert!(next.await.is_err(), "it has no more than half");
    if all > 1 {
        let body = Bytes::from(review("u").to_string());
        let (_, answer) = server.decide(body, HERE).await.unwrap();
        assert_eq!(answer.decision, ReviewDecision::Allowed);
    }
    drop(turns);
}

#[tokio::test]
async fn overloaded_webhook_passes_the_review_with_a_warning() {
    let server = Arc::new(server(Some(NONE)));
    let state = server.clone();
    let router = Router::new()
        .route(VALIDATE_PATH, post(validate))
        .with_state(state);
    // No core is free. The answer comes long before the decision's timeout.
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let all = u32::try_from(all).unwrap();
    let cores = server.cores.acquire_many(HERE, all).await.unwrap();
    let began = Instant::now();
    let passed = review_allowed(&router, "u").await;
    assert_eq!(passed["allowed"], true);
    let warning = passed["warnings"][0].as_str().unwrap();
    assert!(
        warning.ends_with("Trellis decides once it is stored"),
        "{warning}"
    );
    assert!(
        (CORE_TIMEOUT..DECISION_TIMEOUT).contains(&began.elapsed()),
        "{:?}",
        began.elapsed()
    );
    drop(cores);
    assert_eq!(review_allowed(&router, "u").await["allowed"], false);
    let text = server.metrics.render(&server.identity).unwrap();
    let undecided = "trellis_webhook_requests_total{kind=\"Other\",decision=\"Undecided\"} 1";
    assert!(text.contains(undecided), "{text}");
}

/// A user may apply a policy together with the job that needs it.
#[tokio::test]
async fn refusal_is_judged_again_after_the_cache_lag() {
    let server = server(Some(NONE));
    let context = server.caches.context();
    let body = || Bytes::from(review("u").to_string());
    let began = Instant::now();
    let (_, refused) = server.decide(body(), HERE).await.unwrap();
    assert_eq!(refused.decision, ReviewDecision::Refused);
    assert!(began.elapsed() >= CACHE_LAG);
    // A policy has changed, and the loader is reading it.
    context.cache.policies.record_change(&Key::new("ns", "x"));
    let mended = async {
        tokio::time::sleep(CACHE_LAG * 2).await;
        replace_policies(&context.cache, &server.loader, None);
    };
    let (decided, ()) = tokio::join!(server.decide(body(), HERE), mended);
    assert_eq!(decided.unwrap().1.decision, ReviewDecision::Allowed);
}

#[tokio::test]
async fn webhook_is_ready_from_synced_caches_until_shutdown() {
    let knowing = server(None);
    let leaving = knowing.is_shutting_down.clone();
    let is_ready = async |router: &Router| {
        let request = HttpRequest::get("/readyz").body(Body::empty()).unwrap();
        router
            .clone()
            .call(request)
            .await
            .unwrap()
            .status()
            .as_u16()
    };
    let ready = router(knowing);
    assert_eq!(is_ready(&ready).await, 200);
    leaving.cancel();
    assert_eq!(is_ready(&ready).await, 503);
    assert_eq!(
        review_allowed(&ready, "u").await["allowed"],
        true,
        "it answers still"
    );
    let mut blank = server(None);
    blank.caches = WebhookCaches::default();
    assert_eq!(is_ready(&router(blank)).await, 503);
}

#[tokio::test]
async fn metrics_need_authorization() {
    let request = HttpRequest::get("/metrics").body(Body::empty()).unwrap();
    let answer = router(server(None)).call(request).await.unwrap();
    assert_eq!(answer.status().as_u16(), 401);
}
