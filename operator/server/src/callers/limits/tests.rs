use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::{Request, Response};
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::super::front_proxy::tests::{TestAuthority, headers_of_ann};
use super::*;

/// An API server that takes ten milliseconds for a TokenReview, or never answers. It knows `ann`
/// and `bob`, whose tokens begin with their names. Both may get `/metrics`, and `ann` may list
/// jobs.
struct FakeApiServer {
    token_review_time: Option<Duration>,
    access_reviews: AtomicUsize,
    token_reviews: AtomicUsize,
}

impl FakeApiServer {
    fn new(tokens: Option<Duration>) -> Arc<Self> {
        Arc::new(Self {
            token_review_time: tokens,
            access_reviews: AtomicUsize::default(),
            token_reviews: AtomicUsize::default(),
        })
    }

    async fn review_status(&self, path: &str, spec: &Value) -> Value {
        if !path.ends_with("/tokenreviews") {
            self.access_reviews.fetch_add(1, Ordering::SeqCst);
            let lists = spec["resourceAttributes"]["verb"] == "list" && spec["user"] == "ann";
            let may = lists || spec["nonResourceAttributes"]["path"] == "/metrics";
            return json!({"allowed": may});
        }
        self.token_reviews.fetch_add(1, Ordering::SeqCst);
        match self.token_review_time {
            Some(takes) => tokio::time::sleep(takes).await,
            None => std::future::pending().await,
        }
        let token = spec["token"].as_str().unwrap();
        match ["ann", "bob"]
            .into_iter()
            .find(|name| token.starts_with(name))
        {
            Some(name) => json!({"authenticated": true, "user": {"username": name}}),
            None => json!({"authenticated": false}),
        }
    }

    fn client(self: &Arc<Self>) -> Client {
        let server = self.clone();
        let answers = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let mut review: Value = serde_json::from_slice(&body).unwrap();
                review["status"] = server.review_status(&path, &review["spec"]).await;
                let body = Body::from(serde_json::to_vec(&review).unwrap());
                Ok::<_, std::convert::Infallible>(Response::new(body))
            }
        });
        Client::new(answers, "default")
    }
}

const REVIEW_TIME: Duration = Duration::from_millis(10);

fn headers_with_token(token: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let token = format!("Bearer {token}");
    headers.insert("authorization", token.parse().unwrap());
    headers
}

async fn check_path(admission: &CallerLimits, token: &str, path: &str) -> Result<(), u16> {
    check_path_from(admission, 1, token, path).await
}

async fn check_path_from(
    admission: &CallerLimits,
    address: u8,
    token: &str,
    path: &str,
) -> Result<(), u16> {
    let headers = headers_with_token(token);
    let certificates = ClientCertificates::default().with_address([10, 0, 0, address].into());
    let caller = admission.caller(&headers, Some(Extension(certificates)));
    let work = tokio::time::timeout(MAX_WAIT, caller.admit(RequiredRight::Path(path)));
    let done = work.await.unwrap_or_else(|_| Err(Failure::unavailable()));
    done.map(drop).map_err(|failure| failure.code())
}

/// Starts this many callers, which send requests over and over, each with a new token every time.
fn flood(admission: &Arc<CallerLimits>, many: usize) {
    for connection in 0..many {
        let admission = admission.clone();
        tokio::spawn(async move {
            for request in 0_usize.. {
                let token = format!("garbage-{connection}-{request}");
                let result = check_path(&admission, &token, "/metrics").await;
                assert!(matches!(result, Err(401 | 503)), "{result:?}");
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn unauthorized_callers_do_not_block_the_api_server() {
    let server = FakeApiServer::new(None);
    let admission = Arc::new(CallerLimits::new(server.client()));
    let authority = TestAuthority::new();
    *admission.proxy.write() = Some(Arc::new(authority.proxy(&[])));
    flood(&admission, 2 * MAX_CONCURRENT_REQUESTS);
    let turns: Vec<_> = (0..MAX_CONCURRENT_REQUESTS)
        .map(|_| {
            admission
                .caller(&headers_with_token("ann"), None)
                .take_turn()
                .unwrap()
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let direct = admission.caller(&HeaderMap::new(), None).take_turn();
    assert_eq!(direct.unwrap_err().code(), 429, "all are taken");

    let (headers, certificates) = (headers_of_ann(), authority.client("any"));
    let caller = admission.caller(&headers, Some(Extension(certificates)));
    assert!(caller.is_proxied());
    let _turn = caller.take_turn().unwrap();
    let work = caller.require_right(RequiredRight::Jobs(None));
    assert!(tokio::time::timeout(MAX_WAIT, work).await.unwrap().is_ok());
    assert_eq!(server.access_reviews.load(Ordering::SeqCst), 1);
    drop(turns);
}

#[tokio::test]
async fn proxied_user_does_not_delay_another_proxied_user() {
    let admission = CallerLimits::new(FakeApiServer::new(None).client());
    let authority = TestAuthority::new();
    *admission.proxy.write() = Some(Arc::new(authority.proxy(&[])));
    let mut bob = HeaderMap::new();
    bob.insert("x-remote-user", "bob".parse().unwrap());
    let certificates = Some(Extension(authority.client("any")));
    let ann = headers_of_ann();
    let [ann, bob] = [&ann, &bob].map(|named| admission.caller(named, certificates.clone()));
    let _turns = [
        bob.take_review_turn().await.unwrap(),
        bob.take_review_turn().await.unwrap(),
    ];
    assert!(bob.take_review_turn().now_or_never().is_none());
    assert!(ann.take_review_turn().now_or_never().is_some());
}

/// Sixty-four connections of garbage, and one reader.
#[tokio::test(start_paused = true)]
async fn invalid_tokens_do_not_block_an_authorized_caller() {
    let server = FakeApiServer::new(Some(REVIEW_TIME));
    let admission = Arc::new(CallerLimits::new(server.client()));
    flood(&admission, 64);
    tokio::time::sleep(Duration::from_millis(105)).await;
    // A caller with its own address does not wait.
    let began = Instant::now();
    let other = check_path_from(&admission, 2, "ann", "/v1alpha1/snapshot");
    assert_eq!(other.await, Err(403));
    assert_eq!(began.elapsed(), REVIEW_TIME);
    // A caller from their address waits with them the first time, and is not refused.
    let began = Instant::now();
    assert_eq!(check_path(&admission, "ann", "/metrics").await, Ok(()));
    let first = began.elapsed();
    let rounds = u32::try_from(64 / (MAX_CONCURRENT_REVIEWS / 2)).unwrap();
    let longest = REVIEW_TIME * (2 * rounds + 2);
    assert!(first <= longest, "by both reviews: {first:?}");
    // Later this caller does not wait either.
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(15)).await;
        let began = Instant::now();
        assert_eq!(check_path(&admission, "ann", "/metrics").await, Ok(()));
        assert_eq!(began.elapsed(), REVIEW_TIME);
    }
}

/// Every pod has a token that the API server knows.
#[tokio::test(start_paused = true)]
async fn authenticated_caller_without_the_right_takes_no_turn() {
    let server = FakeApiServer::new(Some(REVIEW_TIME));
    let admission = Arc::new(CallerLimits::new(server.client()));
    let all = u32::try_from(MAX_CONCURRENT_REQUESTS).unwrap();
    let turns = admission.direct_turns.clone().acquire_many_owned(all).await;
    assert_eq!(check_path(&admission, "ann", "/v1alpha1/x").await, Err(403));
    let hash = ttl_cache::hash_token("ann");
    assert!(!admission.recent_callers.contains(&hash));
    assert_eq!(check_path(&admission, "ann", "/metrics").await, Err(429));
    drop(turns);
    assert_eq!(check_path(&admission, "ann", "/metrics").await, Ok(()));
    assert!(admission.recent_callers.contains(&hash));
}

/// A recently authorized caller may send any number of forbidden requests, with any number of
/// tokens.
#[tokio::test(start_paused = true)]
async fn recent_caller_does_not_delay_another_recent_caller() {
    let server = FakeApiServer::new(Some(REVIEW_TIME));
    let admission = Arc::new(CallerLimits::new(server.client()));
    assert_eq!(check_path(&admission, "ann", "/metrics").await, Ok(()));
    for connection in 0..63 {
        let admission = admission.clone();
        tokio::spawn(async move {
            let token = format!("bob-{connection}");
            assert_eq!(check_path(&admission, &token, "/metrics").await, Ok(()));
            loop {
                let result = check_path(&admission, &token, "/v1alpha1/snapshot").await;
                assert_eq!(result, Err(403));
            }
        });
    }
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(14_995)).await;
        let began = Instant::now();
        assert_eq!(check_path(&admission, "ann", "/metrics").await, Ok(()));
        assert_eq!(began.elapsed(), REVIEW_TIME);
    }
}

#[tokio::test(start_paused = true)]
async fn rejected_token_is_reviewed_once_per_ttl() {
    let server = FakeApiServer::new(Some(REVIEW_TIME));
    let admission = CallerLimits::new(server.client());
    let asked = || server.token_reviews.swap(0, Ordering::SeqCst);
    for _ in 0..5 {
        assert_eq!(
            check_path(&admission, "garbage", "/metrics").await,
            Err(401)
        );
        assert_eq!(check_path(&admission, "ann", "/metrics").await, Ok(()));
    }
    assert_eq!(asked(), 1 + 5, "that of ann may be taken back at any time");
    tokio::time::sleep(REJECTION_TTL).await;
    assert_eq!(
        check_path(&admission, "garbage", "/metrics").await,
        Err(401)
    );
    assert_eq!(asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn granted_right_is_cached_and_a_missing_right_is_not() {
    let server = FakeApiServer::new(None);
    let asked = &server.access_reviews;
    let admission = CallerLimits::new(server.client());
    let headers = HeaderMap::new();
    let caller = admission.caller(&headers, None);
    let of = |name: &str| UserInfo {
        username: Some(name.to_owned()),
        ..UserInfo::default()
    };
    for (user, wants, allowed, reviews) in [
        ("ann", RequiredRight::Jobs(None), true, 1),
        ("ann", RequiredRight::Jobs(Some("a")), true, 1),
        ("bob", RequiredRight::Jobs(None), false, 3),
        ("ann", RequiredRight::Path("/v1alpha1/snapshot"), false, 3),
    ] {
        for _ in 0..3 {
            assert_eq!(caller.has_right(&of(user), wants).await.ok(), Some(allowed));
        }
        assert_eq!(asked.swap(0, Ordering::SeqCst), reviews, "{wants:?}");
    }
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(
        caller
            .has_right(&of("ann"), RequiredRight::Jobs(None))
            .await
            .is_ok()
    );
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn request_without_an_answer_is_unavailable_after_the_time_limit() {
    let silent = Router::new().route("/", axum::routing::get(std::future::pending::<()>));
    let began = Instant::now();
    let request = Request::new(axum::body::Body::empty());
    let answer = limit_time(silent).oneshot(request).await.unwrap();
    assert_eq!(answer.status().as_u16(), 503);
    assert!(answer.headers().contains_key("retry-after"));
    assert_eq!(began.elapsed(), MAX_WAIT);
}
