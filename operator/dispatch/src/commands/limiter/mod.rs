//! Limits the writes in flight.
//!
//! The client speaks HTTP/1.1, so a write in flight is a connection. An API server does not answer
//! faster for more requests than it can work on: 16 to 32 in flight use all of two cores
//! (docs/benchmarks.md). The limit grows by one after two whole windows of successful writes, and
//! halves when the server pushes back (additive increase, multiplicative decrease, as in TCP).
//!
//! One namespace never has all permits: if its webhooks hang, so do the writes to it, and writes to
//! other namespaces must not wait for them.

mod namespaces;

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::Instant;

use namespaces::Namespaces;

const FIRST: usize = 16;
const LEAST: usize = 2;
const MOST: usize = 32;
/// A write of low priority waits while this many or more are in flight. The server works on them
/// all at once, so even with free permits it would slow down every other write.
const FEW: usize = 4;
/// A write without an answer for so long hangs, perhaps at a webhook. The server does not work on
/// it, so it does not slow down other writes.
const HANGS: Duration = Duration::from_secs(1);
/// How often a write of low priority checks whether the others hang.
const LOOK: Duration = Duration::from_millis(250);
/// Longest wait of a write of low priority.
const PATIENCE: Duration = Duration::from_secs(10);

/// When a write gets its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// In the order of arrival.
    InOrder,
    /// When fewer than [`FEW`] are in flight, or after [`PATIENCE`].
    AfterOthers {
        /// Time that it has waited already.
        waited: Duration,
    },
}

/// An adaptive limit of writes in flight.
#[derive(Debug)]
pub(super) struct Limiter {
    semaphore: Semaphore,
    /// Notified when a permit is returned.
    returned: Notify,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// When each held permit was given, by its number.
    sent: BTreeMap<u64, Instant>,
    next: u64,
    limit: usize,
    /// Permits to remove when they are returned.
    debt: usize,
    good: usize,
    namespaces: Namespaces,
}

impl Default for Limiter {
    fn default() -> Self {
        Self {
            semaphore: Semaphore::new(FIRST),
            returned: Notify::new(),
            state: Mutex::new(State {
                sent: BTreeMap::new(),
                next: 0,
                limit: FIRST,
                debt: 0,
                good: 0,
                namespaces: Namespaces::default(),
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
    /// Dropped after the permit, so that a write that waits for this share finds a permit.
    _share: Share<'a>,
}

/// One of the permits that a namespace may hold.
#[derive(Debug)]
struct Share<'a> {
    limiter: &'a Limiter,
    namespace: Box<str>,
}

impl Limiter {
    /// Writes in flight, and how many may be.
    pub(super) fn standing(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.sent.len(), state.limit)
    }

    /// Waits for the right to one write to that namespace.
    pub(super) async fn acquire(&self, turn: Turn, namespace: &str) -> Permit<'_> {
        if let Turn::AfterOthers { waited } = turn {
            let patience = PATIENCE.saturating_sub(waited);
            if let Ok(permit) = tokio::time::timeout(patience, self.calm(namespace)).await {
                return permit;
            }
        }
        let share = self.share(namespace).await;
        // The semaphore is never closed. If it were, writes would be unlimited rather than stop.
        let permit = self.semaphore.acquire().await.ok();
        let number = self.state.lock().send();
        Permit {
            limiter: self,
            permit,
            number,
            _share: share,
        }
    }

    /// A permit once few writes are in flight.
    async fn calm(&self, namespace: &str) -> Permit<'_> {
        loop {
            {
                let mut state = self.state.lock();
                if state.in_flight() < FEW
                    && state.has_room(namespace)
                    && let Ok(permit) = self.semaphore.try_acquire()
                {
                    let number = state.send();
                    state.namespaces.take(namespace);
                    // There may be room for the next as well.
                    self.returned.notify_one();
                    return Permit {
                        limiter: self,
                        permit: Some(permit),
                        number,
                        _share: Share {
                            limiter: self,
                            namespace: namespace.into(),
                        },
                    };
                }
            }
            let _ = tokio::time::timeout(LOOK, self.returned.notified()).await;
        }
    }

    /// Waits until the namespace holds fewer permits than it may.
    async fn share(&self, namespace: &str) -> Share<'_> {
        let share = || Share {
            limiter: self,
            namespace: namespace.into(),
        };
        let (left, _waiting) = {
            let mut state = self.state.lock();
            if state.has_room(namespace) {
                state.namespaces.take(namespace);
                return share();
            }
            let waiting = Waiting {
                limiter: self,
                namespace,
            };
            (state.namespaces.wait(namespace), waiting)
        };
        loop {
            left.notified().await;
            let mut state = self.state.lock();
            if state.has_room(namespace) {
                state.namespaces.take(namespace);
                if state.has_room(namespace) {
                    left.notify_one();
                }
                return share();
            }
        }
    }

    /// Writes that may be in flight now.
    #[cfg(test)]
    pub(super) fn limit(&self) -> usize {
        self.state.lock().limit
    }
}

/// Counts a waiting write of a namespace, until it is dropped.
struct Waiting<'a> {
    limiter: &'a Limiter,
    namespace: &'a str,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.limiter.state.lock();
        state.namespaces.leave(self.namespace, |here| {
            here.waiting = here.waiting.saturating_sub(1);
        });
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let mut state = self.limiter.state.lock();
        state.namespaces.leave(&self.namespace, |here| {
            here.taken = here.taken.saturating_sub(1);
            here.left.notify_one();
        });
    }
}

impl State {
    /// True if the namespace may hold another permit.
    fn has_room(&self, namespace: &str) -> bool {
        self.namespaces.has_room(namespace, self.limit)
    }

    /// Returns the number of the permit.
    fn send(&mut self) -> u64 {
        let number = self.next;
        self.next = number.wrapping_add(1);
        self.sent.insert(number, Instant::now());
        number
    }

    /// Writes that the server works on.
    fn in_flight(&self) -> usize {
        let sent = self.sent.values();
        sent.filter(|at| at.elapsed() < HANGS).count()
    }
}

impl Permit<'_> {
    /// Reports the result of the write. `pushed_back`: refused for load, timed out, or cut off.
    pub(super) fn report(mut self, pushed_back: bool) {
        let Some(permit) = self.permit.take() else {
            return;
        };
        let mut state = self.limiter.state.lock();
        if pushed_back {
            state.good = 0;
            let lower = state.limit.div_ceil(2).max(LEAST);
            let less = state.limit.saturating_sub(lower);
            state.debt = state.debt.saturating_add(less);
            state.limit = lower;
        } else {
            state.good = state.good.saturating_add(1);
            if state.good >= state.limit.saturating_mul(2) && state.limit < MOST {
                state.good = 0;
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
            state.sent.remove(&self.number);
        }
        self.limiter.returned.notify_one();
    }
}

#[cfg(test)]
mod tests;
