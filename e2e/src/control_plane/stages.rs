//! What kwok does with nodes and pods: our Stage files, in one configuration file.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;

const STAGES: [&str; 4] = [
    include_str!("../../control-plane/stages/node-ready.yaml"),
    include_str!("../../control-plane/stages/pod-start.yaml"),
    include_str!("../../control-plane/stages/pod-exit.yaml"),
    include_str!("../../control-plane/stages/pod-stop.yaml"),
];

/// 16 writes at a time are as many as a small API server does faster than 8.
const CONFIGURATION: &str = "\
apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  podPlayStageParallelism: 16
  nodePlayStageParallelism: 8
  nodeLeaseParallelism: 8
  podsOnNodeSyncParallelism: 2
  enableDebuggingHandlers: false
";

/// Writes `<folder>/kwok.yaml`.
pub(super) fn write(folder: &Path) -> Result<PathBuf> {
    let mut all = String::from(CONFIGURATION);
    for stage in STAGES {
        all.push_str("---\n");
        all.push_str(stage);
    }
    let path = folder.join("kwok.yaml");
    fs::write(&path, all)?;
    Ok(path)
}
