//! Leadership as each write checks it: whether this replica leads, in which epoch, and for how
//! long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use trellis_gang::journal::epoch::Epoch;

use super::{NotLeading, epoch_of};

/// Longest wait for the answer to a write. With a shorter lease, a write waits no longer than the
/// lease.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// Returns how long the holder of a lease of this duration waits for the answer to a write. The
/// holder keeps to this time, and publishes it in the Lease.
pub(super) fn request_time(lease: Duration) -> Duration {
    REQUEST_TIMEOUT.min(lease)
}

/// Proof of leadership, as long as [`Self::check`] succeeds.
#[derive(Clone, Debug)]
pub struct Leadership {
    /// Epoch of this leader. It never decreases.
    epoch: Arc<watch::Sender<Epoch>>,
    /// The requested epoch. The holder of the lease writes it to the Lease.
    pub(super) wanted_epoch: Arc<watch::Sender<Epoch>>,
    start: Instant,
    /// Milliseconds after `start` until which the lease is ours; 0 once it is lost.
    valid_until: Arc<AtomicU64>,
    /// How long a write waits for its answer.
    request_time: Duration,
}

impl Leadership {
    /// Returns the leadership whose lease has to be [extended](Self::extend) first.
    pub(super) fn new(epoch: Epoch, start: Instant, lease: Duration) -> Self {
        Self {
            request_time: request_time(lease),
            epoch: Arc::new(watch::Sender::new(epoch)),
            wanted_epoch: Arc::new(watch::Sender::new(epoch)),
            start,
            valid_until: Arc::new(AtomicU64::new(0)),
        }
    }

    /// Returns the epoch of this leader.
    ///
    /// # Errors
    /// If the lease is no longer ours, or may no longer be ours.
    pub fn check(&self) -> Result<Epoch, NotLeading> {
        match self.remaining() {
            Some(_) => Ok(*self.epoch.borrow()),
            None => Err(NotLeading),
        }
    }

    /// Returns a receiver of this leader's epoch.
    pub(super) fn watch_epoch(&self) -> watch::Receiver<Epoch> {
        self.epoch.subscribe()
    }

    /// Returns how long the lease is ours without a renewal. None: it is not ours.
    fn remaining(&self) -> Option<Duration> {
        let until = Duration::from_millis(self.valid_until.load(Ordering::Acquire));
        let remaining = until.checked_sub(self.start.elapsed())?;
        (!remaining.is_zero()).then_some(remaining)
    }

    /// Waits until the lease is no longer ours, or may no longer be ours.
    pub(crate) async fn wait_until_lost(&self) {
        while let Some(remaining) = self.remaining() {
            tokio::time::sleep(remaining).await;
        }
    }

    /// Returns how long a write waits for its answer.
    #[must_use]
    pub(crate) fn request_time(&self) -> Duration {
        self.request_time
    }

    /// Raises the epoch above an epoch that was seen in a journal, first in the Lease. Waits until
    /// that is done. Waits forever once the lease is lost.
    pub(crate) async fn raise_above(&self, journaled: Epoch) {
        let above = Epoch(journaled.0.saturating_add(1));
        self.wanted_epoch.send_if_modified(|wanted| {
            let higher = above > *wanted;
            *wanted = above.max(*wanted);
            higher
        });
        // The sender lives as long as `self`.
        let _ = self.epoch.subscribe().wait_for(|e| *e >= above).await;
    }

    /// Records the current transitions of the Lease.
    pub(super) fn record_transitions(&self, transitions: i32) {
        let epoch = epoch_of(transitions);
        self.epoch.send_if_modified(|now| {
            let higher = epoch > *now;
            *now = epoch.max(*now);
            higher
        });
    }

    pub(super) fn extend(&self, renewed: Instant, duration: Duration) {
        let until = renewed
            .saturating_duration_since(self.start)
            .saturating_add(duration);
        self.valid_until.store(
            u64::try_from(until.as_millis()).unwrap_or(u64::MAX),
            Ordering::Release,
        );
    }

    pub(super) fn lose(&self) {
        self.valid_until.store(0, Ordering::Release);
    }
}

#[cfg(any(test, feature = "fixtures"))]
impl Leadership {
    /// Returns the leadership of a test, which holds for an hour without a Lease.
    #[must_use]
    pub fn for_test() -> Self {
        Self::with_remaining(Duration::from_secs(3600))
    }

    /// Returns the leadership of a test, with a lease that is not renewed.
    pub fn with_remaining(remaining: Duration) -> Self {
        let now = Instant::now();
        let leadership = Self::new(Epoch(1), now, Duration::from_secs(3600));
        leadership.extend(now, remaining);
        leadership
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn epoch_is_raised_once_the_lease_has_it() {
        let leadership = Leadership::new(Epoch(1), Instant::now(), Duration::from_secs(15));
        assert_eq!(leadership.check(), Err(NotLeading));
        leadership.extend(Instant::now(), Duration::from_secs(600));
        assert_eq!(leadership.check(), Ok(Epoch(1)));
        // A lower epoch changes nothing.
        leadership.raise_above(Epoch(0)).await;
        let raised = leadership.raise_above(Epoch(7));
        tokio::pin!(raised);
        let lease = async {
            tokio::task::yield_now().await;
            assert_eq!(*leadership.wanted_epoch.borrow(), Epoch(8));
            assert_eq!(
                leadership.check(),
                Ok(Epoch(1)),
                "the Lease does not have the epoch yet"
            );
            leadership.record_transitions(3);
            assert_eq!(leadership.check(), Ok(Epoch(4)));
            leadership.record_transitions(7);
        };
        tokio::join!(raised, lease);
        assert_eq!(leadership.check(), Ok(Epoch(8)));
        leadership.record_transitions(0);
        assert_eq!(
            leadership.check(),
            Ok(Epoch(8)),
            "the epoch never decreases"
        );
    }
}
