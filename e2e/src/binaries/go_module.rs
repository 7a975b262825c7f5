//! Go modules whose files are read. No program is built from them.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::cache;

/// Returns the folder of a Go module in the version that `control-plane/<beside>/go.mod` names. The
/// module is downloaded once per machine.
///
/// # Errors
///
/// When Go is missing, or the module cannot be downloaded.
pub fn download_module(owner: &str, module: &str) -> Result<PathBuf> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", module])
        .current_dir(cache::go_modules_folder().join(owner))
        .output()
        .with_context(|| format!("start go, which fetches {module}"))?;
    let download: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let folder = download["Dir"].as_str();
    Ok(folder
        .with_context(|| format!("{module}: {download}"))?
        .into())
}
