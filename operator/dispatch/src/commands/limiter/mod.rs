//! Limits the writes in flight.
//!
//! The client speaks HTTP/1.1, so a write in flight is a connection. More requests than the API
//! server can process do not get faster answers: 16 to 32 in flight use all of two cores
//! (docs/benchmarks.md). The limit grows by one after two whole windows of successful writes, and
//! halves when the server pushes back (additive increase, multiplicative decrease, as in TCP).
//!
//! One namespace never gets all permits. If its webhooks hang, the writes to it hang, too, and
//! writes to other namespaces must not wait for them.

mod namespaces;

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::Instant;

use namespaces::NamespacePermits;

const INITIAL_LIMIT: usize = 16;
const MIN_LIMIT: usize = 2;
const MAX_LIMIT: usize = 32;
/// A low-priority write waits while this many or more writes are in flight. The server processes
/// all of them at once. So even with free permits, a low-priority write would slow down every other
/// write.
const LOW_PRIORITY_THRESHOLD: usize = 4;
/// A write without an answer for this long hangs, perhaps at a webhook. The server does not process
/// it, so it does not slow down other writes.
const HANG_AFTER: Duration = Duration::from_secs(1);
/// Interval at which a low-priority write checks whether the writes in flight hang.
const HANG_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Longest wait of a low-priority write.
const MAX_LOW_PRIORITY_WAIT: Duration = Duration::from_secs(10);

/// When a write gets its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WritePriority {
    /// In the order of arrival.
    Normal,
    /// When fewer than [`LOW_PRIORITY_THRESHOLD`] writes are in flight, or after
    /// [`MAX_LOW_PRIORITY_WAIT`].
    Low {
        /// How long the write has already waited.
        waited: Duration,
    },
}

/// An adaptive limit of writes in flight.
#[derive(Debug)]
pub(super) struct Limiter {
    semaphore: Semaphore,
    /// Notified when a permit is returned.
    permit_returned: Notify,
    state: Mutex<LimiterState>,
}

#[derive(Debug)]
struct LimiterState {
    /// When each held permit was issued, by its number.
    sent_at: BTreeMap<u64, Instant>,
    next: u64,
    limit: usize,
    /// Permits to remove when they are returned.
    debt: usize,
    successes: usize,
    namespaces: NamespacePermits,
}

impl Default for Limiter {
    fn default() -> Self {
        Self {
            semaphore: Semaphore::new(INITIAL_LIMIT),
            permit_returned: Notify::new(),
            state: Mutex::new(LimiterState {
                sent_at: BTreeMap::new(),
                next: 0,
                limit: INITIAL_LIMIT,
                debt: 0,
                successes: 0,
                namespaces: NamespacePermits::default(),
            }),
        }
    }
}

/// The right to one write.
#[derive(Debug)]
pub(super) struct Permit<'a> {
    limiter: &'a Limiter,
    permit: Option<SemaphorePermit<'a>>,
    number: u64,
    /// Dropped after the permit, so that a write waiting for this share finds a permit.
    _share: NamespaceShare<'a>,
}

/// One of the permits that a namespace may hold.
#[derive(Debug)]
struct NamespaceShare<'a> {
    limiter: &'a Limiter,
    namespace: Box<str>,
}

impl Limiter {
    /// Returns the number of writes in flight, and its limit.
    pub(super) fn usage(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.sent_at.len(), state.limit)
    }

    /// Waits for the right to one write to this namespace.
    pub(super) async fn acquire(&self, turn: WritePriority, namespace: &str) -> Permit<'_> {
        if let WritePriority::Low { waited } = turn {
            let patience = MAX_LOW_PRIORITY_WAIT.saturating_sub(waited);
            if let Ok(permit) =
                tokio::time::timeout(patience, self.acquire_when_few_in_flight(namespace)).await
            {
                return permit;
            }
        }
        let share = self.acquire_share(namespace).await;
        // The semaphore is never closed. If it were, writes would continue without a limit.
        let permit = self.semaphore.acquire().await.ok();
        let number = self.state.lock().record_send();
        Permit {
            limiter: self,
            permit,
            number,
            _share: share,
        }
    }

    /// Waits until few writes are in flight, and returns a permit.
    async fn acquire_when_few_in_flight(&self, namespace: &str) -> Permit<'_> {
        loop {
            {
                let mut state = self.state.lock();
                if state.in_flight() < LOW_PRIORITY_THRESHOLD
                    && state.has_room(namespace)
                    && let Ok(permit) = self.semaphore.try_acquire()
                {
                    let number = state.record_send();
                    state.namespaces.take_permit(namespace);
                    // There may be room for the next waiting write, too.
                    self.permit_returned.notify_one();
                    return Permit {
                        limiter: self,
                        permit: Some(permit),
                        number,
                        _share: NamespaceShare {
                            limiter: self,
                            namespace: namespace.into(),
                        },
                    };
                }
            }
            let _ =
                tokio::time::timeout(HANG_CHECK_INTERVAL, self.permit_returned.notified()).await;
        }
    }

    /// Waits until the namespace may hold one more permit.
    async fn acquire_share(&self, namespace: &str) -> NamespaceShare<'_> {
        let share = || NamespaceShare {
            limiter: self,
            namespace: namespace.into(),
        };
        let (permit_freed, _waiting) = {
            let mut state = self.state.lock();
            if state.has_room(namespace) {
                state.namespaces.take_permit(namespace);
                return share();
            }
            let waiting = WaitingWrite {
                limiter: self,
                namespace,
            };
            (state.namespaces.add_waiting_write(namespace), waiting)
        };
        loop {
            permit_freed.notified().await;
            let mut state = self.state.lock();
            if state.has_room(namespace) {
                state.namespaces.take_permit(namespace);
                if state.has_room(namespace) {
                    permit_freed.notify_one();
                }
                return share();
            }
        }
    }

    /// Returns the number of writes that may be in flight now.
    #[cfg(test)]
    pub(super) fn limit(&self) -> usize {
        self.state.lock().limit
    }
}

/// Counts a waiting write of a namespace until the guard is dropped.
struct WaitingWrite<'a> {
    limiter: &'a Limiter,
    namespace: &'a str,
}

impl Drop for WaitingWrite<'_> {
    fn drop(&mut self) {
        let mut state = self.limiter.state.lock();
        state.namespaces.release(self.namespace, |here| {
            here.waiting_writes = here.waiting_writes.saturating_sub(1);
        });
    }
}

impl Drop for NamespaceShare<'_> {
    fn drop(&mut self) {
        let mut state = self.limiter.state.lock();
        state.namespaces.release(&self.namespace, |here| {
            here.permits = here.permits.saturating_sub(1);
            here.permit_returned.notify_one();
        });
    }
}

impl LimiterState {
    /// Returns true if the namespace may hold another permit.
    fn has_room(&self, namespace: &str) -> bool {
        self.namespaces.has_room(namespace, self.limit)
    }

    /// Records a sent write. Returns the number of its permit.
    fn record_send(&mut self) -> u64 {
        let number = self.next;
        self.next = number.wrapping_add(1);
        self.sent_at.insert(number, Instant::now());
        number
    }

    /// Returns the number of writes that the server processes.
    fn in_flight(&self) -> usize {
        let sent = self.sent_at.values();
        sent.filter(|at| at.elapsed() < HANG_AFTER).count()
    }
}

impl Permit<'_> {
    /// Reports the result of the write. `pushed_back`: the write was refused for load, timed out,
    /// or was cut off.
    pub(super) fn report(mut self, pushed_back: bool) {
        let Some(permit) = self.permit.take() else {
            return;
        };
        let mut state = self.limiter.state.lock();
        if pushed_back {
            state.successes = 0;
            let lower = state.limit.div_ceil(2).max(MIN_LIMIT);
            let less = state.limit.saturating_sub(lower);
            state.debt = state.debt.saturating_add(less);
            state.limit = lower;
        } else {
            state.successes = state.successes.saturating_add(1);
            if state.successes >= state.limit.saturating_mul(2) && state.limit < MAX_LIMIT {
                state.successes = 0;
                state.limit = state.limit.saturating_add(1);
                if state.debt > 0 {
                    state.debt = state.debt.saturating_sub(1);
                } else {
                    self.limiter.semaphore.add_permits(1);
                }
            }
        }
        if state.debt > 0 {
            state.debt = state.debt.saturating_sub(1);
            permit.forget();
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        drop(self.permit.take());
        {
            let mut state = self.limiter.state.lock();
            state.sent_at.remove(&self.number);
        }
        self.limiter.permit_returned.notify_one();
    }
}

#[cfg(test)]
mod tests;
