//! `trellis verify --audit FILE`: judges the audit log of an API server.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use anyhow::Context as _;
use trellis_verify::{AuditJudge, ObjectCounts, Rule, Verifier};

use super::{Findings, VerifyReport};

/// Judges a log. Findings are shown at once.
pub(super) fn judge_audit_log(path: &Path, mut found: Findings) -> anyhow::Result<VerifyReport> {
    let unreadable = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(unreadable)?;
    let mut judge = AuditJudge::new();
    for line in BufReader::new(file).lines() {
        let line = line.with_context(unreadable)?;
        found.add(judge.read_line(&line).with_context(unreadable)?)?;
    }
    found.add(judge.finish())?;
    let verifier = judge.verifier();
    let counts = verifier.map_or_else(ObjectCounts::default, Verifier::object_counts);
    let healthy = verifier.map_or(0, |verifier| verifier.healthy_time().as_secs());
    Ok(VerifyReport {
        findings: found.rows,
        rules: Rule::ALL.iter().map(|rule| rule.as_str()).collect(),
        jobs: counts.jobs,
        pods: counts.pods,
        nodes: counts.nodes,
        seconds: judge.duration().as_secs().try_into().unwrap_or(0),
        healthy_seconds: healthy.try_into().unwrap_or(0),
        broken_kinds: Vec::new(),
        gaps: 0,
        unread: verifier
            .into_iter()
            .flat_map(Verifier::unread_objects)
            .map(ToString::to_string)
            .collect(),
        unseen: judge
            .unseen()
            .map(|(kind, level, count)| format!("{count} writes of {kind} at level {level}"))
            .collect(),
        // The rules about time need a leader, and the rules about changes need writes.
        is_led: healthy > 0,
    })
}
