//! Plans of jobs, asked from the operator, and their lines.

use std::iter;

use kube::Api;
use trellis_api::job::LevelPlacement;
use trellis_api::visibility::{
    Explanation, Plan, PlanStatus, PlannedClaim, PlannedJob, PlannedTaskGroup, Preempted,
    RequestChange,
};

use crate::explain::{describe_hidden_jobs, describe_start, help_sections};
use crate::text::format_runs;
use crate::visibility::ask_question;
use crate::{ErrorHints, ReadError, Reader};

/// Asks the operator what would happen to these TrainingJobs of a namespace.
///
/// # Errors
/// If the operator does not answer, or refuses the question.
pub async fn ask_plan(
    reader: &Reader,
    namespace: &str,
    jobs: Vec<serde_json::Value>,
) -> Result<PlanStatus, ReadError> {
    let api = Api::<Plan>::namespaced(reader.client.clone(), namespace);
    let right = "the ClusterRole trellis-edit has it: create plans.visibility.trellis.dev";
    let hints = ErrorHints {
        rights: right.to_owned(),
        without_cluster: Some("with --nodes FILE, `trellis plan` needs no cluster"),
    };
    let answer = ask_question(reader, &api, &Plan::new(namespace, jobs), &hints).await?;
    let status = answer.and_then(|answer| answer.status);
    status.ok_or_else(|| {
        let message = "the operator does not plan jobs: it is older than this program";
        ReadError::unavailable(message.to_owned())
    })
}

/// Lines about one subject, at least one.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PlanRow {
    /// The subject in one word, such as `objects`.
    pub name: &'static str,
    /// The lines.
    pub lines: Vec<String>,
}

/// Describes a planned job and its placement, or the reason why it has none.
#[must_use]
pub fn describe_job(job: &PlannedJob) -> Vec<PlanRow> {
    let queue = job.queue.as_ref();
    let queue = queue.map(|queue| format!("{queue}, priority {}", job.priority.unwrap_or(0)));
    let reason = job.reason.map(|reason| {
        let message = job.message.as_deref().unwrap_or_default();
        format!("{reason}: {message}")
    });
    let victims = job.preempts.iter().map(describe_victim);
    let victims = victims.chain(job.preempts_others.iter().map(describe_hidden_jobs));
    let shapes = job.smaller_shapes.iter().map(describe_shape);
    let explanation = job.explanation.as_ref();
    let start = explanation.map(|explanation| describe_start(explanation, explanation.time.0));
    let rows: [(&'static str, Vec<String>); 14] = [
        ("queue", Vec::from_iter(queue)),
        ("objects", job.objects.clone()),
        ("defaults", job.defaults.clone()),
        ("slices", job.slices.clone()),
        ("then", job.later_stages.clone()),
        ("nodes", describe_places(job)),
        ("topology", Vec::from_iter(describe_levels(&job.topology))),
        ("claims", job.claims.iter().map(describe_claim).collect()),
        ("preempts", victims.collect()),
        ("reason", Vec::from_iter(reason)),
        ("start", Vec::from_iter(start)),
        ("smaller", shapes.collect()),
        ("help", explanation.map(describe_help).unwrap_or_default()),
        ("note", job.notes.clone()),
    ];
    let rows = rows.into_iter().filter(|(_, lines)| !lines.is_empty());
    rows.map(|(name, lines)| PlanRow { name, lines }).collect()
}

fn describe_places(job: &PlannedJob) -> Vec<String> {
    let nodes = job.nodes.unwrap_or(0);
    let on_nodes = |pods: i64| {
        let plural = if nodes == 1 { "" } else { "s" };
        format!("{pods} pods on {nodes} node{plural}")
    };
    let place = |group: &PlannedTaskGroup| {
        let runs = group.nodes.iter().map(|on| (on.node.as_str(), on.pods));
        let place = match group.nodes.is_empty() {
            // The caller may not read nodes.
            true => format!("{} pods", group.pods),
            false => format_runs(runs),
        };
        format!("{}: {place}", group.name)
    };
    let pods = job.task_groups.iter().map(|group| group.pods);
    let pods = pods.fold(0, i64::saturating_add);
    let places = job.task_groups.iter().map(place);
    places
        .chain(iter::once_with(|| on_nodes(pods)).filter(|_| pods > 1))
        .collect()
}

/// Describes how the ranks follow the topology, by level. None: there is no topology to follow.
fn describe_levels(levels: &[LevelPlacement]) -> Option<String> {
    let level_text = |placed: &LevelPlacement| {
        let (level, crossings, least) = (&placed.level, placed.crossings, placed.least_crossings);
        match placed.domains {
            1 => format!("{level}: 1 domain"),
            many if crossings > least => {
                format!("{level}: {many} domains, {crossings} ring crossings (at least {least})")
            }
            many => format!("{level}: {many} domains, {crossings} ring crossings"),
        }
    };
    let texts: Vec<String> = levels.iter().map(level_text).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

fn describe_claim(claim: &PlannedClaim) -> String {
    let name = &claim.claim;
    match (&claim.volume, &claim.node) {
        (Some(volume), _) => format!("{name}: bound to volume {volume}"),
        (None, Some(node)) => format!("{name}: provisioned for node {node}"),
        (None, None) => format!("{name}: provisioned"),
    }
}

fn describe_victim(victim: &Preempted) -> String {
    let subject = match &victim.pod {
        None => victim.job.to_string(),
        Some(pod) => format!("pod {pod} of {}", victim.job),
    };
    let because = victim.because.as_deref().unwrap_or("it is leaving already");
    let lost = victim.lost_device_seconds.unwrap_or(0);
    format!("{subject}: {because} (work lost: {lost} device-seconds)")
}

/// Describes what would let the job start.
fn describe_help(explanation: &Explanation) -> Vec<String> {
    let sections = help_sections(explanation).into_iter();
    let lines = sections.flat_map(|section| {
        let lines = section.lines.into_iter().map(|line| format!("  {line}"));
        iter::once(format!("{}:", section.heading)).chain(lines)
    });
    lines.collect()
}

fn describe_shape(shape: &RequestChange) -> String {
    format!("{}: {}: the job would start now", shape.field, shape.value)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rows(job: Value) -> Vec<(&'static str, Vec<String>)> {
        let job: PlannedJob = serde_json::from_value(job).unwrap();
        let rows = describe_job(&job).into_iter();
        rows.map(|row| (row.name, row.lines)).collect()
    }

    #[test]
    fn job_that_runs_has_its_nodes_and_the_jobs_that_leave() {
        let nodes = json!([{"node": "gpu-1", "pods": 8}, {"node": "gpu-0", "pods": 8}]);
        let victim = json!({"namespace": "team-b", "name": "sweep", "because": "lower priority",
            "lostDeviceSeconds": 48});
        let found = rows(json!({
            "namespace": "team-a", "name": "llm", "verdict": "Runs", "queue": "vision", "priority": 5,
            "nodes": 2, "taskGroups": [{"name": "worker", "pods": 16, "nodes": nodes}],
            "claims": [{"claim": "data", "volume": "disk-7"}, {"claim": "tmp", "node": "gpu-0"}],
            "preempts": [victim], "preemptsOthers": [{"count": 2, "priority": 0}]}));
        assert_eq!(
            found,
            [
                ("queue", vec!["vision, priority 5".to_owned()]),
                (
                    "nodes",
                    vec![
                        "worker: 8 on each of gpu-0..gpu-1".to_owned(),
                        "16 pods on 2 nodes".to_owned()
                    ]
                ),
                (
                    "claims",
                    vec![
                        "data: bound to volume disk-7".to_owned(),
                        "tmp: provisioned for node gpu-0".to_owned()
                    ]
                ),
                (
                    "preempts",
                    vec![
                        "team-b/sweep: lower priority (work lost: 48 device-seconds)".to_owned(),
                        "2 jobs in namespaces that you may not see, priority 0".to_owned()
                    ]
                ),
            ]
        );
    }

    #[test]
    fn caller_who_may_not_read_nodes_gets_their_number() {
        let found = rows(json!({
            "namespace": "team-a", "name": "llm", "verdict": "Runs", "nodes": 2,
            "taskGroups": [{"name": "worker", "pods": 16}], "claims": [{"claim": "tmp"}]}));
        let lines = |lines: &[&str]| {
            lines
                .iter()
                .map(|&line| line.to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            found,
            [
                ("nodes", lines(&["worker: 16 pods", "16 pods on 2 nodes"])),
                ("claims", lines(&["tmp: provisioned"])),
            ]
        );
    }

    #[test]
    fn job_that_waits_has_its_start_and_what_would_help() {
        let change = json!({"field": "spec.taskGroups[worker].flavors", "value": "[a100]"});
        let explanation = json!({
            "apiVersion": "visibility.trellis.dev/v1alpha1", "kind": "Explanation",
            "metadata": {"name": "llm", "namespace": "team-a"}, "time": "2026-12-01T10:00:00Z",
            "queue": "vision", "priority": 0, "message": "no room", "requestChanges": [change],
            "expectedStart": "2026-12-01T12:00:00Z"});
        let found = rows(json!({
            "namespace": "team-a", "name": "llm", "verdict": "Waits", "reason": "InsufficientCapacity",
            "message": "no room", "explanation": explanation,
            "smallerShapes": [{"field": "spec.taskGroups[worker].replicas", "value": "12"}]}));
        let names: Vec<_> = found.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["reason", "start", "smaller", "help"]);
        let lines: Vec<_> = found.iter().flat_map(|(_, lines)| lines).collect();
        for words in [
            "InsufficientCapacity: no room",
            "expected to start in 120m (2026-12-01T12:00:00Z)",
            "spec.taskGroups[worker].replicas: 12: the job would start now",
            "The job would start now with any one of these changes:",
            "  spec.taskGroups[worker].flavors: [a100]",
        ] {
            assert!(
                lines.iter().any(|line| *line == words),
                "{words}: {lines:?}"
            );
        }
    }
}
