//! Who is worked for, and how many at once. Those in whose name the API server asks share nothing
//! with the others: whoever else can reach the port may be anybody, and if they could keep the API
//! server out, no namespace would end (docs/endpoint.md). Of those others, who is not known yet
//! takes nothing from who is: a turn is for whom the API server has let in, and the API server is
//! asked about those whom it has let in before without waiting for all others.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::http::HeaderMap;
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::Client;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::Failure;
use super::access::{self, Denied, Wants};
use super::front_proxy::Known;
use super::lately::{self, Hash, Lately};
use crate::serve::Shown;

/// Requests of either that are worked on at once. Others are refused.
const AT_ONCE: usize = 16;
/// Reviews that the API server is asked for at once, for each kind of caller. Others wait: they
/// are made in our own name.
const REVIEWS: usize = 4;
/// Longest wait for the engine and for the API server together.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a right is believed in: who polls is not asked about each time. Who is refused is, so
/// that a right that is given counts at once, and one that is taken away a moment later.
const ALLOWED: Duration = Duration::from_secs(10);
/// How long a token is not asked about that the API server did not know.
const UNKNOWN: Duration = Duration::from_secs(5);
/// How long who was let in need not wait with strangers. It is longer than Prometheus' pauses.
const LET_IN: Duration = Duration::from_secs(600);

/// A turn: held for as long as there is work for it, also when nobody waits for that any more.
pub(crate) type Turn = Arc<OwnedSemaphorePermit>;

fn turns() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(AT_ONCE))
}

/// What one kind of caller has of something.
struct Each<T> {
    /// Those in whose name the API server asks.
    proxied: T,
    /// Those who were let in a while ago with the same token.
    known: T,
    /// All others.
    strangers: T,
}

/// The door of one server.
pub(crate) struct Admission {
    client: Client,
    /// Whom the API server asks as.
    pub(super) proxy: Known,
    allowed: Lately<String>,
    unknown: Lately<Hash>,
    let_in: Lately<Hash>,
    reviews: Each<Semaphore>,
    proxied: Arc<Semaphore>,
    direct: Arc<Semaphore>,
}

/// Who asks, as far as it is known without asking anybody.
pub(crate) struct Caller<'a> {
    admission: &'a Admission,
    headers: &'a HeaderMap,
    /// The token that they bear.
    token: Option<(&'a str, Hash)>,
    /// As the front proxy names them, or why that is not believed.
    named: Result<UserInfo, Option<String>>,
}

impl Admission {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            proxy: Known::default(),
            allowed: Lately::new(ALLOWED),
            unknown: Lately::new(UNKNOWN),
            let_in: Lately::new(LET_IN),
            reviews: Each {
                proxied: Semaphore::new(REVIEWS),
                known: Semaphore::new(REVIEWS),
                strangers: Semaphore::new(REVIEWS),
            },
            proxied: turns(),
            direct: turns(),
        }
    }

    /// Who asks with these headers.
    pub(crate) fn caller<'a>(
        &'a self,
        headers: &'a HeaderMap,
        shown: Option<Extension<Shown>>,
    ) -> Caller<'a> {
        let shown = shown.map(|Extension(shown)| shown).unwrap_or_default();
        let proxy = self.proxy.read().clone();
        let named = match proxy.map(|proxy| proxy.user(&shown, headers)) {
            Some(named) => named.map_err(Some),
            None => Err(None),
        };
        let token = access::token(headers).map(|token| (token, lately::hash(token)));
        Caller {
            admission: self,
            headers,
            token,
            named,
        }
    }
}

impl Caller<'_> {
    /// Whether the API server asks.
    pub(super) fn is_proxied(&self) -> bool {
        self.named.is_ok()
    }

    /// A turn, if not too many are being worked for: for who has been let through.
    pub(crate) fn turn(&self) -> Result<Turn, Failure> {
        let turns = match self.is_proxied() {
            true => &self.admission.proxied,
            false => &self.admission.direct,
        };
        let turn = turns.clone().try_acquire_owned();
        turn.map(Arc::new).map_err(|_| Failure::too_many())
    }

    /// Who asks.
    pub(super) async fn user(&self) -> Result<UserInfo, Failure> {
        let unbelieved = match &self.named {
            Ok(user) => return Ok(user.clone()),
            Err(why) => why.as_deref(),
        };
        let Some((token, hash)) = self.token else {
            return Err(access::nobody(self.headers, unbelieved).into());
        };
        let Admission {
            unknown, let_in, ..
        } = self.admission;
        if unknown.has(&hash) {
            return Err(access::unknown_token().into());
        }
        let _turn = self.review().await?;
        let asked = Instant::now();
        let user = access::authenticate(&self.admission.client, token).await;
        if let Err(Denied::Unauthenticated(_)) = user {
            unknown.keep(hash, asked);
            let_in.forget(&hash);
        }
        Ok(user?)
    }

    /// Lets through who has the right.
    pub(crate) async fn check(&self, wants: Wants<'_>) -> Result<(), Failure> {
        let user = self.user().await?;
        self.authorize(&user, wants).await
    }

    /// Lets through this user, if they have the right.
    pub(super) async fn authorize(&self, user: &UserInfo, wants: Wants<'_>) -> Result<(), Failure> {
        if !self.may(user, wants).await? {
            return Err(access::forbidden(user, wants).into());
        }
        if let Some((_, hash)) = self.token.filter(|_| !self.is_proxied()) {
            self.admission.let_in.keep(hash, Instant::now());
        }
        Ok(())
    }

    /// Whether they have the right.
    pub(super) async fn may(&self, user: &UserInfo, wants: Wants<'_>) -> Result<bool, Failure> {
        let review = access::review(user.clone(), wants);
        let question = lately::question(&review.spec);
        let known = &self.admission.allowed;
        if question
            .as_ref()
            .is_some_and(|question| known.has(question))
        {
            return Ok(true);
        }
        let _turn = self.review().await?;
        let asked = Instant::now();
        let allows = access::allows(&self.admission.client, &review).await?;
        if let Some(question) = question.filter(|_| allows) {
            known.keep(question, asked);
        }
        Ok(allows)
    }

    async fn review(&self) -> Result<impl Drop + use<'_>, Failure> {
        let Admission {
            reviews, let_in, ..
        } = self.admission;
        let is_known = self.token.is_some_and(|(_, hash)| let_in.has(&hash));
        let reviews = match (self.is_proxied(), is_known) {
            (true, _) => &reviews.proxied,
            (false, true) => &reviews.known,
            (false, false) => &reviews.strangers,
        };
        let turn = reviews.acquire().await;
        turn.map_err(|_| Failure::unavailable())
    }
}

/// What comes of a request's work, if it does not take too long.
pub(crate) async fn patient<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let done = tokio::time::timeout(PATIENCE, work).await;
    done.unwrap_or_else(|_| Err(Failure::unavailable()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::http::{Request, Response};
    use http_body_util::BodyExt as _;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::super::front_proxy::tests::{Authority, ann};
    use super::*;

    /// An API server that takes ten milliseconds for a TokenReview, or for ever, and knows `ann`
    /// alone. She may list jobs and get `/metrics`, others nothing.
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
                let may = spec["resourceAttributes"]["verb"] == "list"
                    || spec["nonResourceAttributes"]["path"] == "/metrics";
                return json!({"allowed": may && spec["user"] == "ann"});
            }
            self.tokens_asked.fetch_add(1, Ordering::SeqCst);
            match self.tokens {
                Some(takes) => tokio::time::sleep(takes).await,
                None => std::future::pending().await,
            }
            match spec["token"] == "ann" {
                true => json!({"authenticated": true, "user": {"username": "ann"}}),
                false => json!({"authenticated": false}),
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
        let headers = bears(token);
        let caller = admission.caller(&headers, None);
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

    /// Sixty-four connections of garbage, and one reader.
    #[tokio::test(start_paused = true)]
    async fn who_bears_garbage_takes_no_turn_from_who_has_the_right() {
        let server = ApiServer::new(Some(TAKES));
        let admission = Arc::new(Admission::new(server.client()));
        flood(&admission, 64);
        tokio::time::sleep(Duration::from_millis(105)).await;
        // For the first time he waits with the others, and is not turned away.
        let began = Instant::now();
        assert_eq!(check(&admission, "ann", "/metrics").await, Ok(()));
        let first = began.elapsed();
        let rounds = u32::try_from(64 / REVIEWS).unwrap();
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
        assert_eq!(check(&admission, "ann", "/v1alpha1/x").await, Err(403));
        let hash = lately::hash("ann");
        assert!(!admission.let_in.has(&hash));
        assert_eq!(check(&admission, "ann", "/metrics").await, Ok(()));
        assert!(admission.let_in.has(&hash));
        assert_eq!(admission.direct.available_permits(), AT_ONCE);
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
}
