//! The events of one reader.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::StatusCode;
use futures::Stream;
use k8s_openapi::api::authentication::v1::UserInfo;
use tokio::sync::watch;
use tokio::time::Instant;

use super::cache::{Version, VersionedRow};
use super::event::{write_bookmark, write_change, write_error, write_initial};
use super::feed::{WatchFeed, WatchableRow};
use crate::callers::Failure;
use crate::callers::access::{self, RequiredRight};
use crate::callers::fair_turns::FairTurn;
use crate::endpoint::state::Endpoint;
use crate::endpoint::visibility::query::WatchStart;
use crate::endpoint::visibility::request::ObjectRequest;

/// Interval between looks at the scheduler while nothing else renews the rows.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(2);

/// Interval of bookmarks. A bookmark tells a reader without news that its rows are current.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(5);

/// Interval between reviews of the reader's right.
const REVIEW_INTERVAL: Duration = Duration::from_secs(10);

/// Longest time for a review.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest time without a successful review. Then the watch ends.
const MAX_UNREVIEWED: Duration = Duration::from_secs(60);

/// Most rows or changes of one part of the answer.
const PART_SIZE: usize = 500;

/// Longest watch, as kube-apiserver's `--min-request-timeout`. The client watches again from where
/// the watch has ended.
pub(super) const MAX_WATCH: Duration = Duration::from_secs(1800);

/// A reader of one resource.
pub(super) struct Reader<T> {
    endpoint: Arc<Endpoint>,
    user: UserInfo,
    request: ObjectRequest,
    versions: watch::Receiver<Version>,
    /// True: the API server sends the request for its user.
    is_proxied: bool,
    /// The rows that the reader knows. None: none yet.
    known: Option<Version>,
    /// Rows that the reader has not had.
    initial: std::vec::IntoIter<VersionedRow<T>>,
    /// Time of the last successful review.
    reviewed: Instant,
    next_renewal: Instant,
    next_bookmark: Instant,
    next_review: Instant,
    end: Instant,
    /// True: there are more changes than the last part had.
    has_more: bool,
    /// True: an error has been sent, so the stream ends.
    has_failed: bool,
    /// Held while the reader is there.
    _place: FairTurn,
}

impl<T: WatchableRow> Reader<T> {
    pub(super) fn new(
        endpoint: Arc<Endpoint>,
        user: UserInfo,
        is_proxied: bool,
        request: ObjectRequest,
        place: FairTurn,
    ) -> Self {
        let now = Instant::now();
        let after = |time: Duration| now.checked_add(time).unwrap_or(now);
        let longest = request.watch.timeout.unwrap_or(MAX_WATCH).min(MAX_WATCH);
        Self {
            versions: feed_of::<T>(&endpoint).subscribe(),
            known: match request.watch.start {
                WatchStart::Version(version) => Some(version),
                WatchStart::Now | WatchStart::Rows => None,
            },
            is_proxied,
            initial: Vec::new().into_iter(),
            reviewed: now,
            endpoint,
            user,
            request,
            next_renewal: now,
            next_bookmark: after(BOOKMARK_INTERVAL),
            next_review: after(REVIEW_INTERVAL),
            end: after(longest),
            has_more: false,
            has_failed: false,
            _place: place,
        }
    }

    /// Returns the events, each in a line.
    pub(super) fn into_stream(
        self,
    ) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> + Send {
        futures::stream::unfold(self, async |mut reader| {
            let part = reader.next_part().await?;
            Some((Ok(Bytes::from(part)), reader))
        })
    }

    /// Returns the next events, at least one. None: the watch has ended.
    async fn next_part(&mut self) -> Option<Vec<u8>> {
        while !self.has_failed {
            let mut part = Vec::new();
            if let Err(failure) = self.step(&mut part).await {
                self.has_failed = true;
                // The client lists again, and learns then that no replica leads.
                if failure.code() != StatusCode::SERVICE_UNAVAILABLE.as_u16() {
                    write_error(&failure, &mut part).ok()?;
                }
            }
            if !part.is_empty() {
                return Some(part);
            }
            if self.has_failed {
                return None;
            }
            // The last part of the changes was full, and selected none for this reader.
            if self.has_more {
                continue;
            }
            let wake = self.next_renewal.min(self.next_review).min(self.end);
            tokio::select! {
                changed = self.versions.changed() => changed.ok()?,
                () = tokio::time::sleep_until(wake) => {}
            }
            if Instant::now() >= self.end {
                return None;
            }
        }
        None
    }

    /// Does what is due, and writes events.
    async fn step(&mut self, part: &mut Vec<u8>) -> Result<(), Failure> {
        let now = Instant::now();
        if now >= self.next_review {
            self.next_review = now.checked_add(REVIEW_INTERVAL).unwrap_or(now);
            self.review().await?;
        }
        if now >= self.next_renewal {
            self.next_renewal = now.checked_add(RENEWAL_INTERVAL).unwrap_or(now);
            let context = self.endpoint.leader_context()?;
            let views = &self.endpoint.snapshot_views;
            feed_of::<T>(&self.endpoint).renew(views, &context).await?;
        }
        let Some(version) = self.known else {
            self.begin()?;
            return self.write_rows(part);
        };
        if self.initial.len() > 0 {
            return self.write_rows(part);
        }
        self.write_changes_since(version, part)?;
        if self.request.watch.bookmarks && part.is_empty() && now >= self.next_bookmark {
            self.next_bookmark = now.checked_add(BOOKMARK_INTERVAL).unwrap_or(now);
            let version = self.known.unwrap_or_default();
            write_bookmark::<T>(self.request.format, version, false, part)?;
        }
        Ok(())
    }

    /// Takes the rows of now for a reader that has none.
    fn begin(&mut self) -> Result<(), Failure> {
        let rows = feed_of::<T>(&self.endpoint).rows();
        let (rows, version) = rows.ok_or_else(Failure::unavailable)?;
        self.known = Some(version);
        if self.request.watch.start == WatchStart::Rows {
            let selected = rows
                .into_iter()
                .filter(|row| self.request.selects(&*row.row));
            self.initial = selected.collect::<Vec<_>>().into_iter();
        }
        Ok(())
    }

    /// Writes a part of the rows that the reader has not had. A bookmark ends them.
    fn write_rows(&mut self, part: &mut Vec<u8>) -> Result<(), Failure> {
        for row in self.initial.by_ref().take(PART_SIZE) {
            write_initial(&row, self.request.format, part)?;
        }
        let has_ended = self.initial.len() == 0 && self.request.watch.ends_initial_events;
        if let (true, Some(version)) = (has_ended, self.known) {
            write_bookmark::<T>(self.request.format, version, true, part)?;
        }
        Ok(())
    }

    fn write_changes_since(&mut self, version: Version, part: &mut Vec<u8>) -> Result<(), Failure> {
        let new = feed_of::<T>(&self.endpoint).changes_since(version, PART_SIZE);
        let new = new.ok_or_else(Failure::expired_version)?;
        for change in new.changes {
            if self.request.selects(&*change.row.row) {
                write_change(&change, self.request.format, part)?;
            }
        }
        self.has_more = new.is_partial;
        self.known = Some(new.version);
        Ok(())
    }

    /// Fails if the reader no longer has the right, or if that is not known for long.
    async fn review(&mut self) -> Result<(), Failure> {
        let right = RequiredRight::Resource(self.request.right());
        let callers = &self.endpoint.callers;
        let review = callers.review_again(&self.user, self.is_proxied, right);
        match tokio::time::timeout(REVIEW_TIMEOUT, review).await {
            Ok(Ok(false)) => Err(access::deny_missing_right(&self.user, right).into()),
            Ok(Ok(true)) => {
                self.reviewed = Instant::now();
                Ok(())
            }
            Ok(Err(_)) | Err(_) if self.reviewed.elapsed() < MAX_UNREVIEWED => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Failure::unavailable()),
        }
    }
}

fn feed_of<T: WatchableRow>(endpoint: &Endpoint) -> &WatchFeed<T> {
    T::feed(endpoint.snapshot_views.feeds())
}
