//! Explains to users why a log does not exist. Pure.

use trellis_api::TrainingJob;
use trellis_api::job::{JobPhase, TrainingJobStatus, parse_ranges};
use trellis_reads::pods::{PodLine, StageRanks, find_missing};

use crate::output::sanitize;

/// Reason why no log can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoLog {
    /// The pod can never exist in this job.
    Impossible(String),
    /// The pod does not exist now.
    Unavailable(String),
}

fn job_name(job: &TrainingJob) -> &str {
    job.metadata.name.as_deref().unwrap_or_default()
}

/// The task group does not exist.
pub fn explain_missing_group(job: &TrainingJob, group: &str) -> String {
    let groups = job.spec.task_groups.iter().map(|group| group.name.as_str());
    let groups: Vec<_> = groups.collect();
    format!(
        "{} has no task group {group:?}: name one of {}",
        job_name(job),
        groups.join(", ")
    )
}

/// The rank does not exist.
pub fn explain_missing_rank(job: &TrainingJob, rank: u32, ranks: &StageRanks) -> String {
    let last = ranks.total().saturating_sub(1);
    let stage = match job.status.as_ref().and_then(|status| status.stage.as_ref()) {
        Some(stage) => format!(" in stage {}", stage.number),
        None => String::new(),
    };
    let job = job_name(job);
    format!(
        "{job} has no rank {rank}{stage}: its ranks are 0 to {last}; `trellis status {job}` lists the ranks of the pods"
    )
}

/// The index does not exist.
pub fn explain_missing_index(job: &TrainingJob, group: &str, index: u32) -> String {
    let pods = job.spec.group(group).map_or(0, |group| group.replicas());
    format!(
        "task group {group:?} of {} has no index {index}: its indexes are 0 to {}",
        job_name(job),
        pods.saturating_sub(1)
    )
}

/// The pod has no container with this name.
pub fn explain_missing_container(pod: &str, container: &str, all: &[&str]) -> String {
    format!(
        "{pod} has no container {container:?}: name one of {}",
        all.join(", ")
    )
}

/// The stage of the group has not started.
pub fn explain_later_stage(job: &TrainingJob, stage: u32, current: u32) -> String {
    format!(
        "the group has no pods yet: it belongs to stage {stage}, and {} is at stage {current}",
        job_name(job)
    )
}

/// The pod does not exist now. `pod`: the selected pod, by group and index.
pub fn explain_missing_pod(
    job: &TrainingJob,
    pods: &[PodLine],
    ranks: &StageRanks,
    pod: Option<&(String, u32)>,
) -> String {
    let job_name = job_name(job);
    let Some((status, phase)) = job.status.as_ref().and_then(|s| Some((s, s.phase?))) else {
        return format!(
            "{job_name} has no pods yet: no operator has processed it; see `trellis status {job_name}`"
        );
    };
    if status.has_ended() {
        return explain_deleted_pods(job, status, phase);
    }
    let reason = describe_phase(status, phase);
    let (Some((group, index)), JobPhase::Starting | JobPhase::Running) = (pod, phase) else {
        let hint = match phase {
            JobPhase::Queued => {
                format!("; `trellis explain {job_name}` shows the cause")
            }
            _ => String::new(),
        };
        return format!("{job_name} has no pods now: it is {reason}{hint}");
    };
    let rank = ranks.rank(group, *index);
    let rank = rank
        .map(|rank| format!(" (rank {rank})"))
        .unwrap_or_default();
    let missing = find_missing(job, pods);
    let cause = missing
        .iter()
        .find(|m| m.group == *group && parse_ranges(&m.indexes).contains(index));
    match cause {
        Some(cause) => format!(
            "pod {index} of {group}{rank} does not exist: it {}; {job_name} is {reason}",
            cause.why
        ),
        None => format!("pod {index} of {group}{rank} does not exist; {job_name} is {reason}"),
    }
}

/// Returns phase, reason and message.
fn describe_phase(status: &TrainingJobStatus, phase: JobPhase) -> String {
    let message = status.message.as_deref().map(sanitize);
    let message = message.filter(|message| !message.is_empty());
    let message = message.map(|message| format!(": {message}"));
    let reason = status.reason.map(|reason| reason.as_str());
    let reason = reason.filter(|reason| *reason != phase.as_str());
    let reason = reason.map(|reason| format!(" ({reason})"));
    format!(
        "{}{}{}",
        phase.as_str(),
        reason.unwrap_or_default(),
        message.unwrap_or_default()
    )
}

fn explain_deleted_pods(job: &TrainingJob, status: &TrainingJobStatus, phase: JobPhase) -> String {
    format!(
        "the pods of {} and their logs are gone: the job is {}, and its cleanup has deleted them (spec.cleanup: podsOnSuccess, podsOnFailure, childrenTTLSeconds; spec.ttlSecondsAfterFinished). Look in your log collection.{}",
        job_name(job),
        phase.as_str(),
        describe_last_failure(status)
    )
}

/// No pod or container of an earlier run is left.
pub fn explain_missing_previous(job: &TrainingJob) -> String {
    let last = job
        .status
        .as_ref()
        .map(describe_last_failure)
        .unwrap_or_default();
    format!(
        "the logs of previous attempts of {} are gone: a restart deletes the pods and their logs. Look in your log collection; restart.scope: Never keeps the pods of a failed job.{last}",
        job_name(job)
    )
}

fn describe_last_failure(status: &TrainingJobStatus) -> String {
    let failure = status.last_failure.as_ref();
    let sentence = failure.and_then(|failure| {
        let line = failure.last_line.as_deref().map(sanitize)?;
        Some(format!(
            " The last line of {} in attempt {}: {line}",
            failure.pod, failure.attempt
        ))
    });
    sentence.unwrap_or_default()
}

/// The pod exists, but its container has not started.
pub fn explain_not_started(pod: &PodLine, container: &str) -> String {
    let state = &pod.state;
    let message = state.message.as_deref().map(sanitize);
    let message = message.map(|message| format!(": {message}"));
    format!(
        "{} has no log of container {:?} yet: it is {}{}",
        pod.name,
        container,
        state.state,
        message.unwrap_or_default()
    )
}
