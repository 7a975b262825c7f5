//! Places of connections, some of them kept for those who are known by what they show. Whoever
//! can reach the port can open as many connections as they like, and is not to keep out whom the
//! server is there for: who is not known yet gives way to who comes after.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::Shown;

/// Places that others cannot take.
#[derive(Clone)]
pub struct Kept {
    /// How many.
    pub places: usize,
    /// Whether they are for who shows this.
    pub of: Arc<dyn Fn(&Shown) -> bool + Send + Sync>,
}

/// The places of one server that keeps some.
pub(super) struct Places {
    open: Arc<Semaphore>,
    kept: Arc<Semaphore>,
    of: Kept,
    hall: Hall,
}

impl Places {
    /// So many for all, and so many who have none yet.
    pub(super) fn new(open: usize, of: Kept) -> Arc<Self> {
        Arc::new(Self {
            open: Arc::new(Semaphore::new(open)),
            kept: Arc::new(Semaphore::new(of.places)),
            of,
            hall: Hall {
                most: open,
                guests: Mutex::default(),
            },
        })
    }

    /// One who has no place yet.
    pub(super) fn enter(self: &Arc<Self>) -> Guest {
        let mut guests = self.hall.guests.lock();
        if guests.waiting.len() >= self.hall.most
            && let Some((_, longest)) = guests.waiting.pop_first()
        {
            longest.cancel();
        }
        let number = guests.next;
        guests.next = number.wrapping_add(1);
        let is_out = CancellationToken::new();
        guests.waiting.insert(number, is_out.clone());
        Guest {
            places: self.clone(),
            number,
            is_out,
        }
    }

    /// A place for who shows this, as soon as there is one. None: never.
    pub(super) async fn take(&self, shown: &Shown) -> Option<OwnedSemaphorePermit> {
        let open = self.open.clone().acquire_owned();
        if !(self.of.of)(shown) {
            return open.await.ok();
        }
        let kept = self.kept.clone().acquire_owned();
        tokio::select! {
            biased;
            place = kept => place.ok(),
            place = open => place.ok(),
        }
    }
}

/// Those who have no place yet, in the order in which they came.
struct Hall {
    most: usize,
    guests: Mutex<Guests>,
}

#[derive(Default)]
struct Guests {
    next: u64,
    waiting: BTreeMap<u64, CancellationToken>,
}

/// One who has no place yet, until this is dropped.
pub(super) struct Guest {
    places: Arc<Places>,
    number: u64,
    /// Somebody else has come, and there was no room for both.
    pub(super) is_out: CancellationToken,
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.places.hall.guests.lock().waiting.remove(&self.number);
    }
}
