//! `trellis verify`: checks on a cluster whether Trellis keeps its promises.

mod audit;
#[cfg(test)]
mod tests;
mod view;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use serde::Serialize;
use tokio::time::Instant;
use trellis_verify::{ClusterWatch, Finding, Health, Rule, WATCHED_KINDS};

use crate::cluster::{ClusterClient, ClusterOptions, USER_AGENT};
use crate::exit::Exit;
use crate::output::{OutputFormat, print, serialize_object};
use crate::wait_options;

/// Options of `trellis verify`.
#[derive(clap::Args, Clone, Debug)]
pub struct VerifyOptions {
    /// Watch the cluster for this time (10m, 1h), and judge each change.
    /// Default: one look. It shows only the faults that last, such as a gang that has been torn for
    /// minutes.
    #[arg(long = "for", value_name = "TIME", value_parser = wait_options::parse_duration)]
    watch_time: Option<Duration>,
    /// Judge this audit log of the API server instead of the cluster.
    /// It has one event of audit.k8s.io/v1 per line, and the objects of all writes of the watched
    /// kinds: level RequestResponse.
    #[arg(long, value_name = "FILE", conflicts_with = "watch_time")]
    audit: Option<PathBuf>,
    /// Namespace of the operator.
    #[arg(long, value_name = "NAMESPACE", default_value = "trellis-system")]
    operator_namespace: String,
    /// Output for scripts (json, yaml).
    /// The fields are in docs/verify.md.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<OutputFormat>,
    /// Cluster and user.
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// The result of a check.
#[derive(Serialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VerifyReport {
    /// The broken rules, in the order of time.
    findings: Vec<FindingRow>,
    /// Names of the rules that were judged.
    rules: Vec<&'static str>,
    /// Number of TrainingJobs.
    jobs: usize,
    /// Number of pods that Trellis has placed.
    pods: usize,
    /// Number of nodes.
    nodes: usize,
    /// Seconds of the watch. Zero: one look.
    seconds: u64,
    /// Seconds of the watch in which the cluster was healthy. Bounds of rules count only these.
    healthy_seconds: u64,
    /// Kinds whose watch is broken at the end.
    broken_kinds: Vec<&'static str>,
    /// Number of breaks of watches. Changes during a break may be unseen.
    gaps: u64,
    /// Objects that do not decode, so that no rule judges them.
    unread: Vec<String>,
    /// Writes that an audit log has without the object, by kind and level.
    unseen: Vec<String>,
    /// True if a replica of the operator holds the Lease, or held it in the time of an audit log.
    is_led: bool,
}

/// One broken rule.
#[derive(Serialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FindingRow {
    /// Name of the rule.
    rule: &'static str,
    /// The promise of the rule.
    promise: &'static str,
    /// Kind of the object that breaks it.
    kind: &'static str,
    /// Namespace of the object. Absent: the object has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    /// Name of the object.
    name: String,
    /// The evidence in the object.
    message: String,
    /// Since when it is so.
    since: String,
    /// Revision of the change that shows it. Absent: the time shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    /// Advice where to look next.
    look_at: &'static str,
}

impl From<Finding> for FindingRow {
    fn from(finding: Finding) -> Self {
        Self {
            rule: finding.rule.as_str(),
            promise: finding.rule.promise(),
            kind: finding.object.kind,
            namespace: finding.object.name.namespace,
            name: finding.object.name.name,
            message: finding.message,
            since: finding.since.to_string(),
            revision: finding.revision,
            look_at: finding.rule.look_at(),
        }
    }
}

impl VerifyReport {
    fn exit(&self) -> Exit {
        // Without a leader nothing acts, so there is nothing to judge.
        let has_seen = self.is_led && self.broken_kinds.is_empty() && self.unseen.is_empty();
        match (self.findings.is_empty(), has_seen) {
            (false, _) => Exit::Negative,
            (true, true) => Exit::Done,
            (true, false) => Exit::Invalid,
        }
    }
}

/// Checks the cluster.
/// Exit status: 0 all rules hold, 1 a rule is broken, 2 the cluster could not be seen.
///
/// # Errors
/// If the cluster cannot be watched, or the audit log cannot be read.
pub fn run(options: &VerifyOptions) -> anyhow::Result<ExitCode> {
    let report = match &options.audit {
        Some(file) => audit::judge_audit_log(file, Findings::new(options))?,
        None => {
            let kubeconfig = options.cluster.to_kubeconfig_options();
            let cluster = ClusterClient::connect_for_watches(&kubeconfig, USER_AGENT)?;
            cluster.block_on(verify(&cluster, options))?
        }
    };
    let text = serialize_object(options.output, &report)?;
    print(&text.unwrap_or_else(|| view::render_summary(&report)))?;
    Ok(report.exit().into())
}

async fn verify(cluster: &ClusterClient, options: &VerifyOptions) -> anyhow::Result<VerifyReport> {
    let watch = ClusterWatch::start(cluster.client(), &options.operator_namespace);
    let mut watch = watch.await.map_err(|error| {
        anyhow!(
            "{error}: the ClusterRole trellis-verify of the chart has the rights: get, list and watch on {}",
            WATCHED_KINDS.join(", ")
        )
    })?;
    // The first look shows what has lasted since before the start.
    let mut found = Findings::new(options);
    found.add(watch.look())?;
    let start = Instant::now();
    if let Some(time) = options.watch_time {
        let interrupted = tokio::signal::ctrl_c();
        tokio::pin!(interrupted);
        while start.elapsed() < time {
            tokio::select! {
                new = watch.step(Health::Healthy) => found.add(new)?,
                _ = &mut interrupted => break,
            }
        }
    }
    found.add(watch.finish())?;
    let counts = watch.verifier().object_counts();
    let is_judged = |rule: &&Rule| options.watch_time.is_some() || rule.is_seen_in_one_look();
    let judged = Rule::ALL.iter().filter(is_judged);
    Ok(VerifyReport {
        findings: found.rows,
        rules: judged.map(|rule| rule.as_str()).collect(),
        jobs: counts.jobs,
        pods: counts.pods,
        nodes: counts.nodes,
        seconds: start.elapsed().as_secs(),
        healthy_seconds: watch
            .verifier()
            .healthy_time()
            .as_secs()
            .try_into()
            .unwrap_or(0),
        broken_kinds: watch.broken_kinds(),
        gaps: watch.gaps(),
        unread: watch
            .verifier()
            .unread_objects()
            .map(ToString::to_string)
            .collect(),
        unseen: Vec::new(),
        is_led: watch.verifier().is_led(),
    })
}

/// Findings so far. People see each at once.
struct Findings {
    rows: Vec<FindingRow>,
    is_for_people: bool,
}

impl Findings {
    fn new(options: &VerifyOptions) -> Self {
        Self {
            rows: Vec::new(),
            is_for_people: !matches!(
                options.output,
                Some(OutputFormat::Json | OutputFormat::Yaml)
            ),
        }
    }

    fn add(&mut self, new: Vec<Finding>) -> anyhow::Result<()> {
        for finding in new {
            let row = FindingRow::from(finding);
            if self.is_for_people {
                print(&view::render_finding(&row))?;
            }
            self.rows.push(row);
        }
        Ok(())
    }
}
