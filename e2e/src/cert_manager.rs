//! cert-manager on a test control plane: its CRDs, and its own controllers and CA injector in one
//! process (`control-plane/cert-manager`).

use std::fs;

use anyhow::{Context as _, Result};

use crate::binaries::{Binaries, Executable, download_module};
use crate::control_plane::ControlPlane;
use crate::process::Process;

/// The Go module with the CRDs and the controllers. `control-plane/cert-manager` names its version.
const MODULE: &str = "github.com/cert-manager/cert-manager";
/// The kinds of Certificates and their issuers, by plural.
const KINDS: [&str; 4] = [
    "certificates",
    "certificaterequests",
    "issuers",
    "clusterissuers",
];

/// Returns why cert-manager is not available on this machine, in one line.
#[must_use]
pub fn unavailable_reason() -> Option<String> {
    Binaries::unavailable_reason(Executable::CertManager, "cert-manager", "3 minutes")
}

/// Returns the CRDs of cert-manager, without those of ACME.
///
/// # Errors
///
/// When Go is missing, or the module cannot be downloaded.
pub fn crds() -> Result<Vec<String>> {
    let folder = download_module("cert-manager", MODULE)?.join("deploy/crds");
    let read = |plural| {
        let path = folder.join(format!("cert-manager.io_{plural}.yaml"));
        fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    };
    KINDS.into_iter().map(read).collect()
}

/// Starts cert-manager with all rights. It ends with the returned process. The first call on a
/// machine builds it.
///
/// # Errors
///
/// When it cannot be built or started.
pub async fn start(control_plane: &ControlPlane) -> Result<Process> {
    let built = tokio::task::spawn_blocking(|| Binaries::find_or_build(&[Executable::CertManager]));
    let binaries = built.await??;
    let kubeconfig = format!("--kubeconfig={}", control_plane.kubeconfig().display());
    let program = binaries.path(Executable::CertManager);
    control_plane.spawn(Executable::CertManager.name(), program, &[kubeconfig])
}
