//! The read-only endpoint: what the engine alone knows, for who may know it.
//!
//! Numbers, positions and expected starts of all that wait change all the time.
//! Written into status they would cost a write a job; here they cost nothing
//! until somebody asks (docs/endpoint.md).

mod access;
mod overview;
mod tls;

pub use overview::{Overview, Waiting};
pub use tls::Certificate;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use kube::Client;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{Mutex, Semaphore, oneshot};
use tokio::time::Instant;
use tracing::info;
use trellis_scheduler::Snapshot;

use crate::scheduling::Feed;
use crate::world::World;
use access::{Denied, Wants};

/// So long the same answer is given: who asks often does not slow the engine.
const FRESH: Duration = Duration::from_secs(2);
/// Longest wait for the engine and for the API server together.
const PATIENCE: Duration = Duration::from_secs(30);
/// Requests that are worked on at once. Others are refused: each costs the API
/// server two reviews, whoever sends it.
const AT_ONCE: usize = 16;

/// Where and as whom it listens.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Listen {
    /// Address and port of the read-only endpoint (HTTPS). Without: none.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Folder with tls.crt and tls.key, read again when they change. Without: a
    /// certificate of its own, made at every start, that no client can know.
    #[arg(long, value_name = "FOLDER", requires = "listen")]
    pub tls: Option<std::path::PathBuf>,
}

/// The endpoint of one leader.
struct Endpoint {
    world: Arc<World>,
    client: Client,
    turns: Semaphore,
    last: Mutex<Option<(Instant, Arc<Overview>)>>,
}

/// Answers until the process ends.
///
/// # Errors
/// If the address cannot be listened on.
pub async fn serve(
    address: SocketAddr,
    certificate: Certificate,
    world: Arc<World>,
    client: Client,
) -> anyhow::Result<()> {
    let config = certificate.config().await?;
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    info!(address = %listener.local_addr()?, "the read-only endpoint listens");
    let endpoint = Endpoint {
        world,
        client,
        turns: Semaphore::new(AT_ONCE),
        last: Mutex::new(None),
    };
    let served = axum_server::from_tcp_rustls(listener, config.clone())?
        .serve(router(endpoint).into_make_service());
    tokio::select! {
        served = served => served?,
        () = certificate.follow(&config) => {}
    }
    Ok(())
}

fn router(endpoint: Endpoint) -> Router {
    Router::new()
        .route("/v1alpha1/waiting", get(waiting))
        .route("/v1alpha1/snapshot", get(snapshot))
        .fallback(async |uri: Uri| Failure::no_such_path(&uri))
        .with_state(Arc::new(endpoint))
}

/// Whom it is about.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scope {
    /// One namespace. None: all.
    namespace: Option<String>,
}

async fn waiting(
    State(endpoint): State<Arc<Endpoint>>,
    headers: HeaderMap,
    scope: Result<Query<Scope>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Failure> {
    let Query(scope) = scope.map_err(|error| Failure::bad_request(error.body_text()))?;
    let namespace = scope.namespace.as_deref();
    let overview = endpoint
        .turn(async {
            access::check(&endpoint.client, &headers, Wants::Jobs(namespace)).await?;
            endpoint.overview().await
        })
        .await?;
    Ok(match namespace {
        None => Json(&*overview).into_response(),
        Some(namespace) => Json(overview.of(namespace)).into_response(),
    })
}

async fn snapshot(
    State(endpoint): State<Arc<Endpoint>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let snapshot = endpoint
        .turn(async {
            access::check(&endpoint.client, &headers, Wants::Path(uri.path())).await?;
            ask(&endpoint.world).await
        })
        .await?;
    let name = crate::snapshot::name(&snapshot);
    let as_file = format!("attachment; filename=\"{name}\"");
    Ok(([(header::CONTENT_DISPOSITION, as_file)], Json(*snapshot)).into_response())
}

/// Asks the scheduler for all that its engine knows.
///
/// # Errors
/// If it does not run, or not yet.
pub async fn ask(world: &World) -> Result<Box<Snapshot>, Failure> {
    let (answer, snapshot) = oneshot::channel();
    world.tell(Feed::AskSnapshot(answer));
    snapshot.await.map_err(|_| Failure::unavailable())
}

impl Endpoint {
    /// Does one request's work, if not too many are being worked on.
    async fn turn<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let Ok(_turn) = self.turns.try_acquire() else {
            return Err(Failure::too_many());
        };
        let done = tokio::time::timeout(PATIENCE, work).await;
        done.unwrap_or_else(|_| Err(Failure::unavailable()))
    }

    /// All that wait. One at a time asks the engine; who comes meanwhile gets the same.
    async fn overview(&self) -> Result<Arc<Overview>, Failure> {
        let mut last = self.last.lock().await;
        if let Some((at, overview)) = &*last
            && at.elapsed() < FRESH
        {
            return Ok(overview.clone());
        }
        let snapshot = ask(&self.world).await?;
        let world = self.world.clone();
        let made = tokio::task::spawn_blocking(move || {
            let (classes, nodes) = (world.device_classes.all(), || world.nodes.all());
            Overview::of_snapshot(&snapshot, &classes, nodes)
        });
        let overview = Arc::new(made.await.map_err(|_| Failure::unavailable())?);
        *last = Some((Instant::now(), overview.clone()));
        Ok(overview)
    }
}

/// A request that is not answered, as the API server says it.
#[derive(Debug)]
pub struct Failure {
    code: StatusCode,
    message: String,
}

impl Failure {
    fn new(code: StatusCode, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }

    fn bad_request(message: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    fn no_such_path(uri: &Uri) -> Self {
        let message = format!(
            "there is nothing at {:?}: ask for /v1alpha1/waiting or /v1alpha1/snapshot",
            uri.path()
        );
        Self::new(StatusCode::NOT_FOUND, message)
    }

    fn too_many() -> Self {
        let message = "too many requests are being answered: ask again in a second";
        Self::new(StatusCode::TOO_MANY_REQUESTS, message)
    }

    fn unavailable() -> Self {
        let message = "the scheduler does not answer: ask again in a while";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }
}

impl From<Denied> for Failure {
    fn from(denied: Denied) -> Self {
        let code = match denied {
            Denied::Unauthenticated(_) => StatusCode::UNAUTHORIZED,
            Denied::Forbidden(_) => StatusCode::FORBIDDEN,
            Denied::Unknown(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(code, denied.to_string())
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "code": self.code.as_u16(), "message": self.message,
            "reason": self.code.canonical_reason().unwrap_or_default().replace(' ', ""),
        });
        (self.code, Json(status)).into_response()
    }
}
