//! The read-only endpoint, which shows the engine's knowledge to authorized callers.
//!
//! Counts, positions and expected starts of waiting jobs change all the time. In the status, each
//! change would cost a write per job. Here they cost nothing until a caller requests them
//! (docs/endpoint.md).
//!
//! `state` holds the sources of all answers. `visibility` is the aggregated API group, and
//! `waiting_jobs` and `serialized_answers` serve direct requests.

mod options;
mod serialized_answers;
mod state;
mod visibility;
mod waiting_jobs;

pub use options::{EndpointConfig, EndpointOptions};
#[cfg(feature = "fixtures")]
pub(crate) use visibility::parse_request;
pub use waiting_jobs::{WaitingJob, WaitingJobs};

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::{Extension, Router};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use trellis_compiler::Settings;
use trellis_dispatch::clients::Clients;

use crate::callers::access::RequiredRight;
use crate::callers::{self, Failure, front_proxy};
use crate::serve::{ClientCertificates, ConnectionLimits, ReservedPlaces};
use crate::telemetry::LeaderSlot;
use crate::webhook::Readiness;
use crate::{serve, telemetry};
use state::Endpoint;

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
const PROXY_CONNECTIONS: usize = 128 + state::MAX_WATCHES;

/// Content type of answers.
const JSON: (header::HeaderName, &str) = (header::CONTENT_TYPE, "application/json");

/// Serves requests as long as the future is polled. Retries failures itself, because no other part
/// of the operator depends on the endpoint.
pub async fn serve(
    config: EndpointConfig,
    lead: LeaderSlot,
    webhook: Option<Readiness>,
    clients: Clients,
    settings: Arc<Settings>,
) {
    let (address, visibility) = (config.address, config.visibility);
    let (identity, renewed) = config.into_identity(&clients.command);
    let endpoint = Endpoint::new(lead, webhook, identity.clone(), clients.command, settings);
    let trusted_proxy = endpoint.callers.proxy.clone();
    let is_api_server = {
        let trusted_proxy = trusted_proxy.clone();
        move |certificates: &ClientCertificates| {
            let proxy = trusted_proxy.read().clone();
            proxy.is_some_and(|proxy| proxy.is_presented_in(certificates))
        }
    };
    let reserved = ReservedPlaces {
        count: PROXY_CONNECTIONS,
        is_for: Arc::new(is_api_server),
    };
    let proxy_updates = async move {
        if visibility {
            front_proxy::follow_config(clients.watch, trusted_proxy).await;
        }
    };
    let router = router(endpoint, visibility);
    let server = async {
        let listener = serve::bind(address, "the read-only endpoint").await;
        let never_stops = CancellationToken::new();
        serve::serve(
            listener,
            LIMITS,
            Some(identity),
            Some(reserved),
            router,
            never_stops,
        )
        .await;
    };
    tokio::join!(server, renewed, proxy_updates);
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
    callers::limit_time(router)
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
    certificates: Option<Extension<ClientCertificates>>,
    headers: HeaderMap,
    scope: Result<Query<NamespaceQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Failure> {
    let Query(scope) = scope.map_err(|error| Failure::bad_request(error.body_text()))?;
    let namespace = scope.namespace.as_deref();
    let caller = endpoint.callers.caller(&headers, certificates);
    let turn = caller.admit(RequiredRight::Jobs(namespace)).await?;
    let context = endpoint.leader_context()?;
    let view = endpoint.snapshot_views.current(&context).await?;
    let answer = view.waiting(turn).await?.answer(namespace)?;
    Ok(([JSON], answer).into_response())
}

async fn serve_snapshot(
    State(endpoint): State<Arc<Endpoint>>,
    uri: Uri,
    certificates: Option<Extension<ClientCertificates>>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let caller = endpoint.callers.caller(&headers, certificates);
    let turn = caller.admit(RequiredRight::Path(uri.path())).await?;
    let download = endpoint.snapshot_download(turn).await?;
    let as_file = format!("attachment; filename=\"{}\"", download.name);
    let as_file = [(header::CONTENT_DISPOSITION, as_file)];
    Ok(([JSON], as_file, download.into_bytes()).into_response())
}

async fn serve_metrics(
    State(endpoint): State<Arc<Endpoint>>,
    uri: Uri,
    certificates: Option<Extension<ClientCertificates>>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let caller = endpoint.callers.caller(&headers, certificates);
    let _turn = caller.admit(RequiredRight::Path(uri.path())).await?;
    let leading = endpoint.leader.read().clone();
    let webhook = endpoint.webhook.as_ref();
    let text = telemetry::render_metrics(leading.as_ref(), webhook, &endpoint.identity);
    let text = text.await.map_err(|_| Failure::unavailable())?;
    Ok(([(header::CONTENT_TYPE, telemetry::OPENMETRICS_TYPE)], text).into_response())
}
