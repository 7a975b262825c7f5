//! The closed list of reasons. Conditions, events, metrics, log lines and the
//! command line all use these words and no others.

use serde::Serialize;

use crate::status_word::{lenient_word, open_word};

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident: $todo:literal;)+) => {
        /// Why a job is where it is.
        #[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Reason {
            /// Every reason, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The word itself, as conditions and events bear it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }

            /// The reason that a message begins with, as in `Reason: words`, and the words.
            #[must_use]
            pub fn leading(message: &str) -> Option<(Self, &str)> {
                let (word, rest) = message.split_once(": ")?;
                let mut all = Self::ALL.iter();
                Some((*all.find(|reason| reason.as_str() == word)?, rest))
            }

            /// What it means, in one sentence.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+),)+ }
            }

            /// What to do about it.
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
    /// Policy denies something that the compiled job demands.
    PolicyDenied: "Ask whoever owns the policy that the message names, or remove the demand.";
    /// A policy that would decide about the job is invalid, or failed to evaluate: nothing is
    /// allowed by it, and nothing refused.
    PolicyNotEvaluated: "Ask whoever owns the policy that the message names to mend it; the job goes on by itself.";
    /// A policy whose enforcement is Warn would deny something that the job demands. In events
    /// alone.
    PolicyWarning: "Nothing at once: the job goes on. Ask whoever owns the policy that the message names, or remove the demand, before it is enforced.";
    /// Policies no longer allow a job that runs. In events while it goes on; of the job itself
    /// while it is stopped for it, as a policy says with onViolation: Evict.
    PolicyViolation: "Policies have come to deny what runs: ask whoever owns them, or for the permits that are missing. Once its gang has ended it is not placed again before they allow it.";
    /// The queue that the job names does not exist, or none is the default for its namespace.
    QueueNotFound: "Name an existing queue in spec.queueName, or have a platform team create it; the job goes on by itself.";
    /// The PodGroup that a pod names does not exist, or is a job's.
    PodGroupNotFound: "Create the PodGroup in the pod's namespace, or correct the label trellis.dev/pod-group; the pod goes on by itself.";
    /// Fewer pods of a PodGroup are there and without scheduling gates than its minMember. Of
    /// PodGroups that users write, and their pods.
    MembersMissing: "Look at what is to create the missing pods and at their scheduling gates, or lower spec.minMember of the PodGroup; the gang goes on by itself.";
    /// The PriorityClass that the job names does not exist.
    PriorityClassNotFound: "Create the PriorityClass or name another; the job goes on by itself.";
    /// The RuntimeProfile that the job names does not exist.
    ProfileNotFound: "Create the RuntimeProfile or correct its name; the job goes on by itself.";
    /// The RuntimeProfile of the job breaks a rule, or several are the cluster's default.
    ProfileMisconfigured: "Ask whoever owns the RuntimeProfiles to mend what the message names, or name another in spec.profile; the job goes on by itself.";
    /// A task group with GPUs states no CPU or memory, and neither its RuntimeProfile nor its
    /// queue, nor a queue above that, states resourcesPerGPU.
    ResourcesMissing: "State what the message names in taskGroups[].resources, or have a platform team state resourcesPerGPU in the RuntimeProfile or queue; the job goes on by itself.";
    /// A Service that spec.network names does not exist.
    ServiceNotFound: "Create the Service or correct its name; the job goes on by itself.";
    /// A PersistentVolumeClaim that the job mounts does not exist, or is being deleted.
    ClaimNotFound: "Create the claim or correct its name; the job goes on by itself.";
    /// A PersistentVolumeClaim that the job mounts has no volume, or none that the nodes of its
    /// pods reach.
    ClaimNotBound: "Look at the claim's events, and at the volumes that the message asks for: create one, or correct the claim; the job goes on by itself.";
    /// A ConfigMap, Secret or ServiceAccount that the job's pods cannot start without does not
    /// exist.
    ReferenceNotFound: "Create it, or correct its name where the message says; the job goes on by itself.";
    /// A Secret that the job names in spec.secrets is not there, or could not be read from its
    /// store yet.
    SecretNotReady: "Read the message, which bears the words of External Secrets Operator: the store, its path or its credentials are to be mended, or the operator is to be installed. The job goes on by itself.";
    /// Trellis has not yet read all that it decides with.
    CacheNotReady: "Wait some seconds. If it stays, the message names what cannot be read: look at the operator's log and rights.";
    /// The job's Service, NetworkPolicy, PodGroup, ConfigMap, Secret or an ExternalSecret is not
    /// there and cannot be created: no pod starts without them.
    ChildMissing: "Read the message: an admission policy or webhook, a quota of the namespace, or the operator's rights are in the way. The job goes on by itself.";
    /// An object that is not the job's has the name of one of its children.
    NameConflict: "Delete or rename the object that the message names, or rename the job; the job goes on by itself.";

    /// The job is in its queue and has not been looked at yet.
    Queued: "Nothing: the next cycle decides.";
    /// The queue is there and cannot be used as it is configured.
    QueueMisconfigured: "Ask whoever owns the queue to mend what the message names; the job goes on by itself.";
    /// A queue without quota is open to namespaces that have quota in another queue. Its status
    /// names them.
    QuotaBypassed: "Narrow namespaceSelector of the queue, so that it leaves out namespaces that have a queue with quota.";
    /// The queue starts its jobs strictly in order, and another job is at its head.
    BehindHead: "Wait until the job that the message names starts or goes, or use a queue whose order is Priority.";
    /// No Topology has the level that the job asks for.
    TopologyNotFound: "Name a level that a Topology has, and as preferred a finer one of the same Topology, or have a platform team create one that has it; the job goes on by itself.";
    /// No ResourceFlavor exists that the queue offers and the job accepts and tolerates, or that a
    /// limit of a QuotaPolicy names.
    FlavorNotFound: "Create the ResourceFlavor, tolerate its taints, or name another, a job in taskGroups[].flavors; the job goes on by itself.";
    /// The queue is stopped.
    QueueStopped: "Ask whoever stopped the queue; the job keeps its place.";
    /// The queue's quota is held by others.
    QuotaExceeded: "Wait until jobs of the queues that the message names end, ask for more quota (it says how much, and in which limits of which queues), or have the queue's preemption.reclaimWithinCohort take back what it has lent.";
    /// A limit of a QuotaPolicy has no room for the job.
    QuotaPolicyExceeded: "The message names the QuotaPolicy, the limit and who holds most. A job that alone asks for more than the limit must ask for less, or have it raised. Any other goes on by itself when jobs that the limit counts end, or, where GPU-hours are burnt, when they are out of the window.";
    /// The job asks for more than the queue's whole quota, or for a resource that the queue does
    /// not offer.
    ExceedsQuota: "Ask for less, use another queue, or have the quota raised.";
    /// Nodes that refused its pods a moment ago are left out, and the others do not suffice.
    NodesAvoided: "Nothing: they are tried again by themselves. If it comes back, look at these nodes' kubelets and device plugins.";
    /// No node satisfies the job's constraints.
    NoMatchingNodes: "Compare nodeSelector, affinity, tolerations and gpuResource with the nodes; the message counts what each excludes, and nodes that are not ready, cordoned or unhealthy (docs/nodes.md).";
    /// No node advertises a device that the job asks for, and a DeviceClass offers it: it is to be
    /// had by dynamic resource allocation alone, which Trellis does not do.
    NeedsDeviceAllocation: "Use nodes whose device plugin advertises the resource, or name another in gpuResource; a job is never placed without its devices.";
    /// The matching nodes have too little free in total.
    InsufficientCapacity: "Wait until others end; the message says how much is missing and, where that is more, what must become free on which nodes.";
    /// Enough is free in total, but not within one domain of the level that the job must be in.
    TopologyFragmented: "Wait until more of one domain is free, or prefer the level instead of requiring it, or require a coarser one; the message names the domain that holds most.";
    /// Enough is free in total, but not together where a pod needs it.
    Fragmented: "Wait until enough is free together (of a job of one task group the message says how much and where), or use smaller pods.";
    /// There is room or quota for it, but starting it would make a job later that waits before it.
    Reserved: "Wait until the job that the message names starts. A job with a short deadlines.activeSeconds may start before.";
    /// The job would not fit even if all matching nodes were empty.
    ExceedsCluster: "Ask for less, or add nodes.";
    /// No domain of the level that the job must be in would hold it even if empty.
    ExceedsTopology: "Require a coarser level, prefer it instead of requiring it, or ask for less; the message says what the largest domain holds.";
    /// A try to place the job failed, and the next one waits for a while.
    BackingOff: "Look at the reason of the failure in the events; the job is tried again by itself.";
    /// Jobs that make room for it are leaving.
    Preempting: "Nothing: it starts when they are gone. The message names them.";
    /// A PodDisruptionBudget keeps the pods of a job that would have to make room.
    ProtectedByBudget: "Ask whoever owns the PodDisruptionBudget that the message names, or wait: it is tried again by itself.";
    /// A core ResourceQuota of the namespace is too small for the whole gang.
    ResourceQuotaExceeded: "Have the namespace's ResourceQuota raised, or wait until its other pods end.";
    /// The API server refuses a pod of the gang, by an admission policy or webhook.
    PodRefused: "Read the refusal in the message; change the job or the admission policy.";
    /// The pods have a constraint that Trellis does not evaluate, by hostNetwork or by what
    /// admission gives them: placed without it they might be where they must not.
    ConstraintNotSupported: "Do what the message says of ports of nodes; have the webhook or policy that adds what it names leave these pods alone.";
    /// What is left of an earlier attempt or plan is still being removed.
    PodsTerminating: "Wait until the pods are gone; a pod that stays terminating has a finalizer or a lost node.";

    /// The job was stopped so that another with more right to the room could start, or its queue
    /// was drained. It keeps its turn.
    Preempted: "Nothing: it starts again when there is room; the message names who took it. Checkpoint, so that little is lost; minRuntimeSeconds or a higher priority makes it a victim less often.";

    /// The pods of the gang are being created.
    Committing: "Nothing.";
    /// The whole gang has its place.
    Placed: "Nothing.";
    /// Not all pods run yet.
    Starting: "Nothing; kubectl describe pod tells what a pod waits for.";
    /// The gang runs. Where pods beyond it are missing, the message says why.
    Running: "Nothing.";
    /// A stage of the job has done its work, and given up its place; the next one is queued.
    StageComplete: "Nothing: its pods and their logs stay until the job is cleaned up; status.stage says which one is next.";
    /// Pods that failed are started again while the others go on, by restart.scope, restart.rules
    /// or since their group is elastic.
    Recovering: "Look at status.lastFailure, which names pod, node and exit code. Nothing, where that happens now and then.";
    /// A pod ended with a failure of its own.
    PodFailed: "Look at status.lastFailure, which names pod, node and exit code. A restart deletes the pods, and their logs with them: collect logs elsewhere, or set restart.scope to Never, which keeps the pods of a job that failed.";
    /// A container used more memory than it asked for.
    OutOfMemory: "Raise resources.limits.memory or use less.";
    /// The image of a container cannot be pulled. The room is given back after 5 minutes.
    ImagePullFailed: "Correct the image, or let the nodes reach its registry: the message has the kubelet's words. Suspend the job to name another image; else it is tried again by itself.";
    /// A container cannot be set up: a Secret, a ConfigMap or a key is missing, or its image runs
    /// as root where it must not.
    ContainerConfigError: "Create what the message names, or correct its name in the job; it is tried again by itself.";
    /// A node that holds pods of the gang is unhealthy or is being taken out of service.
    NodeUnhealthy: "Nothing: the gang is stopped with its grace and placed without that node; it may wait again.";
    /// A node that holds pods of the gang is unhealthy, and so are so many of its zone at once that
    /// no gang leaves them: whoever declares them unhealthy may be broken.
    PartialDisruption: "Look at the nodes' conditions and labels, and at what sets them. The gang runs on; it is stopped and placed elsewhere once fewer nodes of the zone are unhealthy, and its node still is.";
    /// A kubelet refused a pod.
    KubeletRefused: "Nothing: the gang is placed again without that node for a while; it may wait again.";
    /// A node that held pods of the gang is lost.
    NodeLost: "Nothing: the gang is placed elsewhere; it may wait again, first for its pods on the lost node to be gone.";
    /// A pod was evicted or deleted by someone else.
    PodDisrupted: "Nothing: the gang is placed again; it may wait again if others have taken its room.";
    /// The PodGroup of a gang that had its place was deleted, and with it the journal that said so.
    JournalLost: "Nothing: the gang is placed again; it may wait again if others have taken its room. PodGroups of jobs are the operator's: find out who deletes them.";
    /// Not all pods ran within deadlines.startupSeconds.
    StartupTimeout: "Look at what the pods wait for; raise deadlines.startupSeconds if they only need longer.";
    /// The gang is being restarted.
    Restarting: "Nothing; status.lastFailure says what happened.";

    /// The job has ended well.
    Complete: "Nothing.";
    /// A pod failed and restart.scope is Never.
    NoRestart: "Look at status.lastFailure; to run again, create a new job.";
    /// A pod failed, and a rule of restart.rules says that such a failure ends the job.
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
    /// What is held of a limit of a QuotaPolicy is not what is counted anew. In conditions of
    /// QuotaPolicies alone.
    LedgerMismatch: "Start the operator again, which counts everything anew, and report it with the operator's log.";
    /// The QuotaLedger of a QuotaPolicy cannot be read: its GPU-hours count as burnt. In conditions
    /// of QuotaPolicies alone.
    LedgerUnreadable: "The message names the fault. Correct the QuotaLedger, or delete it to begin with nothing burnt.";
    /// An admission policy of the chart that keeps users from what is Trellis' own is missing or
    /// differs. In conditions of TrainingQueues alone.
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
    /// True where no other job's end lets the job start: it, its queue or the nodes must change.
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

    /// True if an event with it is a Warning: a refusal, a fault, or something that
    /// does not pass by itself. What is progress, or passes, is Normal.
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

/// docs/reasons.md: every reason, what it means, what to do.
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
