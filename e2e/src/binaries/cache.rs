//! The folder that built programs are kept in.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

use super::build;

/// The Go modules that name what is built: `kubernetes` and `tools`.
pub(super) fn modules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("control-plane")
}

/// `<cache>/control-plane/<hash>`, where the hash is of everything that a build depends on, so
/// that a change of a version or a flag builds anew and never mixes.
pub(super) fn folder() -> Result<PathBuf> {
    let mut hash = Sha256::new();
    for file in [
        "kubernetes/go.mod",
        "kubernetes/go.sum",
        "tools/go.mod",
        "tools/go.sum",
    ] {
        let path = modules().join(file);
        let content = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        hash.update(content);
    }
    hash.update(build::kubernetes_ldflags());
    let hash: String = hash
        .finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(root()?.join("control-plane").join(hash))
}

/// `TRELLIS_CACHE`, else `trellis` in the user's cache folder.
fn root() -> Result<PathBuf> {
    let set = |name| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("TRELLIS_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|folder| folder.join("trellis")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/trellis")))
        .context("none of TRELLIS_CACHE, XDG_CACHE_HOME and HOME is set, so there is no folder to build into")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_named_after_its_sources() {
        let folder = folder().unwrap();
        let name = folder.file_name().unwrap().to_str().unwrap();
        assert_eq!(name.len(), 16);
        assert_eq!(super::folder().unwrap(), folder);
    }
}
