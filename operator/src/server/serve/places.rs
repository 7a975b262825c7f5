//! Places of connections. Whoever can reach the port can open as many connections as they like,
//! and is not to keep out whom the server is there for: when all places are taken, who comes has
//! one at once, and somebody gives way. That is one of the address that holds the most, which says
//! nothing, and has said nothing for longest. What is being answered, or reads its answer, gives way
//! only to an address that has less. So one address alone, however many it opens, takes nothing from
//! another; many together leave each other as much as they have; and where all come from one, as
//! behind a proxy, who says nothing gives way to who comes after.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
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

/// The places of one kind.
pub(super) struct Places {
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    /// Counts all that happens: what is lower was earlier.
    next: u64,
    /// By when they came.
    by: BTreeMap<u64, Connection>,
}

struct Connection {
    address: IpAddr,
    /// Requests of it that are being answered: one may be read still when the next is asked.
    busy: usize,
    /// Since when it is as it is.
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

    /// Who gives way to one of this address. None: it is this address that holds the most, and
    /// all that it has asked is being answered.
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
    /// So many.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            taken: Mutex::default(),
        })
    }

    /// A place for one who comes from there. None: there is none for that address.
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

/// A place, until this is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    /// It has been given to somebody else.
    pub(super) is_out: CancellationToken,
}

impl Place {
    /// A request is being answered, and the answer is being read, until that is dropped.
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

/// A request of a connection.
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
        // Whoever is of no such address has a place as well.
        let third = places.enter(of(2)).unwrap();
        assert!(!third.is_out.is_cancelled());
    }

    /// As if they asked much, or sent bodies that do not end.
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
        // Who has given way, and is dropped later, takes nothing with it.
        drop(second);
        assert!(!third.is_out.is_cancelled());
        assert_eq!(places.taken.lock().by.len(), 1);
    }
}
