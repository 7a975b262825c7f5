//! Measures the operator while nothing happens.

use std::fmt;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::time::sleep;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::operator;
use trellis_e2e::proxy::RequestKey;

use crate::replica::Replica;

/// Time after the last act before the measurement.
const SETTLE_TIME: Duration = Duration::from_secs(30);
/// Time in which writes are counted.
const COUNT_TIME: Duration = Duration::from_secs(60);
const MIB: f64 = 1024.0 * 1024.0;

/// The state of the leader at one time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LeaderState {
    pub(crate) replica: String,
    pub(crate) process: u32,
    /// Resident memory in MiB.
    pub(crate) memory: f64,
    pub(crate) open_files: usize,
}

impl fmt::Display for LeaderState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "leader {} (process {}): {:.0} MiB, {} open files",
            self.replica, self.process, self.memory, self.open_files
        )
    }
}

/// One measurement at rest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RestMeasurement {
    /// Hours since the start.
    pub(crate) hours: f64,
    pub(crate) leader: LeaderState,
    /// Writes of all replicas, without renewals of the Lease.
    pub(crate) writes_per_minute: f64,
}

/// Returns the state of the replica that holds the Lease. None: no running replica does.
pub(crate) async fn read_leader(
    control_plane: &ControlPlane,
    replicas: &[Arc<Replica>],
) -> Result<Option<LeaderState>> {
    let leases: Api<Lease> = Api::namespaced(control_plane.client(), operator::NAMESPACE);
    let lease = leases.get_opt(operator::LEASE_NAME).await?;
    let holder = lease.and_then(|lease| lease.spec?.holder_identity);
    let holder = holder.unwrap_or_default();
    let leader = replicas.iter().find_map(|replica| {
        let process = replica.process_id()?;
        let leads = holder.split('_').any(|part| part == process.to_string());
        leads.then(|| LeaderState {
            replica: replica.name.clone(),
            process,
            memory: replica.resident_bytes().unwrap_or_default() / MIB,
            open_files: count_open_files(process),
        })
    });
    Ok(leader)
}

fn count_open_files(process: u32) -> usize {
    fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count)
}

/// Waits until the operator has done what is left, and measures it.
pub(crate) async fn measure(
    control_plane: &ControlPlane,
    replicas: &[Arc<Replica>],
    start: tokio::time::Instant,
) -> Result<RestMeasurement> {
    sleep(SETTLE_TIME).await;
    let before = count_writes(replicas);
    sleep(COUNT_TIME).await;
    let writes = count_writes(replicas) - before;
    let leader = read_leader(control_plane, replicas).await?;
    Ok(RestMeasurement {
        hours: start.elapsed().as_secs_f64() / 3600.0,
        leader: leader.context("no replica leads at rest")?,
        writes_per_minute: writes as f64 * 60.0 / COUNT_TIME.as_secs_f64(),
    })
}

fn count_writes(replicas: &[Arc<Replica>]) -> u64 {
    let is_counted = |key: &RequestKey| key.is_write() && !key.is_lease();
    let count = |replica: &Arc<Replica>| replica.proxy.counts().sum(is_counted).requests;
    replicas.iter().map(count).sum()
}
