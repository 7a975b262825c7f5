//! Limits requests, and tells callers apart. Requests that the API server sends for its users share
//! no limit with direct ones: any client may reach the port, and if it could starve the API server,
//! no namespace could be deleted (docs/endpoint.md). Among direct requests, unknown callers cannot
//! starve known ones: a turn needs authorization, and reviews of callers that were let in before do
//! not queue behind those of strangers. Within each kind no caller can starve the others.

use std::net::IpAddr;
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
use super::fair::{Fair, FairTurn};
use super::front_proxy::Known;
use super::lately::{self, Hash, Lately};
use crate::serve::Shown;

/// Requests of either kind that are served at once. Further ones are refused.
const AT_ONCE: usize = 16;
/// Reviews in flight at once for each kind of caller. Further ones wait: the API server counts
/// reviews as requests of the operator.
const REVIEWS: usize = 4;
/// Longest wait for the engine and for the API server together.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a granted right is cached, so that a polling caller is not reviewed each time. A
/// refusal is not cached: a right that is granted counts at once, and a revoked one is lost a
/// moment later.
const ALLOWED: Duration = Duration::from_secs(10);
/// How long a token counts as invalid after the API server has rejected it.
const UNKNOWN: Duration = Duration::from_secs(5);
/// How long a caller that was let in is not queued with strangers. Longer than the scrape interval
/// of Prometheus.
const LET_IN: Duration = Duration::from_secs(600);

/// A turn. It is held until the work is done, even if the client is gone.
pub(crate) type Turn = Arc<OwnedSemaphorePermit>;

fn turns() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(AT_ONCE))
}

/// Reviews of each kind of caller.
struct Reviews {
    /// Users in whose name the API server asks, by user.
    proxied: Fair<String>,
    /// Callers that were let in recently with the same token, by user: a user may have many tokens,
    /// and many users may share an address.
    known: Fair<String>,
    /// All other callers, by address.
    strangers: Fair<IpAddr>,
}

/// Limits and caches of one server.
pub(crate) struct Admission {
    client: Client,
    /// Front proxy of the API server.
    pub(super) proxy: Known,
    allowed: Lately<String>,
    unknown: Lately<Hash>,
    /// Tokens that were let in, with their users.
    let_in: Lately<Hash, String>,
    reviews: Reviews,
    proxied: Arc<Semaphore>,
    direct: Arc<Semaphore>,
}

/// A caller, as far as the request itself shows.
pub(crate) struct Caller<'a> {
    admission: &'a Admission,
    headers: &'a HeaderMap,
    /// Bearer token of the request.
    token: Option<(&'a str, Hash)>,
    /// Address of the client.
    address: IpAddr,
    /// The user that the front proxy names, or why the headers are not trusted.
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
            reviews: Reviews {
                proxied: Fair::halves(REVIEWS),
                known: Fair::halves(REVIEWS),
                strangers: Fair::halves(REVIEWS),
            },
            proxied: turns(),
            direct: turns(),
        }
    }

    /// The caller with these headers.
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
            address: shown.address(),
            named,
        }
    }
}

impl Caller<'_> {
    /// True if the API server sends the request for a user.
    pub(super) fn is_proxied(&self) -> bool {
        self.named.is_ok()
    }

    /// A turn for an authorized caller, unless too many requests are being served.
    pub(crate) fn turn(&self) -> Result<Turn, Failure> {
        let turns = match self.is_proxied() {
            true => &self.admission.proxied,
            false => &self.admission.direct,
        };
        let turn = turns.clone().try_acquire_owned();
        turn.map(Arc::new).map_err(|_| Failure::too_many())
    }

    /// The authenticated user.
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
            unknown.keep(hash, asked, ());
            let_in.forget(&hash);
        }
        Ok(user?)
    }

    /// Fails unless the caller has the right.
    pub(crate) async fn check(&self, wants: Wants<'_>) -> Result<(), Failure> {
        let user = self.user().await?;
        self.authorize(&user, wants).await
    }

    /// Fails unless this user has the right.
    pub(super) async fn authorize(&self, user: &UserInfo, wants: Wants<'_>) -> Result<(), Failure> {
        if !self.may(user, wants).await? {
            return Err(access::forbidden(user, wants).into());
        }
        if let Some((_, hash)) = self.token.filter(|_| !self.is_proxied()) {
            let let_in = &self.admission.let_in;
            let_in.keep(hash, Instant::now(), name(user));
        }
        Ok(())
    }

    /// True if the user has the right.
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
            known.keep(question, asked, ());
        }
        Ok(allows)
    }

    async fn review(&self) -> Result<FairTurn, Failure> {
        let Admission {
            reviews, let_in, ..
        } = self.admission;
        let known = self.token.and_then(|(_, hash)| let_in.get(&hash));
        let turn = match (&self.named, known) {
            (Ok(user), _) => reviews.proxied.acquire(name(user)).await,
            (Err(_), Some(user)) => reviews.known.acquire(user).await,
            (Err(_), None) => reviews.strangers.acquire(self.address).await,
        };
        turn.map_err(|_| Failure::unavailable())
    }
}

fn name(user: &UserInfo) -> String {
    user.username.clone().unwrap_or_default()
}

/// Result of the work, unless it takes too long.
pub(crate) async fn patient<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let done = tokio::time::timeout(PATIENCE, work).await;
    done.unwrap_or_else(|_| Err(Failure::unavailable()))
}

#[cfg(test)]
mod tests;
