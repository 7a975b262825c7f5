//! Snapshots for answers, and the time for which each is used.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tokio::sync::{Mutex, oneshot};
use tokio::time::Instant;
use trellis_api::visibility::{EndedAttempt, Explanation, JobState, NodeState, QueueState};
use trellis_dispatch::context::Context;
use trellis_dispatch::{QueueReport, SchedulerEvent};
use trellis_gang::external;
use trellis_gang::key::Key;
use trellis_machine::threads;
use trellis_scheduler::{Forecast, GangId, QueueName, Snapshot};

use super::explanations::{self, Explainer, ExplanationSources, Priorities};
use super::forecasts::ForecastCache;
use super::row_set::RowSet;
use super::watch::{SnapshotMoment, UNKNOWN_VERSION, WatchFeeds, WatchableRow};
use super::{jobs, nodes, queues};
use crate::callers::{Failure, RequestTurn};
use crate::endpoint::WaitingJobs;
use crate::endpoint::serialized_answers::{ANSWER_TTL, SerializedWaitingJobs};
use crate::snapshot;

/// How long a snapshot without requests is kept. With many jobs it is large.
const IDLE_TTL: Duration = Duration::from_secs(15);

/// How long rows without readers are kept: a client lists, and then watches from that list.
const FEED_TTL: Duration = Duration::from_secs(120);

/// State of the cluster at one moment. Another thread computes rows on request, because that takes
/// a while.
pub(in crate::endpoint) struct SnapshotView {
    at: Instant,
    /// Time spent on getting the snapshot and computing rows from it.
    work_time: parking_lot::Mutex<Duration>,
    context: Arc<Context>,
    /// A later snapshot has a higher number.
    number: u64,
    snapshot: Arc<Snapshot>,
    queue_reports: BTreeMap<QueueName, QueueReport>,
    forecast: Option<Arc<Forecast>>,
    positions: OnceLock<BTreeMap<GangId, u32>>,
    jobs: OnceLock<RowSet<JobState>>,
    queues: OnceLock<RowSet<QueueState>>,
    nodes: OnceLock<RowSet<NodeState>>,
    ended_attempts: OnceLock<RowSet<EndedAttempt>>,
    waiting: OnceLock<Arc<SerializedWaitingJobs>>,
    /// Only one request at a time computes an explanation, because the explainer caches its
    /// results.
    explainer: Arc<Mutex<Option<Explainer>>>,
    feeds: Arc<WatchFeeds>,
}

impl SnapshotView {
    /// Requests a snapshot from the scheduler.
    async fn new(
        context: Arc<Context>,
        forecasts: &ForecastCache,
        feeds: Arc<WatchFeeds>,
        number: u64,
    ) -> Result<Self, Failure> {
        let began = Instant::now();
        let (answer, reports) = oneshot::channel();
        context.send_event(SchedulerEvent::AskQueues(answer));
        let snapshot = snapshot::request(&context).await?;
        let reports = reports.await.map_err(|_| Failure::unavailable())?;
        let at = Instant::now();
        let took = at.duration_since(began);
        let forecast = forecasts.get(&snapshot).await;
        Ok(Self {
            at,
            work_time: parking_lot::Mutex::new(took),
            context,
            number,
            snapshot,
            queue_reports: reports,
            forecast,
            positions: OnceLock::new(),
            jobs: OnceLock::new(),
            queues: OnceLock::new(),
            nodes: OnceLock::new(),
            ended_attempts: OnceLock::new(),
            waiting: OnceLock::new(),
            explainer: Arc::default(),
            feeds,
        })
    }

    /// Returns true if the snapshot may still be used. In total, snapshots use at most a third of a
    /// core.
    fn is_fresh(&self) -> bool {
        self.at.elapsed() < ANSWER_TTL.max(self.work_time.lock().saturating_mul(2))
    }

    /// Returns the number of the snapshot.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the engine's snapshot.
    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Returns the time of the snapshot.
    pub(super) fn time(&self) -> jiff::Timestamp {
        jobs::to_timestamp(self.snapshot.now).unwrap_or_default()
    }

    /// Runs work on the snapshot on a blocking thread. Holds the turn until the work is done, even
    /// if the caller is gone.
    pub(super) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        turn: impl Send + 'static,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let view = self.clone();
        let done = threads::spawn_blocking(move || {
            let _turn = turn;
            let began = Instant::now();
            let done = work(&view);
            let mut took = view.work_time.lock();
            *took = took.saturating_add(began.elapsed());
            done
        });
        done.await.map_err(|_| Failure::unavailable())
    }

    fn positions(&self) -> &BTreeMap<GangId, u32> {
        self.positions.get_or_init(|| self.snapshot.positions())
    }

    /// Hands rows to their readers.
    fn share<T: WatchableRow>(&self, mut rows: Vec<T>) -> RowSet<T> {
        let moment = SnapshotMoment {
            number: self.number,
            time: self.time(),
        };
        let feed = T::feed(&self.feeds);
        let version = feed.update(&self.context, moment, &mut rows);
        RowSet::new(self.time(), version, rows)
    }

    /// Rows of jobs that wait or hold a place.
    pub(super) fn jobs(&self) -> &RowSet<JobState> {
        self.jobs.get_or_init(|| {
            let facts = jobs::JobRowSources {
                snapshot: &self.snapshot,
                positions: self.positions(),
                forecast: self.forecast.as_deref(),
                job: |key: &_| self.context.cache.jobs.get(key),
                external_gang: |key: &_| jobs::ExternalGang::find(&self.context.cache, key),
                queue: |name: &_| self.context.cache.queues.get(name),
            };
            self.share(facts.rows())
        })
    }

    /// Rows of queues.
    pub(super) fn queues(&self) -> &RowSet<QueueState> {
        self.queues.get_or_init(|| {
            let all = self.context.cache.queues.all();
            let rows = queues::rows(&all, &self.queue_reports, &self.snapshot);
            self.share(rows)
        })
    }

    /// Rows of ended attempts.
    pub(super) fn ended_attempts(&self) -> &RowSet<EndedAttempt> {
        self.ended_attempts.get_or_init(|| {
            let ended = self.context.ended_attempts.read().recent(self.time());
            let rows = ended.iter().map(|ended| (**ended).clone());
            RowSet::new(self.time(), UNKNOWN_VERSION, rows.collect())
        })
    }

    /// Rows of nodes.
    pub(super) fn nodes(&self) -> &RowSet<NodeState> {
        self.nodes.get_or_init(|| {
            let created = |name: &str| {
                let node = self.context.cache.nodes.get(&Key::new("", name))?;
                node.metadata.creation_timestamp.clone()
            };
            self.share(nodes::rows(&self.snapshot, created))
        })
    }
}

impl SnapshotView {
    /// Returns all waiting jobs.
    pub(in crate::endpoint) async fn waiting(
        self: &Arc<Self>,
        turn: RequestTurn,
    ) -> Result<Arc<SerializedWaitingJobs>, Failure> {
        let mut explainer = self.explainer.clone().lock_owned().await;
        let result = self.run(turn, move |view| {
            let make = || {
                let explainer = explainer.get_or_insert_with(|| Explainer::new(&view.snapshot));
                Arc::new(SerializedWaitingJobs::new(WaitingJobs::from_engine(
                    &mut explainer.engine,
                    &view.snapshot,
                    view.positions(),
                    view.forecast.as_deref(),
                    &view.context.cache.device_classes.all(),
                    || view.context.cache.nodes.all(),
                )))
            };
            view.waiting.get_or_init(make).clone()
        });
        result.await
    }

    /// Returns why a job waits, and the priorities of the jobs that the explanation names. None:
    /// the job does not wait.
    pub(super) async fn explain(
        self: &Arc<Self>,
        job: Key,
        turn: RequestTurn,
    ) -> Result<Option<(Explanation, Priorities)>, Failure> {
        // Waits here for the explanation of another request, before taking a thread.
        let mut explainer = self.explainer.clone().lock_owned().await;
        let result = self.run(turn, move |view| {
            let explainer = explainer.get_or_insert_with(|| Explainer::new(&view.snapshot));
            let beside = ExplanationSources {
                snapshot: &view.snapshot,
                positions: view.positions(),
                forecast: view.forecast.as_deref(),
                job: view.context.cache.jobs.get(&job),
                external_gang: jobs::ExternalGang::find(&view.context.cache, &job),
                pod_group: view
                    .context
                    .cache
                    .pod_groups
                    .get(&external::journal_pod_group(&job)),
                recorded: view.context.explanations.read().get(&job).cloned(),
                order_delay: view.context.order_delay(&job),
                classes: &view.context.cache.device_classes.all(),
                nodes: &|| view.context.cache.nodes.all(),
            };
            let result = explainer.explain(&job, &beside)?;
            let named = explanations::named_jobs(&result);
            let priorities = explanations::priorities(named, &view.snapshot);
            Some((result, priorities))
        });
        result.await
    }
}

/// The last snapshot.
#[derive(Default)]
pub(in crate::endpoint) struct SnapshotViews {
    last: Arc<Mutex<Option<Arc<SnapshotView>>>>,
    forecasts: ForecastCache,
    feeds: Arc<WatchFeeds>,
    /// Number of snapshots so far.
    count: Arc<AtomicU64>,
}

impl SnapshotViews {
    /// The rows that can be watched.
    pub(super) fn feeds(&self) -> &WatchFeeds {
        &self.feeds
    }

    /// Returns the current snapshot, or a recent one. One task at a time requests a new snapshot.
    /// It finishes even if its caller is gone, so that the next caller can use the result.
    pub(in crate::endpoint) async fn current(
        &self,
        context: &Arc<Context>,
    ) -> Result<Arc<SnapshotView>, Failure> {
        let (shared, forecasts) = (self.last.clone(), self.forecasts.clone());
        let (feeds, count) = (self.feeds.clone(), self.count.clone());
        let context = context.clone();
        let renewed = tokio::spawn(async move {
            let mut last = shared.clone().lock_owned().await;
            if let Some(last) = last.as_ref().filter(|last| last.is_fresh()) {
                return Ok(last.clone());
            }
            let number = count.fetch_add(1, Ordering::Relaxed).saturating_add(1);
            let view =
                Arc::new(SnapshotView::new(context, &forecasts, feeds.clone(), number).await?);
            *last = Some(view.clone());
            tokio::spawn(drop_when_idle(shared, Arc::downgrade(&view), feeds));
            Ok(view)
        });
        renewed.await.map_err(|_| Failure::unavailable())?
    }
}

/// Drops a snapshot once it has been kept long enough, unless a newer one has replaced it.
async fn drop_when_idle(
    last: Arc<Mutex<Option<Arc<SnapshotView>>>>,
    view: Weak<SnapshotView>,
    feeds: Arc<WatchFeeds>,
) {
    tokio::time::sleep(IDLE_TTL).await;
    let mut last = last.lock().await;
    let is_it = last
        .as_ref()
        .is_some_and(|last| Weak::ptr_eq(&Arc::downgrade(last), &view));
    if is_it {
        *last = None;
    }
    drop(last);
    tokio::time::sleep(FEED_TTL).await;
    feeds.clear_unused(FEED_TTL);
}

#[cfg(test)]
mod tests;
