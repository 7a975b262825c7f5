//! Copies of folders.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// Copies the content of a folder into another, which is created if it does not exist.
///
/// # Errors
///
/// When a file cannot be read or written.
pub fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("make {}", to.display()))?;
    let read = || format!("read {}", from.display());
    for entry in from.read_dir().with_context(read)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)
                .with_context(|| format!("write {}", target.display()))?;
        }
    }
    Ok(())
}
