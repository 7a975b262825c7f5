//! Fair turns. In the common queue, each caller waits with at most as many requests as it may run
//! at once, so it cannot starve another caller.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Number of callers from which idle callers are dropped.
const MAX_IDLE_CALLERS: usize = 256;

/// The turns, and the callers that hold them.
pub(crate) struct FairTurns<K> {
    all: Arc<Semaphore>,
    max_per_caller: usize,
    callers: Mutex<BTreeMap<K, Arc<Semaphore>>>,
}

impl<K: Ord> FairTurns<K> {
    /// Creates this many turns, of which one caller may hold at most half.
    pub(crate) fn half_per_caller(turns: usize) -> Self {
        Self::new(turns, turns.div_ceil(2))
    }

    /// Creates this many turns. One caller may hold all of them, but the next free turn goes to
    /// another caller that waits.
    pub(crate) fn all_per_caller(turns: usize) -> Self {
        Self::new(turns, turns)
    }

    /// Creates this many turns, of which one caller may hold `each`.
    pub(crate) fn new(turns: usize, each: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(turns)),
            max_per_caller: each,
            callers: Mutex::default(),
        }
    }

    /// Waits for a turn for this caller.
    pub(crate) async fn acquire(&self, caller: K) -> Result<FairTurn, AcquireError> {
        self.acquire_many(caller, 1).await
    }

    /// Returns a turn for this caller. None: all are taken.
    pub(crate) fn try_acquire(&self, caller: K) -> Option<FairTurn> {
        let own = self.turns_of_caller(caller).try_acquire_owned().ok()?;
        let turn = self.all.clone().try_acquire_owned().ok()?;
        Some([own, turn])
    }

    /// Waits for this many turns at once for this caller.
    pub(crate) async fn acquire_many(
        &self,
        caller: K,
        turns: u32,
    ) -> Result<FairTurn, AcquireError> {
        let own = self
            .turns_of_caller(caller)
            .acquire_many_owned(turns)
            .await?;
        let turn = self.all.clone().acquire_many_owned(turns).await?;
        Ok([own, turn])
    }

    fn turns_of_caller(&self, caller: K) -> Arc<Semaphore> {
        let mut callers = self.callers.lock();
        if callers.len() >= MAX_IDLE_CALLERS {
            callers.retain(|_, turns| Arc::strong_count(turns) > 1);
        }
        let new = || Arc::new(Semaphore::new(self.max_per_caller));
        callers.entry(caller).or_insert_with(new).clone()
    }
}

/// A turn, held until it is dropped.
pub(crate) type FairTurn = [OwnedSemaphorePermit; 2];

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn caller_takes_at_most_half_of_the_turns() {
        let fair = FairTurns::half_per_caller(4);
        let mut first = Vec::new();
        for _ in 0..2 {
            first.push(fair.acquire(1).await.unwrap());
        }
        let mut third = Box::pin(fair.acquire(1));
        assert!((&mut third).now_or_never().is_none());
        let second = fair.acquire_many(2, 2).now_or_never().unwrap().unwrap();
        drop(first.pop());
        assert!(third.now_or_never().is_some());
        drop((first, second));
        assert_eq!(fair.all.available_permits(), 4);
    }

    #[tokio::test]
    async fn caller_with_all_turns_yields_the_next_turn() {
        let fair = FairTurns::all_per_caller(2);
        let all = fair.acquire_many(1, 2).await.unwrap();
        let mut own: Vec<_> = (0..9).map(|_| Box::pin(fair.acquire(1))).collect();
        for own in &mut own {
            assert!(own.now_or_never().is_none());
        }
        let mut other = Box::pin(fair.acquire(2));
        assert!((&mut other).now_or_never().is_none());
        drop(all);
        assert!(other.now_or_never().is_some());
    }

    #[tokio::test]
    async fn idle_callers_are_forgotten() {
        let fair = FairTurns::half_per_caller(4);
        let stays = fair.acquire(0).await.unwrap();
        for caller in 1..3 * MAX_IDLE_CALLERS {
            drop(fair.acquire(caller).await.unwrap());
        }
        assert!(fair.callers.lock().len() <= MAX_IDLE_CALLERS);
        assert!(fair.callers.lock().contains_key(&0));
        drop(stays);
    }
}
