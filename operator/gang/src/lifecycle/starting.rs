//! A placed job whose pods do not all run yet.

use k8s_openapi::jiff::Timestamp;
use trellis_api::Reason;
use trellis_api::job::JobPhase;

use super::{Evaluation, EvaluationResult, NamedPod, add_seconds};
use crate::failure::fault::{Blame, Fault};
use crate::observed::{PodPhase, StartObstacle, StartObstacleKind};
use crate::{DesiredAttempt, DesiredGang};

/// Seconds for which a place is kept for an image that cannot be pulled.
const IMAGE_SECONDS: i64 = 300;

/// Seconds that a kubelet has to set up a container after its first failure.
const SETUP_SECONDS: i64 = 60;

/// Seconds for an ephemeral claim to be bound, as in kube-scheduler
/// (`VolumeBindingArgs.bindTimeoutSeconds`).
const CLAIM_SECONDS: i64 = 600;

impl Evaluation<'_> {
    /// Reports a job of which `up` of `total` pods run, or ends its attempt at the startup
    /// deadline.
    pub(super) fn evaluate_starting(
        mut self,
        up: usize,
        total: usize,
        desired: DesiredGang<DesiredAttempt>,
    ) -> EvaluationResult {
        let since = self.status.scheduled_time.as_ref();
        let since = since.map_or(self.observed.now, |t| t.0);
        let startup = self.startup_seconds();
        let deadline = add_seconds(since, startup);
        if deadline <= self.observed.now {
            let message =
                format!("{up} of {total} pods ran within deadlines.startupSeconds = {startup} s");
            // A pod that waits for a volume is not to blame.
            let unbound = self.first_start_obstacle().map(|(fault, _)| fault);
            if let Some(fault) = unbound.filter(|fault| fault.reason == Reason::ClaimNotBound) {
                return self.end_failed_attempt(fault);
            }
            let mut gang = self.attempt_pods.gang.pods.iter();
            let fault = match gang.find(|(_, pod)| pod.phase == PodPhase::Pending) {
                Some((name, pod)) => {
                    Fault::for_pod(name, pod, Reason::StartupTimeout, message, Blame::Job)
                }
                None => Fault::for_gang(Reason::StartupTimeout, message, Blame::Job),
            };
            return self.end_failed_attempt(fault);
        }
        self.schedule_check(deadline);
        let waits = total.saturating_sub(up);
        let message = format!(
            "waits for {waits} of {total} pods to run{}",
            self.nodes_message()
        );
        let stuck = self.first_start_obstacle();
        let Some((fault, gives_up)) = stuck else {
            let (reason, message) = self.add_unhealthy_node(Reason::Starting, message);
            return self.report(JobPhase::Starting, reason, message, desired);
        };
        if gives_up <= self.observed.now {
            return self.end_failed_attempt(fault);
        }
        self.schedule_check(gives_up);
        let message = format!("{}; the room is given back at {gives_up}", fault.message);
        self.report(JobPhase::Starting, fault.reason, message, desired)
    }

    /// Returns the seconds in which the pods must start to run.
    pub(super) fn startup_seconds(&self) -> i64 {
        let deadlines = self.observed.spec.deadlines.clone().unwrap_or_default();
        deadlines.startup_seconds()
    }

    /// Returns the first obstacle that keeps a pod of the gang from starting.
    pub(super) fn first_start_obstacle(&self) -> Option<(Fault, Timestamp)> {
        let mut gang = self.attempt_pods.gang.pods.iter();
        gang.find_map(|pod| self.start_obstacle(*pod))
    }

    /// Returns the obstacle that keeps a pod from starting, and the time until which its place is
    /// kept.
    pub(super) fn start_obstacle(&self, pod: NamedPod<'_>) -> Option<(Fault, Timestamp)> {
        let stuck = pod.1.start_obstacle.as_ref()?;
        let placed = self.status.scheduled_time.as_ref();
        let since = stuck
            .since
            .or(placed.map(|t| t.0))
            .unwrap_or(self.observed.now);
        let until = match stuck.kind {
            // A registry may be down for a while, but a wrong image name must not hold GPUs for
            // long.
            StartObstacleKind::Image => add_seconds(since, IMAGE_SECONDS),
            StartObstacleKind::Setup => add_seconds(since, SETUP_SECONDS),
            StartObstacleKind::Claim => add_seconds(since, CLAIM_SECONDS),
            StartObstacleKind::NoImage
            | StartObstacleKind::Config
            | StartObstacleKind::Root
            | StartObstacleKind::Volume => Timestamp::MIN,
        };
        Some((start_obstacle_fault(pod, stuck), until))
    }
}

fn start_obstacle_fault((name, pod): NamedPod<'_>, stuck: &StartObstacle) -> Fault {
    let container = &stuck.container;
    let words = &stuck.message;
    let (reason, blame, what) = match stuck.kind {
        StartObstacleKind::Image | StartObstacleKind::NoImage => (
            Reason::ImagePullFailed,
            Blame::Job,
            "has an image that cannot be pulled",
        ),
        StartObstacleKind::Config => (
            Reason::ContainerConfigError,
            Blame::Uncounted,
            "cannot be set up",
        ),
        StartObstacleKind::Setup => (
            Reason::ContainerConfigError,
            Blame::Cluster,
            "cannot be set up",
        ),
        StartObstacleKind::Root => (Reason::ContainerConfigError, Blame::Job, "cannot be set up"),
        // A volume provisioner may be down for hours: no limit ends the job for that.
        StartObstacleKind::Claim | StartObstacleKind::Volume => {
            let message = format!("PersistentVolumeClaim {container:?} of pod {name:?} {words}");
            let reason = Reason::ClaimNotBound;
            return Fault::for_pod(name, pod, reason, message, Blame::Uncounted);
        }
    };
    let message = format!("container {container:?} of pod {name:?} {what}: {words}");
    Fault {
        last_line: Some(words.clone()),
        ..Fault::for_pod(name, pod, reason, message, blame)
    }
}
