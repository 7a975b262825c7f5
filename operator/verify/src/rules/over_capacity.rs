//! The requests of the pods on a node never exceed what the node can allocate.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::SignedDuration;
use trellis_api::PodGroup;

use super::Judge;
use crate::clock::Moment;
use crate::cluster::{Cluster, Previous, owner_uid};
use crate::finding::{ObjectRef, Rule};
use crate::history::{ObjectName, ObjectVersion, Version};
use crate::nodes::allocatable;
use crate::pods::PodFacts as _;
use crate::resources::{Amounts, add, in_units, pod_requests};
use crate::verifier::{Findings, Step};

/// Time from the decision about a place to the last pod there. Another client may take the room
/// meanwhile.
const REACTION_TIME: SignedDuration = SignedDuration::from_secs(150);

/// Nodes with more requests than they can allocate.
#[derive(Debug, Default)]
pub(crate) struct OverCapacity {
    /// When another client last took room of a node: it shrank the node or placed a pod there.
    taken: BTreeMap<String, Moment>,
    /// Pods by uid whose creation arrived after their plan was dropped. Trellis cannot take a request
    /// back, and deletes the pod.
    strays: BTreeSet<String>,
}

impl Judge for OverCapacity {
    fn observe(&mut self, step: &Step<'_>, findings: &mut Findings) {
        match (&step.change.object, step.previous) {
            (ObjectVersion::Node(Version::Stored(now)), Previous::Node(Some(before)))
                if allocatable(now) != allocatable(before) =>
            {
                self.record(now.metadata.name.as_deref(), step.now);
            }
            (ObjectVersion::Node(Version::Deleted(node)), _) => {
                self.taken
                    .retain(|name, _| node.metadata.name.as_ref() != Some(name));
            }
            // A watch can show a pod before its plan.
            (ObjectVersion::Group(Version::Stored(group)), _) => {
                if let Some(job) = owner_uid(group) {
                    for (_, pod) in step.cluster.pods_of_job(&job) {
                        if bears_plan_of(pod, group) {
                            self.strays.remove(&uid(pod));
                        }
                    }
                }
            }
            (ObjectVersion::Pod(Version::Deleted(pod)), _) => {
                self.strays.remove(&uid(pod));
            }
            (ObjectVersion::Pod(Version::Stored(pod)), Previous::Pod(before)) => {
                let is_new = before.is_none() && !step.change.is_listed;
                if is_new && is_stray(step, pod) {
                    self.strays.insert(uid(pod));
                }
                let had_node = before
                    .as_ref()
                    .is_some_and(|before| before.node().is_some());
                if had_node || pod.node().is_none() {
                    return;
                }
                if pod.is_placed_by_trellis() {
                    self.judge_placement(step, pod, findings);
                } else {
                    self.record(pod.node(), step.now);
                }
            }
            _ => {}
        }
    }
}

impl OverCapacity {
    fn record(&mut self, node: Option<&str>, time: Moment) {
        if let Some(node) = node {
            self.taken.insert(node.to_owned(), time);
        }
    }

    fn judge_placement(&self, step: &Step<'_>, pod: &Arc<Pod>, findings: &mut Findings) {
        let Some(name) = pod.node() else { return };
        let has_just_changed = self
            .taken
            .get(name)
            .is_some_and(|time| step.now.healthy.saturating_sub(time.healthy) < REACTION_TIME);
        // A list does not show which pods were there when this one was placed.
        let is_judged =
            !step.change.is_listed && !pod.is_over() && !self.strays.contains(&uid(pod));
        if has_just_changed || !is_judged {
            return;
        }
        let Some(message) = self.find_excess(step.cluster, name, pod) else {
            return;
        };
        let Some(node) = step.cluster.nodes.get(&ObjectName::cluster_wide(name)) else {
            return;
        };
        let object = ObjectRef::new("Node", &node.metadata);
        let message = format!(
            "pod {} was placed, and now {message}",
            ObjectName::from_metadata(&pod.metadata)
        );
        findings.add(step.finding(Rule::OverCapacity, object, message));
    }

    /// Describes a resource that the placed pod requests and the node's pods together exceed.
    fn find_excess(&self, cluster: &Cluster, name: &str, placed: &Pod) -> Option<String> {
        let node = cluster.nodes.get(&ObjectName::cluster_wide(name))?;
        let mut sums = Amounts::new();
        for (_, pod) in cluster.pods_on_node(name) {
            if !pod.is_over() && !self.strays.contains(&uid(pod)) {
                add(&mut sums, &pod_requests(pod));
            }
        }
        let has = allocatable(node);
        let wanted = pod_requests(placed);
        let (resource, sum, available) = sums.iter().find_map(|(resource, sum)| {
            let is_wanted = wanted.get(resource).is_some_and(|amount| *amount > 0);
            let available = has.get(resource).copied().unwrap_or(0);
            (is_wanted && *sum > available).then_some((resource, *sum, available))
        })?;
        Some(format!(
            "the pods request {} {resource} of {}",
            in_units(sum),
            in_units(available)
        ))
    }
}

/// Returns true for a new pod of a gang whose journal has another plan, or none.
fn is_stray(step: &Step<'_>, pod: &Pod) -> bool {
    let Some(job) = pod.job_uid() else {
        return false;
    };
    match step.cluster.group_of_job(&job) {
        // The watch of pods may be late: then the journal had the plan when the pod was created.
        Some(group) => !step.is_older_than(&group.metadata) && !bears_plan_of(pod, group),
        None => !step.cluster.is_partial,
    }
}

fn bears_plan_of(pod: &Pod, group: &PodGroup) -> bool {
    let journal = group.status.as_ref();
    let plan = journal.and_then(|journal| journal.plan.as_ref());
    plan.is_some_and(|plan| pod.plan() == Some(plan.hash.as_str()))
}

fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}
