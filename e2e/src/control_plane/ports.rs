//! Free ports on 127.0.0.1.

use std::{
    net::TcpListener,
    process,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Result, bail};

/// Ports below the kernel's range for outgoing connections, so that no connection takes a port
/// after the search.
const FIRST_PORT: u16 = 20_000;
const PORT_COUNT: u16 = 12_000;

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
    /// Finds free ports. Two processes that search at the same time start at different ports. If
    /// they find the same port all the same, a component of one does not start.
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
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port from {FIRST_PORT} on")
}
