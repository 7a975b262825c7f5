//! The state of a pod, in the words of `kubectl get pods`.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use serde::Serialize;

use crate::text::sanitize;

/// The state of a pod.
#[derive(Serialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PodState {
    /// One word: a phase, or the reason why the pod does not progress.
    pub state: String,
    /// Number of ready containers.
    pub ready: usize,
    /// Number of containers.
    pub containers: usize,
    /// Number of container restarts: the kubelet restarts sidecars in the same pod.
    pub restarts: i32,
    /// Exit code of the failed container, else of the last container that ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why the pod does not start, or the last line of its termination message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How well a pod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodHealth {
    /// It runs, or has completed.
    Good,
    /// It starts or stops.
    Waiting,
    /// It has failed, or does not progress.
    Bad,
}

impl PodState {
    /// How well the pod does.
    #[must_use]
    pub fn health(&self) -> PodHealth {
        match self.state.as_str() {
            "Running" if self.ready == self.containers => PodHealth::Good,
            "Completed" | "Succeeded" => PodHealth::Good,
            "Running" | "Pending" | "ContainerCreating" | "PodInitializing" | "Terminating" => {
                PodHealth::Waiting
            }
            word if word.starts_with("Init:") && word.contains('/') => PodHealth::Waiting,
            _ => PodHealth::Bad,
        }
    }
}

/// Reads the state from the pod's status.
#[must_use]
pub fn read_state(pod: &Pod) -> PodState {
    let none = PodStatus::default();
    let status = pod.status.as_ref().unwrap_or(&none);
    let main = or_empty(status.container_statuses.as_ref());
    let inits = or_empty(status.init_container_statuses.as_ref());
    let spec = pod.spec.as_ref();
    let all = main.iter().chain(inits);
    let worst = all.clone().find(has_failed).or_else(|| {
        let ended = |c: &&ContainerStatus| last_termination(c).is_some();
        main.iter().find(ended)
    });
    PodState {
        state: state_word(pod, status, main, inits),
        ready: main.iter().filter(|c| c.ready).count(),
        containers: spec.map_or(0, |spec| spec.containers.len()),
        restarts: all.map(|c| c.restart_count).fold(0, i32::saturating_add),
        exit_code: worst.and_then(|c| last_termination(c)).map(|t| t.exit_code),
        message: state_message(status, main, inits),
    }
}

type TerminatedState<'a> = Option<&'a k8s_openapi::api::core::v1::ContainerStateTerminated>;

fn or_empty(statuses: Option<&Vec<ContainerStatus>>) -> &[ContainerStatus] {
    statuses.map(Vec::as_slice).unwrap_or_default()
}

fn last_termination(container: &ContainerStatus) -> TerminatedState<'_> {
    container.state.as_ref()?.terminated.as_ref()
}

fn has_failed(container: &&ContainerStatus) -> bool {
    last_termination(container).is_some_and(|ended| ended.exit_code != 0)
}

fn waiting_reason(container: &ContainerStatus) -> Option<&str> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    waiting.reason.as_deref()
}

fn has_started(init: &ContainerStatus) -> bool {
    let ran = last_termination(init).is_some_and(|ended| ended.exit_code == 0);
    ran || init.started.unwrap_or(false)
}

fn state_word(
    pod: &Pod,
    status: &PodStatus,
    main: &[ContainerStatus],
    inits: &[ContainerStatus],
) -> String {
    let phase = status.phase.as_deref().unwrap_or("Pending");
    let has_ended = matches!(phase, "Succeeded" | "Failed");
    if pod.metadata.deletion_timestamp.is_some() && !has_ended {
        return "Terminating".to_owned();
    }
    // Reasons for the whole pod from the kubelet, such as Evicted or OutOfcpu.
    if let Some(reason) = status.reason.as_deref().filter(|reason| !reason.is_empty()) {
        return reason.to_owned();
    }
    if let Some(init) = inits
        .iter()
        .find(|init| !has_started(init))
        .filter(|_| !has_ended)
    {
        return match (last_termination(init), waiting_reason(init)) {
            (Some(ended), _) => format!("Init:{}", end_reason(ended.reason.as_deref())),
            (None, Some("PodInitializing") | None) => {
                let up = inits.iter().filter(|init| has_started(init)).count();
                format!("Init:{up}/{}", inits.len())
            }
            (None, Some(reason)) => format!("Init:{reason}"),
        };
    }
    let ended = |c: &ContainerStatus| {
        let ended = last_termination(c)?;
        Some(end_reason(ended.reason.as_deref()).to_owned())
    };
    if let Some(waiting) = main.iter().find_map(waiting_reason) {
        return waiting.to_owned();
    }
    let bad = main.iter().filter(has_failed).find_map(ended);
    let all_ended = !main.is_empty() && main.iter().all(|c| last_termination(c).is_some());
    let good = main.iter().find_map(ended).filter(|_| all_ended);
    bad.or(good).unwrap_or_else(|| phase.to_owned())
}

fn end_reason(reason: Option<&str>) -> &str {
    reason
        .filter(|reason| !reason.is_empty())
        .unwrap_or("Error")
}

/// Returns the message of the stuck or failed container.
/// If no container has one, it returns the message of the pod.
fn state_message(
    status: &PodStatus,
    main: &[ContainerStatus],
    inits: &[ContainerStatus],
) -> Option<String> {
    let all = || inits.iter().chain(main);
    let waiting_message = all().find_map(|c| {
        let waiting = c.state.as_ref()?.waiting.as_ref()?;
        last_line(waiting.message.as_deref()?)
    });
    let failed = all()
        .filter(has_failed)
        .find_map(|c| last_line(last_termination(c)?.message.as_deref()?));
    let own = status.message.as_deref().and_then(last_line);
    waiting_message.or(failed).or(own)
}

/// Returns the last line that is not blank.
fn last_line(text: &str) -> Option<String> {
    let mut lines = text.lines().rev().map(sanitize);
    lines.find(|line| !line.is_empty())
}
