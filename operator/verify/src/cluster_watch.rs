//! The history of a real cluster, from watches. This is the only part of the crate that does I/O.
//!
//! Each kind has its own watch, and their events arrive in any order. A change therefore waits for
//! [`ORDERING_DELAY`], and then changes reach the rules in the order of their revisions.

mod broken_watches;
pub(crate) mod change_queue;
pub(crate) mod kind_watch;

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{BoxStream, SelectAll};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::runtime::watcher;
use kube::{Api, Client};
use tokio::time::{Instant, timeout};

use crate::judged_kinds::LEASE_NAME;
use crate::known_objects::KindChange;
use crate::{Change, Finding, Health, Verifier, WATCHED_KINDS};
use broken_watches::BrokenWatches;
use change_queue::ChangeQueue;
use kind_watch::WatchEvent;

/// Time that a change waits for earlier changes of other kinds.
const ORDERING_DELAY: SignedDuration = SignedDuration::from_secs(2);
/// Time between two looks at the clock.
const STEP: Duration = Duration::from_millis(500);
/// Time after the first lists in which controllers finish what they have begun, such as the deletion
/// of a job's pods.
const SETTLE_TIME: Duration = Duration::from_secs(3);
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
    waiting: ChangeQueue,
    broken: BrokenWatches,
    leases: Api<Lease>,
    ordering_delay: SignedDuration,
    judged_until: Timestamp,
}

impl ClusterWatch {
    /// Lists the objects of the cluster, and starts the watches. The operator's Lease is in
    /// `operator_namespace`.
    ///
    /// # Errors
    /// If the API server refuses a watch, or does not answer in time.
    pub async fn start(client: &Client, operator_namespace: &str) -> Result<Self, WatchFailure> {
        let mut events = kind_watch::start_watches(client, operator_namespace);
        let mut missing: BTreeSet<&'static str> = WATCHED_KINDS.into();
        let mut listed: Vec<KindChange> = Vec::new();
        let mut last_error = None;
        let start = Instant::now();
        while !missing.is_empty() {
            let left = LIST_TIMEOUT.saturating_sub(start.elapsed());
            match timeout(left, events.next()).await {
                Ok(Some(WatchEvent::Change(change))) => listed.push(change),
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
            if let WatchEvent::Change(change) = event {
                listed.push(change);
            }
        }
        let now = Timestamp::now();
        let mut verifier = Verifier::new(now);
        for change in listed {
            verifier.load(&Change {
                time: now,
                revision: change.revision,
                object: change.object,
                is_listed: true,
            });
        }
        verifier.start();
        Ok(Self {
            verifier,
            events,
            waiting: ChangeQueue::default(),
            broken: BrokenWatches::default(),
            leases: Api::namespaced(client.clone(), operator_namespace),
            ordering_delay: ORDERING_DELAY,
            judged_until: now,
        })
    }

    /// Sets the time that a change waits for earlier changes of other kinds. A shorter time suits an
    /// API server on the same machine.
    pub fn set_ordering_delay(&mut self, delay: SignedDuration) {
        self.ordering_delay = delay;
    }

    /// Returns the time before which the rules have judged all changes that had arrived.
    #[must_use]
    pub fn judged_until(&self) -> Timestamp {
        self.judged_until
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
            self.take_in(event, Timestamp::now());
        }
        let answers = match health {
            Health::Unhealthy => false,
            Health::Healthy => {
                let probe = self.leases.get_metadata_opt(LEASE_NAME);
                matches!(timeout(PROBE_TIMEOUT, probe).await, Ok(Ok(_)))
            }
        };
        let now = Timestamp::now();
        let due = now.saturating_sub(self.ordering_delay).unwrap_or(now);
        self.observe_until(due);
        self.judged_until = self.judged_until.max(due);
        let health = match answers && self.broken_kinds().is_empty() {
            true => Health::Healthy,
            false => Health::Unhealthy,
        };
        self.verifier.pass_time(now, health);
        self.verifier.take_findings()
    }

    fn take_in(&mut self, event: WatchEvent, now: Timestamp) {
        match event {
            WatchEvent::Change(KindChange {
                kind,
                revision,
                object,
                is_listed,
            }) => {
                self.broken.record_event(kind);
                self.waiting.add(Change {
                    time: now,
                    revision,
                    object,
                    is_listed,
                });
            }
            WatchEvent::Listed { kind } => self.broken.record_event(kind),
            WatchEvent::Broken { kind, .. } => self.broken.record_error(kind),
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
        self.broken.kinds()
    }

    fn observe_until(&mut self, time: Timestamp) {
        for change in self.waiting.take_until(time) {
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
        self.broken.gaps()
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
