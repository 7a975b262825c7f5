//! The head of a report: the status of the job itself.

use k8s_openapi::jiff::Timestamp;
use trellis_api::job::{JobPhase, LastFailure, PolicyDecision, Restart, TrainingJobStatus};
use trellis_api::status::condition::{ConditionType, JobSummary};
use trellis_api::{Reason, TrainingJob, names};
use trellis_reads::remedy;
use trellis_reads::report::StatusReport;

use super::labelled_lines::LabelledLines;
use super::times::{describe_runtime, describe_wait, format_ago};
use crate::output::sanitize;
use crate::output::{Tone, format_until, paint, phase_tone};

/// Renders the head.
#[must_use]
pub fn render_head(report: &StatusReport, now: Timestamp, width: Option<usize>) -> String {
    let job = &report.job;
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
    let title = format!("trainingjob.trellis.dev/{name}");
    let mut out = paint(&title, Tone::Head);
    out.push_str(&format!(" in namespace {namespace}\n"));
    let mut lines = LabelledLines::default();
    add_phase(job, &mut lines);
    if let Some(status) = &job.status {
        add_place(job, status, &mut lines);
    }
    add_submission(job, now, &mut lines);
    if let Some(status) = &job.status {
        add_attempts(job, status, now, &mut lines);
        add_failures(status, now, &mut lines);
        add_policy(status, &mut lines);
        add_conditions(status, &mut lines);
    }
    out.push_str(&lines.render(width));
    out
}

fn add_phase(job: &TrainingJob, lines: &mut LabelledLines) {
    if let Some(manager) = job.spec.external_manager() {
        let text = format!("{manager} manages it (spec.managedBy): Trellis does not run it");
        lines.push("Managed by", text);
    }
    let status = job.status.as_ref();
    let Some((status, phase)) = status.and_then(|status| Some((status, status.phase?))) else {
        let text = "none yet: no operator has processed it. If this persists, `kubectl get pods -A -l trellis.dev/role=leader` shows whether an operator leads";
        lines.push_with_tone("Phase", text, Tone::Waiting);
        return;
    };
    let reason = status.reason.map(Reason::as_str);
    let reason = reason.filter(|reason| *reason != phase.as_str());
    let word = match reason {
        Some(reason) => format!("{phase} ({reason})", phase = phase.as_str()),
        None => phase.as_str().to_owned(),
    };
    lines.push_with_tone("Phase", word, phase_tone(phase));
    lines.push(
        "Phase",
        sanitize(status.message.as_deref().unwrap_or_default()),
    );
    if job.metadata.deletion_timestamp.is_some() {
        lines.push_with_tone("Phase", "it is being deleted", Tone::Waiting);
    }
    if let Some(generation) = job.metadata.generation
        && status
            .observed_generation
            .is_some_and(|observed| observed < generation)
    {
        let text = "this status is of the previous spec; the operator has not processed the last change yet";
        lines.push_with_tone("Phase", text, Tone::Waiting);
    }
    let remedy = remedy(Some(status), status.reason);
    let acts = !remedy.starts_with("Nothing") && remedy != "Read the message.";
    if acts && !remedy.is_empty() && phase != JobPhase::Complete {
        lines.push("To do", &remedy);
    }
}

fn add_place(job: &TrainingJob, status: &TrainingJobStatus, lines: &mut LabelledLines) {
    if let Some(ready) = &status.ready {
        let nodes = status.nodes.filter(|nodes| *nodes > 0);
        let nodes = nodes.map(|nodes| match nodes {
            1 => " on 1 node".to_owned(),
            nodes => format!(" on {nodes} nodes"),
        });
        let failed = status.pods.map_or(0, |pods| pods.failed);
        let failed = match failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        let gpus = status.gpus.filter(|gpus| *gpus > 0);
        let gpus = gpus.map(|gpus| format!(", {gpus} GPUs"));
        let nodes = nodes.unwrap_or_default();
        lines.push(
            "Ready",
            format!("{ready} pods{nodes}{failed}{}", gpus.unwrap_or_default()),
        );
    }
    let queue = status.queue.clone().or_else(|| job.spec.queue_name.clone());
    let class = job.spec.priority_class_name.as_ref();
    let class = class.map(|class| format!(", priority class {class}"));
    lines.push(
        "Queue",
        queue.map_or_else(String::new, |queue| {
            format!("{queue}{}", class.unwrap_or_default())
        }),
    );
    if let Some(profile) = &status.profile {
        lines.push("Profile", profile.name.as_str());
    }
}

fn add_submission(job: &TrainingJob, now: Timestamp, lines: &mut LabelledLines) {
    let Some(created) = job.metadata.creation_timestamp.as_ref() else {
        return;
    };
    let policy = job
        .status
        .as_ref()
        .and_then(|status| status.policy.as_ref());
    let requester = match policy.and_then(|policy| policy.requester.as_deref()) {
        Some(user) => format!(" by {}", sanitize(user)),
        None => match (
            policy.and_then(|p| p.requester_unknown.as_deref()),
            stamped_user(job),
        ) {
            (Some(why), _) => format!("; the requester is unknown: {}", sanitize(why)),
            (None, Some(user)) => format!(" by {user}, as its annotation says"),
            (None, None) => String::new(),
        },
    };
    lines.push(
        "Submitted",
        format!("{}{requester}", format_ago(created.0, now)),
    );
}

/// Returns the user in the annotation of the job.
fn stamped_user(job: &TrainingJob) -> Option<String> {
    let stamp = job
        .metadata
        .annotations
        .as_ref()?
        .get(names::REQUESTED_BY)?;
    let stamp: serde_json::Value = serde_json::from_str(stamp).ok()?;
    Some(sanitize(stamp.get("user")?.as_str()?))
}

fn add_attempts(
    job: &TrainingJob,
    status: &TrainingJobStatus,
    now: Timestamp,
    lines: &mut LabelledLines,
) {
    if let Some(stage) = &status.stage {
        let since = stage.since.as_ref().map(|since| format_ago(since.0, now));
        let since = since.map(|since| format!(", started {since}"));
        let first = format!(", with attempt {}", stage.first_attempt);
        let text = format!(
            "{} of {}{}{first}",
            stage.number,
            stage.of,
            since.unwrap_or_default()
        );
        lines.push("Stage", text);
    }
    if let Some(attempt) = status.attempt {
        let restart = job.spec.restart.as_ref();
        let none = Restart::default();
        let restart = restart.unwrap_or(&none);
        let starts = status.internal.failed_starts.filter(|starts| *starts > 0);
        let starts = starts.map(|n| format!("; {n} in a row ended before all pods ran"));
        let text = format!(
            "{attempt}; restarts {} of {}, disruptions {} of {}{}",
            status.restarts.unwrap_or(0),
            restart.limit(),
            status.disruptions.unwrap_or(0),
            restart.disruption_limit(),
            starts.unwrap_or_default()
        );
        lines.push("Attempt", text);
    }
    lines.push("Waited", describe_wait(status, now));
    lines.push("Ran", describe_runtime(job, status, now));
    if let Some(ended) = &status.completion_time {
        lines.push("Ended", format_ago(ended.0, now));
    }
    if let Some(checkpoint) = &status.checkpoint {
        let last = checkpoint.last_time.as_ref();
        let last = last.map(|last| format!("complete {}", format_ago(last.0, now)));
        let ahead = checkpoint.ahead_time.as_ref();
        let ahead = ahead.map(|_| "a pod reported a time in the future".to_owned());
        let parts: Vec<_> = last.into_iter().chain(ahead).collect();
        lines.push("Checkpoint", parts.join("; "));
        let problem = sanitize(checkpoint.problem.as_deref().unwrap_or_default());
        lines.push_with_tone("Checkpoint", problem, Tone::Bad);
    }
}

fn add_failures(status: &TrainingJobStatus, now: Timestamp, lines: &mut LabelledLines) {
    let away = status
        .excluded_nodes
        .iter()
        .filter(|node| node.until.0 > now);
    for node in away {
        let times = match node.times {
            1 => String::new(),
            times => format!(" {times} times in a row"),
        };
        let remaining = format_until(node.until.0, now);
        let text = format!(
            "{} for another {remaining}: {}{times}, last in attempt {}",
            node.node,
            node.reason.as_str(),
            node.attempt
        );
        lines.push("Avoided", text);
    }
    if let Some(failure) = &status.last_failure {
        lines.push_with_tone("Last failure", describe_failure(failure, now), Tone::Bad);
        let line = failure.last_line.as_deref().map(sanitize);
        lines.push("Last failure", line.unwrap_or_default());
    }
    if let Some(last) = &status.last_preemption {
        let text = format!(
            "{}, attempt {}: {}",
            format_ago(last.time.0, now),
            last.attempt,
            sanitize(&last.message)
        );
        lines.push("Preempted", text);
    }
}

fn describe_failure(failure: &LastFailure, now: Timestamp) -> String {
    let pod = match failure.pod.as_str() {
        "" => String::new(),
        pod => format!(" of {pod}"),
    };
    let node = failure.node.as_ref().map(|node| format!(" on {node}"));
    let exit = failure.exit_code.map(|code| format!(", exit code {code}"));
    format!(
        "{}, attempt {}: {}{pod}{}{}",
        format_ago(failure.time.0, now),
        failure.attempt,
        sanitize(&failure.reason),
        node.unwrap_or_default(),
        exit.unwrap_or_default()
    )
}

fn add_policy(status: &TrainingJobStatus, lines: &mut LabelledLines) {
    let Some(policy) = &status.policy else { return };
    let decision = policy.decision.filter(|d| *d != PolicyDecision::Allowed);
    if let Some(decision) = decision {
        lines.push_with_tone("Policy", decision.as_str(), Tone::Bad);
        for id in &policy.policies {
            lines.push("Policy", format!("decided by {}", sanitize(id)));
        }
        for permit in &policy.missing_permits {
            lines.push("Policy", format!("no permit for {}", sanitize(permit)));
        }
    }
    for error in &policy.errors {
        lines.push_with_tone("Policy", sanitize(error), Tone::Bad);
    }
    for warning in &policy.warnings {
        lines.push_with_tone(
            "Policy",
            format!("would deny: {}", sanitize(warning)),
            Tone::Waiting,
        );
    }
}

/// Adds conditions that contradict the phase (docs/api.md).
/// Another client or another version has written them.
fn add_conditions(status: &TrainingJobStatus, lines: &mut LabelledLines) {
    let phase = status
        .phase
        .filter(|phase| *phase != JobPhase::Unrecognized);
    let (Some(phase), Some(reason)) = (phase, status.reason) else {
        return;
    };
    let own = |type_: ConditionType| {
        let mut all = status.conditions.iter();
        all.find(|condition| condition.type_ == type_.as_str())
    };
    let holds = |type_| own(type_).is_some_and(|condition| condition.status == "True");
    let expected = JobSummary {
        phase,
        reason,
        message: String::new(),
        // Both values are valid while the job releases its nodes.
        quota_reserved: holds(ConditionType::QuotaReserved),
        scheduled: holds(ConditionType::Scheduled),
    };
    let none = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH);
    for (expected, type_) in expected
        .conditions(None, &none, &[])
        .iter()
        .zip(ConditionType::ALL)
    {
        let text = match own(type_) {
            Some(own) if own.status == expected.status => continue,
            Some(own) => format!(
                "{} is {}, and in phase {} it must be {}: {} {}",
                own.type_,
                own.status,
                phase.as_str(),
                expected.status,
                own.reason,
                sanitize(&own.message)
            ),
            None => format!("{} is missing", expected.type_),
        };
        lines.push_with_tone("Conditions", text, Tone::Bad);
    }
}
