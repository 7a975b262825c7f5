//! Go modules of which files are read, and nothing is built.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::cache;

/// The folder of a Go module, of the version that `control-plane/<beside>/go.mod` names. It is
/// downloaded once a machine.
///
/// # Errors
///
/// When Go is missing, or the module cannot be had.
pub fn download_module(beside: &str, module: &str) -> Result<PathBuf> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", module])
        .current_dir(cache::go_modules_folder().join(beside))
        .output()
        .with_context(|| format!("start go, which fetches {module}"))?;
    let said: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let folder = said["Dir"].as_str();
    Ok(folder.with_context(|| format!("{module}: {said}"))?.into())
}
