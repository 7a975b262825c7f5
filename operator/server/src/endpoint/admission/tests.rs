use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::{Request, Response};
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use super::super::front_proxy::tests::{Authority, ann};
use super::*;

/// An API server that takes ten milliseconds for a TokenReview, or for ever, and knows `ann` and
/// `bob`, whose tokens begin so. They may get `/metrics`, and she may list jobs.
struct ApiServer {
    tokens: Option<Duration>,
    asked: AtomicUsize,
    tokens_asked: AtomicUsize,
}

impl ApiServer {
    fn new(tokens: Option<Duration>) -> Arc<Self> {
        Arc::new(Self {
            tokens,
            asked: AtomicUsize::default(),
            tokens_asked: AtomicUsize::default(),
        })
    }

    async fn status(&self, path: &str, spec: &Value) -> Value {
        if !path.ends_with("/tokenreviews") {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let lists = spec["resourceAttributes"]["verb"] == "list" && spec["user"] == "ann";
            let may = lists || spec["nonResourceAttributes"]["path"] == "/metrics";
            return json!({"allowed": may});
        }
        self.tokens_asked.fetch_add(1, Ordering::SeqCst);
        match self.tokens {
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
                review["status"] = server.status(&path, &review["spec"]).await;
                let body = Body::from(serde_json::to_vec(&review).unwrap());
                Ok::<_, std::convert::Infallible>(Response::new(body))
            }
        });
        Client::new(answers, "default")
    }
}

const TAKES: Duration = Duration::from_millis(10);

fn bears(token: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let token = format!("Bearer {token}");
    headers.insert("authorization", token.parse().unwrap());
    headers
}

async fn check(admission: &Admission, token: &str, path: &str) -> Result<(), u16> {
    check_from(admission, 1, token, path).await
}

async fn check_from(
    admission: &Admission,
    address: u8,
    token: &str,
    path: &str,
) -> Result<(), u16> {
    let headers = bears(token);
    let shown = Shown::default().at([10, 0, 0, address].into());
    let caller = admission.caller(&headers, Some(Extension(shown)));
    let work = patient(async {
        caller.check(Wants::Path(path)).await?;
        caller.turn().map(drop)
    });
    work.await.map_err(|failure| failure.code())
}

/// So many ask over and over, each with a token of its own each time.
fn flood(admission: &Arc<Admission>, many: usize) {
    for connection in 0..many {
        let admission = admission.clone();
        tokio::spawn(async move {
            for request in 0_usize.. {
                let token = format!("garbage-{connection}-{request}");
                let said = check(&admission, &token, "/metrics").await;
                assert!(matches!(said, Err(401 | 503)), "{said:?}");
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn who_has_no_rights_cannot_keep_the_api_server_out() {
    let server = ApiServer::new(None);
    let admission = Arc::new(Admission::new(server.client()));
    let authority = Authority::new();
    *admission.proxy.write() = Some(Arc::new(authority.proxy(&[])));
    flood(&admission, 2 * AT_ONCE);
    let turns: Vec<_> = (0..AT_ONCE)
        .map(|_| admission.caller(&bears("ann"), None).turn().unwrap())
        .collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let direct = admission.caller(&HeaderMap::new(), None).turn();
    assert_eq!(direct.unwrap_err().code(), 429, "all are taken");

    let (headers, shown) = (ann(), authority.client("any"));
    let caller = admission.caller(&headers, Some(Extension(shown)));
    assert!(caller.is_proxied());
    let _turn = caller.turn().unwrap();
    let work = patient(caller.check(Wants::Jobs(None)));
    assert!(work.await.is_ok());
    assert_eq!(server.asked.load(Ordering::SeqCst), 1);
    drop(turns);
}

#[tokio::test]
async fn whom_the_api_server_asks_for_keeps_no_other_user_waiting() {
    let admission = Admission::new(ApiServer::new(None).client());
    let authority = Authority::new();
    *admission.proxy.write() = Some(Arc::new(authority.proxy(&[])));
    let mut bob = HeaderMap::new();
    bob.insert("x-remote-user", "bob".parse().unwrap());
    let shown = Some(Extension(authority.client("any")));
    let ann = ann();
    let [ann, bob] = [&ann, &bob].map(|named| admission.caller(named, shown.clone()));
    let _turns = [bob.review().await.unwrap(), bob.review().await.unwrap()];
    assert!(bob.review().now_or_never().is_none());
    assert!(ann.review().now_or_never().is_some());
}

/// Sixty-four connections of garbage, and one reader.
#[tokio::test(start_paused = true)]
async fn who_bears_garbage_takes_no_turn_from_who_has_the_right() {
    let server = ApiServer::new(Some(TAKES));
    let admission = Arc::new(Admission::new(server.client()));
    flood(&admission, 64);
    tokio::time::sleep(Duration::from_millis(105)).await;
    // From an address of their own nobody waits.
    let began = Instant::now();
    let other = check_from(&admission, 2, "ann", "/v1alpha1/snapshot");
    assert_eq!(other.await, Err(403));
    assert_eq!(began.elapsed(), TAKES);
    // From theirs one waits with the others for the first time, and is not turned away.
    let began = Instant::now();
    assert_eq!(check(&admission, "ann", "/metrics").await, Ok(()));
    let first = began.elapsed();
    let rounds = u32::try_from(64 / (REVIEWS / 2)).unwrap();
    let longest = TAKES * (2 * rounds + 2);
    assert!(first <= longest, "by both reviews: {first:?}");
    // Later he does not wait either.
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(15)).await;
        let began = Instant::now();
        assert_eq!(check(&admission, "ann", "/metrics").await, Ok(()));
        assert_eq!(began.elapsed(), TAKES);
    }
}

/// Every pod has a token that the API server knows.
#[tokio::test(start_paused = true)]
async fn who_is_known_and_has_no_right_is_a_stranger_and_takes_no_turn() {
    let server = ApiServer::new(Some(TAKES));
    let admission = Arc::new(Admission::new(server.client()));
    let all = u32::try_from(AT_ONCE).unwrap();
    let turns = admission.direct.clone().acquire_many_owned(all).await;
    assert_eq!(check(&admission, "ann", "/v1alpha1/x").await, Err(403));
    let hash = lately::hash("ann");
    assert!(!admission.let_in.has(&hash));
    assert_eq!(check(&admission, "ann", "/metrics").await, Err(429));
    drop(turns);
    assert_eq!(check(&admission, "ann", "/metrics").await, Ok(()));
    assert!(admission.let_in.has(&hash));
}

/// A caller that was let in before may ask for what it may not read, as often and with as many
/// tokens as it likes.
#[tokio::test(start_paused = true)]
async fn who_was_let_in_keeps_no_other_waiting() {
    let server = ApiServer::new(Some(TAKES));
    let admission = Arc::new(Admission::new(server.client()));
    assert_eq!(check(&admission, "ann", "/metrics").await, Ok(()));
    for connection in 0..63 {
        let admission = admission.clone();
        tokio::spawn(async move {
            let token = format!("bob-{connection}");
            assert_eq!(check(&admission, &token, "/metrics").await, Ok(()));
            loop {
                let said = check(&admission, &token, "/v1alpha1/snapshot").await;
                assert_eq!(said, Err(403));
            }
        });
    }
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(14_995)).await;
        let began = Instant::now();
        assert_eq!(check(&admission, "ann", "/metrics").await, Ok(()));
        assert_eq!(began.elapsed(), TAKES);
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_none_is_asked_about_once_in_a_while() {
    let server = ApiServer::new(Some(TAKES));
    let admission = Admission::new(server.client());
    let asked = || server.tokens_asked.swap(0, Ordering::SeqCst);
    for _ in 0..5 {
        assert_eq!(check(&admission, "garbage", "/metrics").await, Err(401));
        assert_eq!(check(&admission, "ann", "/metrics").await, Ok(()));
    }
    assert_eq!(asked(), 1 + 5, "that of ann may be taken back at any time");
    tokio::time::sleep(UNKNOWN).await;
    assert_eq!(check(&admission, "garbage", "/metrics").await, Err(401));
    assert_eq!(asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_right_is_asked_for_once_in_a_while_and_one_that_lacks_each_time() {
    let server = ApiServer::new(None);
    let asked = &server.asked;
    let admission = Admission::new(server.client());
    let headers = HeaderMap::new();
    let caller = admission.caller(&headers, None);
    let of = |name: &str| UserInfo {
        username: Some(name.to_owned()),
        ..UserInfo::default()
    };
    for (user, wants, allowed, reviews) in [
        ("ann", Wants::Jobs(None), true, 1),
        ("ann", Wants::Jobs(Some("a")), true, 1),
        ("bob", Wants::Jobs(None), false, 3),
        ("ann", Wants::Path("/v1alpha1/snapshot"), false, 3),
    ] {
        for _ in 0..3 {
            assert_eq!(caller.may(&of(user), wants).await.ok(), Some(allowed));
        }
        assert_eq!(asked.swap(0, Ordering::SeqCst), reviews, "{wants:?}");
    }
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(caller.may(&of("ann"), Wants::Jobs(None)).await.is_ok());
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}
