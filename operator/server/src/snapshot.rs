//! Snapshots of the engine as files: a running scheduler writes them, and `trellis replay` reads
//! them.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use trellis_scheduler::Snapshot;

/// Error of writing or reading a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The content is no snapshot of this version.
    #[error("is no snapshot of this version of trellis: {0}")]
    Json(serde_json::Error),
}

/// Name of a snapshot's file: `trellis-snapshot-<milliseconds>.json`, by the engine's time.
#[must_use]
pub fn name(snapshot: &Snapshot) -> String {
    format!("trellis-snapshot-{}.json", snapshot.now.as_millis())
}

/// Writes a snapshot into a folder, under its [`name`]. The file appears only when it is complete.
///
/// # Errors
/// If the folder cannot be written to.
pub fn write(folder: &Path, snapshot: &Snapshot) -> Result<PathBuf, SnapshotError> {
    let name = name(snapshot);
    let path = folder.join(&name);
    let part = folder.join(format!(".{name}.part"));
    let mut file = BufWriter::new(std::fs::File::create(&part)?);
    serde_json::to_writer(&mut file, snapshot).map_err(SnapshotError::Json)?;
    file.flush()?;
    std::fs::rename(&part, &path)?;
    Ok(path)
}

/// Checks that snapshots can be written into a folder.
///
/// # Errors
/// If there is no such folder, or it cannot be written to.
pub fn writable(folder: &Path) -> std::io::Result<()> {
    let part = folder.join(".trellis-snapshot.part");
    std::fs::write(&part, "")?;
    std::fs::remove_file(part)
}

/// Reads a snapshot.
///
/// # Errors
/// If the file cannot be read or is no snapshot.
pub fn read(path: &Path) -> Result<Snapshot, SnapshotError> {
    serde_json::from_slice(&std::fs::read(path)?).map_err(SnapshotError::Json)
}

#[cfg(test)]
mod tests {
    use trellis_scheduler::{Engine, Node, NodeName, Resources, Time};

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = Engine::new();
        let offers = Resources::new().with("nvidia.com/gpu", 8);
        engine.apply_node(Node::new(NodeName::new("gpu-0"), offers));
        engine.advance(Time::from_millis(1_234));
        let snapshot = engine.snapshot();
        let path = write(folder.path(), &snapshot).unwrap();
        assert!(path.ends_with("trellis-snapshot-1234.json"));
        assert_eq!(read(&path).unwrap(), snapshot);
        assert_eq!(
            folder.path().read_dir().unwrap().count(),
            1,
            "no part is left"
        );
        std::fs::write(&path, "{}").unwrap();
        let error = format!("{:#}", anyhow::Error::from(read(&path).unwrap_err()));
        assert!(
            error.starts_with("is no snapshot of this version"),
            "{error}"
        );
        assert_eq!(error.matches("missing field").count(), 1, "{error}");
    }
}
