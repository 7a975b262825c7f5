//! CRDs of other projects whose objects the chart creates: cert-manager's and Prometheus
//! Operator's.

use std::fs;

use anyhow::{Context as _, Result};
use trellis_e2e::binaries::download_module;
use trellis_e2e::cert_manager;

/// The Go module with the CRDs of Prometheus Operator. `control-plane/crds` names its version.
const PROMETHEUS_OPERATOR_MODULE: &str = "github.com/prometheus-operator/prometheus-operator";
const CRD_FOLDER: &str = "example/prometheus-operator-crd";

pub(crate) fn external_crds() -> Result<Vec<String>> {
    let mut all = cert_manager::crds()?;
    let folder = download_module("crds", PROMETHEUS_OPERATOR_MODULE)?.join(CRD_FOLDER);
    for plural in ["servicemonitors", "prometheusrules"] {
        let path = folder.join(format!("monitoring.coreos.com_{plural}.yaml"));
        let text = fs::read_to_string(&path);
        all.push(text.with_context(|| format!("read {}", path.display()))?);
    }
    Ok(all)
}
