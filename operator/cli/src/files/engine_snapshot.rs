//! Reads snapshots of the scheduler.

use std::path::Path;

use anyhow::Context as _;
use trellis_scheduler::Snapshot;

/// Reads a snapshot that the operator wrote.
///
/// # Errors
/// If the file cannot be read, or is not a snapshot of this version.
pub fn read_snapshot(file: &Path) -> anyhow::Result<Snapshot> {
    let content = std::fs::read(file)?;
    serde_json::from_slice(&content).context("is not a snapshot of this version of trellis")
}
