//! Rules by which a node is unfit for new pods although its kubelet reports it ready.

use std::time::Duration;

use super::disruption::EvictionPace;
use super::slim::SlimNode;

/// Conditions of NVSentinel's monitors; True means bad.
const CONDITIONS: [&str; 16] = [
    "GpuMemWatch",
    "GpuThermalWatch",
    "GpuPcieWatch",
    "GpuPowerWatch",
    "GpuInforomWatch",
    "GpuSmWatch",
    "GpuNvlinkWatch",
    "GpuMcuWatch",
    "GpuPmuWatch",
    "GpuDriverWatch",
    "SysLogsXIDError",
    "SysLogsSXIDError",
    "SysLogsGPUFallenOff",
    "NVSwitchFatalError",
    "NVSwitchDown",
    "CSPMaintenance",
];
/// Labels of nodes that NVSentinel has taken out of use.
const LABELS: [&str; 2] = [
    "dgxc.nvidia.com/nvsentinel-state=quarantined",
    "dgxc.nvidia.com/nvsentinel-state=draining",
];
/// The taint with which an administrator declares a node out of service (KEP-2268).
const TAINTS: [&str; 1] = ["node.kubernetes.io/out-of-service"];

/// Default of the node lifecycle controller.
const THRESHOLD: f64 = 0.55;
/// Default of the node lifecycle controller: one node every 10 seconds.
const RATE: f64 = 0.1;

/// Signs of unhealthy nodes. Such a node gets no new pods, not even pods that tolerate its taints,
/// and its pods are evicted.
#[derive(Clone, Debug)]
pub struct UnhealthyRules {
    /// Types of node conditions that are bad while they are True.
    pub conditions: Vec<String>,
    /// Labels of unhealthy nodes, as KEY=VALUE.
    pub labels: Vec<String>,
    /// Keys of taints of unhealthy nodes.
    pub taints: Vec<String>,
    /// Share of unhealthy nodes in a zone from which on no gang is evicted, above 0 and at most 1.
    pub zone_threshold: f64,
    /// Unhealthy nodes per second whose gangs are evicted, in each zone. Above 0.
    pub eviction_rate: f64,
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| (*w).to_owned()).collect()
}

impl Default for UnhealthyRules {
    fn default() -> Self {
        Self {
            conditions: owned(&CONDITIONS),
            labels: owned(&LABELS),
            taints: owned(&TAINTS),
            zone_threshold: THRESHOLD,
            eviction_rate: RATE,
        }
    }
}

impl UnhealthyRules {
    /// Returns the pace at which gangs on unhealthy nodes are evicted.
    #[must_use]
    pub fn pace(&self) -> EvictionPace {
        let seconds = self.eviction_rate.recip();
        EvictionPace {
            threshold: self.zone_threshold,
            interval: Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX),
        }
    }

    /// Returns why the node is unhealthy: the first sign that it has, in the order of the lists.
    /// None if the node is healthy.
    #[must_use]
    pub fn unhealthy_reason(&self, node: &SlimNode) -> Option<String> {
        let is_true = |type_: &&String| {
            let mut all = node.status.conditions.iter();
            all.any(|c| c.type_ == **type_ && c.status == "True")
        };
        let is_labelled = |label: &&String| {
            let (key, value) = label.split_once('=').unwrap_or((label, ""));
            let labels = node.metadata.labels.as_ref();
            labels.is_some_and(|l| l.get(key).is_some_and(|v| v == value))
        };
        let is_tainted = |key: &&String| node.spec.taints.iter().any(|t| t.key == **key);
        let condition = self.conditions.iter().find(is_true);
        let label = || self.labels.iter().find(is_labelled);
        let taint = || self.taints.iter().find(is_tainted);
        condition
            .map(|c| format!("bad GPU condition {c}"))
            .or_else(|| label().map(|l| format!("label {l:?}")))
            .or_else(|| taint().map(|t| format!("taint {t:?}")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(condition: (&str, &str), state: &str, taint: &str) -> SlimNode {
        let taints: Vec<Value> = [taint]
            .iter()
            .filter(|t| !t.is_empty())
            .map(|t| json!({"key": t, "effect": "NoExecute"}))
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": "n", "labels": {"dgxc.nvidia.com/nvsentinel-state": state}},
            "spec": {"taints": taints},
            "status": {"conditions": [
                {"type": "Ready", "status": "True"},
                {"type": condition.0, "status": condition.1},
            ]},
        }))
        .unwrap()
    }

    #[test]
    fn unhealthy_reason_names_the_condition_label_or_taint() {
        let out = "node.kubernetes.io/out-of-service";
        for (condition, state, taint, why) in [
            (("GpuMemWatch", "False"), "", "", None),
            (("GpuMemWatch", "Unknown"), "", "", None),
            (("DiskPressure", "True"), "", "", None),
            (
                ("GpuMemWatch", "True"),
                "draining",
                out,
                Some("bad GPU condition GpuMemWatch"),
            ),
            (
                ("NVSwitchDown", "True"),
                "",
                "",
                Some("bad GPU condition NVSwitchDown"),
            ),
            (
                ("x", "True"),
                "quarantined",
                "",
                Some("label \"dgxc.nvidia.com/nvsentinel-state=quarantined\""),
            ),
            (("x", "True"), "remediated", "", None),
            (
                ("x", "True"),
                "",
                out,
                Some("taint \"node.kubernetes.io/out-of-service\""),
            ),
            (
                ("x", "True"),
                "",
                "node.kubernetes.io/memory-pressure",
                None,
            ),
        ] {
            let node = node(condition, state, taint);
            assert_eq!(
                UnhealthyRules::default().unhealthy_reason(&node).as_deref(),
                why,
                "{condition:?} {state} {taint}"
            );
        }
    }
}
