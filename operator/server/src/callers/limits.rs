//! Limits requests by kind of caller. Requests that the API server sends for its users share no
//! limit with direct requests. Any client may reach the port; if a client could starve the API
//! server, no namespace could be deleted (docs/endpoint.md). Among direct requests, unknown callers
//! cannot starve known ones. A turn needs authorization, and reviews of recently authorized callers
//! do not queue behind reviews of unknown callers. Within each kind, no caller can starve another.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::error_handling::HandleErrorLayer;
use axum::http::HeaderMap;
use axum::{BoxError, Extension, Router};
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::Client;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tower::ServiceBuilder;
use tower::timeout::TimeoutLayer;

use super::Failure;
use super::access::{self, AccessDenied, RequiredRight};
use super::fair_turns::{FairTurn, FairTurns};
use super::front_proxy::TrustedProxy;
use super::ttl_cache::{self, TokenHash, TtlCache};
use crate::serve::ClientCertificates;

/// Most requests of each kind (proxied or direct) at once. The server refuses further requests.
const MAX_CONCURRENT_REQUESTS: usize = 16;
/// Most reviews in flight for each kind of caller. Further reviews wait, because the API server
/// counts reviews as requests of the operator.
const MAX_CONCURRENT_REVIEWS: usize = 4;
/// Longest time for the answer to a request.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// How long a granted right is cached, so that a polling caller does not need a review each time.
/// Refusals are not cached. So a new right counts at once, and a revoked right ends after this
/// time.
const GRANT_TTL: Duration = Duration::from_secs(10);
/// How long a token counts as invalid after the API server has rejected it.
const REJECTION_TTL: Duration = Duration::from_secs(5);
/// How long an authorized caller does not queue with unknown callers. It is longer than the scrape
/// interval of Prometheus.
const RECENT_CALLER_TTL: Duration = Duration::from_secs(600);

/// A turn, held until the work is done, even if the client is gone.
pub(crate) type RequestTurn = Arc<OwnedSemaphorePermit>;

fn new_turns() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(MAX_CONCURRENT_REQUESTS))
}

/// Reviews of each kind of caller.
struct ReviewTurns {
    /// Users for whom the API server sends requests, by user.
    proxied: FairTurns<String>,
    /// Callers that were recently authorized with the same token, by user. A user may have many
    /// tokens, and many users may share an address.
    recent: FairTurns<String>,
    /// All other callers, by address.
    unknown: FairTurns<IpAddr>,
}

/// Limits and caches of one server.
pub(crate) struct CallerLimits {
    client: Client,
    /// Front proxy of the API server.
    pub(crate) proxy: TrustedProxy,
    granted_rights: TtlCache<String>,
    rejected_tokens: TtlCache<TokenHash>,
    /// Tokens of recently authorized callers, with their users.
    recent_callers: TtlCache<TokenHash, String>,
    review_turns: ReviewTurns,
    proxied_turns: Arc<Semaphore>,
    direct_turns: Arc<Semaphore>,
}

/// A caller, as the request describes it.
pub(crate) struct Caller<'a> {
    limits: &'a CallerLimits,
    headers: &'a HeaderMap,
    /// Bearer token of the request.
    token: Option<(&'a str, TokenHash)>,
    /// Address of the client.
    address: IpAddr,
    /// The user that the front proxy names, or why the headers are not trusted.
    proxy_user: Result<UserInfo, Option<String>>,
}

impl CallerLimits {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            proxy: TrustedProxy::default(),
            granted_rights: TtlCache::new(GRANT_TTL),
            rejected_tokens: TtlCache::new(REJECTION_TTL),
            recent_callers: TtlCache::new(RECENT_CALLER_TTL),
            review_turns: ReviewTurns {
                proxied: FairTurns::half_per_caller(MAX_CONCURRENT_REVIEWS),
                recent: FairTurns::half_per_caller(MAX_CONCURRENT_REVIEWS),
                unknown: FairTurns::half_per_caller(MAX_CONCURRENT_REVIEWS),
            },
            proxied_turns: new_turns(),
            direct_turns: new_turns(),
        }
    }

    /// True if the API server has granted the right a moment ago.
    fn is_granted(&self, user: &UserInfo, right: RequiredRight<'_>) -> bool {
        let review = access::build_review(user.clone(), right);
        let key = ttl_cache::review_key(&review.spec);
        key.is_some_and(|key| self.granted_rights.contains(&key))
    }

    /// Asks the API server whether the user has the right.
    async fn review(&self, user: &UserInfo, right: RequiredRight<'_>) -> Result<bool, Failure> {
        let review = access::build_review(user.clone(), right);
        let asked_at = Instant::now();
        let allows = access::review_access(&self.client, &review).await?;
        let key = ttl_cache::review_key(&review.spec);
        if let Some(key) = key.filter(|_| allows) {
            self.granted_rights.insert(key, asked_at, ());
        }
        Ok(allows)
    }

    /// True if an authenticated user still has the right. `is_proxied`: the API server sends the
    /// request for the user.
    pub(crate) async fn review_again(
        &self,
        user: &UserInfo,
        is_proxied: bool,
        right: RequiredRight<'_>,
    ) -> Result<bool, Failure> {
        if self.is_granted(user, right) {
            return Ok(true);
        }
        let turns = match is_proxied {
            true => &self.review_turns.proxied,
            false => &self.review_turns.recent,
        };
        let turn = turns.acquire(user_name(user)).await;
        let _turn = turn.map_err(|_| Failure::unavailable())?;
        self.review(user, right).await
    }

    /// Returns the caller with these headers.
    pub(crate) fn caller<'a>(
        &'a self,
        headers: &'a HeaderMap,
        certificates: Option<Extension<ClientCertificates>>,
    ) -> Caller<'a> {
        let certificates = certificates
            .map(|Extension(certificates)| certificates)
            .unwrap_or_default();
        let proxy = self.proxy.read().clone();
        let proxy_user = match proxy.map(|proxy| proxy.user(&certificates, headers)) {
            Some(proxy_user) => proxy_user.map_err(Some),
            None => Err(None),
        };
        let token = access::token(headers).map(|token| (token, ttl_cache::hash_token(token)));
        Caller {
            limits: self,
            headers,
            token,
            address: certificates.address(),
            proxy_user,
        }
    }
}

impl Caller<'_> {
    /// Returns true if the API server sends the request for a user.
    pub(crate) fn is_proxied(&self) -> bool {
        self.proxy_user.is_ok()
    }

    /// Returns a turn for an authorized caller. Fails if too many requests are in progress.
    pub(crate) fn take_turn(&self) -> Result<RequestTurn, Failure> {
        let turns = match self.is_proxied() {
            true => &self.limits.proxied_turns,
            false => &self.limits.direct_turns,
        };
        let turn = turns.clone().try_acquire_owned();
        turn.map(Arc::new).map_err(|_| Failure::too_many_requests())
    }

    /// Returns the authenticated user.
    pub(crate) async fn authenticate(&self) -> Result<UserInfo, Failure> {
        let proxy_problem = match &self.proxy_user {
            Ok(user) => return Ok(user.clone()),
            Err(why) => why.as_deref(),
        };
        let Some((token, hash)) = self.token else {
            return Err(access::deny_missing_credentials(self.headers, proxy_problem).into());
        };
        let CallerLimits {
            rejected_tokens: rejected,
            recent_callers: recent,
            ..
        } = self.limits;
        if rejected.contains(&hash) {
            return Err(access::deny_unknown_token().into());
        }
        let _turn = self.take_review_turn().await?;
        let asked_at = Instant::now();
        let user = access::authenticate(&self.limits.client, token).await;
        if let Err(AccessDenied::Unauthenticated(_)) = user {
            rejected.insert(hash, asked_at, ());
            recent.remove(&hash);
        }
        Ok(user?)
    }

    /// Fails unless the caller has the right.
    async fn require_right(&self, right: RequiredRight<'_>) -> Result<(), Failure> {
        let user = self.authenticate().await?;
        self.authorize(&user, right).await
    }

    /// Returns a turn for the caller, if it has the right. Fails if too many requests are in
    /// progress.
    pub(crate) async fn admit(&self, right: RequiredRight<'_>) -> Result<RequestTurn, Failure> {
        self.require_right(right).await?;
        self.take_turn()
    }

    /// Fails unless this user has the right.
    pub(crate) async fn authorize(
        &self,
        user: &UserInfo,
        right: RequiredRight<'_>,
    ) -> Result<(), Failure> {
        if !self.has_right(user, right).await? {
            return Err(access::deny_missing_right(user, right).into());
        }
        if let Some((_, hash)) = self.token.filter(|_| !self.is_proxied()) {
            let recent = &self.limits.recent_callers;
            recent.insert(hash, Instant::now(), user_name(user));
        }
        Ok(())
    }

    /// True if the user has the right.
    pub(crate) async fn has_right(
        &self,
        user: &UserInfo,
        right: RequiredRight<'_>,
    ) -> Result<bool, Failure> {
        if self.limits.is_granted(user, right) {
            return Ok(true);
        }
        let _turn = self.take_review_turn().await?;
        self.limits.review(user, right).await
    }

    async fn take_review_turn(&self) -> Result<FairTurn, Failure> {
        let CallerLimits {
            review_turns: reviews,
            recent_callers: recent,
            ..
        } = self.limits;
        let known_user = self.token.and_then(|(_, hash)| recent.get(&hash));
        let turn = match (&self.proxy_user, known_user) {
            (Ok(user), _) => reviews.proxied.acquire(user_name(user)).await,
            (Err(_), Some(user)) => reviews.recent.acquire(user).await,
            (Err(_), None) => reviews.unknown.acquire(self.address).await,
        };
        turn.map_err(|_| Failure::unavailable())
    }
}

fn user_name(user: &UserInfo) -> String {
    user.username.clone().unwrap_or_default()
}

/// Limits the time of each request of the router. After it, the request fails.
pub(crate) fn limit_time<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    let limit = ServiceBuilder::new()
        .layer(HandleErrorLayer::new(async |_: BoxError| {
            Failure::timed_out()
        }))
        .layer(TimeoutLayer::new(MAX_WAIT));
    router.layer(limit)
}

#[cfg(test)]
mod tests;
