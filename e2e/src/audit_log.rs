//! The audit logs that API servers write with `TRELLIS_AUDIT=FOLDER`.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use trellis_verify::AuditEvent;

/// Returns the logs of a folder: one for each API server.
///
/// # Errors
/// If the folder has no logs.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = || {
        format!(
            "{folder:?}: run the tests with TRELLIS_AUDIT={}",
            folder.display()
        )
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(failed)? {
        files.push(entry?.path());
    }
    ensure!(!files.is_empty(), failed());
    files.sort();
    Ok(files)
}

/// Reads a log. The last event of a killed server may be incomplete, and is left out.
///
/// # Errors
/// If the file cannot be read.
pub fn read(file: &Path) -> Result<Vec<AuditEvent>> {
    let failed = || format!("{file:?}");
    let opened = File::open(file).with_context(failed)?;
    let mut events = Vec::new();
    for line in BufReader::new(opened).lines() {
        events.extend(serde_json::from_str(&line.with_context(failed)?).ok());
    }
    Ok(events)
}
