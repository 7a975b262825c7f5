//! The configuration file of kwok: our Stage files, which simulate nodes and pods, and the log of
//! the pods.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Result;
use jiff::Timestamp;
use serde_json::json;

use super::options::{ControlPlaneOptions, Kubelets};

const STAGE_FILES: [&str; 4] = [
    include_str!("../../control-plane/stages/node-ready.yaml"),
    include_str!("../../control-plane/stages/pod-start.yaml"),
    include_str!("../../control-plane/stages/pod-exit.yaml"),
    include_str!("../../control-plane/stages/pod-stop.yaml"),
];

/// The flag that makes the API server read logs at the address that
/// [`NodeTemplate`](crate::cluster::NodeTemplate) sets for simulated nodes. By default, the API
/// server would resolve the names of the nodes, which no DNS server knows.
pub(super) const KUBELET_ADDRESS: &str = "--kubelet-preferred-address-types=InternalDNS";

/// Returns true if simulated pods have logs.
pub(super) fn has_pod_logs(options: &ControlPlaneOptions) -> bool {
    options.kubelets == Kubelets::Kwok && !options.pod_log.is_empty()
}

/// Writes `<folder>/kwok.yaml`, and in the same folder the log of the pods, if they have one.
pub(super) fn write_configuration(folder: &Path, options: &ControlPlaneOptions) -> Result<PathBuf> {
    let mut all = kwok_options(has_pod_logs(options));
    for stage in STAGE_FILES {
        all.push_str("---\n");
        all.push_str(stage);
    }
    if has_pod_logs(options) {
        let log = folder.join("pod.log");
        fs::write(&log, format_cri_log(&options.pod_log, Timestamp::now())?)?;
        // JSON is YAML.
        let logs = json!({
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "ClusterLogs",
            "metadata": {"name": "all-pods"},
            "spec": {"logs": [{"logsFile": log}]},
        });
        all.push_str(&format!("---\n{logs}\n"));
    }
    let path = folder.join("kwok.yaml");
    fs::write(&path, all)?;
    Ok(path)
}

/// Returns the options of kwok. A small API server gains little from more than 16 concurrent
/// writes. kwok calls the kubelet's log endpoint a debugging handler. This also enables exec and
/// attach, which refuse every request unless the configuration allows it.
fn kwok_options(has_logs: bool) -> String {
    format!(
        "\
apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  podPlayStageParallelism: 16
  nodePlayStageParallelism: 8
  nodeLeaseParallelism: 8
  podsOnNodeSyncParallelism: 2
  enableDebuggingHandlers: {has_logs}
  enableProfilingHandler: false
"
    )
}

/// Returns a log in the format of container runtimes: `<time> stdout F <line>`, with one line per
/// millisecond from `start`. `trellis logs --follow` distinguishes lines by their times.
fn format_cri_log(lines: &[String], start: Timestamp) -> Result<String> {
    let mut all = String::new();
    let mut time = start;
    for line in lines {
        all.push_str(&format!("{time:.9} stdout F {line}\n"));
        time = time.checked_add(Duration::from_millis(1))?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_to_strings(options: &ControlPlaneOptions) -> (String, Option<String>) {
        let folder = tempfile::tempdir().unwrap();
        let path = write_configuration(folder.path(), options).unwrap();
        let log = fs::read_to_string(folder.path().join("pod.log")).ok();
        (fs::read_to_string(path).unwrap(), log)
    }

    #[test]
    fn kwok_serves_no_logs_without_a_pod_log() {
        let (configuration, log) = write_to_strings(&ControlPlaneOptions::default());
        assert!(configuration.contains("enableDebuggingHandlers: false"));
        assert!(!configuration.contains("ClusterLogs"));
        assert_eq!(log, None);
    }

    #[test]
    fn kwok_serves_the_pod_log_for_all_pods() {
        let options = ControlPlaneOptions {
            pod_log: vec!["step 1 loss 10.8".to_owned(), "step 2 loss 9.7".to_owned()],
            ..ControlPlaneOptions::default()
        };
        let (configuration, log) = write_to_strings(&options);
        assert!(configuration.contains("enableDebuggingHandlers: true"));
        let documents: Vec<serde_json::Value> =
            serde_saphyr::from_multiple(&configuration).unwrap();
        let logs = documents.last().unwrap();
        assert_eq!(logs["kind"], "ClusterLogs");
        let file = logs["spec"]["logs"][0]["logsFile"].as_str().unwrap();
        assert!(file.ends_with("/pod.log"), "{file}");
        let log = log.unwrap();
        let lines: Vec<_> = log
            .lines()
            .map(|line| line.split_once(' ').unwrap())
            .collect();
        assert_eq!(lines[0].1, "stdout F step 1 loss 10.8");
        assert_eq!(lines[1].1, "stdout F step 2 loss 9.7");
        let [first, second] = [lines[0].0, lines[1].0].map(|t| t.parse::<Timestamp>().unwrap());
        assert!(first < second, "{log}");
    }
}
