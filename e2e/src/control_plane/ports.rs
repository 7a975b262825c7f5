//! Free ports on 127.0.0.1.

use std::{
    net::{TcpListener, UdpSocket},
    process,
    sync::{Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Result, bail};

/// Ports below the kernel's range for outgoing connections, so that no connection takes a port
/// after the search.
const FIRST_PORT: u16 = 20_000;
const PORT_COUNT: u16 = 12_000;

/// A UDP port for each TCP port that this process has found. A program uses its TCP port seconds
/// after the search, and no other search may find the port meanwhile. The end of the process frees
/// them.
static RESERVATIONS: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// The ports of one control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ComponentPorts {
    pub(super) etcd: u16,
    pub(super) etcd_peer: u16,
    pub(super) api_server: u16,
    pub(super) controller_manager: u16,
    pub(super) kwok: u16,
}

impl ComponentPorts {
    /// Finds free ports.
    pub(super) fn find() -> Result<Self> {
        let mut next = random_start()?;
        let mut find = || find_free_port(&mut next);
        Ok(Self {
            etcd: find()?,
            etcd_peer: find()?,
            api_server: find()?,
            controller_manager: find()?,
            kwok: find()?,
        })
    }
}

/// Returns a free port, for a program that needs its port before its start.
///
/// # Errors
///
/// When no port is free.
pub fn free_port() -> Result<u16> {
    find_free_port(&mut random_start()?)
}

/// Returns the first port of the search.
fn random_start() -> Result<u32> {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH)?.subsec_nanos();
    Ok((process::id().wrapping_mul(7919) ^ nanos) % u32::from(PORT_COUNT))
}

fn find_free_port(next: &mut u32) -> Result<u16> {
    for _ in 0..PORT_COUNT {
        let port = FIRST_PORT + u16::try_from(*next)?;
        *next = (*next + 1) % u32::from(PORT_COUNT);
        let Ok(reservation) = UdpSocket::bind(("127.0.0.1", port)) else {
            continue;
        };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            let mut reservations = RESERVATIONS.lock().unwrap_or_else(PoisonError::into_inner);
            reservations.push(reservation);
            return Ok(port);
        }
    }
    bail!("no free port from {FIRST_PORT} on")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn port_is_found_once() {
        let ports: Vec<u16> = (0..300).map(|_| free_port().unwrap()).collect();
        let distinct: BTreeSet<_> = ports.iter().collect();
        assert_eq!(distinct.len(), ports.len());
    }
}
