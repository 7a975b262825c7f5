//! The stream of one tab: a line of JSON for each read of a list, with the rows that changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use trellis_api::visibility::{JobState, NodeState, QueueState};

use super::diff::{RowChanges, Rows};
use super::feed::{Feed, LastRead, Moment};
use crate::answer::Refusal;
use crate::compression::GzipStream;

/// Lifetime of a stream. The page opens the next one with the credential of that moment.
const STREAM_LIFETIME: Duration = Duration::from_secs(300);

/// The lists that a tab follows, and the versions that it has.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StreamQuery {
    /// Version of the queue. None: the tab does not follow it.
    pub(crate) queue: Option<i64>,
    /// Version of the nodes. None: the tab does not follow them.
    pub(crate) nodes: Option<i64>,
    /// Namespace of the jobs. None: all.
    pub(crate) namespace: Option<String>,
}

/// A line of the stream.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum StreamLine {
    Changes(Box<ListChanges>),
    /// The tab has a version that the server does not know.
    Reset {
        list: &'static str,
        reset: bool,
    },
    /// The list could not be read.
    Failed {
        list: &'static str,
        #[serde(flatten)]
        refusal: Refusal,
    },
}

/// The changes of a list. Fields without news are absent.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ListChanges {
    list: &'static str,
    version: String,
    time: Timestamp,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    jobs: Vec<Arc<JobState>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gone_jobs: Vec<String>,
    /// The keys of the jobs that wait, by queue, where the tab does not expect this order.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    orders: BTreeMap<String, Vec<String>>,
    /// Some(None): the user may no longer see the queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    queues: Option<Option<Vec<Arc<QueueState>>>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gone_queues: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<Arc<NodeState>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gone_nodes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<Vec<String>>,
}

impl ListChanges {
    fn between(list: &'static str, old: &Moment, new: &Moment) -> Self {
        let jobs = new.jobs.changes_since(&old.jobs);
        let nodes = new.nodes.changes_since(&old.nodes);
        let (queues, gone_queues) = match (&old.queues, &new.queues) {
            (None, None) => (None, Vec::new()),
            (Some(_), None) => (Some(None), Vec::new()),
            (old, Some(new)) => {
                let none = Rows::default();
                let changes = new.changes_since(old.as_ref().unwrap_or(&none));
                match old.is_some() && changes.is_empty() {
                    true => (None, Vec::new()),
                    false => {
                        let RowChanges { changed, gone } = changes;
                        (Some(Some(changed)), gone)
                    }
                }
            }
        };
        Self {
            list,
            version: new.version.to_string(),
            time: new.time,
            jobs: jobs.changed,
            gone_jobs: jobs.gone,
            orders: match (&new.orders, &old.orders) {
                (Some(new), Some(old)) => new.news_since(old),
                _ => BTreeMap::new(),
            },
            queues,
            gone_queues,
            nodes: nodes.changed,
            gone_nodes: nodes.gone,
            notes: (old.notes != new.notes).then(|| new.notes.clone()),
        }
    }
}

/// The knowledge of the tab about a list.
struct TabState {
    /// None: the tab must ask for the whole list.
    known: Option<Arc<Moment>>,
    /// The tab knows that it must ask.
    was_reset: bool,
}

/// Returns the lines of a stream, compressed if the tab accepts that. The stream ends when `void`
/// does: the key of the page is void then.
pub(crate) fn open_stream(
    feeds: Vec<(Arc<Feed>, i64)>,
    is_compressed: bool,
    void: impl Future<Output = ()> + Send + 'static,
) -> impl futures::Stream<Item = Result<Bytes, std::convert::Infallible>> + Send {
    let lines: Vec<BoxStream<'static, StreamLine>> = feeds
        .into_iter()
        .map(|(feed, version)| follow(feed, version))
        .collect();
    let mut gzip = is_compressed.then(GzipStream::default);
    let end = async move {
        tokio::select! {
            () = tokio::time::sleep(STREAM_LIFETIME) => {}
            () = void => {}
        }
    };
    stream::select_all(lines)
        .map(move |line| {
            let mut text = serde_json::to_vec(&line).unwrap_or_default();
            text.push(b'\n');
            let part = match &mut gzip {
                Some(gzip) => gzip.push(&text),
                None => text,
            };
            Ok(Bytes::from(part))
        })
        .take_until(Box::pin(end))
}

/// Follows one list from this version on.
fn follow(feed: Arc<Feed>, version: i64) -> BoxStream<'static, StreamLine> {
    let reads = read_stream(feed.subscribe());
    let list = feed.name().as_str();
    let state = TabState {
        known: feed.moment(version),
        was_reset: false,
    };
    // The stream owns the feed: the reads go on while a tab follows.
    let lines = reads.scan((feed, state), move |(_, state), read| {
        let line = read.and_then(|read| next_line(list, state, read));
        std::future::ready(Some(line))
    });
    lines.filter_map(std::future::ready).boxed()
}

/// Yields the last read, and then each new one.
fn read_stream(
    reads: watch::Receiver<Option<LastRead>>,
) -> impl futures::Stream<Item = Option<LastRead>> + Send {
    stream::unfold((reads, true), async |(mut reads, is_first)| {
        if !is_first {
            reads.changed().await.ok()?;
        }
        let read = reads.borrow_and_update().clone();
        Some((read, (reads, false)))
    })
}

fn next_line(list: &'static str, state: &mut TabState, read: LastRead) -> Option<StreamLine> {
    let new = match read {
        LastRead::Failed(refusal) => return Some(StreamLine::Failed { list, refusal }),
        LastRead::Content(new) => new,
    };
    let known = state.known.replace(new.clone());
    // A list that became complete, or is so no longer, has another meaning of positions.
    match known.filter(|old| old.orders.is_some() == new.orders.is_some()) {
        Some(old) => Some(StreamLine::Changes(Box::new(ListChanges::between(
            list, &old, &new,
        )))),
        None => {
            state.known = None;
            let is_first = !std::mem::replace(&mut state.was_reset, true);
            is_first.then_some(StreamLine::Reset { list, reset: true })
        }
    }
}
