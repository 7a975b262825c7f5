//! Watches: cursors into the history.

use std::collections::VecDeque;
use std::sync::Arc;

use hyper::body::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::history::{HistoryEntry, event_line};
use crate::object::{Object, text_at};
use crate::request::{RequestInfo, View};
use crate::selector::Selector;
use crate::status::Status;
use crate::store::{KindId, Store};

/// Time between two bookmarks.
const BOOKMARK_INTERVAL: SignedDuration = SignedDuration::from_mins(1);
/// Longest time of a watch without `timeoutSeconds`. A real server takes 30 to 60 minutes at random.
const DEFAULT_TIMEOUT: SignedDuration = SignedDuration::from_mins(30);

/// An open watch. [`ApiServer::poll_watch`](crate::ApiServer::poll_watch) returns its events.
#[derive(Clone, Debug)]
pub struct Watch {
    kind: KindId,
    namespace: String,
    selector: Selector,
    view: View,
    /// Objects that the watch shows before any change.
    initial: VecDeque<Arc<Object>>,
    /// A bookmark tells that the initial objects are complete.
    marks_initial_end: bool,
    /// Position in the timeline of the kind.
    next: usize,
    /// Only events after this revision are shown.
    after: u64,
    /// The last revision that the watch knows to have seen.
    seen: u64,
    next_bookmark: Option<Timestamp>,
    end: Timestamp,
    epoch: u64,
    /// The one event that the watch shows before it ends.
    error: Option<Status>,
    has_ended: bool,
}

/// One event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Revision that the client has seen after this event.
    pub revision: u64,
    /// The event as a line of JSON, with the line break.
    pub line: Bytes,
}

/// The state of a watch at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchPoll {
    /// The next event.
    Event(Frame),
    /// There is no event yet. Without further changes, there is one at this time, or the watch ends.
    Idle {
        /// The time to poll again.
        until: Timestamp,
    },
    /// The watch has ended. The connection is closed.
    End,
}

impl Watch {
    pub(crate) fn open(
        store: &Store,
        kind: KindId,
        info: &RequestInfo,
        selector: Selector,
        view: View,
        now: Timestamp,
    ) -> Result<Self, Status> {
        let query = &info.query;
        let namespaced = store.kind(kind).namespaced;
        let version = query.get("resourceVersion");
        let after: u64 = match version {
            "" => 0,
            text => text.parse().map_err(|_| {
                let why = format!("resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax");
                Status::new(500, "", why)
            })?,
        };
        let sends_initial = query.is_true("sendInitialEvents");
        if sends_initial && query.get("resourceVersionMatch") != "NotOlderThan" {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            let cause = crate::status::Cause::forbidden("resourceVersionMatch", why);
            return Err(Status::invalid_of(
                "meta.k8s.io",
                "ListOptions",
                "",
                &[cause],
            ));
        }
        let timeout = query
            .number("timeoutSeconds")
            .filter(|seconds| *seconds > 0);
        let timeout = timeout.and_then(|seconds| i64::try_from(seconds).ok());
        let timeout = timeout.map_or(DEFAULT_TIMEOUT, SignedDuration::from_secs);
        let bookmarks = query.is_true("allowWatchBookmarks");
        let mut watch = Self {
            kind,
            namespace: info.object_namespace(namespaced).to_owned(),
            selector,
            view,
            initial: VecDeque::new(),
            marks_initial_end: sends_initial && bookmarks,
            next: 0,
            after,
            seen: after,
            next_bookmark: bookmarks.then(|| now + BOOKMARK_INTERVAL),
            end: now + timeout,
            epoch: store.epoch(),
            error: None,
            has_ended: false,
        };
        // A watch from no version, or from 0, begins with all objects.
        if after == 0 || sends_initial {
            let objects = store.in_namespace(kind, &watch.namespace);
            let objects = objects.filter(|object| watch.selector.matches(object));
            watch.initial = objects.cloned().collect();
            watch.after = store.revision();
            watch.seen = store.revision();
        } else if after < store.compacted() {
            watch.error = Some(too_old(after, store.compacted()));
        }
        let timeline = store.timeline(kind);
        let is_seen = |position: &usize| store.entry(*position).revision <= watch.after;
        watch.next = timeline.partition_point(is_seen);
        Ok(watch)
    }

    pub(crate) fn poll(&mut self, store: &Store, now: Timestamp) -> WatchPoll {
        if self.has_ended || self.epoch != store.epoch() {
            return WatchPoll::End;
        }
        if let Some(error) = self.error.take() {
            self.has_ended = true;
            return self.event(
                "ERROR",
                &Bytes::from(error.to_json().to_string()),
                self.seen,
            );
        }
        if now >= self.end {
            self.has_ended = true;
            return WatchPoll::End;
        }
        if let Some(object) = self.initial.pop_front() {
            let bytes = self.render(&object);
            return self.event("ADDED", &bytes, self.seen);
        }
        if std::mem::take(&mut self.marks_initial_end) {
            let bookmark = self.bookmark(store, true);
            return self.event("BOOKMARK", &bookmark, self.seen);
        }
        let timeline = store.timeline(self.kind);
        while let Some(position) = timeline.get(self.next) {
            let entry = store.entry(*position);
            // The events that this watch has not shown yet are gone.
            if entry.revision <= store.compacted() && self.seen < store.compacted() {
                self.has_ended = true;
                let error = too_old(self.seen, store.compacted()).to_json().to_string();
                return self.event("ERROR", &Bytes::from(error), self.seen);
            }
            self.next += 1;
            self.seen = entry.revision;
            if let Some(line) = self.line(entry) {
                let revision = entry.revision;
                return WatchPoll::Event(Frame { revision, line });
            }
        }
        // A version of the future stays what the client has seen.
        self.seen = self.seen.max(store.revision());
        match self.next_bookmark {
            Some(time) if now >= time => {
                self.next_bookmark = Some(now + BOOKMARK_INTERVAL);
                // A server that is behind the client has no version to report.
                if self.after > store.revision() {
                    let until = (now + BOOKMARK_INTERVAL).min(self.end);
                    return WatchPoll::Idle { until };
                }
                let bookmark = self.bookmark(store, false);
                self.event("BOOKMARK", &bookmark, self.seen)
            }
            Some(time) => WatchPoll::Idle {
                until: time.min(self.end),
            },
            None => WatchPoll::Idle { until: self.end },
        }
    }

    /// Returns the line for a change, if the watch shows it.
    fn line(&self, entry: &HistoryEntry) -> Option<Bytes> {
        if entry.revision <= self.after {
            return None;
        }
        let object = entry.object();
        if !self.namespace.is_empty() && object.namespace() != self.namespace {
            return None;
        }
        if self.view == View::Whole && self.selector.is_everything() {
            return Some(entry.frame());
        }
        let selected = |object: &Arc<Object>| self.selector.matches(object);
        let before = entry.before.as_ref().filter(|object| selected(object));
        let after = entry.after.as_ref().filter(|object| selected(object));
        if self.view == View::Whole && before.is_some() == entry.before.is_some() && after.is_some()
        {
            return Some(entry.frame());
        }
        Some(match (before, after) {
            (None, None) => return None,
            (None, Some(after)) => event_line("ADDED", &self.render(after)),
            (Some(_), Some(after)) => event_line("MODIFIED", &self.render(after)),
            (Some(before), None) => {
                let last = before.with_revision(entry.revision);
                event_line("DELETED", &self.render(&last))
            }
        })
    }

    fn render(&self, object: &Object) -> Bytes {
        match self.view {
            View::Whole => object.bytes().clone(),
            View::Metadata => Bytes::from(partial_metadata(object).to_string()),
        }
    }

    fn event(&self, kind: &str, object: &Bytes, revision: u64) -> WatchPoll {
        let line = event_line(kind, object);
        WatchPoll::Event(Frame { revision, line })
    }

    fn bookmark(&self, store: &Store, ends_initial: bool) -> Bytes {
        let kind = store.kind(self.kind);
        let (api_version, kind) = match self.view {
            View::Whole => (kind.api_version(), kind.kind.as_str()),
            View::Metadata => ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadata"),
        };
        let mut object = json!({
            "kind": kind, "apiVersion": api_version,
            "metadata": {"resourceVersion": self.seen.to_string()},
        });
        if ends_initial {
            let done = json!({"k8s.io/initial-events-end": "true"});
            object["metadata"]["annotations"] = done;
        }
        Bytes::from(object.to_string())
    }
}

fn too_old(version: u64, oldest: u64) -> Status {
    Status::expired(format!("too old resource version: {version} ({oldest})"))
}

/// Returns an object with its metadata alone.
pub(crate) fn partial_metadata(object: &Value) -> Value {
    debug_assert!(
        !text_at(object, &["kind"]).is_empty(),
        "objects have a kind"
    );
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}
