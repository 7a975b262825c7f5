//! A placed job whose pods do not all run yet.

use k8s_openapi::jiff::Timestamp;
use trellis_api::Reason;
use trellis_api::job::JobPhase;

use super::{Evaluation, Named, Next, after};
use crate::failure::{Blame, Fault};
use crate::observed::{Obstacle, PodPhase, Stuck};
use crate::{Attempt, Wish};

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
    pub(super) fn starting(mut self, up: usize, total: usize, wish: Wish<Attempt>) -> Next {
        let since = self.status.scheduled_time.as_ref();
        let since = since.map_or(self.o.now, |t| t.0);
        let startup = self.startup_seconds();
        let deadline = after(since, startup);
        if deadline <= self.o.now {
            let message =
                format!("{up} of {total} pods ran within deadlines.startupSeconds = {startup} s");
            // A pod that waits for a volume is not to blame.
            let unbound = self.first_stuck().map(|(fault, _)| fault);
            if let Some(fault) = unbound.filter(|fault| fault.reason == Reason::ClaimNotBound) {
                return self.failed(fault);
            }
            let mut gang = self.roster.gang.pods.iter();
            let fault = match gang.find(|(_, pod)| pod.phase == PodPhase::Pending) {
                Some(slow) => Fault::of_pod(*slow, Reason::StartupTimeout, message, Blame::Job),
                None => Fault::of_gang(Reason::StartupTimeout, message, Blame::Job),
            };
            return self.failed(fault);
        }
        self.look_again(deadline);
        let waits = total.saturating_sub(up);
        let message = format!(
            "waits for {waits} of {total} pods to run{}",
            self.on_nodes()
        );
        let stuck = self.first_stuck();
        let Some((fault, gives_up)) = stuck else {
            let (reason, message) = self.staying(Reason::Starting, message);
            return self.say(JobPhase::Starting, reason, message, wish);
        };
        if gives_up <= self.o.now {
            return self.failed(fault);
        }
        self.look_again(gives_up);
        let message = format!("{}; the room is given back at {gives_up}", fault.message);
        self.say(JobPhase::Starting, fault.reason, message, wish)
    }

    /// Seconds in which the pods must start to run.
    pub(super) fn startup_seconds(&self) -> i64 {
        let deadlines = self.o.spec.deadlines.clone().unwrap_or_default();
        deadlines.startup_seconds()
    }

    /// The first obstacle that keeps a pod of the gang from starting.
    pub(super) fn first_stuck(&self) -> Option<(Fault, Timestamp)> {
        let mut gang = self.roster.gang.pods.iter();
        gang.find_map(|pod| self.stuck(*pod))
    }

    /// The obstacle that keeps a pod from starting, and the time until which its place is kept.
    pub(super) fn stuck(&self, pod: Named<'_>) -> Option<(Fault, Timestamp)> {
        let stuck = pod.1.stuck.as_ref()?;
        let placed = self.status.scheduled_time.as_ref();
        let since = stuck.since.or(placed.map(|t| t.0)).unwrap_or(self.o.now);
        let until = match stuck.obstacle {
            // A registry may be down for a while, but a wrong image name must not hold GPUs for
            // long.
            Obstacle::Image => after(since, IMAGE_SECONDS),
            Obstacle::Setup => after(since, SETUP_SECONDS),
            Obstacle::Claim => after(since, CLAIM_SECONDS),
            Obstacle::NoImage | Obstacle::Config | Obstacle::Root | Obstacle::Volume => {
                Timestamp::MIN
            }
        };
        Some((stuck_fault(pod, stuck), until))
    }
}

fn stuck_fault((name, pod): Named<'_>, stuck: &Stuck) -> Fault {
    let container = &stuck.container;
    let words = &stuck.message;
    let (reason, blame, what) = match stuck.obstacle {
        Obstacle::Image | Obstacle::NoImage => (
            Reason::ImagePullFailed,
            Blame::Job,
            "has an image that cannot be pulled",
        ),
        Obstacle::Config => (
            Reason::ContainerConfigError,
            Blame::Nobody,
            "cannot be set up",
        ),
        Obstacle::Setup => (
            Reason::ContainerConfigError,
            Blame::Cluster,
            "cannot be set up",
        ),
        Obstacle::Root => (Reason::ContainerConfigError, Blame::Job, "cannot be set up"),
        // A volume provisioner may be down for hours: no limit ends the job for that.
        Obstacle::Claim | Obstacle::Volume => {
            let message = format!("PersistentVolumeClaim {container:?} of pod {name:?} {words}");
            let reason = Reason::ClaimNotBound;
            return Fault::of_pod((name, pod), reason, message, Blame::Nobody);
        }
    };
    let message = format!("container {container:?} of pod {name:?} {what}: {words}");
    Fault {
        last_line: Some(words.clone()),
        ..Fault::of_pod((name, pod), reason, message, blame)
    }
}
