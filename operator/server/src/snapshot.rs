//! Snapshots of the engine: requested from the scheduler, and written as files, which
//! `trellis replay` reads.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::oneshot;
use trellis_dispatch::SchedulerEvent;
use trellis_dispatch::context::Context;
use trellis_scheduler::Snapshot;

use crate::callers::Failure;

/// Requests a snapshot of the engine from the scheduler.
///
/// # Errors
/// If the scheduler does not run (yet).
pub async fn request(context: &Context) -> Result<Arc<Snapshot>, Failure> {
    let (answer, snapshot) = oneshot::channel();
    context.send_event(SchedulerEvent::AskSnapshot(answer));
    snapshot.await.map_err(|_| Failure::unavailable())
}

/// Returns the name of a snapshot's file: `trellis-snapshot-<milliseconds>.json`, by the engine's
/// time.
#[must_use]
pub fn file_name(snapshot: &Snapshot) -> String {
    format!("trellis-snapshot-{}.json", snapshot.now.as_millis())
}

/// Writes a snapshot into a folder, under its [`file_name`]. The file appears only when it is
/// complete.
///
/// # Errors
/// If the folder cannot be written to.
pub fn write(folder: &Path, snapshot: &Snapshot) -> std::io::Result<PathBuf> {
    let name = file_name(snapshot);
    let path = folder.join(&name);
    let part = folder.join(format!(".{name}.part"));
    let mut file = BufWriter::new(std::fs::File::create(&part)?);
    serde_json::to_writer(&mut file, snapshot)?;
    file.flush()?;
    std::fs::rename(&part, &path)?;
    Ok(path)
}

/// Checks that snapshots can be written into a folder.
///
/// # Errors
/// If there is no such folder, or it cannot be written to.
pub fn check_writable(folder: &Path) -> std::io::Result<()> {
    let part = folder.join(".trellis-snapshot.part");
    std::fs::write(&part, "")?;
    std::fs::remove_file(part)
}

#[cfg(test)]
mod tests {
    use trellis_scheduler::{Engine, Node, NodeName, Resources, Time};

    use super::*;

    #[test]
    fn written_snapshot_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = Engine::new();
        let offers = Resources::new().with("nvidia.com/gpu", 8);
        engine.apply_node(Node::new(NodeName::new("gpu-0"), offers));
        engine.advance(Time::from_millis(1_234));
        let snapshot = engine.snapshot();
        let path = write(folder.path(), &snapshot).unwrap();
        assert!(path.ends_with("trellis-snapshot-1234.json"));
        let file = std::fs::File::open(&path).unwrap();
        let read: Snapshot = serde_json::from_reader(file).unwrap();
        assert_eq!(read, snapshot);
        assert_eq!(
            folder.path().read_dir().unwrap().count(),
            1,
            "no part is left"
        );
    }
}
