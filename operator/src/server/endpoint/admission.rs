//! Who is worked for, and how many at once. Those in whose name the API server asks share nothing
//! with the others: whoever else can reach the port may be anybody, and if they could keep the API
//! server out, no namespace would end (docs/endpoint.md). Of those others, who is not known yet
//! takes nothing from who is: a turn is for whom the API server has let in, and the API server is
//! asked about those whom it has let in before without waiting for all others. Of all of these
//! nobody keeps the others waiting.

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
use crate::server::serve::Shown;

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

/// Reviews of each kind of caller.
struct Reviews {
    /// Those in whose name the API server asks, by user.
    proxied: Fair<String>,
    /// Those who were let in a while ago with the same token, by user: they have as many tokens
    /// as they like, and many may come from one address.
    known: Fair<String>,
    /// All others, by address.
    strangers: Fair<IpAddr>,
}

/// The door of one server.
pub(crate) struct Admission {
    client: Client,
    /// Whom the API server asks as.
    pub(super) proxy: Known,
    allowed: Lately<String>,
    unknown: Lately<Hash>,
    /// And who bore it.
    let_in: Lately<Hash, String>,
    reviews: Reviews,
    proxied: Arc<Semaphore>,
    direct: Arc<Semaphore>,
}

/// Who asks, as far as it is known without asking anybody.
pub(crate) struct Caller<'a> {
    admission: &'a Admission,
    headers: &'a HeaderMap,
    /// The token that they bear.
    token: Option<(&'a str, Hash)>,
    /// Where they are.
    address: IpAddr,
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
            reviews: Reviews {
                proxied: Fair::halves(REVIEWS),
                known: Fair::halves(REVIEWS),
                strangers: Fair::halves(REVIEWS),
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
            address: shown.address(),
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
            unknown.keep(hash, asked, ());
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
            let let_in = &self.admission.let_in;
            let_in.keep(hash, Instant::now(), name(user));
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

/// What comes of a request's work, if it does not take too long.
pub(crate) async fn patient<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let done = tokio::time::timeout(PATIENCE, work).await;
    done.unwrap_or_else(|_| Err(Failure::unavailable()))
}

#[cfg(test)]
mod tests;
