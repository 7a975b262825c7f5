use futures::stream;
use serde_json::{Value, json};
use tower::Service as _;
use trellis_api::ClusterJobPolicy;
use trellis_cache::Cache;
use trellis_gang::fixtures::spec_with;
use trellis_gang::key::Key;
use trellis_policies::cedar::{PolicyObject, starter};

use super::*;
use crate::webhook::fixtures;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
const NONE: &str = "forbid(principal, action, resource);";

/// A server that knows the namespace `ns`, a default queue, and the starter set of policies
/// with these.
fn server(cedar: Option<&str>) -> Server {
    let context = fixtures::context();
    let loader = Loader::new().unwrap();
    replace(&context.cache, &loader, cedar);
    let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    Server::new(
        Caches::of(context),
        loader,
        Arc::default(),
        Identity::default(),
        Client::try_from(nowhere).unwrap(),
        CancellationToken::new(),
    )
}

fn replace(cache: &Cache, loader: &Loader, cedar: Option<&str>) {
    let mut objects = starter::objects();
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
    answer(router, HttpRequest::post(PATH).body(body).unwrap()).await
}

async fn answer(router: &Router, request: HttpRequest) -> (u16, Value) {
    let answer = router.clone().call(request).await.unwrap();
    let code = answer.status().as_u16();
    let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
    (code, serde_json::from_slice(&body.unwrap()).unwrap())
}

async fn ask(router: &Router, uid: &str) -> Value {
    ask_from(router, HERE, uid).await
}

async fn ask_from(router: &Router, from: IpAddr, uid: &str) -> Value {
    let body = review(uid).to_string();
    let request = HttpRequest::post(PATH)
        .header(header::CONTENT_LENGTH, body.len())
        .extension(Shown::default().at(from))
        .body(Body::from(body));
    let (code, body) = answer(router, request.unwrap()).await;
    assert_eq!(code, 200, "{body}");
    assert_eq!(body["response"]["uid"], uid, "{body}");
    assert_eq!(body["apiVersion"], "admission.k8s.io/v1");
    body["response"].clone()
}

#[tokio::test]
async fn a_review_is_answered_with_its_uid() {
    let allowed = ask(&router(server(None)), "one").await;
    assert_eq!(allowed["allowed"], true);
    assert_eq!(allowed.get("warnings"), None);
    let refused = ask(&router(server(Some(NONE))), "two").await;
    assert_eq!(refused["allowed"], false);
    assert_eq!(refused["status"]["reason"], "PolicyDenied");
    assert_eq!(refused["status"]["code"], 403);
}

#[tokio::test]
async fn what_is_no_review_is_told_so() {
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
async fn a_body_that_is_too_large_is_refused_whether_it_says_so_or_not() {
    let router = router(server(None));
    let large = vec![b' '; BODY + 1];
    let chunks = large.chunks(1 << 16).map(|c| Ok::<_, String>(c.to_vec()));
    let chunks: Vec<_> = chunks.collect();
    let undeclared = Body::from_stream(stream::iter(chunks));
    for body in [Body::from(large), undeclared] {
        let (code, said) = send(&router, body).await;
        assert_eq!(code, 413, "{said}");
    }
    let declared = HttpRequest::post(PATH).header(header::CONTENT_LENGTH, BODY + 1);
    let mut router = router;
    let answer = router.call(declared.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.unwrap().status().as_u16(), 413);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_takes_nothing_from_others() {
    let router = router(server(None));
    let never = || Body::from_stream(stream::pending::<Result<Vec<u8>, String>>());
    // As many as have room, and one more, which waits for some.
    let slow = (0..BODIES / (BODY >> 10) + 1).map(|_| {
        let router = router.clone();
        tokio::spawn(async move { send(&router, never()).await.0 })
    });
    let slow: Vec<_> = slow.collect();
    tokio::task::yield_now().await;
    // Other addresses do not wait for the slow ones.
    let began = Instant::now();
    let other = IpAddr::from([10, 0, 0, 2]);
    assert_eq!(ask_from(&router, other, "u").await["allowed"], true);
    assert!(began.elapsed() < READ, "{:?}", began.elapsed());
    for code in slow {
        assert_eq!(code.await.unwrap(), 408);
    }
    assert_eq!(ask(&router, "u").await["allowed"], true);
}

/// Three hundred connections of one pod, and one of the API server.
#[tokio::test]
async fn who_asks_much_does_not_keep_another_address_waiting() {
    let server = Arc::new(server(None));
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let all = u32::try_from(all).unwrap();
    let cores = server.cores.acquire_many(HERE, all).await.unwrap();
    let router = Router::new()
        .route(PATH, post(validate))
        .with_state(server.clone());
    let done = Arc::new(AtomicU64::new(0));
    let asks = |from: IpAddr| {
        let (router, done) = (router.clone(), done.clone());
        async move {
            let answer = ask_from(&router, from, "u").await;
            let place = done.fetch_add(1, Ordering::SeqCst);
            (answer, place)
        }
    };
    let pod: Vec<_> = (0..300).map(|_| tokio::spawn(asks(HERE))).collect();
    tokio::task::yield_now().await;
    let other = tokio::spawn(asks([10, 0, 0, 2].into()));
    tokio::time::sleep(CORE / 10).await;
    drop(cores);
    let (answer, place) = other.await.unwrap();
    assert_eq!(answer.get("warnings"), None, "{answer}");
    assert!(place < 20, "{place} were answered before it");
    for pod in pod {
        pod.await.unwrap();
    }
}

/// A namespace whose reviews take long.
#[tokio::test]
async fn namespace_has_half_of_the_cores_and_others_the_rest() {
    let server = server(None);
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let half = u32::try_from(all.div_ceil(2)).unwrap();
    let busy = (HERE, "busy".to_owned());
    let turns = server.namespaces.acquire_many(busy.clone(), half);
    let turns = turns.await.unwrap();
    let next = tokio::time::timeout(CORE / 10, server.namespaces.acquire(busy));
    assert!(next.await.is_err(), "it has no more than half");
    if all > 1 {
        let body = Bytes::from(review("u").to_string());
        let (_, answer) = server.decide(body, HERE).await.unwrap();
        assert_eq!(answer.decision, Decision::Allowed);
    }
    drop(turns);
}

#[tokio::test]
async fn who_comes_when_too_many_are_there_passes_and_is_told() {
    let server = Arc::new(server(Some(NONE)));
    let state = server.clone();
    let router = Router::new().route(PATH, post(validate)).with_state(state);
    // No core is free: that is said long before a decision is given up.
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let all = u32::try_from(all).unwrap();
    let cores = server.cores.acquire_many(HERE, all).await.unwrap();
    let began = Instant::now();
    let passed = ask(&router, "u").await;
    assert_eq!(passed["allowed"], true);
    let warning = passed["warnings"][0].as_str().unwrap();
    assert!(
        warning.ends_with("Trellis decides once it is stored"),
        "{warning}"
    );
    assert!(
        (CORE..DECIDE).contains(&began.elapsed()),
        "{:?}",
        began.elapsed()
    );
    drop(cores);
    assert_eq!(ask(&router, "u").await["allowed"], false);
    let text = server.metrics.text(&server.identity).unwrap();
    let undecided = "trellis_webhook_requests_total{kind=\"Other\",decision=\"Undecided\"} 1";
    assert!(text.contains(undecided), "{text}");
}

/// A policy may be applied together with the job that needs it.
#[tokio::test]
async fn a_refusal_is_made_sure_of() {
    let server = server(Some(NONE));
    let context = server.caches.context();
    let body = || Bytes::from(review("u").to_string());
    let began = Instant::now();
    let (_, refused) = server.decide(body(), HERE).await.unwrap();
    assert_eq!(refused.decision, Decision::Refused);
    assert!(began.elapsed() >= BEHIND);
    // A policy has changed, and is being loaded.
    context.cache.policies.touch(&Key::new("ns", "x"));
    let mended = async {
        tokio::time::sleep(BEHIND * 2).await;
        replace(&context.cache, &server.loader, None);
    };
    let (decided, ()) = tokio::join!(server.decide(body(), HERE), mended);
    assert_eq!(decided.unwrap().1.decision, Decision::Allowed);
}

#[tokio::test]
async fn it_is_ready_once_all_is_known_and_until_it_leaves() {
    let knowing = server(None);
    let leaving = knowing.is_leaving.clone();
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
    assert_eq!(ask(&ready, "u").await["allowed"], true, "it answers still");
    let mut blank = server(None);
    blank.caches = Caches::default();
    assert_eq!(is_ready(&router(blank)).await, 503);
}

#[tokio::test]
async fn metrics_are_for_who_may_read_them() {
    let request = HttpRequest::get("/metrics").body(Body::empty()).unwrap();
    let answer = router(server(None)).call(request).await.unwrap();
    assert_eq!(answer.status().as_u16(), 401);
}
