//! The closed list of reasons. Conditions, events, metrics, log lines and the command line use only
//! these words.

use serde::Serialize;

use super::words::{lenient_word, open_word, words};

/// The type of events with a reason.
#[derive(Clone, Copy)]
enum EventType {
    Normal,
    Warning,
}

impl EventType {
    const fn is_warning(self) -> bool {
        matches!(self, Self::Warning)
    }
}

/// Rows of meaning, reason, type of its events and remedy.
macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident ($event:ident): $remedy:literal;)+) => {
        /// Why a job is in its state.
        #[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name,)+
        }

        words!(Reason: $($name),+);

        impl Reason {
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
                match self { $(Self::$name => $remedy,)+ }
            }

            /// True if an event with this reason is a Warning: a refusal, a fault, or a state that
            /// does not resolve by itself. Events about progress or passing states are Normal.
            #[must_use]
            pub const fn is_warning(self) -> bool {
                match self { $(Self::$name => EventType::$event.is_warning(),)+ }
            }
        }
    };
}

reasons! {
    /// The spec is valid and policy allows it.
    Accepted (Normal): "Nothing.";
    /// The spec breaks a rule that the API server could not check.
    InvalidSpec (Warning): "Correct the field that the message names; the operator retries the job at once.";
    /// Policy denies something that the compiled job requests.
    PolicyDenied (Warning): "Ask the owner of the policy that the message names, or remove the demand.";
    /// A policy that applies to the job is invalid, or its evaluation failed. The job is neither
    /// allowed nor refused.
    PolicyNotEvaluated (Warning): "Ask the owner of the policy that the message names to correct it; the job then continues by itself.";
    /// A policy with enforcement Warn would deny something that the job requests. Only in events.
    PolicyWarning (Warning): "Nothing now: the job continues. Ask the owner of the policy that the message names, or remove the demand, before the policy is enforced.";
    /// Policies no longer allow a running job. Only in events while the job goes on; the job's own
    /// reason while it is stopped for the violation, as onViolation: Evict demands.
    PolicyViolation (Warning): "Policies no longer permit the running job: ask their owner, or ask for the missing permits. Once the gang has ended, it is not placed again before policies permit it.";
    /// The queue that the job names does not exist, or its namespace has no default queue.
    QueueNotFound (Warning): "Name an existing queue in spec.queueName, or ask the platform team to create it; the job then continues by itself.";
    /// The PodGroup that a pod names does not exist, or belongs to a job.
    PodGroupNotFound (Warning): "Create the PodGroup in the pod's namespace, or correct the label trellis.dev/pod-group; the pod then continues by itself.";
    /// A PodGroup has fewer pods without scheduling gates than its minMember. Only for PodGroups
    /// that users write, and their pods.
    MembersMissing (Normal): "Check the controller that creates the pods, and their scheduling gates, or lower spec.minMember of the PodGroup; the gang then continues by itself.";
    /// The PriorityClass that the job names does not exist.
    PriorityClassNotFound (Warning): "Create the PriorityClass or name another; the job then continues by itself.";
    /// The RuntimeProfile that the job names does not exist.
    ProfileNotFound (Warning): "Create the RuntimeProfile or correct its name; the job then continues by itself.";
    /// The RuntimeProfile of the job breaks a rule, or the cluster has several default profiles.
    ProfileMisconfigured (Warning): "Ask the owner of the RuntimeProfiles to correct the fault that the message names, or name another in spec.profile; the job then continues by itself.";
    /// A task group with GPUs states no CPU or memory, and neither its RuntimeProfile nor its
    /// queue, nor a queue above that, states resourcesPerGPU.
    ResourcesMissing (Warning): "Set the resources that the message names in taskGroups[].resources, or ask the platform team to set resourcesPerGPU in the RuntimeProfile or queue; the job then continues by itself.";
    /// A Service that spec.network names does not exist.
    ServiceNotFound (Warning): "Create the Service or correct its name; the job then continues by itself.";
    /// A PersistentVolumeClaim that the job mounts does not exist, or is being deleted.
    ClaimNotFound (Warning): "Create the claim or correct its name; the job then continues by itself.";
    /// A PersistentVolumeClaim that the job mounts has no volume, or none that the nodes of its
    /// pods can reach.
    ClaimNotBound (Warning): "Check the claim's events and the volumes that the message names: create one, or correct the claim; the job then continues by itself.";
    /// A ConfigMap, Secret or ServiceAccount that the job's pods need at start does not exist.
    ReferenceNotFound (Warning): "Create the object, or correct its name in the field that the message names; the job then continues by itself.";
    /// A Secret in the job's spec.secrets does not exist, or has not been read from its store yet.
    SecretNotReady (Warning): "Read the message of External Secrets Operator: correct the store, its path or its credentials, or install that operator. The job then continues by itself.";
    /// Trellis has not yet read all the objects that it needs for decisions.
    CacheNotReady (Normal): "Wait some seconds. If the reason stays, the message names the objects that cannot be read: check the operator's log and rights.";
    /// The job's Service, NetworkPolicy, PodGroup, ConfigMap, Secret or an ExternalSecret does not
    /// exist and cannot be created. No pod starts without them.
    ChildMissing (Warning): "Read the message: an admission policy or webhook, a quota of the namespace, or the operator's rights block it. The job then continues by itself.";
    /// An object that does not belong to the job has the name of one of its children.
    NameConflict (Warning): "Delete or rename the object that the message names, or rename the job; the job then continues by itself.";

    /// The job is in its queue, and the scheduler has not evaluated it yet.
    Queued (Normal): "Nothing: the next cycle decides.";
    /// The queue exists but cannot be used as it is configured.
    QueueMisconfigured (Warning): "Ask the owner of the queue to correct the fault that the message names; the job then continues by itself.";
    /// A queue without quota is open to namespaces that have quota in another queue. The queue's
    /// status names them.
    QuotaBypassed (Warning): "Narrow namespaceSelector of the queue, so that it leaves out namespaces that have a queue with quota.";
    /// The queue starts its jobs strictly in order, and another job is the head of the queue.
    BehindHead (Normal): "Wait until the job that the message names starts or leaves, or use a queue whose order is Priority.";
    /// No Topology has the level that the job requests.
    TopologyNotFound (Warning): "Name a level of a Topology, and as preferred level a finer one of the same Topology, or ask the platform team for such a Topology; the job then continues by itself.";
    /// No ResourceFlavor exists that the queue offers and that the job accepts and tolerates, or a
    /// limit of a QuotaPolicy names a missing flavor.
    FlavorNotFound (Warning): "Create the ResourceFlavor, tolerate its taints, or name another flavor (a job in taskGroups[].flavors); the job then continues by itself.";
    /// The queue is stopped.
    QueueStopped (Normal): "Ask the platform team why the queue is stopped; the job keeps its place.";
    /// Other jobs hold the queue's quota.
    QuotaExceeded (Normal): "Wait until jobs of the queues that the message names end, ask for more quota (it says how much, and in which limits of which queues), or have the queue's preemption.reclaimWithinCohort take back what it has lent.";
    /// A limit of a QuotaPolicy has no room for the job.
    QuotaPolicyExceeded (Warning): "The message names the QuotaPolicy, the limit and the largest holder. A job that alone requests more than the limit must request less, or needs a higher limit. Any other job continues by itself when jobs under the limit end or, for GPU-hours, when used hours leave the window.";
    /// The job requests more than the queue's whole quota, or a resource that the queue does not
    /// offer.
    ExceedsQuota (Warning): "Ask for less, use another queue, or have the quota raised.";
    /// The scheduler avoids nodes that have just refused the job's pods, and the other nodes do not
    /// suffice.
    NodesAvoided (Warning): "Nothing: the scheduler retries these nodes by itself. If the reason returns, check their kubelets and device plugins.";
    /// No node satisfies the job's constraints.
    NoMatchingNodes (Warning): "If the message announces new nodes, wait for them. Otherwise compare nodeSelector, affinity, tolerations and gpuResource with the nodes; the message counts the nodes that each excludes, and nodes that are not ready, cordoned or unhealthy (docs/nodes.md).";
    /// No node advertises a device that the job requests, but a DeviceClass offers it. It is
    /// available only by dynamic resource allocation, which Trellis does not support.
    NeedsDeviceAllocation (Warning): "Use nodes whose device plugin advertises the resource, or name another in gpuResource; a job is never placed without its devices.";
    /// The matching nodes have too little free capacity in total.
    InsufficientCapacity (Normal): "Wait until other jobs end; the message says how much is missing and, if the nodes need more than that, how much must become free on which nodes.";
    /// Enough capacity is free in total, but not within one domain of the required level, or not for
    /// whole slices.
    TopologyFragmented (Normal): "Wait until more of one domain is free, or prefer the level instead of requiring it, or require a coarser one, or use smaller slices; the message names the domain that holds most.";
    /// Enough capacity is free in total, but it is fragmented: too little is free together where a
    /// pod needs it.
    Fragmented (Normal): "Wait until enough is free together, or use smaller pods; for a job of one task group the message says how much and where.";
    /// There is room or quota for the job, but its start would delay a job that waits before it.
    Reserved (Normal): "Wait until the job that the message names starts. A job with a short deadlines.activeSeconds may start before.";
    /// The job would not fit even if all matching nodes were empty.
    ExceedsCluster (Warning): "If the message announces new nodes, wait for them. Otherwise ask for less, or add nodes.";
    /// No domain of the required level could hold the job, even if it were empty, or empty nodes
    /// could not hold all of its slices.
    ExceedsTopology (Warning): "Require a coarser level, prefer it instead of requiring it, use smaller slices, or ask for less; the message says what the largest domain holds.";
    /// An attempt to place the job failed, and the scheduler waits before the next one.
    BackingOff (Normal): "Check the reason of the failure in the events; the operator retries the job by itself.";
    /// The job waits for its victims to leave.
    Preempting (Normal): "Nothing: the job starts when its victims are gone. The message names them.";
    /// New nodes are on order for the job, and it waits for them.
    Provisioning (Normal): "Nothing: the job starts when enough nodes are ready. If the nodes do not come, look at the events of the placeholder pods and at the autoscaler.";
    /// New nodes that were on order for the job did not come in time. Only in events.
    ProvisioningFailed (Warning): "Look at the events of the autoscaler: limits of the node pool, quota of the cloud, or no capacity. The scheduler tries the queue's next flavor, and this one again after a back-off.";
    /// The settings of the flavor's autoscaler are safe for gangs. Only in conditions of
    /// ResourceFlavors.
    AutoscalerChecked (Normal): "Nothing.";
    /// The autoscaler that adds a flavor's nodes would remove nodes of running gangs, buy nodes
    /// twice, or add none. Only in conditions of ResourceFlavors.
    AutoscalerMisconfigured (Warning): "Change the settings that the message names, in the NodePool, the flags of Cluster Autoscaler, or the flavor.";
    /// The settings of the autoscaler that adds a flavor's nodes are not visible. Only in conditions
    /// of ResourceFlavors.
    AutoscalerUnknown (Normal): "Compare the settings of your autoscaler with docs/autoscaling.md.";
    /// A PodDisruptionBudget protects the pods of a job that would be a victim.
    ProtectedByBudget (Warning): "Ask the owner of the PodDisruptionBudget that the message names, or wait: the scheduler retries by itself.";
    /// A core ResourceQuota of the namespace is too small for the whole gang.
    ResourceQuotaExceeded (Warning): "Have the namespace's ResourceQuota raised, or wait until its other pods end.";
    /// The API server refuses a pod of the gang, by an admission policy or webhook.
    PodRefused (Warning): "Read the refusal in the message; change the job or the admission policy.";
    /// The pods have a constraint that Trellis does not evaluate, from hostNetwork or from an
    /// admission webhook. A placement without it might use a wrong node.
    ConstraintNotSupported (Warning): "Follow the message on host ports; exclude these pods from the webhook or policy that adds the constraint.";
    /// Pods of an earlier attempt or plan are still being removed.
    PodsTerminating (Normal): "Wait until the pods are gone; a pod that stays terminating has a finalizer or a lost node.";

    /// The job was preempted by a job with more right to the room, or its queue was drained. The
    /// job keeps its turn.
    Preempted (Warning): "Nothing: the job starts again when there is room; the message names the preemptor. Write checkpoints, so that little work is lost; minRuntimeSeconds or a higher priority makes preemption rarer.";

    /// The pods of the gang are being created.
    Committing (Normal): "Nothing.";
    /// The whole gang is placed.
    Placed (Normal): "Nothing.";
    /// Not all pods run yet.
    Starting (Normal): "Nothing; kubectl describe pod shows why a pod waits.";
    /// The gang runs. If surplus or BestEffort pods are missing, the message says why.
    Running (Normal): "Nothing.";
    /// A stage of the job has finished and released its place; the next stage is queued.
    StageComplete (Normal): "Nothing: its pods and their logs stay until the job is cleaned up; status.stage shows the next stage.";
    /// Failed pods restart while other pods go on, because of restart.scope, restart.rules or an
    /// elastic group.
    Recovering (Warning): "Check status.lastFailure, which names pod, node and exit code. Rare failures need no action.";
    /// A pod failed because of its own program, not because of the cluster.
    PodFailed (Warning): "Look at status.lastFailure, which names pod, node and exit code. A restart deletes the pods, and their logs with them: collect logs elsewhere, or set restart.scope to Never, which keeps the pods of a failed job.";
    /// A container used more memory than its limit.
    OutOfMemory (Warning): "Raise resources.limits.memory or use less.";
    /// The image of a container cannot be pulled. The gang releases its place after 5 minutes.
    ImagePullFailed (Warning): "Correct the image, or let the nodes reach its registry: the message quotes the kubelet. Suspend the job to change the image; otherwise the operator retries by itself.";
    /// A container cannot be set up: a Secret, a ConfigMap or a key is missing, or its image runs
    /// as root although it must not.
    ContainerConfigError (Warning): "Create the object that the message names, or correct its name in the job; the operator retries by itself.";
    /// A node that holds pods of the gang is unhealthy or is being taken out of service.
    NodeUnhealthy (Warning): "Nothing: the gang stops with its grace period and is placed without that node; it may wait again.";
    /// A node that holds pods of the gang is unhealthy, but too many nodes of its zone are
    /// unhealthy at once. Gangs stay on them, since the health check itself may be broken.
    PartialDisruption (Warning): "Check the nodes' conditions and labels, and the component that sets them. The gang keeps running; it moves once fewer nodes of the zone are unhealthy and its node still is.";
    /// A kubelet refused a pod.
    KubeletRefused (Warning): "Nothing: the gang is placed again without that node for a while; it may wait again.";
    /// A node that held pods of the gang is lost.
    NodeLost (Warning): "Nothing: the gang is placed elsewhere; it may wait again, first for its pods on the lost node to be gone.";
    /// Something other than Trellis evicted or deleted a pod.
    PodDisrupted (Warning): "Nothing: the gang is placed again; it may wait again if other jobs have taken its room.";
    /// The PodGroup of a placed gang was deleted, and the journal of its placement with it.
    JournalLost (Warning): "Nothing: the gang is placed again; it may wait again if other jobs have taken its room. Only the operator may delete PodGroups of jobs: find the client that does.";
    /// Not all pods ran within deadlines.startupSeconds.
    StartupTimeout (Warning): "Check why the pods wait; raise deadlines.startupSeconds if they only need more time.";
    /// The gang is being restarted.
    Restarting (Normal): "Nothing; status.lastFailure describes the failure.";

    /// The job has ended successfully.
    Complete (Normal): "Nothing.";
    /// A pod failed, and restart.scope is Never.
    NoRestart (Warning): "Look at status.lastFailure; to run again, create a new job.";
    /// A pod failed, and a rule of restart.rules ends the job after such a failure.
    FailedByRule (Warning): "Look at status.lastFailure; to run again, create a new job.";
    /// The job's own failures used up restart.limit.
    RestartLimitReached (Warning): "Look at status.lastFailure; to run again, create a new job.";
    /// The cluster's failures used up restart.disruptionLimit.
    DisruptionLimitReached (Warning): "Look at the nodes; to run again, create a new job.";
    /// The job waited longer than deadlines.queueSeconds.
    QueueDeadlineExceeded (Warning): "Raise deadlines.queueSeconds or remove it.";
    /// The job ran longer than deadlines.activeSeconds.
    ActiveDeadlineExceeded (Warning): "Raise deadlines.activeSeconds or remove it.";

    /// The user has suspended the job.
    Suspended (Normal): "Set spec.suspend to false to go on.";
    /// The state does not apply yet.
    NotYet (Normal): "Nothing.";
    /// The state does not apply.
    NotApplicable (Normal): "Nothing.";
    /// The recorded usage of a QuotaPolicy's limit differs from a fresh count. Only in conditions
    /// of QuotaPolicies.
    LedgerMismatch (Warning): "Restart the operator, which recounts all usage, and report the fault with the operator's log.";
    /// The QuotaLedger of a QuotaPolicy cannot be read, so all of its GPU-hours count as used. Only
    /// in conditions of QuotaPolicies.
    LedgerUnreadable (Warning): "The message names the fault. Correct the QuotaLedger, or delete it to drop the GPU-hours that it records.";
    /// An admission policy of the chart that protects Trellis' own objects from users is missing or
    /// differs. Only in conditions of TrainingQueues.
    AdmissionPolicyMissing (Warning): "Apply the chart's admission policies: the message names the missing policies and the fields that the operator does not trust meanwhile.";
    /// Nothing records who requests a job, and policies of the object depend on the requester, so
    /// they deny. Only in conditions of ClusterJobPolicies and JobPolicies.
    RequesterUnknown (Warning): "Read the message: set admission.requesterStamp of the chart, or restore the admission policy trellis-requested-by.";
    /// The reason is a word of another version of Trellis.
    Unrecognized (Warning): "Read the message; the reason is in the documentation of the version that wrote it.";
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
