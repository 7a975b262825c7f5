//! The objects that Argo CD expects in its namespace: its own manifests, and a project.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{NAMESPACE, build};
use crate::control_plane::ControlPlane;
use crate::wait::eventually;

/// Longest time until the kinds can be used.
const ESTABLISHED_TIMEOUT: Duration = Duration::from_secs(60);

/// The ConfigMaps and the Secret, by their names in the manifests.
const CONFIGURATION_NAMES: [&str; 4] = [
    "argocd-cm",
    "argocd-cmd-params-cm",
    "argocd-rbac-cm",
    "argocd-secret",
];

/// Applies the CRDs, the configuration, and the project `default`. The project warns about objects
/// in a namespace that belong to no Application.
pub(super) async fn install(
    control_plane: &ControlPlane,
    program: &Path,
    settings: &[(&str, &str)],
) -> Result<()> {
    let read = |name: &str| {
        let path = build::manifests_folder(program).join(format!("{name}.yaml"));
        fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    };
    for crd in build::CRDS {
        let crd = read(crd)?;
        // These CRDs are very large, so a busy API server needs some time for them.
        eventually(ESTABLISHED_TIMEOUT, || control_plane.apply_yaml(&crd)).await?;
    }
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    control_plane.apply_yaml(&namespace.to_string()).await?;
    for name in CONFIGURATION_NAMES {
        let mut object: Value = serde_saphyr::from_str(&read(name)?)?;
        match name {
            "argocd-cm" => {
                for (key, value) in settings {
                    object["data"][key] = json!(value);
                }
            }
            "argocd-secret" => object["stringData"] = json!({"server.secretkey": "of a test"}),
            _ => {}
        }
        control_plane
            .apply_yaml_in(NAMESPACE, &object.to_string())
            .await?;
    }
    let project = json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "default"},
        "spec": {
            "sourceRepos": ["*"],
            "destinations": [{"server": "*", "namespace": "*"}],
            "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
            "orphanedResources": {"warn": true},
        },
    });
    control_plane
        .apply_yaml_in(NAMESPACE, &project.to_string())
        .await?;
    Ok(())
}
