//! How many writes may be in flight.
//!
//! The client speaks HTTP/1.1, so a write in flight is a connection, and an
//! API server answers no faster for having more than it can work on: 16 to
//! 32 in flight give all that two cores have (docs/benchmarks.md). The limit
//! grows by one when two whole windows of writes have succeeded and halves when the server pushes back
//! (additive increase, multiplicative decrease, as in TCP).
//!
//! One namespace never has all of them: where its webhooks hang, so do the
//! writes to it, and others must not wait for that.

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
/// A write that lets others go first waits while this many or more are in
/// flight: the server works on them all at once, so with fewer permits taken
/// than there are it would still be slower for every other write.
const FEW: usize = 4;
/// The server does not work on a write that is not answered for so long: it hangs
/// somewhere, at a webhook perhaps, and none other is slower for it.
const HANGS: Duration = Duration::from_secs(1);
/// How often a write that lets others go first looks whether they hang.
const LOOK: Duration = Duration::from_millis(250);
/// How long a write lets others go first.
const PATIENCE: Duration = Duration::from_secs(10);

/// When it is a write's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// As they come.
    InOrder,
    /// When fewer than [`FEW`] are in flight, or once it has waited for [`PATIENCE`].
    AfterOthers {
        /// How long it has waited already.
        waited: Duration,
    },
}

/// An adaptive bound on writes in flight.
#[derive(Debug)]
pub(super) struct Limiter {
    semaphore: Semaphore,
    /// A permit has come back.
    returned: Notify,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Since when each permit that is held is, by its number.
    sent: BTreeMap<u64, Instant>,
    next: u64,
    limit: usize,
    /// Permits that are to vanish when they come back.
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
    /// Given back after the permit: whoever waits for it finds one.
    _share: Share<'a>,
}

/// One of the permits that a namespace may hold.
#[derive(Debug)]
struct Share<'a> {
    limiter: &'a Limiter,
    namespace: Box<str>,
}

impl Limiter {
    /// How many writes are in flight, and how many may be.
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
        // The semaphore is never closed; if it were, writes would go unbounded rather than stop.
        let permit = self.semaphore.acquire().await.ok();
        let number = self.state.lock().send();
        Permit {
            limiter: self,
            permit,
            number,
            _share: share,
        }
    }

    /// The right to a write beside few others.
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

/// A write that waits for others of its namespace.
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
    /// True if the namespace may hold one more.
    fn has_room(&self, namespace: &str) -> bool {
        self.namespaces.has_room(namespace, self.limit)
    }

    /// Gives the number of the permit.
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
    /// Says how the write went. `pushed_back`: refused for load, timed out, or cut off.
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
