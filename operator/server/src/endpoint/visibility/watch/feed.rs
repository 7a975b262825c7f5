//! The rows of one resource for all its readers.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use trellis_api::visibility::{JobState, NodeState, QueueState};
use trellis_dispatch::context::Context;

use super::cache::{Change, SnapshotMoment, Version, VersionedRow, WatchCache};
use super::comparable_row::ComparableRow;
use crate::callers::Failure;
use crate::endpoint::visibility::row_set::RowSet;
use crate::endpoint::visibility::snapshot_view::{SnapshotView, SnapshotViews};
use crate::endpoint::visibility::table::TableRow;

/// The rows of all resources that can be watched.
#[derive(Default)]
pub(in crate::endpoint::visibility) struct WatchFeeds {
    jobs: WatchFeed<JobState>,
    queues: WatchFeed<QueueState>,
    nodes: WatchFeed<NodeState>,
}

impl WatchFeeds {
    /// Forgets rows that nothing has read for this long.
    pub(in crate::endpoint::visibility) fn clear_unused(&self, time: Duration) {
        self.jobs.clear_unused(time);
        self.queues.clear_unused(time);
        self.nodes.clear_unused(time);
    }
}

/// A resource that can be watched.
pub(in crate::endpoint::visibility) trait WatchableRow:
    TableRow + ComparableRow + Clone + Send + Sync + 'static
{
    /// The rows of a snapshot.
    fn rows(view: &SnapshotView) -> &RowSet<Self>;
    /// The feed of the resource.
    fn feed(feeds: &WatchFeeds) -> &WatchFeed<Self>;
}

impl WatchableRow for JobState {
    fn rows(view: &SnapshotView) -> &RowSet<Self> {
        view.jobs()
    }

    fn feed(feeds: &WatchFeeds) -> &WatchFeed<Self> {
        &feeds.jobs
    }
}

impl WatchableRow for QueueState {
    fn rows(view: &SnapshotView) -> &RowSet<Self> {
        view.queues()
    }

    fn feed(feeds: &WatchFeeds) -> &WatchFeed<Self> {
        &feeds.queues
    }
}

impl WatchableRow for NodeState {
    fn rows(view: &SnapshotView) -> &RowSet<Self> {
        view.nodes()
    }

    fn feed(feeds: &WatchFeeds) -> &WatchFeed<Self> {
        &feeds.nodes
    }
}

/// The rows of one resource, and their last changes.
pub(in crate::endpoint::visibility) struct WatchFeed<T> {
    state: Mutex<FeedState<T>>,
    /// Tells readers of each new version.
    versions: watch::Sender<Version>,
    /// One reader at a time renews the rows for all.
    renewal: tokio::sync::Mutex<()>,
}

struct FeedState<T> {
    /// The leadership whose rows these are. Another one does not know their versions.
    context: Weak<Context>,
    cache: WatchCache<T>,
    /// When the rows were renewed for the last time.
    used: Instant,
}

impl<T> FeedState<T> {
    /// No rows yet.
    fn of(context: Weak<Context>) -> Self {
        Self {
            context,
            cache: WatchCache::default(),
            used: Instant::now(),
        }
    }
}

impl<T> Default for WatchFeed<T> {
    fn default() -> Self {
        Self {
            state: Mutex::new(FeedState::of(Weak::new())),
            versions: watch::Sender::default(),
            renewal: tokio::sync::Mutex::default(),
        }
    }
}

/// The changes that a reader has not had, and their version.
pub(super) struct NewChanges<T> {
    pub(super) changes: Vec<Arc<Change<T>>>,
    pub(super) version: Version,
    /// True: there are more.
    pub(super) is_partial: bool,
}

impl<T: WatchableRow> WatchFeed<T> {
    /// Takes the rows of a snapshot of this leadership. Returns the version of their list.
    pub(in crate::endpoint::visibility) fn update(
        &self,
        context: &Arc<Context>,
        moment: SnapshotMoment,
        rows: &mut [T],
    ) -> Version {
        let mut state = self.state.lock();
        if !std::ptr::eq(state.context.as_ptr(), Arc::as_ptr(context)) {
            *state = FeedState::of(Arc::downgrade(context));
        }
        let version = state.cache.update(moment, rows);
        state.used = Instant::now();
        let news = state.cache.version().unwrap_or_default();
        drop(state);
        self.versions
            .send_if_modified(|known| std::mem::replace(known, news) != news);
        version
    }

    /// Tells of each new version.
    pub(super) fn subscribe(&self) -> watch::Receiver<Version> {
        self.versions.subscribe()
    }

    /// Renews the rows, unless they are recent.
    pub(super) async fn renew(
        &self,
        views: &SnapshotViews,
        context: &Arc<Context>,
    ) -> Result<(), Failure> {
        let _renewal = self.renewal.lock().await;
        let view = views.current(context).await?;
        if self.state.lock().cache.snapshot() >= view.number() {
            return Ok(());
        }
        // The view hands its rows to this feed.
        view.run((), |view| {
            T::rows(view);
        })
        .await
    }

    /// Returns all rows and their version. None: there are none yet.
    pub(super) fn rows(&self) -> Option<(Vec<VersionedRow<T>>, Version)> {
        let state = self.state.lock();
        let version = state.cache.version()?;
        Some((state.cache.rows().cloned().collect(), version))
    }

    /// Returns at most `count` changes since a version. None: they are not known.
    pub(super) fn changes_since(&self, version: Version, count: usize) -> Option<NewChanges<T>> {
        let state = self.state.lock();
        let changes = state.cache.changes_since(version, count)?;
        let last = changes.last().filter(|_| changes.len() == count);
        Some(NewChanges {
            is_partial: last.is_some(),
            version: match last {
                Some(last) => last.row.version,
                None => state.cache.version()?,
            },
            changes,
        })
    }

    fn clear_unused(&self, time: Duration) {
        let mut state = self.state.lock();
        if self.versions.receiver_count() == 0 && state.used.elapsed() >= time {
            state.cache = WatchCache::default();
        }
    }
}
