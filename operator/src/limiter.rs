//! How many writes may be in flight.
//!
//! The client speaks HTTP/1.1, so a write in flight is a connection, and an
//! API server answers no faster for having more than it can work on: 16 to
//! 32 in flight give all that two cores have (docs/benchmarks.md). The limit
//! grows by one when two whole windows of writes have succeeded and halves when the server pushes back
//! (additive increase, multiplicative decrease, as in TCP).

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

const FIRST: usize = 16;
const LEAST: usize = 2;
const MOST: usize = 32;

/// An adaptive bound on writes in flight.
#[derive(Debug)]
pub struct Limiter {
    semaphore: Semaphore,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limit: usize,
    /// Permits that are to vanish when they come back.
    debt: usize,
    good: usize,
}

impl Default for Limiter {
    fn default() -> Self {
        Self {
            semaphore: Semaphore::new(FIRST),
            state: Mutex::new(State {
                limit: FIRST,
                debt: 0,
                good: 0,
            }),
        }
    }
}

/// The right to one write.
#[derive(Debug)]
pub struct Permit<'a> {
    limiter: &'a Limiter,
    permit: Option<SemaphorePermit<'a>>,
}

impl Limiter {
    /// Waits for the right to one write.
    pub async fn acquire(&self) -> Permit<'_> {
        // The semaphore is never closed; if it were, writes would go unbounded rather than stop.
        let permit = self.semaphore.acquire().await.ok();
        Permit {
            limiter: self,
            permit,
        }
    }

    /// Writes that may be in flight now.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.state.lock().limit
    }
}

impl Permit<'_> {
    /// Says how the write went. `pushed_back`: refused for load, timed out, or cut off.
    pub fn report(mut self, pushed_back: bool) {
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

#[cfg(test)]
mod tests {
    use super::*;

    async fn one(limiter: &Limiter, pushed_back: bool) {
        limiter.acquire().await.report(pushed_back);
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
}
