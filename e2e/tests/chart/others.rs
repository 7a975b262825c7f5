//! CRDs of others that the chart has objects of: cert-manager's and Prometheus Operator's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// Each Go module that has them, and where. `control-plane/crds` names its version.
const MODULES: [(&str, [&str; 2]); 2] = [
    (
        "github.com/cert-manager/cert-manager",
        [
            "deploy/crds/cert-manager.io_certificates.yaml",
            "deploy/crds/cert-manager.io_issuers.yaml",
        ],
    ),
    (
        "github.com/prometheus-operator/prometheus-operator",
        [
            "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
            "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
        ],
    ),
];

pub(crate) fn crds() -> Result<Vec<String>> {
    let mut all = Vec::new();
    for (module, files) in MODULES {
        let folder = downloaded(module)?;
        for file in files {
            let path = folder.join(file);
            let text = fs::read_to_string(&path);
            all.push(text.with_context(|| format!("read {}", path.display()))?);
        }
    }
    Ok(all)
}

fn downloaded(module: &str) -> Result<PathBuf> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", module])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("control-plane/crds"))
        .output()
        .context("start go")?;
    let said: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let folder = said["Dir"].as_str();
    Ok(folder.with_context(|| format!("{module}: {said}"))?.into())
}
