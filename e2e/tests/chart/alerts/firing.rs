//! Each alert fires in its own case and in no other, as Prometheus evaluates it.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use trellis_dispatch::commands::WriteError;
use trellis_dispatch::leader::NotLeading;
use trellis_e2e::helm::{Helm, chart_folder};

use crate::alerts::exported_metrics;
use crate::alerts::promql::{self, FiringAlert};

/// Labels that Prometheus adds to each sample.
const PROMETHEUS_LABELS: [&str; 1] = ["pod"];

/// A metric, its labels with their values, and samples, one per minute.
type Series = (&'static str, Vec<(&'static str, &'static str)>, String);

/// Samples, and the alert that fires at their end.
struct AlertCase {
    series: Vec<Series>,
    minutes: u64,
    /// The alert and a part of its text. `None`: no alert fires.
    expected_alert: Option<(&'static str, &'static str)>,
}

/// Returns a series of a metric without labels, from the leader.
fn leader_series(metric: &'static str, samples: &str) -> Series {
    (metric, vec![("pod", "a")], samples.to_owned())
}

fn firing_case(
    alert: &'static str,
    expected_text: &'static str,
    minutes: u64,
    series: Vec<Series>,
) -> AlertCase {
    let fires = Some((alert, expected_text));
    AlertCase {
        series,
        minutes,
        expected_alert: fires,
    }
}

fn silent_case(minutes: u64, series: Vec<Series>) -> AlertCase {
    AlertCase {
        series,
        minutes,
        expected_alert: None,
    }
}

/// The error classes of a write.
fn write_errors() -> Vec<WriteError> {
    let text = String::new;
    vec![
        WriteError::NotLeading(NotLeading),
        WriteError::Withdrawn,
        WriteError::AlreadyExists(text()),
        WriteError::Conflict(text()),
        WriteError::NotFound(text()),
        WriteError::Refused {
            code: 403,
            message: text(),
        },
        WriteError::Exhausted(text()),
        WriteError::Unauthorized(text()),
        WriteError::Webhook(text()),
        WriteError::Unanswered(text()),
        WriteError::Transient(text()),
    ]
}

/// Returns true if many such errors must fire an alert. No alert fires if another writer was
/// faster, a quota is full, or the write is no longer needed.
fn must_alert(error: &WriteError) -> bool {
    match error {
        WriteError::NotLeading(_)
        | WriteError::Withdrawn
        | WriteError::AlreadyExists(_)
        | WriteError::Conflict(_)
        | WriteError::NotFound(_)
        | WriteError::Exhausted(_) => false,
        WriteError::Refused { .. }
        | WriteError::Unauthorized(_)
        | WriteError::Webhook(_)
        | WriteError::Unanswered(_)
        | WriteError::Transient(_) => true,
    }
}

/// Returns the label value with which the operator counts such writes.
pub(crate) fn write_outcomes() -> Vec<&'static str> {
    let errors = write_errors();
    let words = errors.iter().map(WriteError::label);
    words.chain(["ok"]).collect()
}

fn alert_cases() -> Vec<AlertCase> {
    let looks = |result, samples: &str| {
        let metric = "trellis_reconciles_total";
        (metric, vec![("result", result)], samples.to_owned())
    };
    let watch = |samples: &str| {
        let metric = "trellis_watch_age_seconds";
        vec![(metric, vec![("resource", "pods")], samples.to_owned())]
    };
    let queue_wait = |samples: &str| {
        let metric = "trellis_queue_oldest_wait_seconds";
        vec![(metric, vec![("queue", "team-a")], samples.to_owned())]
    };
    let held_by = |phase, samples: &str| {
        let metric = "trellis_jobs_held_oldest_seconds";
        (metric, vec![("phase", phase)], samples.to_owned())
    };
    let nodes =
        |state, samples: &str| ("trellis_nodes", vec![("state", state)], samples.to_owned());
    let undone = |reason, samples: &str| {
        let metric = "trellis_gangs_undone_total";
        (metric, vec![("reason", reason)], samples.to_owned())
    };
    let guard = |policy, samples: &str| {
        let metric = "trellis_admission_policy_in_force";
        (metric, vec![("policy", policy)], samples.to_owned())
    };
    let leader = |pod, samples: &str| ("trellis_leader", vec![("pod", pod)], samples.to_owned());
    let verification = |job, samples: &str| {
        let metric = "kube_job_status_failed";
        vec![(metric, vec![("job_name", job)], samples.to_owned())]
    };
    let mut cases = vec![
        firing_case(
            "TrellisPromiseBroken",
            "The Job /trellis-verify-29 found a broken rule",
            2,
            verification("trellis-verify-29", "0 1x9"),
        ),
        silent_case(2, verification("trellis-verify-29", "0x9")),
        silent_case(2, verification("other-29", "1x9")),
        firing_case(
            "TrellisNoLeader",
            "No job starts",
            3,
            vec![leader("a", "0x9"), leader("b", "0x9")],
        ),
        // No operator reports `trellis_leader`.
        firing_case(
            "TrellisNoLeader",
            "No job starts",
            3,
            vec![leader_series("trellis_reconciles_due", "0x9")],
        ),
        silent_case(3, vec![leader("a", "1x9"), leader("b", "0x9")]),
        // The other replica takes over.
        silent_case(6, vec![leader("a", "1 1 0x9"), leader("b", "0 0 0 1x9")]),
        firing_case(
            "TrellisReconcileErrors",
            "20% of the reconciliations",
            30,
            vec![looks("failed", "0+2x40"), looks("done", "0+8x40")],
        ),
        silent_case(
            30,
            vec![
                looks("failed", "0+1x40"),
                looks("behind", "0+9x40"),
                looks("done", "0+9x40"),
            ],
        ),
        firing_case(
            "TrellisReconcileStuck",
            "The reconciliation has taken 5m 1s so far.",
            6,
            vec![leader_series("trellis_reconcile_oldest_seconds", "301x9")],
        ),
        silent_case(
            6,
            vec![leader_series("trellis_reconcile_oldest_seconds", "300x9")],
        ),
        firing_case(
            "TrellisWatchStalled",
            "the watch of pods has been silent for 3m 1s.",
            3,
            watch("181x9"),
        ),
        silent_case(3, watch("180x9")),
        firing_case(
            "TrellisQueueAge",
            "The oldest pending job of queue team-a has waited for 1d 0h 0m 1s.",
            31,
            queue_wait("86401x40"),
        ),
        silent_case(31, queue_wait("86400x40")),
        firing_case(
            "TrellisJobsHeld",
            "A job has been Blocked for 1h 0m 1s,",
            16,
            vec![held_by("Blocked", "3601x30"), held_by("Waiting", "0x30")],
        ),
        silent_case(
            16,
            vec![held_by("Blocked", "0x30"), held_by("Waiting", "3600x30")],
        ),
        firing_case(
            "TrellisNodesLost",
            "Lost nodes: 2 ",
            6,
            vec![nodes("ready", "9x9"), nodes("lost", "2x9")],
        ),
        // The operator is back within five minutes.
        silent_case(6, vec![nodes("unhealthy", "1x9"), nodes("lost", "1x3 0x9")]),
        firing_case(
            "TrellisCommitFailures",
            "in half an hour, with reason PodRefused.",
            60,
            vec![undone("PodRefused", "0+1x70")],
        ),
        // Each write fails for another reason.
        silent_case(
            60,
            vec![
                undone("PodRefused", "0x31 0+1x4 4x40"),
                undone("KubeletRefused", "0x31 0+1x4 4x40"),
            ],
        ),
        firing_case(
            "TrellisLedgerWrong",
            "Affected limits: 1.",
            6,
            vec![leader_series("trellis_ledger_wrong_limits", "1x9")],
        ),
        silent_case(6, vec![leader_series("trellis_ledger_wrong_limits", "0x9")]),
        firing_case(
            "TrellisAdmissionPolicyMissing",
            "The admission policy trellis-pods",
            12,
            vec![
                guard("trellis-pods", "0x19"),
                guard("trellis-pod-groups", "1x19"),
            ],
        ),
        // An upgrade of the chart replaces the pods.
        silent_case(12, vec![guard("trellis-pods", "0 0 1x19")]),
    ];
    cases.extend(certificate_cases());
    cases.extend(node_order_cases());
    cases.extend(write_errors().iter().map(write_error_case));
    cases
}

/// Returns the samples for writes of which 30 % fail with this error.
fn write_error_case(error: &WriteError) -> AlertCase {
    let outcome = |word, samples: &str| {
        let metric = "trellis_writes_total";
        (metric, vec![("outcome", word)], samples.to_owned())
    };
    let series = vec![outcome(error.label(), "0+3x40"), outcome("ok", "0+7x40")];
    match must_alert(error) {
        true => firing_case("TrellisWritesFail", "30% of the writes", 30, series),
        false => silent_case(30, series),
    }
}

fn node_order_cases() -> Vec<AlertCase> {
    let ended = |outcome, samples: &str| {
        let labels = vec![("flavor", "h100"), ("outcome", outcome)];
        ("trellis_node_orders_total", labels, samples.to_owned())
    };
    let failures = |samples: &str| {
        let labels = vec![("flavor", "h100")];
        ("trellis_node_order_failures", labels, samples.to_owned())
    };
    let suitable = |samples: &str| {
        let labels = vec![("flavor", "h100")];
        vec![("trellis_autoscaler_suitable", labels, samples.to_owned())]
    };
    vec![
        firing_case(
            "TrellisNodesDoNotCome",
            "The last 2 orders of nodes of flavor h100 timed out.",
            130,
            vec![ended("late", "0x30 1x60 2x60"), failures("0x30 1x60 2x60")],
        ),
        // The last order was filled.
        silent_case(
            70,
            vec![ended("late", "0x30 1x60"), failures("0x30 1x20 0x40")],
        ),
        // No order has failed for hours.
        silent_case(
            430,
            vec![ended("late", "0x30 1x420"), failures("0x30 1x420")],
        ),
        silent_case(70, vec![ended("withdrawn", "0x60 1x40"), failures("0x100")]),
        firing_case(
            "TrellisAutoscalerUnsuitable",
            "nodes of flavor h100",
            31,
            suitable("0x40"),
        ),
        silent_case(31, suitable("1x40")),
    ]
}

fn certificate_cases() -> Vec<AlertCase> {
    let mut cases = Vec::new();
    for (ends, degraded) in [
        (
            "trellis_webhook_certificate_expiry_timestamp_seconds",
            "trellis_webhook_certificate_degraded",
        ),
        (
            "trellis_endpoint_certificate_expiry_timestamp_seconds",
            "trellis_endpoint_certificate_degraded",
        ),
    ] {
        // Times start at 0. The certificate is valid for a week and an hour, and the alerts are
        // evaluated after two hours.
        cases.extend([
            firing_case(
                "TrellisCertificateExpires",
                "The certificate ends in 6d 22h 59m 0s.",
                121,
                vec![leader_series(ends, "608400x130")],
            ),
            silent_case(121, vec![leader_series(ends, "612000x130")]),
            // No certificate exists.
            silent_case(121, vec![leader_series(ends, "0x130")]),
            firing_case(
                "TrellisCertificateDegraded",
                "Once the API server",
                31,
                vec![leader_series(degraded, "1x40")],
            ),
            silent_case(31, vec![leader_series(degraded, "0x40")]),
        ]);
    }
    cases
}

impl AlertCase {
    /// Returns the samples of the case. A case without samples of a leader gets some, so that no
    /// alert about a missing leader fires.
    fn promql_load(&self) -> String {
        let mut load = String::from("load 1m\n");
        for (metric, labels, samples) in &self.series {
            let labels = labels
                .iter()
                .map(|(label, value)| format!("{label}=\"{value}\""));
            let labels: Vec<_> = labels.collect();
            load.push_str(&format!("  {metric}{{{}}} {samples}\n", labels.join(",")));
        }
        let has_field = self
            .series
            .iter()
            .any(|series| series.0 == "trellis_leader");
        let is_of_leader = matches!(self.expected_alert, Some(("TrellisNoLeader", _)));
        if !has_field && !is_of_leader {
            load.push_str("  trellis_leader{pod=\"a\"} 1x500\n");
        }
        load
    }
}

pub(crate) fn test_alert_firing(_: &Helm) -> Result<()> {
    let (cases, facts) = (alert_cases(), exported_metrics()?);
    for (metric, labels, _) in cases.iter().flat_map(|case| &case.series) {
        let fact = facts.get(*metric);
        let fact = fact.with_context(|| format!("no program serves {metric}"))?;
        for (label, _) in labels {
            let has_label = fact.labels.contains(*label) || PROMETHEUS_LABELS.contains(label);
            ensure!(has_label, "{metric} has no {label}");
        }
    }
    let rule_cases: Vec<promql::RuleCase> = cases
        .iter()
        .map(|case| promql::RuleCase {
            load: case.promql_load(),
            seconds: case.minutes * 60,
        })
        .collect();
    let answer =
        promql::evaluate_rules(&chart_folder().join("files/alerts.yaml"), &[], &rule_cases)?;
    let firing = answer.firing.context("no case was evaluated")?;
    ensure!(firing.len() == cases.len());
    let mut wrong = Vec::new();
    for (case, firing) in cases.iter().zip(&firing) {
        if !case.matches_firing(firing) {
            wrong.push(format!(
                "{}{:?}: {firing:?}",
                case.promql_load(),
                case.expected_alert
            ));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    let tried = cases.iter().filter_map(|case| Some(case.expected_alert?.0));
    let tried: BTreeSet<&str> = tried.collect();
    let all: BTreeSet<&str> = answer.alerts.iter().map(String::as_str).collect();
    ensure!(
        tried == all,
        "the tested alerts are {tried:?}, and all alerts are {all:?}"
    );
    Ok(())
}

impl AlertCase {
    /// Returns true if exactly the expected alert fires.
    fn matches_firing(&self, firing: &[FiringAlert]) -> bool {
        match (self.expected_alert, firing) {
            (None, []) => true,
            (Some((alert, expected_text)), [one]) => {
                let has_name = one
                    .labels
                    .get("alertname")
                    .is_some_and(|name| name == alert);
                let mut annotations = one.annotations.values();
                let has_text = annotations.any(|text| text.contains(expected_text));
                has_name && has_text && one.annotations.len() == 2
            }
            _ => false,
        }
    }
}
