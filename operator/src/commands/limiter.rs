//! How many writes may be in flight.
//!
//! The client speaks HTTP/1.1, so a write in flight is a connection, and an
//! API server answers no faster for having more than it can work on: 16 to
//! 32 in flight give all that two cores have (docs/benchmarks.md). The limit
//! grows by one when two whole windows of writes have succeeded and halves when the server pushes back
//! (additive increase, multiplicative decrease, as in TCP).

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

const FIRST: usize = 16;
const LEAST: usize = 2;
const MOST: usize = 32;
/// A write that lets others go first waits while this many or more are in
/// flight: the server works on them all at once, so with fewer permits taken
/// than there are it would still be slower for every other write.
const FEW: usize = 4;
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
    /// Permits that are held.
    in_flight: usize,
    limit: usize,
    /// Permits that are to vanish when they come back.
    debt: usize,
    good: usize,
}

impl Default for Limiter {
    fn default() -> Self {
        Self {
            semaphore: Semaphore::new(FIRST),
            returned: Notify::new(),
            state: Mutex::new(State {
                in_flight: 0,
                limit: FIRST,
                debt: 0,
                good: 0,
            }),
        }
    }
}

/// The right to one write.
#[derive(Debug)]
pub(super) struct Permit<'a> {
    limiter: &'a Limiter,
    permit: Option<SemaphorePermit<'a>>,
}

impl Limiter {
    /// Waits for the right to one write.
    pub(super) async fn acquire(&self, turn: Turn) -> Permit<'_> {
        if let Turn::AfterOthers { waited } = turn {
            let patience = PATIENCE.saturating_sub(waited);
            if let Ok(permit) = tokio::time::timeout(patience, self.calm()).await {
                return permit;
            }
        }
        // The semaphore is never closed; if it were, writes would go unbounded rather than stop.
        let permit = self.semaphore.acquire().await.ok();
        self.state.lock().sent();
        Permit {
            limiter: self,
            permit,
        }
    }

    /// The right to a write beside few others.
    async fn calm(&self) -> Permit<'_> {
        loop {
            {
                let mut state = self.state.lock();
                if state.in_flight < FEW
                    && let Ok(permit) = self.semaphore.try_acquire()
                {
                    state.sent();
                    // There may be room for the next as well.
                    self.returned.notify_one();
                    return Permit {
                        limiter: self,
                        permit: Some(permit),
                    };
                }
            }
            self.returned.notified().await;
        }
    }

    /// Writes that may be in flight now.
    #[cfg(test)]
    fn limit(&self) -> usize {
        self.state.lock().limit
    }
}

impl State {
    fn sent(&mut self) {
        self.in_flight = self.in_flight.saturating_add(1);
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
            state.in_flight = state.in_flight.saturating_sub(1);
        }
        self.limiter.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER_OTHERS: Turn = Turn::AfterOthers {
        waited: Duration::ZERO,
    };

    async fn one(limiter: &Limiter, pushed_back: bool) {
        limiter.acquire(Turn::InOrder).await.report(pushed_back);
    }

    #[tokio::test]
    async fn grows_while_all_is_well_and_halves_on_push_back() {
        let limiter = Limiter::default();
        for _ in 0..10_000 {
            one(&limiter, false).await;
        }
        assert_eq!(limiter.limit(), MOST);
        one(&limiter, true).await;
        assert_eq!(limiter.limit(), MOST / 2);
        for _ in 0..100 {
            one(&limiter, true).await;
        }
        assert_eq!(limiter.limit(), LEAST);
    }

    #[tokio::test]
    async fn never_lets_more_through_than_the_limit() {
        let limiter = Limiter::default();
        for pushed_back in [true, false, true, true, false] {
            for _ in 0..200 {
                one(&limiter, pushed_back).await;
            }
            let mut held = Vec::new();
            while let Ok(permit) = limiter.semaphore.try_acquire() {
                held.push(permit);
            }
            let debt = limiter.state.lock().debt;
            assert_eq!(held.len(), limiter.limit() + debt);
        }
    }

    /// Takes all permits there are.
    async fn all(limiter: &Limiter) -> Vec<Permit<'_>> {
        let mut held = Vec::new();
        for _ in 0..limiter.limit() {
            held.push(limiter.acquire(Turn::InOrder).await);
        }
        held
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_lets_others_go_first_waits_until_few_are_in_flight() {
        let limiter = Limiter::default();
        let mut held = Vec::new();
        for _ in 0..=FEW {
            held.push(limiter.acquire(Turn::InOrder).await);
        }
        let start = tokio::time::Instant::now();
        let second = Duration::from_secs(1);
        let free = async {
            for permit in held.drain(..) {
                tokio::time::sleep(second).await;
                permit.report(false);
            }
        };
        let take = async || {
            limiter.acquire(AFTER_OTHERS).await.report(false);
            start.elapsed()
        };
        let ((), one, two) = tokio::join!(free, take(), take());
        assert_eq!(one.max(two), second.saturating_mul(2));
    }

    #[tokio::test(start_paused = true)]
    async fn it_waits_for_a_permit_that_nobody_wants() {
        let limiter = Limiter::default();
        let mut held = all(&limiter).await;
        let order = Mutex::new(Vec::new());
        let write = async |name: &'static str, turn| {
            let permit = limiter.acquire(turn).await;
            order.lock().push(name);
            permit.report(false);
        };
        let start = tokio::time::Instant::now();
        let free = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            held.pop().unwrap().report(false);
            tokio::time::sleep(Duration::from_secs(1)).await;
            held.clear();
        };
        tokio::join!(
            write("event", AFTER_OTHERS),
            write("status", AFTER_OTHERS),
            write("pod", Turn::InOrder),
            write("another", Turn::InOrder),
            free,
        );
        assert_eq!(*order.lock(), ["pod", "another", "event", "status"]);
        // Not once their patience ends: as soon as it is calm.
        assert_eq!(start.elapsed(), Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn it_waits_no_longer_than_its_patience() {
        let limiter = Limiter::default();
        let start = tokio::time::Instant::now();
        // Pods without end, of more gangs than there will ever be permits.
        let pods = futures::future::join_all((0..=MOST).map(|_| async {
            loop {
                let permit = limiter.acquire(Turn::InOrder).await;
                tokio::time::sleep(Duration::from_millis(200)).await;
                permit.report(false);
            }
        }));
        let told = async {
            let permit = limiter.acquire(AFTER_OTHERS).await;
            permit.report(false);
            start.elapsed()
        };
        let took = tokio::select! {
            biased;
            _ = pods => Duration::MAX,
            took = told => took,
        };
        let next = Duration::from_secs(1);
        assert!(
            took >= PATIENCE && took < PATIENCE.saturating_add(next),
            "{took:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_waited_elsewhere_has_waited() {
        let limiter = Limiter::default();
        let mut held = all(&limiter).await;
        let start = tokio::time::Instant::now();
        let free = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            held.pop().unwrap().report(false);
        };
        let take = async |turn| {
            limiter.acquire(turn).await.report(false);
            start.elapsed()
        };
        let late = Turn::AfterOthers { waited: PATIENCE };
        let ((), early, late) = tokio::join!(free, take(AFTER_OTHERS), take(late));
        // With the first permit, though it is not calm until the other's patience ends.
        assert_eq!(late, Duration::from_secs(1));
        assert_eq!(early, PATIENCE);
    }
}
