//! Alerts and dashboard use only existing metrics and labels.

pub(super) mod firing;
pub(super) mod promql;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use trellis_e2e::helm::{Helm, chart_folder};

use crate::alerts::promql::ParsedExpression;

/// The label that Prometheus adds to each sample for its target.
const TARGET_LABEL: &str = "pod";

/// A metric: its labels and the documented values.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExportedMetric {
    pub(crate) labels: BTreeSet<String>,
    documentation_words: BTreeSet<String>,
}

/// Metrics of kube-state-metrics that alerts use, with their labels and documented values.
const KUBE_STATE_METRICS: [(&str, &[&str], &str); 1] = [(
    "kube_job_status_failed",
    &["namespace", "job_name", "reason"],
    "trellis-verify-.+",
)];

/// Returns all metrics that the operator and kube-state-metrics export.
pub(crate) fn exported_metrics() -> Result<BTreeMap<String, ExportedMetric>> {
    let mut facts = BTreeMap::new();
    for line in trellis_dispatch::markdown().lines() {
        let Some(row) = line.strip_prefix("| `") else {
            continue;
        };
        let (name, row) = row.split_once("` | ").context(line.to_owned())?;
        let mut cells = row.split(" | ");
        let kind = cells.next().context(line.to_owned())?;
        let labels = cells.next().context(line.to_owned())?;
        let named = labels.split('`').skip(1).step_by(2);
        let labels = named.map(str::to_owned).collect();
        let description = cells.next().context(line.to_owned())?;
        let words = description.split(|c: char| !c.is_ascii_alphanumeric());
        let words = words.map(str::to_owned).collect();
        let mut fact = ExportedMetric {
            labels,
            documentation_words: words,
        };
        if kind == "histogram" {
            // Queries use these series, because a histogram has no series with its own name.
            for part in ["_sum", "_count"] {
                facts.insert(format!("{name}{part}"), fact.clone());
            }
            fact.labels.insert("le".to_owned());
            facts.insert(format!("{name}_bucket"), fact);
        } else {
            facts.insert(name.to_owned(), fact);
        }
    }
    ensure!(facts.len() > 30, "only {facts:?}");
    for (metric, labels, value) in KUBE_STATE_METRICS {
        let fact = ExportedMetric {
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            documentation_words: BTreeSet::from([value.to_owned()]),
        };
        facts.insert(metric.to_owned(), fact);
    }
    Ok(facts)
}

/// Returns the expressions of the dashboard, with the labels in their legends.
fn dashboard_expressions() -> Result<Vec<(String, Vec<String>)>> {
    let text = std::fs::read_to_string(chart_folder().join("files/dashboard.json"))?;
    let dashboard: Value = serde_json::from_str(&text)?;
    let panels = dashboard["panels"].as_array().context("no panels")?;
    let targets = panels.iter().flat_map(|panel| {
        let targets = panel["targets"].as_array();
        targets.into_iter().flatten()
    });
    let read = |target: &Value| {
        let expression = target["expr"].as_str().context("no expression")?;
        // Grafana replaces this variable with an interval.
        let expression = expression.replace("$__rate_interval", "5m");
        let legend = target["legendFormat"].as_str().unwrap_or_default();
        let labels = legend.split("{{").skip(1);
        let labels = labels.filter_map(|part| Some(part.split_once("}}")?.0.trim().to_owned()));
        Ok((expression, labels.collect()))
    };
    targets.map(read).collect()
}

pub(crate) fn check_metric_names(_: &Helm) -> Result<()> {
    let (facts, dashboard) = (exported_metrics()?, dashboard_expressions()?);
    ensure!(dashboard.len() > 15, "only {dashboard:?}");
    let expressions: Vec<String> = dashboard.iter().map(|panel| panel.0.clone()).collect();
    let rules = chart_folder().join("files/alerts.yaml");
    let answer = promql::evaluate_rules(&rules, &expressions, &[])?;
    let alerts = answer.alerts.len();
    ensure!(alerts > 5, "only {:?}", answer.alerts);
    ensure!(answer.asked.len() == alerts + expressions.len());
    for query in &answer.asked {
        check_expression(query, &facts)?;
    }
    for ((expression, legend), query) in dashboard.iter().zip(answer.asked.iter().skip(alerts)) {
        let labels: Vec<_> = query
            .groups
            .iter()
            .flat_map(|group| &group.labels)
            .collect();
        for label in legend {
            ensure!(
                labels.contains(&label),
                "{expression} lacks the label {label}"
            );
        }
    }
    Ok(())
}

/// Returns the metrics of an expression, their labels, and the values with which they are compared.
fn check_expression(
    parsed: &ParsedExpression,
    facts: &BTreeMap<String, ExportedMetric>,
) -> Result<()> {
    let ParsedExpression {
        expression,
        selectors,
        groups,
    } = parsed;
    ensure!(!selectors.is_empty(), "{expression} selects no metric");
    let fact = |metric: &String| {
        let fact = facts.get(metric);
        fact.with_context(|| format!("{expression}: no program serves {metric}"))
    };
    let outcomes = firing::write_outcomes();
    for selector in selectors {
        let (metric, fact) = (&selector.metric, fact(&selector.metric)?);
        for matcher in &selector.matchers {
            let label = &matcher.label;
            let has_label = fact.labels.contains(label);
            ensure!(has_label, "{expression}: {metric} has no {label}");
            let values = match matcher.kind.as_str() {
                "=" | "!=" => vec![matcher.value.as_str()],
                _ => matcher.value.split('|').collect(),
            };
            for value in values {
                let is_outcome = label == "outcome" && outcomes.contains(&value);
                let is_said = is_outcome || fact.documentation_words.contains(value);
                ensure!(is_said, "{expression}: {metric} is never {label}={value}");
            }
        }
    }
    for group in groups {
        for metric in &group.metrics {
            let metric_labels = &fact(metric)?.labels;
            for label in &group.labels {
                let has_label = metric_labels.contains(label) || label == TARGET_LABEL;
                ensure!(has_label, "{expression}: {metric} has no {label}");
            }
        }
    }
    Ok(())
}
