//! Who is worked for, and how many at once. Those in whose name the API server asks share nothing
//! with the others: whoever else can reach the port may be anybody, and if they could keep the API
//! server out, no namespace would end (docs/endpoint.md).

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::http::HeaderMap;
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::Client;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::Failure;
use super::access::{self, Wants};
use super::allowed::{self, Allowed};
use super::front_proxy::Known;
use crate::serve::Shown;

/// Requests of either that are worked on at once. Others are refused.
const AT_ONCE: usize = 16;
/// Reviews that the API server is asked for at once, for either. Others wait: they are made in
/// our own name.
const REVIEWS: usize = 4;
/// Longest wait for the engine and for the API server together.
const PATIENCE: Duration = Duration::from_secs(30);

/// A turn: held for as long as there is work for it, also when nobody waits for that any more.
pub(super) type Turn = Arc<OwnedSemaphorePermit>;

struct Caps {
    turns: Arc<Semaphore>,
    reviews: Semaphore,
}

impl Caps {
    fn new() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            reviews: Semaphore::new(REVIEWS),
        }
    }
}

/// The door of one process.
pub(super) struct Admission {
    client: Client,
    /// Whom the API server asks as.
    pub(super) proxy: Known,
    allowed: Allowed,
    /// Of those in whose name the API server asks.
    proxied: Caps,
    /// Of all others.
    direct: Caps,
}

/// Who asks, as far as it is known without asking anybody.
pub(super) struct Caller<'a> {
    admission: &'a Admission,
    headers: &'a HeaderMap,
    /// As the front proxy names them, or why that is not believed.
    named: Result<UserInfo, Option<String>>,
}

impl Admission {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            proxy: Known::default(),
            allowed: Allowed::default(),
            proxied: Caps::new(),
            direct: Caps::new(),
        }
    }

    /// Who asks with these headers.
    pub(super) fn caller<'a>(
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
        Caller {
            admission: self,
            headers,
            named,
        }
    }
}

impl Caller<'_> {
    fn caps(&self) -> &Caps {
        match self.is_proxied() {
            true => &self.admission.proxied,
            false => &self.admission.direct,
        }
    }

    /// Whether the API server asks.
    pub(super) fn is_proxied(&self) -> bool {
        self.named.is_ok()
    }

    /// A turn, if not too many are being worked for.
    pub(super) fn turn(&self) -> Result<Turn, Failure> {
        let turn = self.caps().turns.clone().try_acquire_owned();
        turn.map(Arc::new).map_err(|_| Failure::too_many())
    }

    /// Who asks.
    pub(super) async fn user(&self) -> Result<UserInfo, Failure> {
        let unbelieved = match &self.named {
            Ok(user) => return Ok(user.clone()),
            Err(why) => why.as_deref(),
        };
        let Some(token) = access::token(self.headers) else {
            return Err(access::nobody(self.headers, unbelieved).into());
        };
        let _turn = self.review().await?;
        Ok(access::authenticate(&self.admission.client, token).await?)
    }

    /// Lets through who has the right.
    pub(super) async fn check(&self, wants: Wants<'_>) -> Result<(), Failure> {
        let user = self.user().await?;
        self.authorize(&user, wants).await
    }

    /// Lets through this user, if they have the right.
    pub(super) async fn authorize(&self, user: &UserInfo, wants: Wants<'_>) -> Result<(), Failure> {
        match self.may(user, wants).await? {
            true => Ok(()),
            false => Err(access::forbidden(user, wants).into()),
        }
    }

    /// Whether they have the right.
    pub(super) async fn may(&self, user: &UserInfo, wants: Wants<'_>) -> Result<bool, Failure> {
        let review = access::review(user.clone(), wants);
        let question = allowed::question(&review.spec);
        let known = &self.admission.allowed;
        if question
            .as_deref()
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
        let turn = self.caps().reviews.acquire().await;
        turn.map_err(|_| Failure::unavailable())
    }
}

/// What comes of a request's work, if it does not take too long.
pub(super) async fn patient<T>(
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

    /// An API server that answers no TokenReview, and lets `ann` list jobs.
    fn api_server(asked: Arc<AtomicUsize>) -> Client {
        let answers = tower::service_fn(move |request: Request<Body>| {
            let asked = asked.clone();
            async move {
                if request.uri().path().ends_with("/tokenreviews") {
                    std::future::pending::<()>().await;
                }
                asked.fetch_add(1, Ordering::SeqCst);
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let mut review: Value = serde_json::from_slice(&body).unwrap();
                let allowed = review["spec"]["resourceAttributes"]["verb"] == "list";
                review["status"] = json!({"allowed": allowed});
                let body = Body::from(serde_json::to_vec(&review).unwrap());
                Ok::<_, std::convert::Infallible>(Response::new(body))
            }
        });
        Client::new(answers, "default")
    }

    fn garbage() -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Bearer garbage".parse().unwrap());
        headers
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_no_rights_cannot_keep_the_api_server_out() {
        let asked = Arc::new(AtomicUsize::new(0));
        let admission = Arc::new(Admission::new(api_server(asked.clone())));
        let authority = Authority::new();
        *admission.proxy.write() = Some(Arc::new(authority.proxy(&[])));
        for _ in 0..2 * AT_ONCE {
            let admission = admission.clone();
            tokio::spawn(async move {
                let headers = garbage();
                let caller = admission.caller(&headers, None);
                let _turn = caller.turn();
                let _ = caller.user().await;
            });
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let headers = garbage();
        assert!(
            admission.caller(&headers, None).turn().is_err(),
            "all are taken"
        );

        let (headers, shown) = (ann(), authority.client("any"));
        let caller = admission.caller(&headers, Some(Extension(shown)));
        assert!(caller.is_proxied());
        let _turn = caller.turn().unwrap();
        let work = patient(caller.check(Wants::Jobs(None)));
        assert!(work.await.is_ok());
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_right_is_asked_for_once_in_a_while_and_one_that_lacks_each_time() {
        let asked = Arc::new(AtomicUsize::new(0));
        let admission = Admission::new(api_server(asked.clone()));
        let headers = HeaderMap::new();
        let caller = admission.caller(&headers, None);
        let of = |name: &str| UserInfo {
            username: Some(name.to_owned()),
            ..UserInfo::default()
        };
        for (user, wants, allowed, reviews) in [
            ("ann", Wants::Jobs(None), true, 1),
            ("ann", Wants::Jobs(Some("a")), true, 1),
            ("bob", Wants::Jobs(None), true, 1),
            ("ann", Wants::Path("/metrics"), false, 3),
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
