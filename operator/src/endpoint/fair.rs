//! Turns of which no address has more than half, whoever waits behind it: one that asks as much
//! as it can leaves the others theirs.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Addresses that are kept while nobody of them has a turn or waits for one.
const IDLE: usize = 256;

/// The turns.
pub(super) struct Fair {
    all: Arc<Semaphore>,
    half: usize,
    by: Mutex<BTreeMap<Option<IpAddr>, Arc<Semaphore>>>,
}

impl Fair {
    /// So many.
    pub(super) fn new(turns: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(turns)),
            half: turns.div_ceil(2),
            by: Mutex::default(),
        }
    }

    /// A turn for one who comes from there.
    pub(super) async fn acquire(
        &self,
        address: Option<IpAddr>,
    ) -> Result<[OwnedSemaphorePermit; 2], AcquireError> {
        let own = self.of(address).acquire_owned().await?;
        let turn = self.all.clone().acquire_owned().await?;
        Ok([own, turn])
    }

    fn of(&self, address: Option<IpAddr>) -> Arc<Semaphore> {
        let mut by = self.by.lock();
        if by.len() >= IDLE {
            by.retain(|_, turns| Arc::strong_count(turns) > 1);
        }
        let new = || Arc::new(Semaphore::new(self.half));
        by.entry(address).or_insert_with(new).clone()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn an_address_has_half_of_the_turns_whoever_waits_behind_it() {
        let fair = Fair::new(4);
        let of = |address: u8| Some(IpAddr::from([10, 0, 0, address]));
        let mut first = Vec::new();
        for _ in 0..2 {
            first.push(fair.acquire(of(1)).await.unwrap());
        }
        let mut third = Box::pin(fair.acquire(of(1)));
        assert!((&mut third).now_or_never().is_none());
        let second = fair.acquire(of(2)).now_or_never().unwrap().unwrap();
        drop(first.pop());
        assert!(third.now_or_never().is_some());
        drop((first, second));
        assert_eq!(fair.all.available_permits(), 4);
    }

    #[tokio::test]
    async fn addresses_of_which_nobody_is_there_are_forgotten() {
        let fair = Fair::new(4);
        let stays = fair.acquire(None).await.unwrap();
        for address in 0..u32::try_from(3 * IDLE).unwrap() {
            let address = std::net::Ipv4Addr::from_bits(address);
            drop(fair.acquire(Some(address.into())).await.unwrap());
        }
        assert!(fair.by.lock().len() <= IDLE);
        assert!(fair.by.lock().contains_key(&None));
        drop(stays);
    }
}
