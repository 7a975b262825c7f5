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

/// Signs of unhealthy nodes, which get no new pods, whatever their tolerations, and whose pods are
/// evicted.
#[derive(clap::Args, Clone, Debug)]
pub struct UnhealthyRules {
    /// Node conditions that mark a node as unhealthy while they are True: it gets no new pods, and
    /// its gangs are evicted and placed elsewhere.
    #[arg(long = "unhealthy-conditions", value_name = "TYPE,...", value_delimiter = ',',
        default_values_t = owned(&CONDITIONS))]
    conditions: Vec<String>,
    /// Node labels that mark a node as unhealthy: it gets no new pods, and its gangs are evicted.
    #[arg(long = "unhealthy-labels", value_name = "KEY=VALUE,...", value_delimiter = ',',
        default_values_t = owned(&LABELS), value_parser = label)]
    labels: Vec<String>,
    /// Keys of taints that mark a node as unhealthy: it gets no new pods, whatever their
    /// tolerations, and its gangs are evicted.
    #[arg(long = "unhealthy-taints", value_name = "KEY,...", value_delimiter = ',',
        default_values_t = owned(&TAINTS))]
    taints: Vec<String>,
    /// Share of unhealthy nodes in a zone, among its nodes with GPUs or among the others, from
    /// which on no gang is evicted if more than two are unhealthy: the component that declares
    /// nodes unhealthy may be broken.
    #[arg(long = "unhealthy-zone-threshold", value_name = "SHARE", default_value_t = THRESHOLD,
        value_parser = share)]
    zone_threshold: f64,
    /// Unhealthy nodes per second whose gangs are evicted, in each zone.
    #[arg(long = "node-eviction-rate", value_name = "NODES", default_value_t = RATE,
        value_parser = rate)]
    eviction_rate: f64,
}

/// Parses a share above 0.
fn share(text: &str) -> Result<f64, String> {
    let share = text
        .parse()
        .ok()
        .filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "must be more than 0 and at most 1, such as 0.55".to_owned())
}

/// Parses a rate from one node a day to a thousand a second.
fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok();
    let rate = rate.filter(|rate| (0.000_01..=1000.0).contains(rate));
    rate.ok_or_else(|| "must be 0.00001 to 1000 nodes a second, such as 0.1".to_owned())
}

/// Parses a label as kubectl writes it. An empty text stands for no label.
fn label(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((key, _)) if !key.is_empty() => Ok(text.to_owned()),
        None if text.is_empty() => Ok(String::new()),
        _ => Err(format!(
            "must be KEY=VALUE: write {}=VALUE",
            text.trim_matches('=')
        )),
    }
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
    /// Pace at which gangs on unhealthy nodes are evicted.
    #[must_use]
    pub fn pace(&self) -> EvictionPace {
        let seconds = self.eviction_rate.recip();
        EvictionPace {
            threshold: self.zone_threshold,
            interval: Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX),
        }
    }

    /// Why the node is unhealthy: the first sign that it has, in the order of the lists. None if it
    /// has none.
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
    use clap::Parser;
    use serde_json::{Value, json};

    use super::*;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        unhealthy: UnhealthyRules,
    }

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

    #[test]
    fn unhealthy_rules_are_options_with_the_library_defaults() {
        let defaults = Program::parse_from(["trellis"]).unhealthy;
        assert_eq!(
            format!("{defaults:?}"),
            format!("{:?}", UnhealthyRules::default())
        );
        let own = [
            "trellis",
            "--unhealthy-conditions=A,B",
            "--unhealthy-labels=",
            "--unhealthy-taints=t",
            "--unhealthy-zone-threshold=0.2",
            "--node-eviction-rate=4",
        ];
        let own = Program::parse_from(own).unhealthy;
        assert_eq!(
            own.unhealthy_reason(&node(("GpuMemWatch", "True"), "draining", "")),
            None
        );
        assert_eq!(
            own.unhealthy_reason(&node(("B", "True"), "", ""))
                .as_deref(),
            Some("bad GPU condition B")
        );
        assert_eq!(
            own.unhealthy_reason(&node(("x", "True"), "", "t"))
                .as_deref(),
            Some("taint \"t\"")
        );
    }

    #[test]
    fn eviction_pace_follows_the_options() {
        let parse = |options: &[&str]| {
            let all = ["program"].iter().chain(options);
            Program::try_parse_from(all).map(|program| program.unhealthy.pace())
        };
        let pace = parse(&[]).unwrap();
        assert_eq!(pace.interval, Duration::from_secs(10));
        assert!((pace.threshold - 0.55).abs() < f64::EPSILON);
        let pace = parse(&["--node-eviction-rate=4", "--unhealthy-zone-threshold=1"]).unwrap();
        assert_eq!(pace.interval, Duration::from_millis(250));
        assert!((pace.threshold - 1.0).abs() < f64::EPSILON);
        for bad in ["0", "-1", "1.1", "NaN", "inf", "x", ""] {
            let share = format!("--unhealthy-zone-threshold={bad}");
            let error = parse(&[&share]).unwrap_err().to_string();
            assert!(error.contains("more than 0 and at most 1"), "{error}");
        }
        for bad in ["0", "-1", "1001", "NaN", "inf", "x"] {
            let error = parse(&[&format!("--node-eviction-rate={bad}")]);
            let error = error.unwrap_err().to_string();
            assert!(error.contains("0.00001 to 1000"), "{error}");
        }
    }

    #[test]
    fn unhealthy_label_needs_a_key_and_a_value() {
        let parse = |labels: &str| {
            let flag = format!("--unhealthy-labels={labels}");
            Program::try_parse_from(["program", &flag])
        };
        for good in ["a=b", "a=", "a=b,c=d", ""] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in ["foo", "a=b,foo", "=b"] {
            let Err(error) = parse(bad) else {
                panic!("{bad}")
            };
            let error = error.to_string();
            assert!(error.contains("--unhealthy-labels"), "{error}");
            assert!(error.contains("must be KEY=VALUE"), "{error}");
        }
    }
}
