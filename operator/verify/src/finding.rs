//! Findings: a promise that the history breaks.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;

use crate::history::ObjectName;

macro_rules! rules {
    ($($name:ident = $word:literal, $promise:literal, $look_at:literal;)+) => {
        /// A promise about gangs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $(#[doc = $promise] $name,)+
        }

        impl Rule {
            /// All rules.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the name of the rule in reports.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)+ }
            }

            /// Returns the promise in one sentence.
            #[must_use]
            pub const fn promise(self) -> &'static str {
                match self { $(Self::$name => $promise,)+ }
            }

            /// Returns the objects to look at after a finding, in one sentence.
            #[must_use]
            pub const fn look_at(self) -> &'static str {
                match self { $(Self::$name => $look_at,)+ }
            }
        }
    };
}

rules! {
    Torn = "torn",
        "A gang has all pods of its plan or none, apart from the time of a commit or a rollback. A slice outside the gang has all its pods or none, apart from the time in which it starts or stops.",
        "Compare the pods of the job with `status.plan` of its PodGroup.";
    TwoAttempts = "two-attempts",
        "An attempt is placed once, and its pods are created when the pods of earlier attempts have ended or are gone.",
        "Compare the label `trellis.dev/attempt` of the job's pods, and `status.plan.attempt` of the PodGroup.";
    OverCapacity = "over-capacity",
        "The requests of the pods on a node never exceed what the node can allocate.",
        "Run `kubectl describe node`, and look for pods of other schedulers.";
    OverQuota = "over-quota",
        "A gang is placed only if its queue and the queues above it have the quota.",
        "Run `trellis queue`, and compare the quotas with `status.plan` of the PodGroups.";
    UnplannedPod = "unplanned-pod",
        "Every pod of a gang bears the hash of a plan that its journal had before.",
        "Compare the annotation `trellis.dev/plan` of the pod with `status.plan.hash` of the PodGroup.";
    HastyJournal = "hasty-journal",
        "A journal calls a gang placed when all pods of its plan exist, and drops the plan when none of them runs.",
        "Compare the creation times of the job's pods with the `managedFields` of the PodGroup.";
    StaleJournal = "stale-journal",
        "No leader writes a journal after its term, and the epoch of a journal never falls.",
        "Compare `status.epoch` of the PodGroup with `leaseTransitions` + 1 of the Lease.";
    Backwards = "backwards",
        "Generation, attempt, restarts and disruptions in a job's status never fall or vanish, and an end is final.",
        "Read the `managedFields` of the job: another client may have written its status.";
    UntrueStatus = "untrue-status",
        "The status of a job agrees with its pods, its journal and its conditions.",
        "Read the operator's log for lines about the job.";
    StuckPlan = "stuck-plan",
        "A plan whose pods are being created or deleted ends in time.",
        "Read the operator's log for lines about the job, and the finalizers of its pods.";
    Leak = "leak",
        "A pod does not outlive its job, and an ended job runs no pod.",
        "Read the owner references and finalizers of the pod.";
    Foreign = "foreign",
        "Trellis changes only its own objects, and the status of others.",
        "Read the `managedFields` of the object.";
    Writes = "writes",
        "Trellis does not write an object again and again while nothing about its gang changes.",
        "Watch the object with `kubectl get -o yaml --watch`, and compare its versions.";
    Victim = "victim",
        "A gang that had to leave for another gang did not leave in vain.",
        "Run `trellis explain` for the gang that is not placed.";
    EarlyVictim = "early-victim",
        "A gang has to leave for another one only after its `minRuntimeSeconds`.",
        "Compare `status.victims` of the PodGroup with the time at which the victim was placed.";
    Progress = "progress",
        "The head of a queue is placed if it fits by a plain count.",
        "Run `trellis explain` for the job, and compare its numbers with the nodes.";
    UnorderedPlaceholder = "unordered-placeholder",
        "Every placeholder carries the hash of an order that its gang's journal already had.",
        "Compare the label `capacity.trellis.dev/order` of the pod with `status.provisioning.hash` of the PodGroup.";
    LeftPlaceholder = "left-placeholder",
        "A placeholder is deleted after its gang's journal drops its order, or after its job is deleted.",
        "Read the finalizers of the pod, and the Job that owns it.";
    SecondPurchase = "second-purchase",
        "The pods of a gang are created only after its placeholders are deleted, so no node is bought twice.",
        "Compare the creation time of the pod with those of the placeholders of its job.";
}

impl Rule {
    /// Returns true if one look at the cluster shows a broken rule, if it has been broken for long
    /// enough. The other rules are about changes, and need a history.
    #[must_use]
    pub const fn is_seen_in_one_look(self) -> bool {
        matches!(self, Self::Torn | Self::UntrueStatus | Self::StuckPlan)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The object that a finding is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// The kind, such as `Pod`.
    pub kind: &'static str,
    /// Namespace and name.
    pub name: ObjectName,
    /// The uid. A later object of the same name has another.
    pub uid: String,
}

impl ObjectRef {
    pub(crate) fn new(kind: &'static str, metadata: &ObjectMeta) -> Self {
        Self {
            kind,
            name: ObjectName::from_metadata(metadata),
            uid: metadata.uid.clone().unwrap_or_default(),
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.kind, self.name)
    }
}

/// A promise that the history breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The broken rule.
    pub rule: Rule,
    /// The object that breaks it.
    pub object: ObjectRef,
    /// The evidence of the history, with its numbers.
    pub message: String,
    /// Since when it is so.
    pub since: Timestamp,
    /// Revision of the change that shows it. None: time alone shows it.
    pub revision: Option<u64>,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}: {}: {} (since {}",
            self.rule, self.object, self.message, self.since
        )?;
        if let Some(revision) = self.revision {
            write!(formatter, ", revision {revision}")?;
        }
        formatter.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documentation_lists_each_rule_with_its_promise() {
        let page = include_str!("../../../docs/verify.md");
        for rule in Rule::ALL {
            let judged = match rule.is_seen_in_one_look() {
                true => "in one look",
                false => "with `--for`",
            };
            let row = format!("| `{rule}` | {} | {judged} |", rule.promise());
            assert!(page.contains(&row), "docs/verify.md lacks {row:?}");
        }
    }
}
