//! Evaluates rules and expressions with a program built from Prometheus's own packages, in
//! `control-plane/prometheus`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use trellis_e2e::binaries::{Binaries, Executable};

/// Samples, and the time at which the alerts are evaluated.
#[derive(Debug, Serialize)]
pub(crate) struct RuleCase {
    /// Samples in the format of [promqltest]: `load 1m`, and one line per series.
    ///
    /// [promqltest]: https://pkg.go.dev/github.com/prometheus/prometheus/promql/promqltest
    pub(crate) load: String,
    pub(crate) seconds: u64,
}

#[derive(Serialize)]
struct EvaluationRequest<'a> {
    rules: &'a Path,
    expressions: &'a [String],
    cases: &'a [RuleCase],
}

#[derive(Debug, Deserialize)]
pub(crate) struct EvaluationReport {
    /// The name of each rule.
    pub(crate) alerts: Vec<String>,
    /// The selectors of each rule, then those of each expression.
    pub(crate) asked: Vec<ParsedExpression>,
    /// The alerts that fire in each case.
    #[serde(default)]
    pub(crate) firing: Option<Vec<Vec<FiringAlert>>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ParsedExpression {
    pub(crate) expression: String,
    pub(crate) selectors: Vec<MetricSelector>,
    pub(crate) groups: Vec<LabelGrouping>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct MetricSelector {
    pub(crate) metric: String,
    pub(crate) matchers: Vec<LabelMatcher>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct LabelMatcher {
    pub(crate) label: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) value: String,
}

/// Labels by which an expression groups, and the metrics that it groups.
#[derive(Debug, Deserialize)]
pub(crate) struct LabelGrouping {
    pub(crate) labels: Vec<String>,
    pub(crate) metrics: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FiringAlert {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

/// Parses a file of rules and these expressions, and evaluates the rules in each case.
pub(crate) fn evaluate_rules(
    rules: &Path,
    expressions: &[String],
    cases: &[RuleCase],
) -> Result<EvaluationReport> {
    let built = Binaries::find_or_build(&[Executable::PrometheusRules])?;
    let mut program = Command::new(built.path(Executable::PrometheusRules))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let question = EvaluationRequest {
        rules,
        expressions,
        cases,
    };
    let mut input = program.stdin.take().context("no input")?;
    // The program reads its whole input before it writes.
    input.write_all(&serde_json::to_vec(&question)?)?;
    drop(input);
    let output = program.wait_with_output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{stderr}");
    Ok(serde_json::from_slice(&output.stdout)?)
}
