//! Snapshots on a signal.

use std::path::PathBuf;

use tokio::signal::unix::Signal;
use tracing::{info, warn};
use trellis_machine::threads;
use trellis_server::snapshot;
use trellis_server::telemetry::LeaderSlot;

/// Writes the whole state of the scheduler into a folder on every signal.
pub(crate) async fn write_snapshots(folder: PathBuf, mut signal: Signal, leader: LeaderSlot) {
    while signal.recv().await.is_some() {
        let context = leader.read().as_ref().map(|leader| leader.context.clone());
        let Some(context) = context else {
            warn!("no snapshot is written: this replica does not lead");
            continue;
        };
        let snapshot = match snapshot::request(&context).await {
            Ok(snapshot) => snapshot,
            Err(error) => {
                warn!(%error, "no snapshot is written");
                continue;
            }
        };
        let to = folder.clone();
        let written = threads::spawn_blocking(move || snapshot::write(&to, &snapshot)).await;
        match written {
            Ok(Ok(path)) => info!(path = %path.display(), "a snapshot is written"),
            Ok(Err(error)) => warn!(%error, folder = %folder.display(), "no snapshot is written"),
            Err(error) => warn!(%error, "no snapshot is written"),
        }
    }
}
