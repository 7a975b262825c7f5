//! HTTP server of the webhook. The server limits the size and time of each request, and the memory
//! and cores of all requests together. It passes a request with a warning if it cannot answer in
//! time.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use kube::Client;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use trellis_cache::policy::STAMP_PATH;
use trellis_compiler::Settings;
use trellis_dispatch::evaluation_turns::share_core;
use trellis_machine::threads;
use trellis_policies::cedar::PolicyLoader;

use super::answer::{ReviewAnswer, ReviewDecision};
use super::caches::WebhookCaches;
use super::judge::ObjectKind;
use super::judgement::{Judge, JudgedRequest};
use super::metrics::WebhookMetrics;
use super::review::{self, MalformedReview};
use super::stamp::{self, StampAnswer};
use crate::callers::access::RequiredRight;
use crate::callers::fair_turns::{FairTurn, FairTurns};
use crate::callers::{self, CallerLimits, Failure};
use crate::serve;
use crate::serve::{
    ClientCertificates, ConnectionLimits, Identity, late_body, read_body, too_large,
};

/// Largest body: the API server's own limit for a request.
const MAX_BODY: usize = 3 << 20;
/// Path to which the API server sends reviews.
pub(super) const VALIDATE_PATH: &str = "/validate";

/// Memory for all bodies together, in KiB.
const BODY_MEMORY_KIB: usize = 64 << 10;
/// Longest wait for a body, and for memory for it.
const READ_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest wait for a decision. Together with [`READ_TIMEOUT`] it is well below the chart's
/// `timeoutSeconds`.
const DECISION_TIMEOUT: Duration = Duration::from_millis(1_500);
/// Longest wait for a core. Under more load the server answers "undecided" at once.
const CORE_TIMEOUT: Duration = Duration::from_millis(500);
/// How far the caches may be behind. The webhook must not refuse a job only because the policy or
/// queue applied with it is not in the caches yet.
const CACHE_LAG: Duration = Duration::from_millis(300);
/// An API server keeps some connections open, and opens one for each further request. All request
/// heads together take little memory compared with the bodies.
const LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 512,
    head_bytes: 32 << 10,
    head_timeout: Duration::from_secs(20),
    max_age: Duration::from_secs(300),
    shutdown_timeout: Duration::from_secs(5),
};

/// Server that answers reviews.
pub(super) struct WebhookServer {
    caches: WebhookCaches,
    loader: PolicyLoader,
    settings: Arc<Settings>,
    identity: Identity,
    is_shutting_down: CancellationToken,
    /// Authorizes readers of metrics.
    callers: CallerLimits,
    metrics: Arc<WebhookMetrics>,
    /// Memory for bodies, in KiB, by client address.
    body_memory: FairTurns<IpAddr>,
    /// Cores for decisions, by client address. A client with many requests gets only the cores that
    /// other clients leave, and cannot delay them.
    cores: Arc<FairTurns<IpAddr>>,
    /// Cores by namespace. A namespace gets at most half of them, because one object can take long:
    /// the webhook compiles all policies of an object in one go.
    namespaces: FairTurns<(IpAddr, String)>,
    /// When overload was last logged, in seconds.
    last_overload_log: AtomicU64,
    started_at: Instant,
}

impl WebhookServer {
    pub(super) fn new(
        caches: WebhookCaches,
        loader: PolicyLoader,
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
            is_shutting_down: is_leaving,
            callers: CallerLimits::new(client),
            metrics: Arc::new(WebhookMetrics::new()),
            body_memory: FairTurns::half_per_caller(BODY_MEMORY_KIB),
            cores: Arc::new(FairTurns::all_per_caller(cores)),
            namespaces: FairTurns::half_per_caller(cores),
            last_overload_log: AtomicU64::new(0),
            started_at: Instant::now(),
        }
    }

    /// Answers requests until `stop` is cancelled.
    pub(super) async fn serve(self, address: std::net::SocketAddr, stop: CancellationToken) {
        let identity = self.identity.clone();
        let listener = serve::bind(address, "the admission webhook").await;
        serve::serve(listener, LIMITS, Some(identity), None, router(self), stop).await;
    }

    async fn review(&self, request: HttpRequest) -> Result<Response, Failure> {
        let began = Instant::now();
        let _in_flight = self.metrics.track_request();
        let address = client_address(&request);
        let (_room, body) = self.read_request(request, address).await?;
        let uid = review::read_uid(&body).map_err(malformed)?;
        let (kind, answer) =
            match tokio::time::timeout(DECISION_TIMEOUT, self.decide(body, address)).await {
                Err(_) => (ObjectKind::Other, self.overload_answer()),
                Ok(decided) => decided?,
            };
        self.metrics
            .count_answer(kind, answer.decision, began.elapsed());
        Ok(Json(review::review_body(answer, uid)).into_response())
    }

    /// Answers with the patch that corrects the requester stamp of a job.
    async fn stamp(&self, request: HttpRequest) -> Result<Response, Failure> {
        let began = Instant::now();
        let _in_flight = self.metrics.track_request();
        let address = client_address(&request);
        let (_room, body) = self.read_request(request, address).await?;
        let uid = review::read_uid(&body).map_err(malformed)?;
        let answer = match self.acquire_turns(&body, address).await {
            None => {
                self.log_overload();
                StampAnswer::Skipped
            }
            Some(turns) => {
                let corrected = threads::spawn_blocking(move || {
                    let _turns = turns;
                    review::parse_request(&body).map(|request| stamp::correct_stamp(&request))
                });
                let corrected = corrected.await;
                corrected.map_err(unjudged)?.map_err(malformed)?
            }
        };
        self.metrics
            .count_answer(ObjectKind::Job, answer.decision(), began.elapsed());
        Ok(Json(answer.into_body(uid)).into_response())
    }

    /// Reads the whole body once there is memory for it.
    async fn read_request(
        &self,
        request: HttpRequest,
        address: IpAddr,
    ) -> Result<(FairTurn, Bytes), Failure> {
        let declared = request.headers().get(header::CONTENT_LENGTH);
        let declared = declared.and_then(|l| l.to_str().ok()?.parse::<usize>().ok());
        let size = declared.unwrap_or(MAX_BODY);
        if size > MAX_BODY {
            return Err(too_large(MAX_BODY));
        }
        let kib = u32::try_from(size.div_ceil(1 << 10)).unwrap_or(u32::MAX);
        let body = request.into_body();
        let read = async {
            let room = self.body_memory.acquire_many(address, kib).await;
            let room = room.map_err(|_| Failure::too_many_requests())?;
            Ok((room, read_body(body, MAX_BODY).await?))
        };
        let read = tokio::time::timeout(READ_TIMEOUT, read).await;
        read.unwrap_or_else(|_| Err(late_body(READ_TIMEOUT)))
    }

    /// Judges a request. Checks a refusal again, because the caches may be a moment behind.
    async fn decide(
        &self,
        body: Bytes,
        address: IpAddr,
    ) -> Result<(ObjectKind, ReviewAnswer), Failure> {
        let Some(review) = self.judge_once(&body, address).await? else {
            return Ok((ObjectKind::Other, self.overload_answer()));
        };
        if review.judged.answer.decision != ReviewDecision::Refused || !review.judged.may_be_behind
        {
            return Ok(review.log_decision());
        }
        tokio::time::sleep(CACHE_LAG).await;
        let context = self.caches.context();
        context
            .cache
            .policies
            .wait_settled(&review.identity.namespace)
            .await;
        let again = self.judge_once(&body, address).await?;
        Ok(again.map_or_else(
            || (ObjectKind::Other, self.overload_answer()),
            JudgedReview::log_decision,
        ))
    }

    /// Judges the request once, on a blocking thread. None: no core is free.
    async fn judge_once(
        &self,
        body: &Bytes,
        address: IpAddr,
    ) -> Result<Option<JudgedReview>, Failure> {
        let Some((turn, core)) = self.acquire_turns(body, address).await else {
            return Ok(None);
        };
        let context = self.caches.context();
        let cores = self.cores.clone();
        // A decision whose client is gone holds at most one core. It gives the core to the next
        // decision after each slice.
        let acquire = move || {
            let cores = cores.clone();
            async move { cores.acquire(address).await.ok() }
        };
        let policies = share_core(context.cache.policies.active(), Some(core), acquire);
        let judge = Judge {
            context,
            policies,
            loader: self.loader.clone(),
            settings: self.settings.clone(),
        };
        let body = body.clone();
        let judging = threads::spawn_blocking(move || {
            let _turn = turn;
            let request = review::parse_request(&body)?;
            let about = ReviewIdentity {
                kind: ObjectKind::from_request(&request),
                namespace: request.namespace.clone().unwrap_or_default(),
                name: request.name.clone(),
                user: request.user_info.username.clone().unwrap_or_default(),
                dry_run: request.dry_run,
            };
            Ok(JudgedReview {
                identity: about,
                judged: judge.judge(request),
            })
        });
        match judging.await {
            Ok(judged) => judged.map(Some).map_err(malformed),
            Err(error) => Err(unjudged(error)),
        }
    }

    /// Acquires a turn of the request's namespace, and a core. None: no core is free.
    async fn acquire_turns(&self, body: &Bytes, address: IpAddr) -> Option<(FairTurn, FairTurn)> {
        let turns = async {
            let namespace = (address, review::read_namespace(body));
            let turn = self.namespaces.acquire(namespace).await.ok()?;
            Some((turn, self.cores.acquire(address).await.ok()?))
        };
        let acquired = tokio::time::timeout(CORE_TIMEOUT, turns).await;
        acquired.ok().flatten()
    }

    fn report_failure(&self, failure: Failure) -> Response {
        self.metrics.count_failure(failure.code());
        debug!(%failure, "a request is not answered");
        failure.into_response()
    }

    /// Passes the request with a warning.
    fn overload_answer(&self) -> ReviewAnswer {
        self.log_overload();
        ReviewAnswer::undecided("too much is being asked for an early answer")
    }

    /// Logs overload at most once a second.
    fn log_overload(&self) {
        let now = self.started_at.elapsed().as_secs().saturating_add(1);
        if self.last_overload_log.swap(now, Ordering::Relaxed) != now {
            warn!("too many ask the admission webhook: they pass, and the controller decides");
        }
    }
}

/// One judgement of a request.
struct JudgedReview {
    identity: ReviewIdentity,
    judged: JudgedRequest,
}

/// Identity of a request for the log.
struct ReviewIdentity {
    kind: ObjectKind,
    namespace: String,
    name: String,
    user: String,
    dry_run: bool,
}

impl JudgedReview {
    /// Logs the decision and returns it.
    fn log_decision(self) -> (ObjectKind, ReviewAnswer) {
        let ReviewIdentity {
            kind,
            namespace,
            name,
            user,
            dry_run,
        } = self.identity;
        let answer = self.judged.answer;
        let reason = answer.reason.map_or("", trellis_api::Reason::as_str);
        let (of, decision) = (kind.as_str(), answer.decision.as_str());
        if answer.decision == ReviewDecision::Refused {
            info!(kind = of, %namespace, %name, %user, dry_run, reason, "refused at admission");
        } else {
            debug!(kind = of, %namespace, %name, %user, dry_run, reason, decision, "admitted");
        }
        (kind, answer)
    }
}

fn unavailable(why: &str) -> Failure {
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, why)
}

fn unjudged(error: impl std::fmt::Display) -> Failure {
    warn!(%error, "a request could not be looked at");
    unavailable("the request could not be looked at")
}

fn client_address(request: &HttpRequest) -> IpAddr {
    let certificates = request.extensions().get::<ClientCertificates>().cloned();
    certificates.unwrap_or_default().address()
}

fn malformed(why: MalformedReview) -> Failure {
    Failure::new(StatusCode::BAD_REQUEST, why.to_string())
}

fn router(server: WebhookServer) -> Router {
    let metrics = Router::new().route("/metrics", get(serve_metrics));
    Router::new()
        .route(VALIDATE_PATH, post(validate))
        .route(STAMP_PATH, post(write_stamp))
        .route("/readyz", get(serve_ready))
        .merge(callers::limit_time(metrics))
        .fallback(async || {
            let message =
                format!("there is nothing here: POST {VALIDATE_PATH} or {STAMP_PATH}, GET /readyz or /metrics");
            Failure::new(StatusCode::NOT_FOUND, message)
        })
        .with_state(Arc::new(server))
}

async fn validate(State(server): State<Arc<WebhookServer>>, request: HttpRequest) -> Response {
    let answered = server.review(request).await;
    answered.unwrap_or_else(|failure| server.report_failure(failure))
}

async fn write_stamp(State(server): State<Arc<WebhookServer>>, request: HttpRequest) -> Response {
    let answered = server.stamp(request).await;
    answered.unwrap_or_else(|failure| server.report_failure(failure))
}

/// Readiness for reviews.
async fn serve_ready(State(server): State<Arc<WebhookServer>>) -> Result<&'static str, Failure> {
    let why = if server.is_shutting_down.is_cancelled() {
        "the process is stopping"
    } else if !server.caches.is_complete() {
        "the cluster has not been read yet"
    } else if server.caches.context().cache.stale_watch().is_some() {
        "a watch of the cluster has been silent for minutes"
    } else {
        return Ok("ok");
    };
    Err(unavailable(why))
}

async fn serve_metrics(
    State(server): State<Arc<WebhookServer>>,
    certificates: Option<Extension<ClientCertificates>>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Failure> {
    let caller = server.callers.caller(&headers, certificates);
    let _turn = caller.admit(RequiredRight::Path("/metrics")).await?;
    let text = server.metrics.render(&server.identity);
    let text = text.map_err(|_| unavailable("the metrics could not be written"))?;
    Ok((
        [(header::CONTENT_TYPE, crate::telemetry::OPENMETRICS_TYPE)],
        text,
    ))
}

#[cfg(test)]
mod tests;
