//! Writes kubeconfigs.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};

use super::folder::write_secret;

/// Writes kubeconfigs into `<folder>/kubeconfigs`.
#[derive(Debug, Clone)]
pub(crate) struct KubeconfigWriter {
    folder: PathBuf,
}

impl KubeconfigWriter {
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// Writes `<name>.yaml`. `user` is the `user` of a kubeconfig, such as `{"token": ...}`.
    pub(crate) fn write(&self, name: &str, server: &str, user: &Value) -> Result<PathBuf> {
        let mut cluster = json!({"server": server});
        if server.starts_with("https:") {
            cluster["certificate-authority"] = json!(self.folder.join("pki/ca.crt"));
            // Other networks reach the API server at addresses that are not in its certificate.
            cluster["tls-server-name"] = json!("127.0.0.1");
        }
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "trellis", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "trellis", "context": {"cluster": "trellis", "user": name}}],
            "current-context": "trellis",
        });
        // JSON is YAML. A file name cannot contain the colon or slash of a user name.
        let name = name.replace([':', '/'], "-");
        let path = self.folder.join("kubeconfigs").join(format!("{name}.yaml"));
        write_secret(&path, &serde_json::to_string_pretty(&config)?)?;
        Ok(path)
    }
}
