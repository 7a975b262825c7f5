//! The closed list of reasons. Conditions, events, metrics, log lines and the command line use only
//! these words.

use serde::Serialize;

use crate::status_word::{lenient_word, open_word};

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident: $todo:literal;)+) => {
        /// Why a job is in its state.
        #[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Reason {
            /// All reasons, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Returns the reason as conditions and events show it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }

            /// Splits a message of the form `Reason: words` into the reason and the words.
            #[must_use]
            pub fn leading(message: &str) -> Option<(Self, &str)> {
                let (word, rest) = message.split_once(": ")?;
                let mut all = Self::ALL.iter();
                Some((*all.find(|reason| reason.as_str() == word)?, rest))
            }

            /// Returns the meaning of the reason in one sentence.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+),)+ }
            }

            /// Returns the recommended action.
            #[must_use]
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$name => $todo,)+ }
            }
        }
    };
}

reasons! {
    /// The spec is valid and policy allows it.
    Accepted: "Nothing.";
    /// The spec breaks a rule that the API server could not check.
    InvalidSpec: "Correct the field that the message names; the job is tried again at once.";
    /// Policy denies something that the compiled job requests.
    PolicyDenied: "Ask whoever owns the policy that the message names, or remove the demand.";
    /// A policy that applies to the job is invalid, or its evaluation failed. The job is neither
    /// allowed nor refused.
    PolicyNotEvaluated: "Ask whoever owns the policy that the message names to mend it; the job goes on by itself.";
    /// A policy with enforcement Warn would deny something that the job requests. Only in events.
    PolicyWarning: "Nothing at once: the job goes on. Ask whoever owns the policy that the message names, or remove the demand, before it is enforced.";
    /// Policies no longer allow a running job. Only in events while the job goes on; the job's own
    /// reason while it is stopped for the violation, as onViolation: Evict demands.
    PolicyViolation: "Policies have come to deny what runs: ask whoever owns them, or for the permits that are missing. Once its gang has ended it is not placed again before they allow it.";
    /// The queue that the job names does not exist, or its namespace has no default queue.
    QueueNotFound: "Name an existing queue in spec.queueName, or have a platform team create it; the job goes on by itself.";
    /// The PodGroup that a pod names does not exist, or belongs to a job.
    PodGroupNotFound: "Create the PodGroup in the pod's namespace, or correct the label trellis.dev/pod-group; the pod goes on by itself.";
    /// A PodGroup has fewer pods without scheduling gates than its minMember. Only for PodGroups
    /// that users write, and their pods.
    MembersMissing: "Look at what is to create the missing pods and at their scheduling gates, or lower spec.minMember of the PodGroup; the gang goes on by itself.";
    /// The PriorityClass that the job names does not exist.
    PriorityClassNotFound: "Create the PriorityClass or name another; the job goes on by itself.";
    /// The RuntimeProfile that the job names does not exist.
    ProfileNotFound: "Create the RuntimeProfile or correct its name; the job goes on by itself.";
    /// The RuntimeProfile of the job breaks a rule, or the cluster has several default profiles.
    ProfileMisconfigured: "Ask whoever owns the RuntimeProfiles to mend what the message names, or name another in spec.profile; the job goes on by itself.";
    /// A task group with GPUs states no CPU or memory, and neither its RuntimeProfile nor its
    /// queue, nor a queue above that, states resourcesPerGPU.
    ResourcesMissing: "State what the message names in taskGroups[].resources, or have a platform team state resourcesPerGPU in the RuntimeProfile or queue; the job goes on by itself.";
    /// A Service that spec.network names does not exist.
    ServiceNotFound: "Create the Service or correct its name; the job goes on by itself.";
    /// A PersistentVolumeClaim that the job mounts does not exist, or is being deleted.
    ClaimNotFound: "Create the claim or correct its name; the job goes on by itself.";
    /// A PersistentVolumeClaim that the job mounts has no volume, or none that the nodes of its
    /// pods can reach.
    ClaimNotBound: "Look at the claim's events, and at the volumes that the message asks for: create one, or correct the claim; the job goes on by itself.";
    /// A ConfigMap, Secret or ServiceAccount that the job's pods need at start does not exist.
    ReferenceNotFound: "Create it, or correct its name where the message says; the job goes on by itself.";
    /// A Secret in the job's spec.secrets does not exist, or has not been read from its store yet.
    SecretNotReady: "Read the message, which bears the words of External Secrets Operator: the store, its path or its credentials are to be mended, or the operator is to be installed. The job goes on by itself.";
    /// Trellis has not yet read all the objects that it needs for decisions.
    CacheNotReady: "Wait some seconds. If it stays, the message names what cannot be read: look at the operator's log and rights.";
    /// The job's Service, NetworkPolicy, PodGroup, ConfigMap, Secret or an ExternalSecret does not
    /// exist and cannot be created. No pod starts without them.
    ChildMissing: "Read the message: an admission policy or webhook, a quota of the namespace, or the operator's rights are in the way. The job goes on by itself.";
    /// An object that does not belong to the job has the name of one of its children.
    NameConflict: "Delete or rename the object that the message names, or rename the job; the job goes on by itself.";

    /// The job is in its queue, and the scheduler has not evaluated it yet.
    Queued: "Nothing: the next cycle decides.";
    /// The queue exists but cannot be used as it is configured.
    QueueMisconfigured: "Ask whoever owns the queue to mend what the message names; the job goes on by itself.";
    /// A queue without quota is open to namespaces that have quota in another queue. The queue's
    /// status names them.
    QuotaBypassed: "Narrow namespaceSelector of the queue, so that it leaves out namespaces that have a queue with quota.";
    /// The queue starts its jobs strictly in order, and another job is the head of the queue.
    BehindHead: "Wait until the job that the message names starts or goes, or use a queue whose order is Priority.";
    /// No Topology has the level that the job requests.
    TopologyNotFound: "Name a level that a Topology has, and as preferred a finer one of the same Topology, or have a platform team create one that has it; the job goes on by itself.";
    /// No ResourceFlavor exists that the queue offers and that the job accepts and tolerates, or a
    /// limit of a QuotaPolicy names a missing flavor.
    FlavorNotFound: "Create the ResourceFlavor, tolerate its taints, or name another, a job in taskGroups[].flavors; the job goes on by itself.";
    /// The queue is stopped.
    QueueStopped: "Ask whoever stopped the queue; the job keeps its place.";
    /// Other jobs hold the queue's quota.
    QuotaExceeded: "Wait until jobs of the queues that the message names end, ask for more quota (it says how much, and in which limits of which queues), or have the queue's preemption.reclaimWithinCohort take back what it has lent.";
    /// A limit of a QuotaPolicy has no room for the job.
    QuotaPolicyExceeded: "The message names the QuotaPolicy, the limit and who holds most. A job that alone asks for more than the limit must ask for less, or have it raised. Any other goes on by itself when jobs that the limit counts end, or, where GPU-hours are burnt, when they are out of the window.";
    /// The job requests more than the queue's whole quota, or a resource that the queue does not
    /// offer.
    ExceedsQuota: "Ask for less, use another queue, or have the quota raised.";
    /// The scheduler avoids nodes that have just refused the job's pods, and the other nodes do not
    /// suffice.
    NodesAvoided: "Nothing: they are tried again by themselves. If it comes back, look at these nodes' kubelets and device plugins.";
    /// No node satisfies the job's constraints.
    NoMatchingNodes: "Compare nodeSelector, affinity, tolerations and gpuResource with the nodes; the message counts what each excludes, and nodes that are not ready, cordoned or unhealthy (docs/nodes.md).";
    /// No node advertises a device that the job requests, but a DeviceClass offers it. It is
    /// available only by dynamic resource allocation, which Trellis does not support.
    NeedsDeviceAllocation: "Use nodes whose device plugin advertises the resource, or name another in gpuResource; a job is never placed without its devices.";
    /// The matching nodes have too little free capacity in total.
    InsufficientCapacity: "Wait until others end; the message says how much is missing and, where that is more, what must become free on which nodes.";
    /// Enough capacity is free in total, but not within one domain of the required level.
    TopologyFragmented: "Wait until more of one domain is free, or prefer the level instead of requiring it, or require a coarser one; the message names the domain that holds most.";
    /// Enough capacity is free in total, but it is fragmented: too little is free together where a
    /// pod needs it.
    Fragmented: "Wait until enough is free together (of a job of one task group the message says how much and where), or use smaller pods.";
    /// There is room or quota for the job, but its start would delay a job that waits before it.
    Reserved: "Wait until the job that the message names starts. A job with a short deadlines.activeSeconds may start before.";
    /// The job would not fit even if all matching nodes were empty.
    ExceedsCluster: "Ask for less, or add nodes.";
    /// No domain of the required level could hold the job, even if it were empty.
    ExceedsTopology: "Require a coarser level, prefer it instead of requiring it, or ask for less; the message says what the largest domain holds.";
    /// An attempt to place the job failed, and the scheduler waits before the next one.
    BackingOff: "Look at the reason of the failure in the events; the job is tried again by itself.";
    /// The job waits for its victims to leave.
    Preempting: "Nothing: it starts when they are gone. The message names them.";
    /// A PodDisruptionBudget protects the pods of a job that would be a victim.
    ProtectedByBudget: "Ask whoever owns the PodDisruptionBudget that the message names, or wait: it is tried again by itself.";
    /// A core ResourceQuota of the namespace is too small for the whole gang.
    ResourceQuotaExceeded: "Have the namespace's ResourceQuota raised, or wait until its other pods end.";
    /// The API server refuses a pod of the gang, by an admission policy or webhook.
    PodRefused: "Read the refusal in the message; change the job or the admission policy.";
    /// The pods have a constraint that Trellis does not evaluate, from hostNetwork or from an
    /// admission webhook. A placement without it might use a wrong node.
    ConstraintNotSupported: "Do what the message says of ports of nodes; have the webhook or policy that adds what it names leave these pods alone.";
    /// Pods of an earlier attempt or plan are still being removed.
    PodsTerminating: "Wait until the pods are gone; a pod that stays terminating has a finalizer or a lost node.";

    /// The job was preempted by a job with more right to the room, or its queue was drained. The
    /// job keeps its turn.
    Preempted: "Nothing: it starts again when there is room; the message names who took it. Checkpoint, so that little is lost; minRuntimeSeconds or a higher priority makes it a victim less often.";

    /// The pods of the gang are being created.
    Committing: "Nothing.";
    /// The whole gang is placed.
    Placed: "Nothing.";
    /// Not all pods run yet.
    Starting: "Nothing; kubectl describe pod tells what a pod waits for.";
    /// The gang runs. If surplus or BestEffort pods are missing, the message says why.
    Running: "Nothing.";
    /// A stage of the job has finished and released its place; the next stage is queued.
    StageComplete: "Nothing: its pods and their logs stay until the job is cleaned up; status.stage says which one is next.";
    /// Failed pods restart while other pods go on, because of restart.scope, restart.rules or an
    /// elastic group.
    Recovering: "Look at status.lastFailure, which names pod, node and exit code. Nothing, where that happens now and then.";
    /// A pod failed because of its own program, not because of the cluster.
    PodFailed: "Look at status.lastFailure, which names pod, node and exit code. A restart deletes the pods, and their logs with them: collect logs elsewhere, or set restart.scope to Never, which keeps the pods of a job that failed.";
    /// A container used more memory than its limit.
    OutOfMemory: "Raise resources.limits.memory or use less.";
    /// The image of a container cannot be pulled. The gang releases its place after 5 minutes.
    ImagePullFailed: "Correct the image, or let the nodes reach its registry: the message has the kubelet's words. Suspend the job to name another image; else it is tried again by itself.";
    /// A container cannot be set up: a Secret, a ConfigMap or a key is missing, or its image runs
    /// as root although it must not.
    ContainerConfigError: "Create what the message names, or correct its name in the job; it is tried again by itself.";
    /// A node that holds pods of the gang is unhealthy or is being taken out of service.
    NodeUnhealthy: "Nothing: the gang is stopped with its grace and placed without that node; it may wait again.";
    /// A node that holds pods of the gang is unhealthy, but too many nodes of its zone are
    /// unhealthy at once. Gangs stay on them, since the health check itself may be broken.
    PartialDisruption: "Look at the nodes' conditions and labels, and at what sets them. The gang runs on; it is stopped and placed elsewhere once fewer nodes of the zone are unhealthy, and its node still is.";
    /// A kubelet refused a pod.
    KubeletRefused: "Nothing: the gang is placed again without that node for a while; it may wait again.";
    /// A node that held pods of the gang is lost.
    NodeLost: "Nothing: the gang is placed elsewhere; it may wait again, first for its pods on the lost node to be gone.";
    /// Something other than Trellis evicted or deleted a pod.
    PodDisrupted: "Nothing: the gang is placed again; it may wait again if others have taken its room.";
    /// The PodGroup of a placed gang was deleted, and the journal of its placement with it.
    JournalLost: "Nothing: the gang is placed again; it may wait again if others have taken its room. PodGroups of jobs are the operator's: find out who deletes them.";
    /// Not all pods ran within deadlines.startupSeconds.
    StartupTimeout: "Look at what the pods wait for; raise deadlines.startupSeconds if they only need longer.";
    /// The gang is being restarted.
    Restarting: "Nothing; status.lastFailure says what happened.";

    /// The job has ended successfully.
    Complete: "Nothing.";
    /// A pod failed, and restart.scope is Never.
    NoRestart: "Look at status.lastFailure; to run again, create a new job.";
    /// A pod failed, and a rule of restart.rules ends the job after such a failure.
    FailedByRule: "Look at status.lastFailure; to run again, create a new job.";
    /// The job's own failures used up restart.limit.
    RestartLimitReached: "Look at status.lastFailure; to run again, create a new job.";
    /// The cluster's failures used up restart.disruptionLimit.
    DisruptionLimitReached: "Look at the nodes; to run again, create a new job.";
    /// The job waited longer than deadlines.queueSeconds.
    QueueDeadlineExceeded: "Raise deadlines.queueSeconds or remove it.";
    /// The job ran longer than deadlines.activeSeconds.
    ActiveDeadlineExceeded: "Raise deadlines.activeSeconds or remove it.";

    /// The user has suspended the job.
    Suspended: "Set spec.suspend to false to go on.";
    /// The state does not apply yet.
    NotYet: "Nothing.";
    /// The state does not apply.
    NotApplicable: "Nothing.";
    /// The recorded usage of a QuotaPolicy's limit differs from a fresh count. Only in conditions
    /// of QuotaPolicies.
    LedgerMismatch: "Start the operator again, which counts everything anew, and report it with the operator's log.";
    /// The QuotaLedger of a QuotaPolicy cannot be read, so all of its GPU-hours count as used. Only
    /// in conditions of QuotaPolicies.
    LedgerUnreadable: "The message names the fault. Correct the QuotaLedger, or delete it to begin with nothing burnt.";
    /// An admission policy of the chart that protects Trellis' own objects from users is missing or
    /// differs. Only in conditions of TrainingQueues.
    AdmissionPolicyMissing: "Apply the chart's admission policies: the message names what is missing and what is not believed meanwhile.";
    /// The reason is a word of another version of Trellis.
    Unrecognized: "Read the message; the reason is in the documentation of the version that wrote it.";
}

open_word!(Reason);
lenient_word!(Reason);

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Reason {
    /// True if the end of other jobs cannot let the job start: the job, its queue or the nodes must
    /// change.
    #[must_use]
    pub const fn requires_change(self) -> bool {
        matches!(
            self,
            Self::ExceedsQuota
                | Self::ExceedsCluster
                | Self::ExceedsTopology
                | Self::FlavorNotFound
        )
    }

    /// True if an event with this reason is a Warning: a refusal, a fault, or a state that does not
    /// resolve by itself. Events about progress or passing states are Normal.
    #[must_use]
    pub const fn is_warning(self) -> bool {
        match self {
            Self::InvalidSpec
            | Self::PolicyDenied
            | Self::PolicyNotEvaluated
            | Self::PolicyWarning
            | Self::PolicyViolation
            | Self::QueueNotFound
            | Self::PodGroupNotFound
            | Self::PriorityClassNotFound
            | Self::ProfileNotFound
            | Self::ProfileMisconfigured
            | Self::ResourcesMissing
            | Self::ServiceNotFound
            | Self::ClaimNotFound
            | Self::ClaimNotBound
            | Self::ReferenceNotFound
            | Self::SecretNotReady
            | Self::ChildMissing
            | Self::NameConflict
            | Self::QueueMisconfigured
            | Self::QuotaBypassed
            | Self::FlavorNotFound
            | Self::TopologyNotFound
            | Self::ExceedsTopology
            | Self::Preempted
            | Self::ProtectedByBudget
            | Self::QuotaPolicyExceeded
            | Self::ExceedsQuota
            | Self::NodesAvoided
            | Self::NoMatchingNodes
            | Self::NeedsDeviceAllocation
            | Self::ExceedsCluster
            | Self::ResourceQuotaExceeded
            | Self::PodRefused
            | Self::ConstraintNotSupported
            | Self::Recovering
            | Self::PodFailed
            | Self::OutOfMemory
            | Self::ImagePullFailed
            | Self::ContainerConfigError
            | Self::NodeUnhealthy
            | Self::PartialDisruption
            | Self::KubeletRefused
            | Self::NodeLost
            | Self::PodDisrupted
            | Self::JournalLost
            | Self::StartupTimeout
            | Self::NoRestart
            | Self::FailedByRule
            | Self::RestartLimitReached
            | Self::DisruptionLimitReached
            | Self::QueueDeadlineExceeded
            | Self::ActiveDeadlineExceeded
            | Self::LedgerMismatch
            | Self::LedgerUnreadable
            | Self::AdmissionPolicyMissing
            | Self::Unrecognized => true,
            Self::MembersMissing
            | Self::Accepted
            | Self::CacheNotReady
            | Self::Queued
            | Self::BehindHead
            | Self::QueueStopped
            | Self::QuotaExceeded
            | Self::InsufficientCapacity
            | Self::Fragmented
            | Self::TopologyFragmented
            | Self::Reserved
            | Self::Preempting
            | Self::BackingOff
            | Self::PodsTerminating
            | Self::Committing
            | Self::Placed
            | Self::Starting
            | Self::Running
            | Self::Restarting
            | Self::StageComplete
            | Self::Complete
            | Self::Suspended
            | Self::NotYet
            | Self::NotApplicable => false,
        }
    }
}

/// Returns docs/reasons.md: every reason with its meaning and the recommended action.
#[must_use]
pub fn markdown() -> String {
    let mut out = String::from(
        "# Reasons\n\nGenerated by `.ci/generated`: do not edit.\n\n\
         A job that does not run has exactly one current reason: in `status.reason`, in its conditions, \
         in its events and in what `trellis` prints. Events of refusals and faults are Warnings.\n\n\
         | reason | means | what to do | event |\n|---|---|---|---|\n",
    );
    for reason in Reason::ALL {
        out.push_str(&format!(
            "| `{reason}` | {} | {} | {} |\n",
            reason.meaning().trim(),
            reason.remedy(),
            if reason.is_warning() {
                "Warning"
            } else {
                "Normal"
            },
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_round_trips_and_unknown_words_are_unrecognized() {
        let read = |word: &str| serde_json::from_value::<Reason>(word.into()).unwrap();
        assert_eq!(read("FromTheFuture"), Reason::Unrecognized);
        for reason in Reason::ALL {
            assert_eq!(read(reason.as_str()), *reason);
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }
}
