//! Every pod of a gang bears the hash of a plan that its journal had before.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::SignedDuration;
use trellis_api::PodGroup;

use super::Judge;
use super::lasting::{LastingViolations, Violation};
use crate::clock::{HealthyClock, Moment};
use crate::cluster::{Cluster, JobUid, Previous, owner_uid};
use crate::finding::{ObjectRef, Rule};
use crate::history::{ObjectName, ObjectVersion, Version};
use crate::pods::PodFacts as _;
use crate::verifier::{Findings, Step};

/// Time in which a leader deletes a pod that an earlier leader created late.
const REMOVAL_TIME: SignedDuration = SignedDuration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct UnplannedPod {
    /// Hashes of all plans of a job, by its uid.
    plans: BTreeMap<JobUid, BTreeSet<String>>,
    /// Pods without a plan, by name, uid and the hash that they bear.
    pods: LastingViolations<(ObjectName, String, String)>,
}

impl Judge for UnplannedPod {
    fn start(&mut self, cluster: &Cluster, _clock: &HealthyClock) {
        for group in cluster.groups.values() {
            self.record_plan(cluster, group);
        }
        // The plan of a pod that exists already may have been replaced.
        for pod in cluster.pods() {
            if let (Some(uid), Some(plan)) = (pod.job_uid(), pod.plan())
                && cluster.job(&uid).is_some()
            {
                self.record(uid, plan);
            }
        }
    }

    fn observe(&mut self, step: &Step<'_>, _findings: &mut Findings) {
        match (&step.change.object, step.previous) {
            (ObjectVersion::Group(version), _) => self.record_plan(step.cluster, version.object()),
            // A pod that outlives its job is a leak.
            (ObjectVersion::Job(Version::Deleted(job)), _) => {
                if let Some(uid) = &job.metadata.uid {
                    self.plans.remove(&JobUid(uid.clone()));
                }
            }
            (ObjectVersion::Pod(version), Previous::Pod(before)) => {
                let pod = version.object();
                let name = ObjectName::from_metadata(&pod.metadata);
                let subject = (
                    name,
                    pod.metadata.uid.clone().unwrap_or_default(),
                    pod.plan().unwrap_or_default().to_owned(),
                );
                if matches!(version, Version::Deleted(_)) || pod.is_stopping() {
                    self.pods.set(subject, None, step.now);
                    return;
                }
                if before.is_some() || pod.is_surplus() {
                    return;
                }
                let (Some(uid), Some(plan)) = (pod.job_uid(), pod.plan()) else {
                    return;
                };
                let Some(job) = step.cluster.job_name(&uid) else {
                    return;
                };
                let is_unknown = step.cluster.is_partial && !step.cluster.groups.contains_key(job);
                if is_unknown || step.cluster.is_unread_group(job) {
                    return;
                }
                // The plan may have been opened and replaced during the gap before the list.
                if step.change.is_listed {
                    self.record(uid, plan);
                    return;
                }
                let is_planned = self.plans.get(&uid).is_some_and(|all| all.contains(plan));
                let violation = (!is_planned).then(|| Violation {
                    object: ObjectRef::new("Pod", &pod.metadata),
                    message: format!("bears plan {plan}, which no journal of its job had"),
                    allowed: REMOVAL_TIME,
                });
                self.pods.set(subject, violation, step.now);
            }
            _ => {}
        }
    }

    fn check(&mut self, cluster: &Cluster, now: Moment, findings: &mut Findings) {
        self.pods
            .report_overdue(Rule::UnplannedPod, cluster, now, findings);
    }
}

impl UnplannedPod {
    fn record_plan(&mut self, cluster: &Cluster, group: &PodGroup) {
        let plan = group.status.as_ref().and_then(|s| s.plan.as_ref());
        if let (Some(uid), Some(plan)) = (owner_uid(group), plan)
            && cluster.job(&uid).is_some()
        {
            self.record(uid, &plan.hash);
        }
    }

    fn record(&mut self, uid: JobUid, plan: &str) {
        self.plans.entry(uid).or_default().insert(plan.to_owned());
        // The watch of the PodGroups may be late.
        self.pods.retain(|(_, _, borne)| borne != plan);
    }
}
