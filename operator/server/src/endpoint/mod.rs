//! The read-only endpoint, which shows the engine's knowledge to authorized callers.
//!
//! Counts, positions and expected starts of waiting jobs change all the time. In status they would
//! cost a write per job; here they cost nothing until a caller asks (docs/endpoint.md).
//!
//! `access` authorizes, `admission` limits requests, `lately` caches answers, `fair` keeps one
//! client from starving others, `front_proxy` authenticates requests of the API server,
//! `visibility` is the aggregated API group, and `overview` and `told` serve direct requests.

pub(crate) mod access;
pub(crate) mod admission;
mod failure;
pub(crate) mod fair;
mod front_proxy;
mod lately;
mod listen;
mod overview;
mod told;
mod visibility;

pub use failure::Failure;
pub use listen::{Given, Listen};
pub use overview::{Overview, Waiting};

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
use trellis_dispatch::Feed;
use trellis_dispatch::clients::Clients;
use trellis_dispatch::context::Context;
use trellis_scheduler::Snapshot;

use crate::serve::{Identity, Kept, Limits, Shown};
use crate::telemetry::Lead;
use crate::webhook::Readiness;
use crate::{serve, telemetry};
use access::Wants;
use admission::{Admission, Turn};
use told::Download;
use visibility::Looks;

/// How long an answer is reused, so that frequent requests do not slow the engine.
const FRESH: Duration = Duration::from_secs(2);

/// Limits of connections. A polling client reconnects.
const LIMITS: Limits = Limits {
    connections: 64,
    head_bytes: 64 << 10,
    head: Duration::from_secs(10),
    life: Duration::from_secs(50),
    last: Duration::from_secs(10),
};
/// Connections reserved for the API server: one for each concurrent request, and those that it has
/// not closed yet.
const OF_PROXIES: usize = 128;

/// Content type of answers.
const JSON: (header::HeaderName, &str) = (header::CONTENT_TYPE, "application/json");

/// The endpoint of one process.
struct Endpoint {
    lead: Lead,
    /// The admission webhook of this process, if it has one.
    webhook: Option<Readiness>,
    /// TLS identity of the endpoint.
    identity: Identity,
    admission: Admission,
    /// The last snapshot, shared by concurrent readers.
    download: Mutex<Weak<Download>>,
    looks: Looks,
}

impl Endpoint {
    fn new(lead: Lead, webhook: Option<Readiness>, identity: Identity, client: Client) -> Self {
        Self {
            lead,
            webhook,
            identity,
            admission: Admission::new(client),
            download: Mutex::default(),
            looks: Looks::default(),
        }
    }
}

/// Serves requests for as long as it is polled. Failures are retried here, because no other part of
/// the operator depends on the endpoint.
pub async fn serve(given: Given, lead: Lead, webhook: Option<Readiness>, clients: Clients) {
    let (address, visibility) = (given.address, given.visibility);
    let (identity, renewed) = given.identity(&clients.command);
    let endpoint = Endpoint::new(lead, webhook, identity.clone(), clients.command);
    let known = endpoint.admission.proxy.clone();
    let shows = {
        let known = known.clone();
        move |shown: &Shown| {
            let proxy = known.read().clone();
            proxy.is_some_and(|proxy| proxy.shows(shown))
        }
    };
    let kept = Kept {
        places: OF_PROXIES,
        of: Arc::new(shows),
    };
    let followed = async move {
        if visibility {
            front_proxy::follow(clients.watch, known).await;
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
        .route("/v1alpha1/waiting", get(waiting))
        .route("/v1alpha1/snapshot", get(snapshot))
        .route("/metrics", get(metrics));
    if visibility {
        router = router
            .route("/apis", any(visibility::answer))
            .route("/apis/{*rest}", any(visibility::answer))
            .route("/openapi/{*rest}", any(visibility::answer));
    }
    router
        .fallback(async |uri: Uri| Failure::no_such_path(&uri))
        .with_state(Arc::new(endpoint))
}

/// Query of a request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scope {
    /// One namespace. None: all.
    namespace: Option<String>,
}

async fn waiting(
    State(endpoint): State<Arc<Endpoint>>,
    shown: Option<Extension<Shown>>,
    headers: HeaderMap,
    scope: Result<Query<Scope>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Failure> {
    let Query(scope) = scope.map_err(|error| Failure::bad_request(error.body_text()))?;
    let namespace = scope.namespace.as_deref();
    let caller = endpoint.admission.caller(&headers, shown);
    let answer = admission::patient(async {
        caller.check(Wants::Jobs(namespace)).await?;
        let turn = caller.turn()?;
        let look = endpoint.looks.now(&endpoint.context()?).await?;
        look.waiting(turn).await?.answer(namespace)
    })
    .await?;
    Ok(([JSON], answer).into_response())
}

async fn snapshot(
    State(endpoint): State<Arc<Endpoint>>,
    uri: Uri,
    shown: Option<Extension<Shown>>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let caller = endpoint.admission.caller(&headers, shown);
    let download = admission::patient(async {
        caller.check(Wants::Path(uri.path())).await?;
        endpoint.download(caller.turn()?).await
    })
    .await?;
    let as_file = format!("attachment; filename=\"{}\"", download.name);
    let as_file = [(header::CONTENT_DISPOSITION, as_file)];
    Ok(([JSON], as_file, download.bytes()).into_response())
}

async fn metrics(
    State(endpoint): State<Arc<Endpoint>>,
    uri: Uri,
    shown: Option<Extension<Shown>>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let caller = endpoint.admission.caller(&headers, shown);
    let text = admission::patient(async {
        caller.check(Wants::Path(uri.path())).await?;
        let _turn = caller.turn()?;
        let leading = endpoint.lead.read().clone();
        let webhook = endpoint.webhook.as_ref();
        let text = telemetry::text(leading.as_ref(), webhook, &endpoint.identity);
        text.await.map_err(|_| Failure::unavailable())
    })
    .await?;
    Ok(([(header::CONTENT_TYPE, telemetry::FORMAT)], text).into_response())
}

/// Asks the scheduler for a snapshot of its engine.
///
/// # Errors
/// If the scheduler does not run, or not yet.
pub async fn ask(context: &Context) -> Result<Arc<Snapshot>, Failure> {
    let (answer, snapshot) = oneshot::channel();
    context.tell(Feed::AskSnapshot(answer));
    snapshot.await.map_err(|_| Failure::unavailable())
}

impl Endpoint {
    /// The context of this process, if it leads. A process that has lost the lease, or may have,
    /// does not know the current state.
    fn context(&self) -> Result<Arc<Context>, Failure> {
        let lead = self.lead.read();
        let leading = lead.as_ref().ok_or_else(Failure::stands_by)?;
        let leads = leading.commands.epoch();
        leads.map_err(|_| Failure::stands_by())?;
        Ok(leading.context.clone())
    }

    /// The engine's snapshot as a file. One request at a time serializes it.
    async fn download(&self, turn: Turn) -> Result<Arc<Download>, Failure> {
        let mut last = self.download.lock().await;
        if let Some(last) = Download::fresh(&last) {
            return Ok(last);
        }
        let snapshot = ask(&*self.context()?).await?;
        let made = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            Download::new(&snapshot)
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
    use crate::telemetry::Leading;

    fn turn() -> Turn {
        let turns = Arc::new(tokio::sync::Semaphore::new(1));
        Arc::new(turns.try_acquire_owned().unwrap())
    }

    #[tokio::test]
    async fn who_has_given_the_lease_up_stands_by() {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(nowhere).unwrap();
        for (left, leads) in [(3600, true), (0, false)] {
            let (context, _heard) = Context::new();
            let leadership = Leadership::with_left(Duration::from_secs(left));
            let commands = Commands::new(client.clone(), leadership);
            let lead = Arc::new(RwLock::new(Some(Leading { context, commands })));
            let endpoint = Endpoint::new(lead, None, Identity::default(), client.clone());
            let code = endpoint
                .context()
                .map(|_| ())
                .map_err(|failure| failure.code());
            assert_eq!(code, if leads { Ok(()) } else { Err(503) });
        }
    }

    #[tokio::test]
    async fn a_snapshot_is_written_once_while_it_is_read_and_then_anew() {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let (context, mut heard) = Context::new();
        let client = Client::try_from(nowhere).unwrap();
        let commands = Commands::new(client.clone(), Leadership::of_a_test());
        let lead = Arc::new(RwLock::new(Some(Leading { context, commands })));
        let endpoint = Endpoint::new(lead, None, Identity::default(), client);
        let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = asked.clone();
        tokio::spawn(async move {
            loop {
                for feed in heard.next().await {
                    if let Feed::AskSnapshot(answer) = feed {
                        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        let _ = answer.send(Arc::new(Engine::new().snapshot()));
                    }
                }
            }
        });
        let asked = || asked.load(std::sync::atomic::Ordering::SeqCst);
        let one = endpoint.download(turn()).await.unwrap().bytes();
        let other = endpoint.download(turn()).await.unwrap().bytes();
        assert_eq!((one.as_ptr(), asked()), (other.as_ptr(), 1));
        assert!(one.starts_with(b"{"));
        drop((one, other));
        endpoint.download(turn()).await.unwrap();
        assert_eq!(asked(), 2, "nobody reads the first any more");
    }
}
