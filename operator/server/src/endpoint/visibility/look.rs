//! Snapshots for answers, and how long each is used.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tokio::sync::{Mutex, oneshot};
use tokio::time::Instant;
use trellis_api::visibility::{Explanation, JobState, NodeState, QueueState};
use trellis_dispatch::context::Context;
use trellis_dispatch::{Feed, QueueReport};
use trellis_gang::external;
use trellis_gang::key::Key;
use trellis_scheduler::{Forecast, GangId, QueueName, Snapshot};

use super::explain::{self, Beside, Explainer, Priorities};
use super::forecasts::Forecasts;
use super::page::Page;
use super::{jobs, nodes, queues};
use crate::endpoint::admission::Turn;
use crate::endpoint::told::Told;
use crate::endpoint::{FRESH, Failure, Overview, ask};

/// How long a snapshot without requests is kept: with many jobs it is large.
const KEPT: Duration = Duration::from_secs(15);

/// State of the cluster at one moment. Rows are made on request, on another thread, because that
/// takes a while.
pub(in crate::endpoint) struct Look {
    at: Instant,
    /// Time that it took to get the snapshot and to compute rows from it.
    took: parking_lot::Mutex<Duration>,
    context: Arc<Context>,
    snapshot: Arc<Snapshot>,
    reports: BTreeMap<QueueName, QueueReport>,
    forecast: Option<Arc<Forecast>>,
    positions: OnceLock<BTreeMap<GangId, u32>>,
    jobs: OnceLock<Page<JobState>>,
    queues: OnceLock<Page<QueueState>>,
    nodes: OnceLock<Page<NodeState>>,
    waiting: OnceLock<Arc<Told>>,
    /// One request at a time explains, because the explainer caches its results.
    explainer: Arc<Mutex<Option<Explainer>>>,
}

impl Look {
    /// Asks the scheduler for a snapshot.
    async fn new(context: Arc<Context>, forecasts: &Forecasts) -> Result<Self, Failure> {
        let began = Instant::now();
        let (answer, reports) = oneshot::channel();
        context.tell(Feed::AskQueues(answer));
        let snapshot = ask(&context).await?;
        let reports = reports.await.map_err(|_| Failure::unavailable())?;
        let at = Instant::now();
        let took = at.duration_since(began);
        let forecast = forecasts.of(&snapshot).await;
        Ok(Self {
            at,
            took: parking_lot::Mutex::new(took),
            context,
            snapshot,
            reports,
            forecast,
            positions: OnceLock::new(),
            jobs: OnceLock::new(),
            queues: OnceLock::new(),
            nodes: OnceLock::new(),
            waiting: OnceLock::new(),
            explainer: Arc::default(),
        })
    }

    /// True if the snapshot may still be used. Snapshots never take more than a third of a core in
    /// total.
    fn is_fresh(&self) -> bool {
        self.at.elapsed() < FRESH.max(self.took.lock().saturating_mul(2))
    }

    /// Time of the snapshot.
    pub(super) fn now(&self) -> jiff::Timestamp {
        jobs::at(self.snapshot.now).unwrap_or_default()
    }

    /// Runs work on the snapshot on a blocking thread. The turn is held until the work is done,
    /// even if the caller is gone.
    pub(super) async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        turn: Turn,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let look = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let began = Instant::now();
            let done = work(&look);
            let mut took = look.took.lock();
            *took = took.saturating_add(began.elapsed());
            done
        });
        done.await.map_err(|_| Failure::unavailable())
    }

    fn positions(&self) -> &BTreeMap<GangId, u32> {
        self.positions.get_or_init(|| self.snapshot.positions())
    }

    /// Rows of jobs that wait or hold a place.
    pub(super) fn jobs(&self) -> &Page<JobState> {
        self.jobs.get_or_init(|| {
            let facts = jobs::Facts {
                snapshot: &self.snapshot,
                positions: self.positions(),
                forecast: self.forecast.as_deref(),
                job: |key: &_| self.context.cache.jobs.get(key),
                external_gang: |key: &_| jobs::ExternalGang::find(&self.context.cache, key),
                queue: |name: &_| self.context.cache.queues.get(name),
            };
            Page::new(self.now(), facts.rows())
        })
    }

    /// Rows of queues.
    pub(super) fn queues(&self) -> &Page<QueueState> {
        self.queues.get_or_init(|| {
            let all = self.context.cache.queues.all();
            let rows = queues::rows(&all, &self.reports, &self.snapshot);
            Page::new(self.now(), rows)
        })
    }

    /// Rows of nodes.
    pub(super) fn nodes(&self) -> &Page<NodeState> {
        self.nodes.get_or_init(|| {
            let created = |name: &str| {
                let node = self.context.cache.nodes.get(&Key::new("", name))?;
                node.metadata.creation_timestamp.clone()
            };
            Page::new(self.now(), nodes::rows(&self.snapshot, created))
        })
    }
}

impl Look {
    /// All waiting jobs.
    pub(in crate::endpoint) async fn waiting(
        self: &Arc<Self>,
        turn: Turn,
    ) -> Result<Arc<Told>, Failure> {
        let mut explainer = self.explainer.clone().lock_owned().await;
        let told = self.work(turn, move |look| {
            let make = || {
                let explainer = explainer.get_or_insert_with(|| Explainer::new(&look.snapshot));
                Arc::new(Told::new(Overview::of_engine(
                    &mut explainer.engine,
                    &look.snapshot,
                    look.positions(),
                    look.forecast.as_deref(),
                    &look.context.cache.device_classes.all(),
                    || look.context.cache.nodes.all(),
                )))
            };
            look.waiting.get_or_init(make).clone()
        });
        told.await
    }

    /// Why a job waits, and the priorities of the jobs that the explanation names. None: the job
    /// does not wait.
    pub(super) async fn explain(
        self: &Arc<Self>,
        job: Key,
        turn: Turn,
    ) -> Result<Option<(Explanation, Priorities)>, Failure> {
        // Wait here, before a thread is taken, for the explanation of another request.
        let mut explainer = self.explainer.clone().lock_owned().await;
        let told = self.work(turn, move |look| {
            let explainer = explainer.get_or_insert_with(|| Explainer::new(&look.snapshot));
            let beside = Beside {
                snapshot: &look.snapshot,
                positions: look.positions(),
                forecast: look.forecast.as_deref(),
                job: look.context.cache.jobs.get(&job),
                external_gang: jobs::ExternalGang::find(&look.context.cache, &job),
                pod_group: look
                    .context
                    .cache
                    .pod_groups
                    .get(&external::pod_group(&job)),
                classes: &look.context.cache.device_classes.all(),
                nodes: &|| look.context.cache.nodes.all(),
            };
            let told = explainer.explain(&job, &beside)?;
            let priorities = explain::priorities(&told, &look.snapshot);
            Some((told, priorities))
        });
        told.await
    }
}

/// The last snapshot.
#[derive(Default)]
pub(in crate::endpoint) struct Looks {
    last: Arc<Mutex<Option<Arc<Look>>>>,
    forecasts: Forecasts,
}

impl Looks {
    /// The current snapshot, or a recent one. One task at a time gets a new one, and finishes even
    /// if its caller is gone, so that the next caller can use the result.
    pub(in crate::endpoint) async fn now(
        &self,
        context: &Arc<Context>,
    ) -> Result<Arc<Look>, Failure> {
        let (last, forecasts) = (self.last.clone(), self.forecasts.clone());
        let (context, kept) = (context.clone(), self.last.clone());
        let renewed = tokio::spawn(async move {
            let mut last = last.lock_owned().await;
            if let Some(last) = last.as_ref().filter(|last| last.is_fresh()) {
                return Ok(last.clone());
            }
            let look = Arc::new(Look::new(context, &forecasts).await?);
            *last = Some(look.clone());
            tokio::spawn(forget(kept, Arc::downgrade(&look)));
            Ok(look)
        });
        renewed.await.map_err(|_| Failure::unavailable())?
    }
}

/// Drops a snapshot once it has been kept long enough, unless a newer one has replaced it.
async fn forget(last: Arc<Mutex<Option<Arc<Look>>>>, look: Weak<Look>) {
    tokio::time::sleep(KEPT).await;
    let mut last = last.lock().await;
    let is_it = last
        .as_ref()
        .is_some_and(|last| Weak::ptr_eq(&Arc::downgrade(last), &look));
    if is_it {
        *last = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use trellis_scheduler::Engine;

    use super::super::table::Format;
    use super::*;

    fn turn() -> Turn {
        let turns = Arc::new(tokio::sync::Semaphore::new(1));
        Arc::new(turns.try_acquire_owned().unwrap())
    }

    /// A context whose scheduler has heard nothing.
    fn context(asked: Arc<AtomicUsize>) -> Arc<Context> {
        let (context, mut heard) = Context::new();
        tokio::spawn(async move {
            loop {
                for feed in heard.next().await {
                    match feed {
                        Feed::AskSnapshot(answer) => {
                            asked.fetch_add(1, Ordering::SeqCst);
                            let _ = answer.send(Arc::new(Engine::new().snapshot()));
                        }
                        Feed::AskQueues(answer) => drop(answer.send(BTreeMap::new())),
                        _ => {}
                    }
                }
            }
        });
        context
    }

    #[tokio::test]
    async fn work_holds_its_turn_when_nobody_waits_for_it_any_more() {
        let look = Looks::default().now(&context(Arc::default())).await;
        let look = look.ok().unwrap();
        let turn = turn();
        let held = Arc::downgrade(&turn);
        let (go_on, is_told) = std::sync::mpsc::channel::<()>();
        let work = look.work(turn, move |_| is_told.recv());
        let late = tokio::time::timeout(Duration::from_millis(50), work);
        assert!(late.await.is_err());
        assert!(held.upgrade().is_some(), "it is still at work");
        go_on.send(()).unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while held.upgrade().is_some() {
            assert!(std::time::Instant::now() < deadline, "it is done");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn who_waits_to_be_explained_takes_no_turn_of_others_work() {
        let look = Looks::default().now(&context(Arc::default())).await;
        let look = look.ok().unwrap();
        let other = look.explainer.clone().lock_owned().await;
        let waits = look.explain(Key::new("a", "b"), turn());
        let late = tokio::time::timeout(Duration::from_millis(50), waits);
        assert!(late.await.is_err());
        let rows = look.work(turn(), |look| look.jobs().list(None, Format::Json).is_ok());
        assert!(rows.await.ok().unwrap());
        drop(other);
        assert!(look.waiting(turn()).await.is_ok());
    }

    #[tokio::test]
    async fn a_look_is_shared_while_it_is_new_and_let_go_of_when_nobody_asks() {
        let asked = Arc::new(AtomicUsize::new(0));
        let context = context(asked.clone());
        let looks = Looks::default();
        let (one, other) = tokio::join!(looks.now(&context), looks.now(&context));
        let (one, other) = (one.ok().unwrap(), other.ok().unwrap());
        assert!(Arc::ptr_eq(&one, &other));
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        let told = one.explain(Key::new("a", "nobody"), turn()).await;
        assert!(told.ok().unwrap().is_none());
        let kept = Arc::downgrade(&one);
        drop((one, other));
        tokio::time::pause();
        tokio::time::sleep(FRESH.saturating_mul(2)).await;
        let next = looks.now(&context).await.ok().unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 2, "the first was old");
        assert!(kept.upgrade().is_none(), "the next has taken its place");
        let kept = Arc::downgrade(&next);
        drop(next);
        tokio::time::sleep(KEPT.saturating_mul(2)).await;
        assert!(kept.upgrade().is_none(), "nobody asks any more");
    }
}
