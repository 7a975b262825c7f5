//! The folder of a control plane, and the secret files in it.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::Result;

/// Room for etcd's write-ahead log and the data of a benchmark.
const MIN_FREE_BYTES: u64 = 2 << 30;

/// Creates a folder, in memory if enough is free, so that etcd's writes do not depend on the speed
/// of a disk.
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

/// Writes a file that only its owner can read. The write is atomic, because the operator may be
/// reading the previous file.
pub(super) fn write_secret(path: &Path, content: &str) -> Result<()> {
    let partial = path.with_extension("partial");
    let mut file = File::options()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(&partial)?;
    file.write_all(content.as_bytes())?;
    fs::rename(&partial, path)?;
    Ok(())
}

/// Returns the free bytes, or 0 if the folder does not exist.
fn free_bytes(folder: &Path) -> u64 {
    rustix::fs::statvfs(folder).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}
