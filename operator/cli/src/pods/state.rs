//! How a pod does, in the words of `kubectl get pods`.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use serde::Serialize;

use crate::output::Tone;
use crate::output::clean;

/// How a pod does.
#[derive(Serialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// One word: a phase, or what keeps it there.
    pub state: String,
    /// Its containers that are ready.
    pub ready: usize,
    /// Its containers.
    pub containers: usize,
    /// Restarts of its containers: sidecars are restarted in their place.
    pub restarts: i32,
    /// Exit code of the container that failed, or else of the last that ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// What it says: why it does not start, or the last line that it left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl State {
    /// What it is to whoever reads it.
    #[must_use]
    pub fn tone(&self) -> Tone {
        match self.state.as_str() {
            "Running" if self.ready == self.containers => Tone::Good,
            "Completed" | "Succeeded" => Tone::Good,
            "Running" | "Pending" | "ContainerCreating" | "PodInitializing" | "Terminating" => {
                Tone::Waits
            }
            word if word.starts_with("Init:") && word.contains('/') => Tone::Waits,
            _ => Tone::Bad,
        }
    }
}

/// How the pod does.
#[must_use]
pub fn state(pod: &Pod) -> State {
    let none = PodStatus::default();
    let status = pod.status.as_ref().unwrap_or(&none);
    let main = list(status.container_statuses.as_ref());
    let inits = list(status.init_container_statuses.as_ref());
    let spec = pod.spec.as_ref();
    let all = main.iter().chain(inits);
    let worst = all.clone().find(failed).or_else(|| {
        let ended = |c: &&ContainerStatus| terminated(c).is_some();
        main.iter().find(ended)
    });
    State {
        state: word(pod, status, main, inits),
        ready: main.iter().filter(|c| c.ready).count(),
        containers: spec.map_or(0, |spec| spec.containers.len()),
        restarts: all.map(|c| c.restart_count).fold(0, i32::saturating_add),
        exit_code: worst.and_then(|c| terminated(c)).map(|t| t.exit_code),
        message: message(status, main, inits),
    }
}

type Terminated<'a> = Option<&'a k8s_openapi::api::core::v1::ContainerStateTerminated>;

fn list(statuses: Option<&Vec<ContainerStatus>>) -> &[ContainerStatus] {
    statuses.map(Vec::as_slice).unwrap_or_default()
}

fn terminated(container: &ContainerStatus) -> Terminated<'_> {
    container.state.as_ref()?.terminated.as_ref()
}

fn failed(container: &&ContainerStatus) -> bool {
    terminated(container).is_some_and(|ended| ended.exit_code != 0)
}

fn waits(container: &ContainerStatus) -> Option<&str> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    waiting.reason.as_deref()
}

fn is_up(init: &ContainerStatus) -> bool {
    let ran = terminated(init).is_some_and(|ended| ended.exit_code == 0);
    ran || init.started.unwrap_or(false)
}

fn word(
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
    // Evicted, OutOfcpu and the like: what a kubelet says of the pod as a whole.
    if let Some(reason) = status.reason.as_deref().filter(|reason| !reason.is_empty()) {
        return reason.to_owned();
    }
    if let Some(init) = inits
        .iter()
        .find(|init| !is_up(init))
        .filter(|_| !has_ended)
    {
        return match (terminated(init), waits(init)) {
            (Some(ended), _) => format!("Init:{}", of_end(ended.reason.as_deref())),
            (None, Some("PodInitializing") | None) => {
                let up = inits.iter().filter(|init| is_up(init)).count();
                format!("Init:{up}/{}", inits.len())
            }
            (None, Some(reason)) => format!("Init:{reason}"),
        };
    }
    let ended = |c: &ContainerStatus| {
        let ended = terminated(c)?;
        Some(of_end(ended.reason.as_deref()).to_owned())
    };
    if let Some(waiting) = main.iter().find_map(waits) {
        return waiting.to_owned();
    }
    let bad = main.iter().filter(failed).find_map(ended);
    let all_ended = !main.is_empty() && main.iter().all(|c| terminated(c).is_some());
    let good = main.iter().find_map(ended).filter(|_| all_ended);
    bad.or(good).unwrap_or_else(|| phase.to_owned())
}

fn of_end(reason: Option<&str>) -> &str {
    reason
        .filter(|reason| !reason.is_empty())
        .unwrap_or("Error")
}

/// The words of the container that is stuck or failed, else of the kubelet.
fn message(
    status: &PodStatus,
    main: &[ContainerStatus],
    inits: &[ContainerStatus],
) -> Option<String> {
    let all = || inits.iter().chain(main);
    let stuck = all().find_map(|c| {
        let waiting = c.state.as_ref()?.waiting.as_ref()?;
        last_line(waiting.message.as_deref()?)
    });
    let failed = all()
        .filter(failed)
        .find_map(|c| last_line(terminated(c)?.message.as_deref()?));
    let own = status.message.as_deref().and_then(last_line);
    stuck.or(failed).or(own)
}

/// The last line that holds more than spaces.
fn last_line(text: &str) -> Option<String> {
    let mut lines = text.lines().rev().map(clean);
    lines.find(|line| !line.is_empty())
}
