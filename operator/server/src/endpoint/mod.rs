//! The read-only endpoint, which shows the engine's knowledge to authorized callers.
//!
//! Counts, positions and expected starts of waiting jobs change all the time. In the status, each
//! change would cost a write per job. Here they cost nothing until a caller requests them
//! (docs/endpoint.md).
//!
//! `access` authorizes, `callers` limits requests, `ttl_cache` caches answers, and `fair_turns`
//! keeps one client from starving another. `front_proxy` authenticates requests of the API server,
//! `visibility` is the aggregated API group, and `waiting_jobs` and `serialized_answers` serve
//! direct requests.

pub(crate) mod access;
pub(crate) mod callers;
mod failure;
pub(crate) mod fair_turns;
mod front_proxy;
mod options;
mod serialized_answers;
mod ttl_cache;
mod visibility;
mod waiting_jobs;

pub use failure::Failure;
pub use options::{EndpointConfig, EndpointOptions};
pub use waiting_jobs::{WaitingJob, WaitingJobs};

use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::{Extension, Router};
use kube::Client;
use serde::Deserialize;
use tokio::sync::{Mutex, oneshot};
use tokio_util::sync::CancellationToken;
use trellis_dispatch::SchedulerEvent;
use trellis_dispatch::clients::Clients;
use trellis_dispatch::context::Context;
use trellis_scheduler::Snapshot;

use crate::serve::{ClientCertificates, ConnectionLimits, Identity, ReservedPlaces};
use crate::telemetry::LeaderSlot;
use crate::webhook::Readiness;
use crate::{serve, telemetry};
use access::RequiredRight;
use callers::{CallerLimits, RequestTurn};
use serialized_answers::SnapshotDownload;
use visibility::SnapshotViews;

/// How long an answer is reused, so that frequent requests do not slow the engine.
const ANSWER_TTL: Duration = Duration::from_secs(2);

/// Limits of connections. A polling client reconnects.
const LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 64,
    head_bytes: 64 << 10,
    head_timeout: Duration::from_secs(10),
    max_age: Duration::from_secs(50),
    shutdown_timeout: Duration::from_secs(10),
};
/// Connections reserved for the API server: one for each concurrent request, and further ones that
/// the API server has not closed yet.
const PROXY_CONNECTIONS: usize = 128;

/// Content type of answers.
const JSON: (header::HeaderName, &str) = (header::CONTENT_TYPE, "application/json");

/// The endpoint of one process.
struct Endpoint {
    leader: LeaderSlot,
    /// The admission webhook of this process, if it has one.
    webhook: Option<Readiness>,
    /// TLS identity of the endpoint.
    identity: Identity,
    callers: CallerLimits,
    /// The last snapshot, shared by concurrent readers.
    download: Mutex<Weak<SnapshotDownload>>,
    snapshot_views: SnapshotViews,
}

impl Endpoint {
    fn new(
        lead: LeaderSlot,
        webhook: Option<Readiness>,
        identity: Identity,
        client: Client,
    ) -> Self {
        Self {
            leader: lead,
            webhook,
            identity,
            callers: CallerLimits::new(client),
            download: Mutex::default(),
            snapshot_views: SnapshotViews::default(),
        }
    }
}

/// Serves requests as long as the future is polled. Retries failures itself, because no other part
/// of the operator depends on the endpoint.
pub async fn serve(
    given: EndpointConfig,
    lead: LeaderSlot,
    webhook: Option<Readiness>,
    clients: Clients,
) {
    let (address, visibility) = (given.address, given.visibility);
    let (identity, renewed) = given.into_identity(&clients.command);
    let endpoint = Endpoint::new(lead, webhook, identity.clone(), clients.command);
    let known = endpoint.callers.proxy.clone();
    let shows = {
        let known = known.clone();
        move |shown: &ClientCertificates| {
            let proxy = known.read().clone();
            proxy.is_some_and(|proxy| proxy.is_presented_in(shown))
        }
    };
    let kept = ReservedPlaces {
        count: PROXY_CONNECTIONS,
        is_for: Arc::new(shows),
    };
    let followed = async move {
        if visibility {
            front_proxy::follow_config(clients.watch, known).await;
        }
    };
    let router = router(endpoint, visibility);
    let listens = async {
        let listener = serve::bind(address, "the read-only endpoint").await;
        let on = CancellationToken::new();
        serve::serve(listener, LIMITS, Some(identity), Some(kept), router, on).await;
    };
    tokio::join!(listens, renewed, followed);
}

fn router(endpoint: Endpoint, visibility: bool) -> Router {
    let mut router = Router::new()
        .route("/v1alpha1/waiting", get(serve_waiting))
        .route("/v1alpha1/snapshot", get(serve_snapshot))
        .route("/metrics", get(serve_metrics));
    if visibility {
        router = router
            .route("/apis", any(visibility::serve))
            .route("/apis/{*rest}", any(visibility::serve))
            .route("/openapi/{*rest}", any(visibility::serve));
    }
    router
        .fallback(async |uri: Uri| Failure::no_such_path(&uri))
        .with_state(Arc::new(endpoint))
}

/// Query of a request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NamespaceQuery {
    /// One namespace. None: all.
    namespace: Option<String>,
}

async fn serve_waiting(
    State(endpoint): State<Arc<Endpoint>>,
    shown: Option<Extension<ClientCertificates>>,
    headers: HeaderMap,
    scope: Result<Query<NamespaceQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Failure> {
    let Query(scope) = scope.map_err(|error| Failure::bad_request(error.body_text()))?;
    let namespace = scope.namespace.as_deref();
    let caller = endpoint.callers.caller(&headers, shown);
    let answer = callers::with_timeout(async {
        caller.require_right(RequiredRight::Jobs(namespace)).await?;
        let turn = caller.take_turn()?;
        let look = endpoint
            .snapshot_views
            .current(&endpoint.leader_context()?)
            .await?;
        look.waiting(turn).await?.answer(namespace)
    })
    .await?;
    Ok(([JSON], answer).into_response())
}

async fn serve_snapshot(
    State(endpoint): State<Arc<Endpoint>>,
    uri: Uri,
    shown: Option<Extension<ClientCertificates>>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let caller = endpoint.callers.caller(&headers, shown);
    let download = callers::with_timeout(async {
        caller
            .require_right(RequiredRight::Path(uri.path()))
            .await?;
        endpoint.snapshot_download(caller.take_turn()?).await
    })
    .await?;
    let as_file = format!("attachment; filename=\"{}\"", download.name);
    let as_file = [(header::CONTENT_DISPOSITION, as_file)];
    Ok(([JSON], as_file, download.into_bytes()).into_response())
}

async fn serve_metrics(
    State(endpoint): State<Arc<Endpoint>>,
    uri: Uri,
    shown: Option<Extension<ClientCertificates>>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let caller = endpoint.callers.caller(&headers, shown);
    let text = callers::with_timeout(async {
        caller
            .require_right(RequiredRight::Path(uri.path()))
            .await?;
        let _turn = caller.take_turn()?;
        let leading = endpoint.leader.read().clone();
        let webhook = endpoint.webhook.as_ref();
        let text = telemetry::render_metrics(leading.as_ref(), webhook, &endpoint.identity);
        text.await.map_err(|_| Failure::unavailable())
    })
    .await?;
    Ok(([(header::CONTENT_TYPE, telemetry::OPENMETRICS_TYPE)], text).into_response())
}

/// Requests a snapshot of the engine from the scheduler.
///
/// # Errors
/// If the scheduler does not run (yet).
pub async fn request_snapshot(context: &Context) -> Result<Arc<Snapshot>, Failure> {
    let (answer, snapshot) = oneshot::channel();
    context.send_event(SchedulerEvent::AskSnapshot(answer));
    snapshot.await.map_err(|_| Failure::unavailable())
}

impl Endpoint {
    /// Returns the context of this process, if it leads. A process that has lost the lease, or may
    /// have lost it, does not know the current state.
    fn leader_context(&self) -> Result<Arc<Context>, Failure> {
        let lead = self.leader.read();
        let leading = lead.as_ref().ok_or_else(Failure::standby)?;
        let leads = leading.commands.epoch();
        leads.map_err(|_| Failure::standby())?;
        Ok(leading.context.clone())
    }

    /// Returns the engine's snapshot as a file. One request at a time serializes it.
    async fn snapshot_download(&self, turn: RequestTurn) -> Result<Arc<SnapshotDownload>, Failure> {
        let mut last = self.download.lock().await;
        if let Some(last) = SnapshotDownload::reuse(&last) {
            return Ok(last);
        }
        let snapshot = request_snapshot(&*self.leader_context()?).await?;
        let made = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            SnapshotDownload::new(&snapshot)
        });
        let made = Arc::new(made.await.map_err(|_| Failure::unavailable())??);
        *last = Arc::downgrade(&made);
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::RwLock;
    use trellis_dispatch::commands::Commands;
    use trellis_dispatch::leader::Leadership;
    use trellis_scheduler::Engine;

    use super::*;
    use crate::telemetry::ActiveLeader;

    fn turn() -> RequestTurn {
        let turns = Arc::new(tokio::sync::Semaphore::new(1));
        Arc::new(turns.try_acquire_owned().unwrap())
    }

    #[tokio::test]
    async fn endpoint_without_the_lease_answers_unavailable() {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(nowhere).unwrap();
        for (left, leads) in [(3600, true), (0, false)] {
            let (context, _heard) = Context::new();
            let leadership = Leadership::with_remaining(Duration::from_secs(left));
            let commands = Commands::new(client.clone(), leadership);
            let lead = Arc::new(RwLock::new(Some(ActiveLeader { context, commands })));
            let endpoint = Endpoint::new(lead, None, Identity::default(), client.clone());
            let code = endpoint
                .leader_context()
                .map(|_| ())
                .map_err(|failure| failure.code());
            assert_eq!(code, if leads { Ok(()) } else { Err(503) });
        }
    }

    #[tokio::test]
    async fn snapshot_is_serialized_once_for_concurrent_readers() {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let (context, mut heard) = Context::new();
        let client = Client::try_from(nowhere).unwrap();
        let commands = Commands::new(client.clone(), Leadership::for_test());
        let lead = Arc::new(RwLock::new(Some(ActiveLeader { context, commands })));
        let endpoint = Endpoint::new(lead, None, Identity::default(), client);
        let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = asked.clone();
        tokio::spawn(async move {
            loop {
                for feed in heard.next().await {
                    if let SchedulerEvent::AskSnapshot(answer) = feed {
                        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        let _ = answer.send(Arc::new(Engine::new().snapshot()));
                    }
                }
            }
        });
        let asked = || asked.load(std::sync::atomic::Ordering::SeqCst);
        let one = endpoint
            .snapshot_download(turn())
            .await
            .unwrap()
            .into_bytes();
        let other = endpoint
            .snapshot_download(turn())
            .await
            .unwrap()
            .into_bytes();
        assert_eq!((one.as_ptr(), asked()), (other.as_ptr(), 1));
        assert!(one.starts_with(b"{"));
        drop((one, other));
        endpoint.snapshot_download(turn()).await.unwrap();
        assert_eq!(asked(), 2, "nobody reads the first any more");
    }
}
