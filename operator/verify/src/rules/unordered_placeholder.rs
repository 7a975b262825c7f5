//! A placeholder carries the hash of an order that its gang's journal already had.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::SignedDuration;
use trellis_api::PodGroup;

use super::Judge;
use super::lasting::{LastingViolations, Violation};
use crate::clock::{HealthyClock, Moment};
use crate::cluster::{Cluster, JobUid, Previous, owner_uid};
use crate::finding::{ObjectRef, Rule};
use crate::history::{ObjectVersion, Version};
use crate::pods::PodFacts as _;
use crate::verifier::{Findings, Step};

/// Time for which the watch of PodGroups may be late.
const WATCH_DELAY: SignedDuration = SignedDuration::from_secs(10);

/// A job, and the hash of one of its orders.
type Order = (JobUid, String);

/// Placeholders that exist before their order.
#[derive(Debug, Default)]
pub(crate) struct UnorderedPlaceholder {
    known: BTreeSet<Order>,
    /// The first placeholder of each unknown order, with the revision of its creation.
    first: BTreeMap<Order, (ObjectRef, u64)>,
    unknown: LastingViolations<Order>,
}

impl Judge for UnorderedPlaceholder {
    fn start(&mut self, cluster: &Cluster, _clock: &HealthyClock) {
        let ordered = cluster.groups.values().filter_map(|group| order_of(group));
        self.known.extend(ordered);
        // The order of a placeholder that exists already may have ended.
        let placeholders = cluster.pods().filter_map(|pod| pod.node_order());
        self.known.extend(placeholders);
    }

    fn observe(&mut self, step: &Step<'_>, findings: &mut Findings) {
        match (&step.change.object, step.previous) {
            (ObjectVersion::Group(version), _) => {
                if let Some(order) = order_of(version.object()) {
                    self.record(step, order, findings);
                }
            }
            (ObjectVersion::Job(Version::Deleted(job)), _) => {
                let uid = JobUid(job.metadata.uid.clone().unwrap_or_default());
                self.known.retain(|(job, _)| *job != uid);
            }
            (ObjectVersion::Pod(Version::Stored(pod)), Previous::Pod(None)) => {
                self.judge_new_pod(step, pod);
            }
            _ => {}
        }
    }

    fn check(&mut self, cluster: &Cluster, now: Moment, findings: &mut Findings) {
        self.unknown
            .report_overdue(Rule::UnorderedPlaceholder, cluster, now, findings);
    }
}

impl UnorderedPlaceholder {
    fn judge_new_pod(&mut self, step: &Step<'_>, pod: &Pod) {
        let Some(order) = pod.node_order() else {
            return;
        };
        let Some(job) = step.cluster.job_name(&order.0) else {
            return;
        };
        let is_unknown = step.cluster.is_partial && !step.cluster.groups.contains_key(job);
        // The order may have been made and ended during the gap before the list.
        if is_unknown || step.change.is_listed || step.cluster.is_unread_group(job) {
            self.known.insert(order);
        } else if !self.known.contains(&order) {
            let object = ObjectRef::new("Pod", &pod.metadata);
            let message = format!(
                "it is of order {}, which no journal of its job had",
                order.1
            );
            let first = (object.clone(), step.change.revision);
            self.first.entry(order.clone()).or_insert(first);
            let violation = Violation {
                object,
                message,
                allowed: WATCH_DELAY,
            };
            self.unknown.set(order, Some(violation), step.now);
        }
    }

    /// Records an order of a journal. Reports it if a placeholder of it was created before.
    fn record(&mut self, step: &Step<'_>, order: Order, findings: &mut Findings) {
        if let Some((object, created)) = self.first.remove(&order)
            && created < step.change.revision
            && !step.change.is_listed
        {
            let message = format!(
                "it was created at revision {created}, before its order was in the journal"
            );
            findings.add(step.finding(Rule::UnorderedPlaceholder, object, message));
        }
        self.unknown.set(order.clone(), None, step.now);
        self.known.insert(order);
    }
}

/// Returns the order in the journal of a job's gang.
fn order_of(group: &PodGroup) -> Option<Order> {
    let nodes = group.status.as_ref()?.provisioning.as_ref()?;
    Some((owner_uid(group)?, nodes.hash.clone()))
}
