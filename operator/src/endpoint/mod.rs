//! The read-only endpoint: what the engine alone knows, for who may know it.
//!
//! Numbers, positions and expected starts of all that wait change all the time.
//! Written into status they would cost a write a job; here they cost nothing
//! until somebody asks (docs/endpoint.md).
//!
//! Where to look: `access` says who may, `front_proxy` whom the API server asks for,
//! `visibility` is the API group that it serves by us; `overview` and `told` are what
//! is read here directly.

pub(crate) mod access;
mod failure;
mod front_proxy;
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
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::Client;
use serde::Deserialize;
use tokio::sync::{Mutex, Semaphore, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use trellis_scheduler::Snapshot;

use crate::scheduling::Feed;
use crate::serve::{self, Limits, Shown};
use crate::telemetry::{self, Lead};
use crate::world::World;
use access::Wants;
use front_proxy::Known;
use told::{Download, Told};
use visibility::Looks;

/// So long the same answer is given: who asks often does not slow the engine.
const FRESH: Duration = Duration::from_secs(2);
/// Longest wait for the engine and for the API server together.
const PATIENCE: Duration = Duration::from_secs(30);
/// Reviews that the API server is asked for at once.
const REVIEWS: usize = 4;
/// Moments that are looked ahead at most: gangs that start or end. Beyond, an
/// expected start is of little worth.
const AHEAD: usize = 20_000;
/// Longest time to look ahead.
const LOOK_AHEAD: Duration = Duration::from_secs(2);
/// Requests that are worked on at once. Others are refused: each costs the API
/// server two reviews, whoever sends it.
const AT_ONCE: usize = 16;

/// Whoever polls comes again.
const LIMITS: Limits = Limits {
    connections: 64,
    head: Duration::from_secs(10),
    life: Duration::from_secs(50),
    last: Duration::from_secs(10),
};

/// What answers are.
const JSON: (header::HeaderName, &str) = (header::CONTENT_TYPE, "application/json");

/// The endpoint of one process.
struct Endpoint {
    lead: Lead,
    client: Client,
    turns: Semaphore,
    /// Few at once, and others wait: they are made in our own name.
    reviews: Semaphore,
    last: Arc<Mutex<Option<Last>>>,
    /// The last snapshot that was asked for: those who ask meanwhile read the same.
    download: Mutex<Weak<Download>>,
    /// Whom the API server asks as.
    proxy: Known,
    looks: Looks,
}

impl Endpoint {
    fn new(lead: Lead, client: Client) -> Self {
        Self {
            lead,
            client,
            turns: Semaphore::new(AT_ONCE),
            reviews: Semaphore::new(REVIEWS),
            last: Arc::default(),
            download: Mutex::default(),
            proxy: Known::default(),
            looks: Looks::default(),
        }
    }
}

/// What was answered last.
struct Last {
    at: Instant,
    /// What it took.
    took: Duration,
    told: Arc<Told>,
}

/// Answers for as long as it is polled. What fails is tried again: nobody else
/// needs what is read here.
pub async fn serve(given: Given, lead: Lead, client: Client) {
    let (address, visibility) = (given.address, given.visibility);
    let (identity, renewed) = given.identity(&client);
    let endpoint = Endpoint::new(lead, client.clone());
    let known = endpoint.proxy.clone();
    let followed = async move {
        if visibility {
            front_proxy::follow(client, known).await;
        }
    };
    let router = router(endpoint, visibility);
    let listens = async {
        let listener = serve::bind(address, "the read-only endpoint").await;
        let on = CancellationToken::new();
        serve::serve(listener, LIMITS, identity, router, on).await;
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

/// Whom it is about.
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
    let answer = endpoint
        .turn(async {
            let wants = Wants::Jobs(namespace);
            endpoint.check(&headers, shown, wants).await?;
            endpoint.told().await?.answer(namespace)
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
    let download = endpoint
        .turn(async {
            let wants = Wants::Path(uri.path());
            endpoint.check(&headers, shown, wants).await?;
            endpoint.download().await
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
    let text = endpoint
        .turn(async {
            let wants = Wants::Path(uri.path());
            endpoint.check(&headers, shown, wants).await?;
            let leading = endpoint.lead.read().clone();
            let text = telemetry::text(leading.as_ref()).await;
            text.map_err(|_| Failure::unavailable())
        })
        .await?;
    Ok(([(header::CONTENT_TYPE, telemetry::FORMAT)], text).into_response())
}

/// Asks the scheduler for all that its engine knows.
///
/// # Errors
/// If it does not run, or not yet.
pub async fn ask(world: &World) -> Result<Arc<Snapshot>, Failure> {
    let (answer, snapshot) = oneshot::channel();
    world.tell(Feed::AskSnapshot(answer));
    snapshot.await.map_err(|_| Failure::unavailable())
}

impl Endpoint {
    /// What this process knows, if it leads.
    fn world(&self) -> Result<Arc<World>, Failure> {
        let lead = self.lead.read();
        let leading = lead.as_ref().ok_or_else(Failure::stands_by)?;
        Ok(leading.world.clone())
    }

    /// Does one request's work, if not too many are being worked on.
    async fn turn<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let Ok(_turn) = self.turns.try_acquire() else {
            return Err(Failure::too_many());
        };
        let done = tokio::time::timeout(PATIENCE, work).await;
        done.unwrap_or_else(|_| Err(Failure::unavailable()))
    }

    /// Lets through who may read it.
    async fn check(
        &self,
        headers: &HeaderMap,
        shown: Option<Extension<Shown>>,
        wants: Wants<'_>,
    ) -> Result<(), Failure> {
        let shown = shown.map(|Extension(shown)| shown).unwrap_or_default();
        let user = self.identify(headers, &shown).await?;
        self.authorize(user, wants).await
    }

    /// Who asks.
    async fn identify(&self, headers: &HeaderMap, shown: &Shown) -> Result<UserInfo, Failure> {
        let Ok(_turn) = self.reviews.acquire().await else {
            return Err(Failure::unavailable());
        };
        let proxy = self.proxy.read().clone();
        Ok(access::identify(&self.client, headers, proxy.as_deref(), shown).await?)
    }

    /// Lets through who has the right.
    async fn authorize(&self, user: UserInfo, wants: Wants<'_>) -> Result<(), Failure> {
        let Ok(_turn) = self.reviews.acquire().await else {
            return Err(Failure::unavailable());
        };
        Ok(access::authorize(&self.client, user, wants).await?)
    }

    /// All that wait. One at a time works it out, to its end, even if who asked
    /// has gone: the next has it then. It never takes more than a third of a core.
    async fn told(&self) -> Result<Arc<Told>, Failure> {
        let (last, world) = (self.last.clone(), self.world()?);
        let renewed = tokio::spawn(async move {
            let mut last = last.lock_owned().await;
            if let Some(last) = &*last
                && last.at.elapsed() < FRESH.max(last.took.saturating_mul(2))
            {
                return Ok(last.told.clone());
            }
            let looked = look(&world).await?;
            let told = looked.told.clone();
            *last = Some(looked);
            Ok(told)
        });
        renewed.await.map_err(|_| Failure::unavailable())?
    }

    /// All that the engine knows. One at a time has it written.
    async fn download(&self) -> Result<Arc<Download>, Failure> {
        let mut last = self.download.lock().await;
        if let Some(last) = Download::fresh(&last) {
            return Ok(last);
        }
        let snapshot = ask(&*self.world()?).await?;
        let made = tokio::task::spawn_blocking(move || Download::new(&snapshot));
        let made = Arc::new(made.await.map_err(|_| Failure::unavailable())??);
        *last = Arc::downgrade(&made);
        Ok(made)
    }
}

/// Works out who waits, beside the scheduler.
async fn look(world: &Arc<World>) -> Result<Last, Failure> {
    let snapshot = ask(world).await?;
    let (began, world) = (Instant::now(), world.clone());
    let made = tokio::task::spawn_blocking(move || {
        let (classes, nodes) = (world.device_classes.all(), || world.nodes.all());
        let go_on = |moments| moments < AHEAD && began.elapsed() < LOOK_AHEAD;
        Overview::of_snapshot(&snapshot, &classes, nodes, go_on)
    });
    let overview = made.await.map_err(|_| Failure::unavailable())?;
    Ok(Last {
        at: Instant::now(),
        took: began.elapsed(),
        told: Arc::new(Told::new(overview)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Commands;
    use crate::leader::Leadership;
    use crate::telemetry::Leading;
    use parking_lot::RwLock;
    use trellis_scheduler::Engine;

    #[tokio::test]
    async fn a_snapshot_is_written_once_while_it_is_read_and_then_anew() {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let (world, mut heard) = World::new();
        let client = Client::try_from(nowhere).unwrap();
        let commands = Commands::new(client.clone(), Leadership::of_a_test());
        let lead = Arc::new(RwLock::new(Some(Leading { world, commands })));
        let endpoint = Endpoint::new(lead, client);
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
        let one = endpoint.download().await.unwrap().bytes();
        let other = endpoint.download().await.unwrap().bytes();
        assert_eq!((one.as_ptr(), asked()), (other.as_ptr(), 1));
        assert!(one.starts_with(b"{"));
        drop((one, other));
        endpoint.download().await.unwrap();
        assert_eq!(asked(), 2, "nobody reads the first any more");
    }
}
