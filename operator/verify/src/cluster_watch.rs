//! The history of a real cluster, from watches. This is the only part of the crate that does I/O.
//!
//! Each kind has its own watch, and their events arrive in any order. A change therefore waits for
//! [`ORDERING_DELAY`], and then changes reach the rules in the order of their revisions.

mod kind_watch;
mod slim;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{BoxStream, SelectAll};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::runtime::watcher;
use kube::{Api, Client};
use tokio::time::{Instant, timeout};

use crate::{Change, Finding, Health, ObjectVersion, Verifier};
pub use kind_watch::WATCHED_KINDS;
use kind_watch::{LEASE_NAME, WatchEvent};

/// Time that a change waits for earlier changes of other kinds.
const ORDERING_DELAY: SignedDuration = SignedDuration::from_secs(2);
/// Time between two looks at the clock.
const STEP: Duration = Duration::from_millis(500);
/// Time after the first lists in which controllers finish what they have begun, such as the deletion
/// of a job's pods.
const SETTLE_TIME: Duration = Duration::from_secs(3);
/// Time after the last error of a watch at which the watch is open again: the longest pause of the
/// watcher is 30 s. An open watch without changes tells nothing.
const REOPEN_TIME: Duration = Duration::from_secs(35);
/// Longest wait for the first lists.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest wait for an answer of a healthy API server.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// A cluster cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchFailure {
    /// The API server refuses a watch, for lack of a right or of the kind.
    #[error("cannot watch {kind}: {error}")]
    Refused {
        /// The kind, in the plural, as in a request.
        kind: &'static str,
        /// The error of the watch.
        error: Box<watcher::Error>,
    },
    /// The API server does not list the objects in time.
    #[error("the API server has not listed {} in {} s{}", .kinds.join(", "), LIST_TIMEOUT.as_secs(), .last_error.as_ref().map(|error| format!(": {error}")).unwrap_or_default())]
    NotListed {
        /// The kinds that are missing.
        kinds: Vec<&'static str>,
        /// The last error of a watch.
        last_error: Option<Box<watcher::Error>>,
    },
}

/// Judges a cluster while it watches it.
pub struct ClusterWatch {
    verifier: Verifier,
    events: SelectAll<BoxStream<'static, WatchEvent>>,
    /// Changes that wait for earlier ones, by revision and order of arrival.
    waiting: BTreeMap<(u64, u64), Change>,
    arrivals: u64,
    /// Kinds whose watch has broken, with the time of the last error.
    broken: BTreeMap<&'static str, Instant>,
    gaps: u64,
    leases: Api<Lease>,
}

impl ClusterWatch {
    /// Lists the objects of the cluster, and starts the watches. The operator's Lease is in
    /// `operator_namespace`.
    ///
    /// # Errors
    /// If the API server refuses a watch, or does not answer in time.
    pub async fn start(client: &Client, operator_namespace: &str) -> Result<Self, WatchFailure> {
        let mut events = kind_watch::all(client, operator_namespace);
        let mut missing: BTreeSet<&'static str> = WATCHED_KINDS.into();
        let mut listed: Vec<(u64, ObjectVersion)> = Vec::new();
        let mut last_error = None;
        let start = Instant::now();
        while !missing.is_empty() {
            let left = LIST_TIMEOUT.saturating_sub(start.elapsed());
            match timeout(left, events.next()).await {
                Ok(Some(WatchEvent::Change {
                    revision, object, ..
                })) => listed.push((revision, object)),
                Ok(Some(WatchEvent::Listed { kind })) => {
                    missing.remove(kind);
                }
                Ok(Some(WatchEvent::Broken { kind, error })) if is_refusal(&error) => {
                    return Err(WatchFailure::Refused { kind, error });
                }
                Ok(Some(WatchEvent::Broken { error, .. })) => last_error = Some(error),
                Ok(None) | Err(_) => {
                    return Err(WatchFailure::NotListed {
                        kinds: missing.into_iter().collect(),
                        last_error,
                    });
                }
            }
        }
        let start = Instant::now();
        let left = || SETTLE_TIME.saturating_sub(start.elapsed());
        while let Ok(Some(event)) = timeout(left(), events.next()).await {
            if let WatchEvent::Change {
                revision, object, ..
            } = event
            {
                listed.push((revision, object));
            }
        }
        let now = Timestamp::now();
        let mut verifier = Verifier::new(now);
        for (revision, object) in listed {
            verifier.load(&Change {
                time: now,
                revision,
                object,
            });
        }
        verifier.start();
        Ok(Self {
            verifier,
            events,
            waiting: BTreeMap::new(),
            arrivals: 0,
            broken: BTreeMap::new(),
            gaps: 0,
            leases: Api::namespaced(client.clone(), operator_namespace),
        })
    }

    /// Judges the state at the start alone.
    pub fn look(&mut self) -> Vec<Finding> {
        self.verifier.pass_time(Timestamp::now(), Health::Healthy);
        self.verifier.take_findings()
    }

    /// Takes in the changes of half a second, and returns new findings. `health` is the caller's
    /// knowledge of faults. The time counts as healthy only if the API server answers, too.
    pub async fn step(&mut self, health: Health) -> Vec<Finding> {
        let start = Instant::now();
        let left = || STEP.saturating_sub(start.elapsed());
        while !left().is_zero()
            && let Ok(Some(event)) = timeout(left(), self.events.next()).await
        {
            self.take_in(event);
        }
        let answers = match health {
            Health::Unhealthy => false,
            Health::Healthy => {
                let probe = self.leases.get_metadata_opt(LEASE_NAME);
                matches!(timeout(PROBE_TIMEOUT, probe).await, Ok(Ok(_)))
            }
        };
        let now = Timestamp::now();
        let due = now.saturating_sub(ORDERING_DELAY).unwrap_or(now);
        self.observe_until(due);
        let health = match answers && self.broken_kinds().is_empty() {
            true => Health::Healthy,
            false => Health::Unhealthy,
        };
        self.verifier.pass_time(now, health);
        self.verifier.take_findings()
    }

    fn take_in(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Change {
                kind,
                revision,
                object,
            } => {
                self.broken.remove(kind);
                self.arrivals = self.arrivals.saturating_add(1);
                let change = Change {
                    time: Timestamp::now(),
                    revision,
                    object,
                };
                self.waiting.insert((revision, self.arrivals), change);
            }
            WatchEvent::Listed { kind } => {
                self.broken.remove(kind);
            }
            WatchEvent::Broken { kind, .. } => {
                if self.broken.insert(kind, Instant::now()).is_none() {
                    self.gaps = self.gaps.saturating_add(1);
                }
            }
        }
    }

    /// Judges the changes that still wait for earlier ones. Returns new findings.
    pub fn finish(&mut self) -> Vec<Finding> {
        self.observe_until(Timestamp::now());
        self.verifier.take_findings()
    }

    /// Returns the kinds whose watch is broken now.
    #[must_use]
    pub fn broken_kinds(&self) -> Vec<&'static str> {
        let broken = self.broken.iter();
        let broken = broken.filter(|(_, since)| since.elapsed() < REOPEN_TIME);
        broken.map(|(kind, _)| *kind).collect()
    }

    /// Gives the rules the changes that arrived before `time`, and all changes of lower revisions.
    fn observe_until(&mut self, time: Timestamp) {
        let mut latest_first = self.waiting.iter().rev();
        let Some((&last, _)) = latest_first.find(|(_, change)| change.time <= time) else {
            return;
        };
        while let Some(entry) = self.waiting.first_entry()
            && *entry.key() <= last
        {
            let change = entry.remove();
            self.verifier.observe(&change);
        }
    }

    /// Returns the verifier, for its counts.
    #[must_use]
    pub fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    /// Returns how often a watch broke. Changes during such a gap may be unseen.
    #[must_use]
    pub fn gaps(&self) -> u64 {
        self.gaps
    }
}

/// Returns true for an error that another try does not mend.
fn is_refusal(error: &watcher::Error) -> bool {
    use watcher::Error::{InitialListFailed, WatchError, WatchFailed, WatchStartFailed};
    let status = match error {
        InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status))
        | WatchFailed(kube::Error::Api(status)) => status,
        WatchError(status) => status,
        _ => return false,
    };
    matches!(status.code, 401 | 403 | 404)
}
