//! Each alert fires where it is to, and only there, as Prometheus evaluates it.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use trellis_dispatch::commands::WriteError;
use trellis_dispatch::leader::NotLeading;
use trellis_e2e::helm::{Helm, chart};

use crate::alerts::facts;
use crate::promql::{self, Firing};

/// Labels that Prometheus puts to what it reads.
const OF_PROMETHEUS: [&str; 1] = ["pod"];

/// A metric, one label with its value, and samples, one a minute.
type Series = (&'static str, &'static str, &'static str, String);

/// Samples, and the alert that fires in the end.
struct Case {
    series: Vec<Series>,
    minutes: u64,
    /// The alert and a part of its text. `None`: no alert fires.
    fires: Option<(&'static str, &'static str)>,
}

/// A series of a metric without labels, from the leader.
fn of(metric: &'static str, samples: &str) -> Series {
    (metric, "pod", "a", samples.to_owned())
}

fn fires(alert: &'static str, said: &'static str, minutes: u64, series: Vec<Series>) -> Case {
    let fires = Some((alert, said));
    Case {
        series,
        minutes,
        fires,
    }
}

fn quiet(minutes: u64, series: Vec<Series>) -> Case {
    Case {
        series,
        minutes,
        fires: None,
    }
}

/// The errors of a write.
fn errors() -> Vec<WriteError> {
    let text = String::new;
    vec![
        WriteError::NotLeading(NotLeading),
        WriteError::NotWanted,
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

/// True if many such errors must fire an alert. They must not if another writer was faster, a quota
/// is full, or the write is no longer needed.
fn is_told(error: &WriteError) -> bool {
    match error {
        WriteError::NotLeading(_)
        | WriteError::NotWanted
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

/// The words for it, as the operator counts writes.
pub(crate) fn outcomes() -> Vec<&'static str> {
    let errors = errors();
    let words = errors.iter().map(WriteError::word);
    words.chain(["ok"]).collect()
}

fn cases() -> Vec<Case> {
    let looks = |result, samples: &str| {
        let metric = "trellis_reconciles_total";
        (metric, "result", result, samples.to_owned())
    };
    let watch = |samples: &str| {
        let metric = "trellis_watch_age_seconds";
        vec![(metric, "resource", "pods", samples.to_owned())]
    };
    let waits = |samples: &str| {
        let metric = "trellis_queue_oldest_wait_seconds";
        vec![(metric, "queue", "team-a", samples.to_owned())]
    };
    let held = |phase, samples: &str| {
        let metric = "trellis_jobs_held_oldest_seconds";
        (metric, "phase", phase, samples.to_owned())
    };
    let nodes = |state, samples: &str| ("trellis_nodes", "state", state, samples.to_owned());
    let undone = |reason, samples: &str| {
        let metric = "trellis_gangs_undone_total";
        (metric, "reason", reason, samples.to_owned())
    };
    let guard = |policy, samples: &str| {
        let metric = "trellis_admission_policy_in_force";
        (metric, "policy", policy, samples.to_owned())
    };
    let leader = |pod, samples: &str| ("trellis_leader", "pod", pod, samples.to_owned());
    let mut cases = vec![
        fires(
            "TrellisNoLeader",
            "Jobs are taken",
            3,
            vec![leader("a", "0x9"), leader("b", "0x9")],
        ),
        // No operator reports `trellis_leader`.
        fires(
            "TrellisNoLeader",
            "Jobs are taken",
            3,
            vec![of("trellis_reconciles_due", "0x9")],
        ),
        quiet(3, vec![leader("a", "1x9"), leader("b", "0x9")]),
        // The other takes over.
        quiet(6, vec![leader("a", "1 1 0x9"), leader("b", "0 0 0 1x9")]),
        fires(
            "TrellisReconcileErrors",
            "20% of them",
            30,
            vec![looks("failed", "0+2x40"), looks("done", "0+8x40")],
        ),
        quiet(
            30,
            vec![
                looks("failed", "0+1x40"),
                looks("behind", "0+9x40"),
                looks("done", "0+9x40"),
            ],
        ),
        fires(
            "TrellisReconcileStuck",
            "It has taken 5m 1s.",
            6,
            vec![of("trellis_reconcile_oldest_seconds", "301x9")],
        ),
        quiet(6, vec![of("trellis_reconcile_oldest_seconds", "300x9")]),
        fires(
            "TrellisWatchStalled",
            "has heard nothing of pods for 3m 1s.",
            3,
            watch("181x9"),
        ),
        quiet(3, watch("180x9")),
        fires(
            "TrellisQueueAge",
            "In queue team-a one waits for 1d 0h 0m 1s.",
            31,
            waits("86401x40"),
        ),
        quiet(31, waits("86400x40")),
        fires(
            "TrellisJobsHeld",
            "One has been Blocked for 1h 0m 1s.",
            16,
            vec![held("Blocked", "3601x30"), held("Waiting", "0x30")],
        ),
        quiet(
            16,
            vec![held("Blocked", "0x30"), held("Waiting", "3600x30")],
        ),
        fires(
            "TrellisNodesLost",
            "2 of them",
            6,
            vec![nodes("ready", "9x9"), nodes("lost", "2x9")],
        ),
        // It comes back within five minutes.
        quiet(6, vec![nodes("unhealthy", "1x9"), nodes("lost", "1x3 0x9")]),
        fires(
            "TrellisCommitFailures",
            "in half an hour, PodRefused.",
            60,
            vec![undone("PodRefused", "0+1x70")],
        ),
        // Each for another reason.
        quiet(
            60,
            vec![
                undone("PodRefused", "0x31 0+1x4 4x40"),
                undone("KubeletRefused", "0x31 0+1x4 4x40"),
            ],
        ),
        fires(
            "TrellisLedgerWrong",
            "Of 1 limits.",
            6,
            vec![of("trellis_ledger_wrong_limits", "1x9")],
        ),
        quiet(6, vec![of("trellis_ledger_wrong_limits", "0x9")]),
        fires(
            "TrellisAdmissionPolicyMissing",
            "The admission policy trellis-pods",
            12,
            vec![
                guard("trellis-pods", "0x19"),
                guard("trellis-pod-groups", "1x19"),
            ],
        ),
        // The chart is being upgraded.
        quiet(12, vec![guard("trellis-pods", "0 0 1x19")]),
    ];
    cases.extend(of_certificates());
    cases.extend(errors().iter().map(of_writes));
    cases
}

/// Three in ten writes fail with this error.
fn of_writes(error: &WriteError) -> Case {
    let outcome = |word, samples: &str| {
        let metric = "trellis_writes_total";
        (metric, "outcome", word, samples.to_owned())
    };
    let series = vec![outcome(error.word(), "0+3x40"), outcome("ok", "0+7x40")];
    match is_told(error) {
        true => fires("TrellisWritesFail", "30% of the writes", 30, series),
        false => quiet(30, series),
    }
}

fn of_certificates() -> Vec<Case> {
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
        // Time begins at 0: for a week and an hour from then on, looked at after two.
        cases.extend([
            fires(
                "TrellisCertificateExpires",
                "It ends in 6d 22h 59m 0s.",
                121,
                vec![of(ends, "608400x130")],
            ),
            quiet(121, vec![of(ends, "612000x130")]),
            // There is none.
            quiet(121, vec![of(ends, "0x130")]),
            fires(
                "TrellisCertificateDegraded",
                "Or the API server",
                31,
                vec![of(degraded, "1x40")],
            ),
            quiet(31, vec![of(degraded, "0x40")]),
        ]);
    }
    cases
}

impl Case {
    /// The samples of the case. A case without samples of a leader gets some, so that no alert
    /// fires for that.
    fn load(&self) -> String {
        let mut load = String::from("load 1m\n");
        for (metric, label, value, samples) in &self.series {
            load.push_str(&format!("  {metric}{{{label}=\"{value}\"}} {samples}\n"));
        }
        let tells = self
            .series
            .iter()
            .any(|series| series.0 == "trellis_leader");
        let is_of_leader = matches!(self.fires, Some(("TrellisNoLeader", _)));
        if !tells && !is_of_leader {
            load.push_str("  trellis_leader{pod=\"a\"} 1x200\n");
        }
        load
    }
}

pub(crate) fn test(_: &Helm) -> Result<()> {
    let (cases, facts) = (cases(), facts()?);
    for (metric, label, _, _) in cases.iter().flat_map(|case| &case.series) {
        let fact = facts.get(*metric);
        let fact = fact.with_context(|| format!("nobody tells {metric}"))?;
        let has = fact.labels.contains(*label) || OF_PROMETHEUS.contains(label);
        ensure!(has, "{metric} has no {label}");
    }
    let asked: Vec<promql::Case> = cases
        .iter()
        .map(|case| promql::Case {
            load: case.load(),
            seconds: case.minutes * 60,
        })
        .collect();
    let answer = promql::ask(&chart().join("files/alerts.yaml"), &[], &asked)?;
    let firing = answer.firing.context("nothing was evaluated")?;
    ensure!(firing.len() == cases.len());
    let mut wrong = Vec::new();
    for (case, firing) in cases.iter().zip(&firing) {
        if !case.is(firing) {
            wrong.push(format!("{}{:?}: {firing:?}", case.load(), case.fires));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    let tried = cases.iter().filter_map(|case| Some(case.fires?.0));
    let tried: BTreeSet<&str> = tried.collect();
    let all: BTreeSet<&str> = answer.alerts.iter().map(String::as_str).collect();
    ensure!(tried == all, "tried are {tried:?}, and there are {all:?}");
    Ok(())
}

impl Case {
    /// True if exactly the expected alert fires.
    fn is(&self, firing: &[Firing]) -> bool {
        match (self.fires, firing) {
            (None, []) => true,
            (Some((alert, said)), [one]) => {
                let is_it = one
                    .labels
                    .get("alertname")
                    .is_some_and(|name| name == alert);
                let mut told = one.annotations.values();
                let is_said = told.any(|text| text.contains(said));
                is_it && is_said && one.annotations.len() == 2
            }
            _ => false,
        }
    }
}
