//! Places of connections. Any client that reaches the port can open many connections, and must not
//! keep others out. When all places are taken, a new connection gets one at once and an old one is
//! evicted. It is one of the address that holds the most, preferably one that is idle, and the
//! longest. A connection that is being answered is evicted only for an address that holds less. So
//! one address cannot starve another, however many connections it opens. Many addresses leave each
//! other as much as each holds. If all clients share an address, as behind a proxy, idle
//! connections are evicted for new ones.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::Shown;

/// Reserved places.
#[derive(Clone)]
pub struct Kept {
    /// Number of reserved places.
    pub places: usize,
    /// True if the reserved places are for this client.
    pub of: Arc<dyn Fn(&Shown) -> bool + Send + Sync>,
}

/// The places of one kind.
pub(super) struct Places {
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    /// Counter of events: a lower number is earlier.
    next: u64,
    /// Connections, by the number of their arrival.
    by: BTreeMap<u64, Connection>,
}

struct Connection {
    address: IpAddr,
    /// Requests being answered: the last answer may still be read when the next request comes.
    busy: usize,
    /// When the connection last became busy or idle.
    since: u64,
    is_out: CancellationToken,
}

impl Connection {
    fn is_busy(&self) -> bool {
        self.busy > 0
    }
}

impl Taken {
    fn now(&mut self) -> u64 {
        let now = self.next;
        self.next = now.wrapping_add(1);
        now
    }

    /// The connection to evict for a new one of this address. None: this address holds the most,
    /// and all of its connections are busy.
    fn gives_way(&self, comer: IpAddr) -> Option<u64> {
        let mut held = BTreeMap::from([(comer, 1_usize)]);
        for connection in self.by.values() {
            let held = held.entry(connection.address).or_default();
            *held = held.saturating_add(1);
        }
        let of = |address: &IpAddr| held.get(address).copied().unwrap_or_default();
        let most = held.values().copied().max().unwrap_or_default();
        let gives = |connection: &Connection| {
            let holds = of(&connection.address);
            holds == most && (!connection.is_busy() || holds > of(&comer))
        };
        let candidates = self.by.iter().filter(|(_, one)| gives(one));
        let first = candidates.min_by_key(|(_, one)| (one.is_busy(), one.since));
        first.map(|(number, _)| *number)
    }
}

impl Places {
    /// So many places.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            taken: Mutex::default(),
        })
    }

    /// A place for a connection from this address. None: the address gets none.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut taken = self.taken.lock();
        if taken.by.len() >= self.most {
            let gives = taken.gives_way(address)?;
            if let Some(connection) = taken.by.remove(&gives) {
                connection.is_out.cancel();
            }
        }
        let number = taken.now();
        let is_out = CancellationToken::new();
        let connection = Connection {
            address,
            busy: 0,
            since: number,
            is_out: is_out.clone(),
        };
        taken.by.insert(number, connection);
        Some(Place {
            places: self.clone(),
            number,
            is_out,
        })
    }

    fn count(&self, number: u64, counted: impl FnOnce(usize) -> usize) {
        let mut taken = self.taken.lock();
        let now = taken.now();
        if let Some(connection) = taken.by.get_mut(&number) {
            (connection.busy, connection.since) = (counted(connection.busy), now);
        }
    }
}

/// A place, until it is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    /// Cancelled when the place is given to another connection.
    pub(super) is_out: CancellationToken,
}

impl Place {
    /// Marks the connection as busy, until the guard is dropped.
    pub(super) fn busy(&self) -> Busy {
        self.places
            .count(self.number, |busy| busy.saturating_add(1));
        Busy {
            places: self.places.clone(),
            number: self.number,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken.lock().by.remove(&self.number);
    }
}

/// Guard for a request of a connection.
pub(super) struct Busy {
    places: Arc<Places>,
    number: u64,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.places
            .count(self.number, |busy| busy.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTACKER: u8 = 66;
    const SERVER: u8 = 1;

    fn of(address: u8) -> IpAddr {
        [10, 0, 0, address].into()
    }

    fn out(places: &[Place]) -> Vec<usize> {
        let out = places.iter().enumerate();
        out.filter(|(_, place)| place.is_out.is_cancelled())
            .map(|(number, _)| number)
            .collect()
    }

    #[test]
    fn an_address_takes_nothing_from_one_that_holds_less() {
        let places = Places::new(4);
        let idle = places.enter(of(SERVER)).unwrap();
        let busy = places.enter(of(SERVER)).unwrap();
        let _asks = busy.busy();
        let mut attackers = Vec::new();
        for _ in 0..100 {
            attackers.push(places.enter(of(ATTACKER)).unwrap());
        }
        assert!(!idle.is_out.is_cancelled() && !busy.is_out.is_cancelled());
        let stay = attackers.len() - 2;
        assert_eq!(out(&attackers), (0..stay).collect::<Vec<_>>());
        // A client from another address gets a place, too.
        let third = places.enter(of(2)).unwrap();
        assert!(!third.is_out.is_cancelled());
    }

    /// As if the attackers sent many requests, or bodies without end.
    #[test]
    fn what_is_being_answered_gives_way_to_an_address_that_has_less_and_to_its_own_never() {
        let places = Places::new(3);
        let attackers: Vec<_> = (0..3)
            .map(|_| places.enter(of(ATTACKER)).unwrap())
            .collect();
        let _asks: Vec<_> = attackers.iter().map(Place::busy).collect();
        assert!(places.enter(of(ATTACKER)).is_none());
        let server = places.enter(of(SERVER)).unwrap();
        assert_eq!(out(&attackers), [0], "what has taken longest");
        let _asks = server.busy();
        // They would have as much each: nobody's answer is lost for that.
        assert!(places.enter(of(SERVER)).is_none());
        assert!(places.enter(of(ATTACKER)).is_none());
        assert_eq!(out(&attackers), [0]);
    }

    #[test]
    fn of_one_address_who_has_said_nothing_for_longest_gives_way() {
        let places = Places::new(3);
        let first = places.enter(of(SERVER)).unwrap();
        let silent = places.enter(of(SERVER)).unwrap();
        let asks = places.enter(of(SERVER)).unwrap();
        drop(first.busy());
        let _busy = asks.busy();
        let _one = places.enter(of(SERVER)).unwrap();
        assert!(silent.is_out.is_cancelled() && !first.is_out.is_cancelled());
        let _other = places.enter(of(SERVER)).unwrap();
        assert!(first.is_out.is_cancelled() && !asks.is_out.is_cancelled());
    }

    #[test]
    fn a_place_that_is_left_is_free() {
        let places = Places::new(1);
        let first = places.enter(of(SERVER)).unwrap();
        drop(first);
        let second = places.enter(of(ATTACKER)).unwrap();
        assert!(!second.is_out.is_cancelled());
        let third = places.enter(of(SERVER)).unwrap();
        // Dropping an evicted place later frees no other place.
        drop(second);
        assert!(!third.is_out.is_cancelled());
        assert_eq!(places.taken.lock().by.len(), 1);
    }
}
