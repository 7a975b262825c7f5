//! Fair turns: in the common queue each caller waits with at most as many requests as it may run at
//! once, so it cannot starve the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Idle callers kept at most.
const IDLE: usize = 256;

/// The turns, and the callers that hold them.
pub(crate) struct Fair<K> {
    all: Arc<Semaphore>,
    each: usize,
    by: Mutex<BTreeMap<K, Arc<Semaphore>>>,
}

impl<K: Ord> Fair<K> {
    /// So many turns, of which one caller may hold at most half.
    pub(crate) fn halves(turns: usize) -> Self {
        Self::new(turns, turns.div_ceil(2))
    }

    /// So many turns. One caller may hold all of them, and the next free turn goes to another
    /// caller that waits.
    pub(crate) fn rounds(turns: usize) -> Self {
        Self::new(turns, turns)
    }

    fn new(turns: usize, each: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(turns)),
            each,
            by: Mutex::default(),
        }
    }

    /// A turn for this caller.
    pub(crate) async fn acquire(&self, whose: K) -> Result<FairTurn, AcquireError> {
        self.acquire_many(whose, 1).await
    }

    /// So many turns at once for this caller.
    pub(crate) async fn acquire_many(
        &self,
        whose: K,
        turns: u32,
    ) -> Result<FairTurn, AcquireError> {
        let own = self.of(whose).acquire_many_owned(turns).await?;
        let turn = self.all.clone().acquire_many_owned(turns).await?;
        Ok([own, turn])
    }

    fn of(&self, whose: K) -> Arc<Semaphore> {
        let mut by = self.by.lock();
        if by.len() >= IDLE {
            by.retain(|_, turns| Arc::strong_count(turns) > 1);
        }
        let new = || Arc::new(Semaphore::new(self.each));
        by.entry(whose).or_insert_with(new).clone()
    }
}

/// A turn, until it is dropped.
pub(crate) type FairTurn = [OwnedSemaphorePermit; 2];

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn one_has_half_of_the_turns_whoever_waits_behind_it() {
        let fair = Fair::halves(4);
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
    async fn one_has_all_turns_and_others_the_next() {
        let fair = Fair::rounds(2);
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
    async fn those_of_whom_nobody_is_there_are_forgotten() {
        let fair = Fair::halves(4);
        let stays = fair.acquire(0).await.unwrap();
        for whose in 1..3 * IDLE {
            drop(fair.acquire(whose).await.unwrap());
        }
        assert!(fair.by.lock().len() <= IDLE);
        assert!(fair.by.lock().contains_key(&0));
        drop(stays);
    }
}
