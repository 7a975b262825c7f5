//! One pod, reduced to the fields that the lifecycle reads.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use trellis_api::{names, owner};

use super::grace_period::has_overlong_grace;
use super::judged_spec::JudgedSpec;
use super::slim::{SlimContainer, SlimContainerStatus, SlimPod, SlimTerminated};
use crate::key::Key;

/// The fields of one pod that the lifecycle reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    /// Uid.
    pub uid: String,
    /// Uid of the TrainingJob that the pod was created for.
    pub job_uid: String,
    /// True if that job is the pod's controller, so that the garbage collector deletes the pod with
    /// it.
    pub is_owned: bool,
    /// The part of the spec that policies judge.
    pub judged_spec: JudgedSpec,
    /// Task group.
    pub group: String,
    /// Index in the group.
    pub index: u32,
    /// Attempt that the pod belongs to.
    pub attempt: i64,
    /// Round of the attempt in which the pod was created: 0 for the pods of the plan's commit.
    pub round: i64,
    /// Hash of the plan that placed the pod.
    pub plan: String,
    /// Epoch of the leader that created the pod, for a pod that no plan names.
    pub epoch: Option<i64>,
    /// Node.
    pub node: Option<String>,
    /// When the pod was created.
    pub created: Option<Timestamp>,
    /// Phase of the pod.
    pub phase: PodPhase,
    /// True if the readiness probes succeed, or the pod runs without probes.
    pub ready: bool,
    /// The obstacle to the start of its containers, as the kubelet reports it.
    pub start_obstacle: Option<Arc<StartObstacle>>,
    /// True from the start of the deletion until the pod is gone.
    pub deleting: bool,
    /// When the deletion was requested. [`Timestamp::MIN`] if the time is not known any more.
    pub deletion_requested: Option<Timestamp>,
    /// True if the pod is being deleted with more than the longest grace period.
    pub has_overlong_grace: bool,
    /// True if the pod is being disrupted (condition DisruptionTarget).
    pub is_disrupted: bool,
    /// The last checkpoint that the pod reports.
    pub checkpoint: Option<Arc<PodCheckpoint>>,
}

/// The last checkpoint that a pod reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodCheckpoint {
    /// When the checkpoint was complete.
    At(Timestamp),
    /// Why the reported time does not parse.
    Unreadable(String),
}

/// Phase of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodPhase {
    /// The containers do not run yet.
    Pending,
    /// The containers run.
    Running,
    /// The pod ended with exit code 0.
    Succeeded,
    /// The kubelet refused the pod: it failed before any container existed.
    Refused {
        /// The kubelet's reason: `OutOfnvidia.com/gpu`, `NodeAffinity`, ...
        reason: String,
    },
    /// The pod failed.
    Failed {
        /// Exit code of the container that failed.
        exit_code: Option<i32>,
        /// Reason of the container's or the pod's end.
        reason: String,
        /// When that container ended.
        at: Option<Timestamp>,
        /// The last line of its termination message.
        last_line: Option<String>,
    },
}

/// An obstacle to the start of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartObstacle {
    /// Kind of the obstacle.
    pub kind: StartObstacleKind,
    /// Name of the container, or of the claim.
    pub container: String,
    /// The kubelet's message.
    pub message: String,
    /// Time from which the container could have started: when the init containers before it had
    /// ended, else when the kubelet accepted the pod. None if the kubelet reports neither.
    pub since: Option<Timestamp>,
}

/// A kind of obstacle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartObstacleKind {
    /// The image cannot be pulled. The cause may be temporary.
    Image,
    /// The image has an invalid name, or is missing and must not be pulled.
    NoImage,
    /// A Secret, ConfigMap or key that the container needs does not exist.
    Config,
    /// The container cannot be set up because of its node or for a temporary reason, such as a full
    /// disk.
    Setup,
    /// The image runs as root, which the pod forbids.
    Root,
    /// The claim of a generic ephemeral volume is not bound yet.
    Claim,
    /// The claim of a generic ephemeral volume cannot be bound on the pod's node.
    Volume,
}

/// Longest text that is kept from a message of a kubelet or a container, in characters.
const MAX_MESSAGE_CHARS: usize = 512;

impl PodPhase {
    /// Returns true once the pod holds no resources any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }
}

impl PodView {
    /// Returns the job that a pod belongs to, and the pod's state. Labels name the job, because
    /// users can write owner references but not those labels. A pod without the labels belongs to
    /// the TrainingJob that controls it, unless Trellis has bound it for another controller.
    #[must_use]
    pub fn from_pod(pod: &SlimPod) -> Option<(Key, Self)> {
        let meta = &pod.metadata;
        let label = |key: &str| meta.labels.as_ref().and_then(|l| l.get(key));
        let annotation = |key: &str| meta.annotations.as_ref().and_then(|a| a.get(key));
        let owner = owner::controlling_job(meta);
        let (job, job_uid) = match (label(names::JOB), label(names::JOB_UID)) {
            (Some(job), Some(uid)) => (job, uid),
            _ if annotation(names::PLACED_IN).is_some() => return None,
            _ => owner.map(|owner| (&owner.name, &owner.uid))?,
        };
        let is_true = |type_: &str| {
            let mut conditions = pod.status.conditions.iter();
            conditions.any(|c| c.type_ == type_ && c.status == "True")
        };
        let view = Self {
            uid: meta.uid.clone().unwrap_or_default(),
            job_uid: job_uid.clone(),
            is_owned: owner.is_some_and(|owner| owner.uid == *job_uid),
            judged_spec: JudgedSpec::from_spec(&pod.spec),
            group: label(names::GROUP).cloned().unwrap_or_default(),
            index: label(names::INDEX)
                .and_then(|i| i.parse().ok())
                .unwrap_or(0),
            attempt: label(names::ATTEMPT)
                .and_then(|a| a.parse().ok())
                .unwrap_or(0),
            round: annotation(names::ROUND)
                .and_then(|round| round.parse().ok())
                .unwrap_or(0),
            plan: annotation(names::PLAN).cloned().unwrap_or_default(),
            epoch: annotation(names::EPOCH).and_then(|epoch| epoch.parse().ok()),
            node: pod.spec.node_name.clone(),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            phase: pod_phase(pod),
            start_obstacle: find_start_obstacle(pod).map(Arc::new),
            deleting: meta.deletion_timestamp.is_some(),
            deletion_requested: deletion_request_time(meta),
            has_overlong_grace: has_overlong_grace(meta),
            is_disrupted: is_true("DisruptionTarget"),
            ready: is_true("Ready"),
            checkpoint: read_checkpoint(pod).map(Arc::new),
        };
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        Some((Key::new(namespace, job), view))
    }
}

/// Returns when the deletion was requested: the deletion timestamp minus the grace period. The
/// kubelet finally deletes with grace period 0, which loses the time of the request.
fn deletion_request_time(meta: &ObjectMeta) -> Option<Timestamp> {
    let deletion = meta.deletion_timestamp.as_ref()?.0;
    let grace = meta.deletion_grace_period_seconds.unwrap_or(0);
    if grace <= 0 {
        return Some(Timestamp::MIN);
    }
    Some(
        deletion
            .saturating_sub(SignedDuration::from_secs(grace))
            .unwrap_or(deletion),
    )
}

/// Returns the checkpoint in the annotation that the pod itself names.
fn read_checkpoint(pod: &SlimPod) -> Option<PodCheckpoint> {
    let annotations = pod.metadata.annotations.as_ref()?;
    let key = annotations.get(names::CHECKPOINT_ANNOTATION)?;
    let value = annotations.get(key)?;
    Some(match value.trim().parse() {
        Ok(at) => PodCheckpoint::At(at),
        Err(_) => PodCheckpoint::Unreadable(format!(
            "annotation {key:?} is {:?}, which is no time of RFC 3339, such as 2026-11-30T12:00:00Z",
            shorten(value)
        )),
    })
}

fn is_sidecar(container: &SlimContainer) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Returns the phase of a pod, from the states of its containers or from the phase in its status.
pub fn pod_phase(pod: &SlimPod) -> PodPhase {
    let status = &pod.status;
    // The kubelet stops sidecars after the main containers have ended, so the exit code of a
    // sidecar does not matter (KEP-753).
    let is_sidecar = |name: &str| {
        let mut containers = pod.spec.init_containers.iter();
        containers.find(|c| c.name == name).is_some_and(is_sidecar)
    };
    let before = &status.init_container_statuses;
    let ended = status
        .container_statuses
        .iter()
        .chain(before.iter().filter(|c| !is_sidecar(&c.name)))
        .filter_map(|c| c.state.terminated.as_ref());
    // If the kernel kills a child of the container's first process, the container ends with
    // OOMKilled, exit code 0 and phase Succeeded.
    let failed = ended
        .clone()
        .find(|t| t.exit_code != 0 || t.reason.as_deref() == Some("OOMKilled"));
    match status.phase.as_deref() {
        Some("Succeeded") if failed.is_none() => PodPhase::Succeeded,
        Some("Succeeded" | "Failed") => {
            let no_container =
                status.container_statuses.is_empty() && status.init_container_statuses.is_empty();
            match (no_container, &status.reason) {
                (true, Some(reason)) if reason != "Evicted" => PodPhase::Refused {
                    reason: reason.clone(),
                },
                _ => PodPhase::Failed {
                    exit_code: failed.map(|t| t.exit_code),
                    at: failed.and_then(|t| t.finished_at.as_ref()).map(|t| t.0),
                    last_line: failed.and_then(last_line),
                    reason: failed
                        .and_then(|t| t.reason.clone())
                        .filter(|r| r != "Error")
                        .or_else(|| status.reason.clone())
                        .unwrap_or_else(|| "Error".to_owned()),
                },
            }
        }
        Some("Running") => PodPhase::Running,
        _ => PodPhase::Pending,
    }
}

/// Returns the last line of a termination message. Without a message of the container itself, the
/// kubelet writes the end of the log there (`terminationMessagePolicy: FallbackToLogsOnError`).
/// Lines without letters or digits are skipped, because torchrun's table of failures ends with such
/// a line.
fn last_line(ended: &SlimTerminated) -> Option<String> {
    let lines = ended.message.as_deref()?.lines().rev();
    let says = |line: &&str| line.contains(char::is_alphanumeric);
    let line = lines.map(str::trim).find(says)?;
    Some(shorten(line))
}

fn shorten(text: &str) -> String {
    let mut chars = text.chars();
    let shortened: String = chars.by_ref().take(MAX_MESSAGE_CHARS).collect();
    if chars.next().is_some() {
        format!("{shortened}...")
    } else {
        shortened
    }
}

/// Returns the first container that cannot start. The reasons are those of `pkg/kubelet/images` and
/// `pkg/kubelet/kuberuntime`.
fn find_start_obstacle(pod: &SlimPod) -> Option<StartObstacle> {
    let status = &pod.status;
    if status.phase.as_deref() != Some("Pending") {
        return None;
    }
    let initialized = status.conditions.iter().find(|c| c.type_ == "Initialized");
    let initialized = initialized.filter(|c| c.status == "True");
    let initialized = initialized.and_then(|c| c.last_transition_time.as_ref());
    let find_in = |statuses: &[SlimContainerStatus], since: &dyn Fn(&str) -> Option<Timestamp>| {
        statuses.iter().find_map(|container| {
            let waiting = container.state.waiting.as_ref()?;
            let message = waiting.message.as_deref().unwrap_or_default();
            Some(StartObstacle {
                kind: parse_obstacle(waiting.reason.as_deref()?, message)?,
                container: container.name.clone(),
                message: shorten(message),
                since: since(&container.name),
            })
        })
    };
    let inits = find_in(&status.init_container_statuses, &|name| {
        earliest_start(pod, Some(name))
    });
    inits.or_else(|| {
        let since = initialized
            .map(|t| t.0)
            .or_else(|| earliest_start(pod, None));
        find_in(&status.container_statuses, &|_| since)
    })
}

/// Returns when the container could have started. Init containers run one after the other, so this
/// is the end of the init container before it, or of the last one for `None`. Without an ended init
/// container, this is when the kubelet accepted the pod.
fn earliest_start(pod: &SlimPod, container: Option<&str>) -> Option<Timestamp> {
    let before = pod.spec.init_containers.iter();
    let before = before.take_while(|init| container != Some(init.name.as_str()));
    let done = before.filter_map(|init| {
        let mut statuses = pod.status.init_container_statuses.iter();
        let status = statuses.find(|status| status.name == init.name)?;
        let ended = status.state.terminated.as_ref();
        // The container after a sidecar starts once the sidecar runs. The status of a restarted
        // sidecar does not have that time.
        let runs = status.state.running.as_ref();
        let runs = runs.filter(|_| is_sidecar(init) && status.restart_count == 0);
        let ended = ended.and_then(|ended| ended.finished_at.as_ref());
        ended.or_else(|| runs.and_then(|runs| runs.started_at.as_ref()))
    });
    let accepted = pod.status.start_time.iter();
    done.chain(accepted).map(|time| time.0).max()
}

/// Texts with which kubelets report a missing Secret, ConfigMap or key.
const MISSING_OBJECT_TEXTS: [&str; 2] = ["not found", "couldn't find key"];

fn parse_obstacle(reason: &str, message: &str) -> Option<StartObstacleKind> {
    Some(match reason {
        "ErrImagePull"
        | "ImagePullBackOff"
        | "RegistryUnavailable"
        | "ImageInspectError"
        | "SignatureValidationFailed" => StartObstacleKind::Image,
        "InvalidImageName" | "ErrImageNeverPull" => StartObstacleKind::NoImage,
        "CreateContainerConfigError" if message.contains("runAsNonRoot") => StartObstacleKind::Root,
        "CreateContainerConfigError"
            if MISSING_OBJECT_TEXTS
                .iter()
                .any(|text| message.contains(text)) =>
        {
            StartObstacleKind::Config
        }
        "CreateContainerConfigError" => StartObstacleKind::Setup,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
