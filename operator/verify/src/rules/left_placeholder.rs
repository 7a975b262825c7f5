//! A placeholder is deleted after its order has ended.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::lasting::{LastingRule, Subject, Violation};
use crate::cluster::{Cluster, JobUid, Previous, last_change, owner_uid};
use crate::finding::{ObjectRef, Rule};
use crate::history::{ObjectName, ObjectVersion};
use crate::pods::PodFacts as _;
use crate::verifier::Step;

/// Time in which a leader deletes what is left of an order.
const REMOVAL_TIME: SignedDuration = SignedDuration::from_secs(60);

/// Placeholders whose order is in no journal.
pub(crate) struct LeftPlaceholder;

/// The name of a placeholder, and the job that it is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Placeholder {
    job: JobUid,
    name: ObjectName,
}

impl LastingRule for LeftPlaceholder {
    const RULE: Rule = Rule::LeftPlaceholder;
    type Subject = Placeholder;

    fn find(cluster: &Cluster, Placeholder { job, name }: &Placeholder) -> Option<Violation> {
        let pod = cluster.pod(name)?;
        let (uid, hash) = pod.node_order()?;
        let group_name = cluster.job_name(job);
        let is_unknown = cluster.is_unread_job(job)
            || group_name.is_some_and(|name| cluster.is_unread_group(name))
            || cluster.is_partial && cluster.group_of_job(job).is_none();
        if uid != *job || pod.is_over() || is_unknown {
            return None;
        }
        let journal = cluster
            .group_of_job(job)
            .and_then(|group| group.status.as_ref());
        let order = journal.and_then(|journal| journal.provisioning.as_ref());
        if order.is_some_and(|order| order.hash == hash) {
            return None;
        }
        Some(Violation {
            object: ObjectRef::new("Pod", &pod.metadata),
            message: format!(
                "it still asks for a node for the job with the uid {uid}, and no journal has its order {hash}"
            ),
            allowed: REMOVAL_TIME,
        })
    }
}

impl Subject for Placeholder {
    fn concerned(step: &Step<'_>) -> Vec<Self> {
        let of_job = |job: &JobUid| {
            let placeholders = step.cluster.placeholders_of_job(job);
            let subjects = placeholders.map(|(name, _)| Self {
                job: job.clone(),
                name: name.clone(),
            });
            subjects.collect::<Vec<_>>()
        };
        match (&step.change.object, step.previous) {
            (ObjectVersion::Pod(version), Previous::Pod(before)) => {
                let pods = before.iter().chain([version.object()]);
                let subject = |pod: &Arc<Pod>| {
                    let (job, _) = pod.node_order()?;
                    let name = ObjectName::from_metadata(&pod.metadata);
                    Some(Self { job, name })
                };
                pods.filter_map(subject).collect()
            }
            (ObjectVersion::Job(version), _) => {
                let uid = version.object().metadata.uid.clone();
                uid.map(|uid| of_job(&JobUid(uid))).unwrap_or_default()
            }
            (ObjectVersion::Group(version), _) => {
                let uid = owner_uid(version.object());
                uid.map(|uid| of_job(&uid)).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    fn all(cluster: &Cluster) -> Vec<(Self, Option<Timestamp>)> {
        let placeholders = cluster.pods().filter_map(|pod| {
            let (job, _) = pod.node_order()?;
            let name = ObjectName::from_metadata(&pod.metadata);
            Some((Self { job, name }, last_change(&pod.metadata)))
        });
        placeholders.collect()
    }
}
