//! The folder that a control plane lives in.

use std::path::{Path, PathBuf};

use anyhow::Result;

/// Room for etcd's write-ahead log and the data of a benchmark.
const MIN_FREE_BYTES: u64 = 2 << 30;

/// Creates a folder, in memory if there is enough of it, so that etcd's writes do not depend on the
/// speed of a disk.
pub(super) fn create_folder() -> Result<PathBuf> {
    let memory = Path::new("/dev/shm");
    if free_bytes(memory) >= MIN_FREE_BYTES
        && let Ok(folder) = tempfile::Builder::new()
            .prefix("trellis-")
            .tempdir_in(memory)
    {
        return Ok(folder.keep());
    }
    Ok(tempfile::Builder::new()
        .prefix("trellis-")
        .tempdir()?
        .keep())
}

/// Free bytes; 0 where there is no such folder.
fn free_bytes(folder: &Path) -> u64 {
    rustix::fs::statvfs(folder).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}
