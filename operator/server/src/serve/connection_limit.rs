//! Places of connections. Any client that reaches the port can open many connections, and must not
//! keep other clients out. When all places are taken, a new connection gets a place at once and the
//! server evicts an old connection. The server evicts from the address that holds the most places:
//! idle connections first, then those that have been idle or busy the longest. It evicts a busy
//! connection only for an address that holds fewer places. So one address cannot starve another,
//! however many connections it opens. Many addresses get equal shares. If all clients share an
//! address, as behind a proxy, the server evicts idle connections for new ones.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::ClientCertificates;

/// Reserved places.
#[derive(Clone)]
pub struct ReservedPlaces {
    /// Number of reserved places.
    pub count: usize,
    /// True if the reserved places are for this client.
    pub is_for: Arc<dyn Fn(&ClientCertificates) -> bool + Send + Sync>,
}

/// The places of one kind.
pub(super) struct ConnectionPlaces {
    capacity: usize,
    occupied: Mutex<OccupiedPlaces>,
}

#[derive(Default)]
struct OccupiedPlaces {
    /// Counter of events: a lower number is earlier.
    next_number: u64,
    /// Connections, by the number of their arrival.
    connections: BTreeMap<u64, PlacedConnection>,
}

struct PlacedConnection {
    address: IpAddr,
    /// Requests being answered: the last answer may still be read when the next request comes.
    active_requests: usize,
    /// When the connection last became busy or idle.
    last_change: u64,
    evicted: CancellationToken,
}

impl PlacedConnection {
    fn is_busy(&self) -> bool {
        self.active_requests > 0
    }
}

impl OccupiedPlaces {
    fn take_number(&mut self) -> u64 {
        let now = self.next_number;
        self.next_number = now.wrapping_add(1);
        now
    }

    /// Returns the connection to evict for a new one from this address. None: this address holds
    /// the most places, and all of its connections are busy.
    fn connection_to_evict(&self, newcomer: IpAddr) -> Option<u64> {
        let mut places_by_address = BTreeMap::from([(newcomer, 1_usize)]);
        for connection in self.connections.values() {
            let places = places_by_address.entry(connection.address).or_default();
            *places = places.saturating_add(1);
        }
        let of = |address: &IpAddr| places_by_address.get(address).copied().unwrap_or_default();
        let most = places_by_address
            .values()
            .copied()
            .max()
            .unwrap_or_default();
        let gives = |connection: &PlacedConnection| {
            let holds = of(&connection.address);
            holds == most && (!connection.is_busy() || holds > of(&newcomer))
        };
        let candidates = self.connections.iter().filter(|(_, one)| gives(one));
        let first = candidates.min_by_key(|(_, one)| (one.is_busy(), one.last_change));
        first.map(|(number, _)| *number)
    }
}

impl ConnectionPlaces {
    /// Creates this many places.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            capacity: most,
            occupied: Mutex::default(),
        })
    }

    /// Returns a place for a connection from this address. None: there is no place for this
    /// address.
    pub(super) fn take_place(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPlace> {
        let mut taken = self.occupied.lock();
        if taken.connections.len() >= self.capacity {
            let gives = taken.connection_to_evict(address)?;
            if let Some(connection) = taken.connections.remove(&gives) {
                connection.evicted.cancel();
            }
        }
        let number = taken.take_number();
        let is_out = CancellationToken::new();
        let connection = PlacedConnection {
            address,
            active_requests: 0,
            last_change: number,
            evicted: is_out.clone(),
        };
        taken.connections.insert(number, connection);
        Some(ConnectionPlace {
            places: self.clone(),
            number,
            evicted: is_out,
        })
    }

    fn update_active_requests(&self, number: u64, counted: impl FnOnce(usize) -> usize) {
        let mut taken = self.occupied.lock();
        let now = taken.take_number();
        if let Some(connection) = taken.connections.get_mut(&number) {
            (connection.active_requests, connection.last_change) =
                (counted(connection.active_requests), now);
        }
    }
}

/// A place, held until it is dropped.
pub(super) struct ConnectionPlace {
    places: Arc<ConnectionPlaces>,
    number: u64,
    /// Cancelled when the place is given to another connection.
    pub(super) evicted: CancellationToken,
}

impl ConnectionPlace {
    /// Marks the connection as busy until the guard is dropped.
    pub(super) fn mark_busy(&self) -> BusyGuard {
        self.places
            .update_active_requests(self.number, |busy| busy.saturating_add(1));
        BusyGuard {
            places: self.places.clone(),
            number: self.number,
        }
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.places.occupied.lock().connections.remove(&self.number);
    }
}

/// Guard for a request of a connection.
pub(super) struct BusyGuard {
    places: Arc<ConnectionPlaces>,
    number: u64,
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.places
            .update_active_requests(self.number, |busy| busy.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTACKER: u8 = 66;
    const SERVER: u8 = 1;

    fn ip_address(address: u8) -> IpAddr {
        [10, 0, 0, address].into()
    }

    fn evicted_places(places: &[ConnectionPlace]) -> Vec<usize> {
        let out = places.iter().enumerate();
        out.filter(|(_, place)| place.evicted.is_cancelled())
            .map(|(number, _)| number)
            .collect()
    }

    #[test]
    fn address_does_not_evict_an_address_with_fewer_connections() {
        let places = ConnectionPlaces::new(4);
        let idle = places.take_place(ip_address(SERVER)).unwrap();
        let busy = places.take_place(ip_address(SERVER)).unwrap();
        let _asks = busy.mark_busy();
        let mut attackers = Vec::new();
        for _ in 0..100 {
            attackers.push(places.take_place(ip_address(ATTACKER)).unwrap());
        }
        assert!(!idle.evicted.is_cancelled() && !busy.evicted.is_cancelled());
        let stay = attackers.len() - 2;
        assert_eq!(evicted_places(&attackers), (0..stay).collect::<Vec<_>>());
        // A client from another address gets a place, too.
        let third = places.take_place(ip_address(2)).unwrap();
        assert!(!third.evicted.is_cancelled());
    }

    /// The attackers keep their connections busy with many requests or endless bodies.
    #[test]
    fn busy_connection_is_evicted_only_for_an_address_with_fewer() {
        let places = ConnectionPlaces::new(3);
        let attackers: Vec<_> = (0..3)
            .map(|_| places.take_place(ip_address(ATTACKER)).unwrap())
            .collect();
        let _asks: Vec<_> = attackers.iter().map(ConnectionPlace::mark_busy).collect();
        assert!(places.take_place(ip_address(ATTACKER)).is_none());
        let server = places.take_place(ip_address(SERVER)).unwrap();
        assert_eq!(evicted_places(&attackers), [0], "what has taken longest");
        let _asks = server.mark_busy();
        // Both addresses would hold equally many, so no answer is lost for the new connection.
        assert!(places.take_place(ip_address(SERVER)).is_none());
        assert!(places.take_place(ip_address(ATTACKER)).is_none());
        assert_eq!(evicted_places(&attackers), [0]);
    }

    #[test]
    fn longest_idle_connection_of_an_address_is_evicted() {
        let places = ConnectionPlaces::new(3);
        let first = places.take_place(ip_address(SERVER)).unwrap();
        let silent = places.take_place(ip_address(SERVER)).unwrap();
        let busy = places.take_place(ip_address(SERVER)).unwrap();
        drop(first.mark_busy());
        let _busy = busy.mark_busy();
        let _one = places.take_place(ip_address(SERVER)).unwrap();
        assert!(silent.evicted.is_cancelled() && !first.evicted.is_cancelled());
        let _other = places.take_place(ip_address(SERVER)).unwrap();
        assert!(first.evicted.is_cancelled() && !busy.evicted.is_cancelled());
    }

    #[test]
    fn dropped_place_is_free() {
        let places = ConnectionPlaces::new(1);
        let first = places.take_place(ip_address(SERVER)).unwrap();
        drop(first);
        let second = places.take_place(ip_address(ATTACKER)).unwrap();
        assert!(!second.evicted.is_cancelled());
        let third = places.take_place(ip_address(SERVER)).unwrap();
        // Dropping an evicted place later frees no other place.
        drop(second);
        assert!(!third.evicted.is_cancelled());
        assert_eq!(places.occupied.lock().connections.len(), 1);
    }
}
