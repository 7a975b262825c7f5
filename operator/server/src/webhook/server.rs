//! HTTP server of the webhook. Each request is limited in size and time, and all together in memory
//! and cores. A request that cannot be answered in time passes, with a warning.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request as HttpRequest, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use http_body_util::LengthLimitError;
use kube::Client;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use trellis_compiler::Settings;
use trellis_dispatch::turns::share;
use trellis_policies::cedar::Loader;

use super::answer::{Answer, Decision};
use super::caches::Caches;
use super::judge::{Judge, Judged, Kind};
use super::metrics::Metrics;
use super::review::{self, Malformed};
use crate::endpoint::access::Wants;
use crate::endpoint::admission::Admission;
use crate::endpoint::fair::{Fair, FairTurn};
use crate::endpoint::{Failure, admission};
use crate::serve;
use crate::serve::{Identity, Limits, Shown};

/// Path of reviews.
pub(super) const PATH: &str = "/validate";

/// Largest body. The API server's own limit for a request is the same.
const BODY: usize = 3 << 20;
/// Room for bodies in memory, in KiB.
const BODIES: usize = 64 << 10;
/// Longest wait for a body, and for room for it.
const READ: Duration = Duration::from_secs(1);
/// Longest wait for a decision. Together with [`READ`] it is well below `timeoutSeconds` of the
/// chart.
const DECIDE: Duration = Duration::from_millis(1_500);
/// Longest wait for a core. Under more load an undecided answer at once is better.
const CORE: Duration = Duration::from_millis(500);
/// How far the caches may be behind. A job that is applied together with a policy or a queue must
/// not be refused because they are not known yet.
const BEHIND: Duration = Duration::from_millis(300);
/// An API server keeps some connections open, and opens one for each further request. The heads of
/// all together are small compared with the room for bodies.
const LIMITS: Limits = Limits {
    connections: 512,
    head_bytes: 32 << 10,
    head: Duration::from_secs(20),
    life: Duration::from_secs(300),
    last: Duration::from_secs(5),
};

/// Server that answers reviews.
pub(super) struct Server {
    caches: Caches,
    loader: Loader,
    settings: Arc<Settings>,
    identity: Identity,
    is_leaving: CancellationToken,
    /// Authorizes readers of metrics.
    admission: Admission,
    metrics: Arc<Metrics>,
    /// Room for bodies, in KiB, by address.
    room: Fair<IpAddr>,
    /// Cores for decisions, by address: a client with many requests gets what others leave, and
    /// does not queue in front of them.
    cores: Arc<Fair<IpAddr>>,
    /// A namespace gets at most half of the cores, because its objects may take long: all policies
    /// of an object are compiled in one go.
    namespaces: Fair<(IpAddr, String)>,
    /// When overload was last logged, in seconds.
    told: AtomicU64,
    began: Instant,
}

impl Server {
    pub(super) fn new(
        caches: Caches,
        loader: Loader,
        settings: Arc<Settings>,
        identity: Identity,
        client: Client,
        is_leaving: CancellationToken,
    ) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            caches,
            loader,
            settings,
            identity,
            is_leaving,
            admission: Admission::new(client),
            metrics: Arc::new(Metrics::new()),
            room: Fair::halves(BODIES),
            cores: Arc::new(Fair::rounds(cores)),
            namespaces: Fair::halves(cores),
            told: AtomicU64::new(0),
            began: Instant::now(),
        }
    }

    /// Answers until `stop` is cancelled.
    pub(super) async fn serve(self, address: std::net::SocketAddr, stop: CancellationToken) {
        let identity = self.identity.clone();
        let listener = serve::bind(address, "the admission webhook").await;
        serve::serve(listener, LIMITS, Some(identity), None, router(self), stop).await;
    }

    async fn review(&self, request: HttpRequest) -> Result<Response, Failure> {
        let began = Instant::now();
        let _in_flight = self.metrics.enter();
        let shown = request.extensions().get::<Shown>().cloned();
        let from = shown.unwrap_or_default().address();
        let (_room, body) = self.read(request, from).await?;
        let uid = review::uid(&body).map_err(malformed)?;
        let (kind, answer) = match tokio::time::timeout(DECIDE, self.decide(body, from)).await {
            Err(_) => (Kind::Other, self.busy()),
            Ok(decided) => decided?,
        };
        self.metrics
            .answered(kind, answer.decision, began.elapsed());
        Ok(Json(review::body(answer, uid)).into_response())
    }

    /// Reads the whole body, within its room in memory.
    async fn read(&self, request: HttpRequest, from: IpAddr) -> Result<(FairTurn, Bytes), Failure> {
        let declared = request.headers().get(header::CONTENT_LENGTH);
        let declared = declared.and_then(|l| l.to_str().ok()?.parse::<usize>().ok());
        let size = declared.unwrap_or(BODY);
        if size > BODY {
            return Err(too_large());
        }
        let kib = u32::try_from(size.div_ceil(1 << 10)).unwrap_or(u32::MAX);
        let body = request.into_body();
        let read = async {
            let room = self.room.acquire_many(from, kib).await;
            let room = room.map_err(|_| Failure::too_many())?;
            Ok((room, whole(body).await?))
        };
        let read = tokio::time::timeout(READ, read).await;
        read.unwrap_or_else(|_| {
            let message = format!("the body has not come within {READ:?}: send it at once");
            Err(Failure::new(StatusCode::REQUEST_TIMEOUT, message))
        })
    }

    /// Judges a request. A refusal is checked again, because the caches may be a moment behind.
    async fn decide(&self, body: Bytes, from: IpAddr) -> Result<(Kind, Answer), Failure> {
        let Some(asked) = self.look(&body, from).await? else {
            return Ok((Kind::Other, self.busy()));
        };
        if asked.judged.answer.decision != Decision::Refused || !asked.judged.may_be_behind {
            return Ok(asked.told());
        }
        tokio::time::sleep(BEHIND).await;
        let context = self.caches.context();
        context.cache.policies.settled(&asked.about.namespace).await;
        let again = self.look(&body, from).await?;
        Ok(again.map_or_else(|| (Kind::Other, self.busy()), Asked::told))
    }

    /// Judges the request once, on a blocking thread. None: no core is free.
    async fn look(&self, body: &Bytes, from: IpAddr) -> Result<Option<Asked>, Failure> {
        let turns = async {
            let namespace = (from, review::namespace(body));
            let turn = self.namespaces.acquire(namespace).await.ok()?;
            Some((turn, self.cores.acquire(from).await.ok()?))
        };
        let Ok(Some((turn, core))) = tokio::time::timeout(CORE, turns).await else {
            return Ok(None);
        };
        let context = self.caches.context();
        let cores = self.cores.clone();
        // A decision without a waiting client still holds one core at most, and gives it to the
        // next after each slice.
        let acquire = move || {
            let cores = cores.clone();
            async move { cores.acquire(from).await.ok() }
        };
        let policies = share(context.cache.policies.active(), Some(core), acquire);
        let judge = Judge {
            context,
            policies,
            loader: self.loader.clone(),
            settings: self.settings.clone(),
        };
        let body = body.clone();
        let looked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let request = review::request(&body)?;
            let about = About {
                kind: Kind::of(&request),
                namespace: request.namespace.clone().unwrap_or_default(),
                name: request.name.clone(),
                user: request.user_info.username.clone().unwrap_or_default(),
                dry_run: request.dry_run,
            };
            Ok(Asked {
                about,
                judged: judge.judge(request),
            })
        });
        match looked.await {
            Ok(looked) => looked.map(Some).map_err(malformed),
            Err(error) => {
                warn!(%error, "a request could not be looked at");
                Err(unavailable("the request could not be looked at"))
            }
        }
    }

    /// Passes the request with a warning. Logs overload at most once a second.
    fn busy(&self) -> Answer {
        let now = self.began.elapsed().as_secs().saturating_add(1);
        if self.told.swap(now, Ordering::Relaxed) != now {
            warn!("too many ask the admission webhook: they pass, and the controller decides");
        }
        Answer::undecided("too much is being asked for an early answer")
    }
}

/// One judgement of a request.
struct Asked {
    about: About,
    judged: Judged,
}

/// Identity of a request for the log.
struct About {
    kind: Kind,
    namespace: String,
    name: String,
    user: String,
    dry_run: bool,
}

impl Asked {
    /// Logs the decision and returns it.
    fn told(self) -> (Kind, Answer) {
        let About {
            kind,
            namespace,
            name,
            user,
            dry_run,
        } = self.about;
        let answer = self.judged.answer;
        let reason = answer.reason.map_or("", trellis_api::Reason::as_str);
        let (of, decision) = (kind.as_str(), answer.decision.as_str());
        if answer.decision == Decision::Refused {
            info!(kind = of, %namespace, %name, %user, dry_run, reason, "refused at admission");
        } else {
            debug!(kind = of, %namespace, %name, %user, dry_run, reason, decision, "admitted");
        }
        (kind, answer)
    }
}

async fn whole(body: Body) -> Result<Bytes, Failure> {
    axum::body::to_bytes(body, BODY).await.map_err(|error| {
        let is_large =
            std::error::Error::source(&error).is_some_and(|e| e.is::<LengthLimitError>());
        if is_large {
            too_large()
        } else {
            Failure::new(
                StatusCode::BAD_REQUEST,
                format!("the body has not come: {error}"),
            )
        }
    })
}

fn too_large() -> Failure {
    let message = format!("the body has more than {BODY} bytes");
    Failure::new(StatusCode::PAYLOAD_TOO_LARGE, message)
}

fn unavailable(why: &str) -> Failure {
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, why)
}

fn malformed(why: Malformed) -> Failure {
    Failure::new(StatusCode::BAD_REQUEST, why.to_string())
}

fn router(server: Server) -> Router {
    Router::new()
        .route(PATH, post(validate))
        .route("/readyz", get(ready))
        .route("/metrics", get(tell))
        .fallback(async || {
            let message = format!("there is nothing here: POST {PATH}, GET /readyz or /metrics");
            Failure::new(StatusCode::NOT_FOUND, message)
        })
        .with_state(Arc::new(server))
}

async fn validate(State(server): State<Arc<Server>>, request: HttpRequest) -> Response {
    let answered = server.review(request).await;
    answered.unwrap_or_else(|failure| {
        server.metrics.not_answered(failure.code());
        debug!(%failure, "a request is not answered");
        failure.into_response()
    })
}

/// Readiness for reviews.
async fn ready(State(server): State<Arc<Server>>) -> Result<&'static str, Failure> {
    let why = if server.is_leaving.is_cancelled() {
        "it is told to stop"
    } else if !server.caches.is_complete() {
        "the cluster has not been read yet"
    } else if server.caches.context().cache.unseen().is_some() {
        "the cluster has not been heard of for minutes"
    } else {
        return Ok("ok");
    };
    Err(unavailable(why))
}

async fn tell(
    State(server): State<Arc<Server>>,
    shown: Option<Extension<Shown>>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Failure> {
    let caller = server.admission.caller(&headers, shown);
    admission::patient(caller.check(Wants::Path("/metrics"))).await?;
    let _turn = caller.turn()?;
    let text = server.metrics.text(&server.identity);
    let text = text.map_err(|_| unavailable("the metrics could not be written"))?;
    Ok(([(header::CONTENT_TYPE, crate::telemetry::FORMAT)], text))
}

#[cfg(test)]
mod tests;
