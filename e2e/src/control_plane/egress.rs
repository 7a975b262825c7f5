//! Connections of an API server to pods in another network. The API server requests each connection
//! at a socket with HTTP CONNECT, as it does with Konnectivity.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::json;

/// Returns the path of the socket. `folder` is the folder of the control plane.
pub(crate) fn socket_path(folder: &Path) -> PathBuf {
    folder.join("egress.sock")
}

/// Returns the flags of an API server that connects this way. No kube-proxy runs there, so the API
/// server connects to the endpoints of a Service and not to its cluster IP.
pub(super) fn api_server_flags(folder: &Path) -> Result<Vec<String>> {
    let transport = json!({"uds": {"udsName": socket_path(folder)}});
    let connection = json!({"proxyProtocol": "HTTPConnect", "transport": transport});
    let configuration = json!({
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{"name": "cluster", "connection": connection}],
    });
    let file = folder.join("egress.json");
    std::fs::write(&file, configuration.to_string())
        .with_context(|| format!("cannot write {file:?}"))?;
    Ok(vec![
        format!("--egress-selector-config-file={}", file.display()),
        "--enable-aggregator-routing=true".to_owned(),
    ])
}
