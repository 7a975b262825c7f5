//! An external pod: a pod that another controller made and that Trellis places.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::jiff::Timestamp;
use trellis_api::names;
use trellis_scheduler::Resources;

use super::grace_period::{has_overlong_grace, limit_grace};
use super::judged_spec::JudgedSpec;
use super::pod_view::{PodPhase, PodView, pod_phase};
use super::slim::SlimPod;
use crate::requirements::resource_request;

/// Labels with the index of a pod of an Indexed Job or of a StatefulSet.
const INDEX_LABELS: [&str; 2] = [
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
];

/// Pods of one group, by name.
pub type ExternalPods = BTreeMap<String, Arc<ExternalPod>>;

/// Names of ResourceFlavors, by resource.
pub type FlavorsByResource = BTreeMap<String, String>;

/// The annotations that Trellis sets with a binding. Users cannot write them.
#[derive(Clone, Copy, Debug)]
pub struct BindingAnnotations<'a> {
    /// Hash of the plan.
    pub plan: &'a str,
    /// The queue in which the pod counts.
    pub queue: &'a str,
    /// The PodGroup of the gang that the pod is part of.
    pub placed_with: Option<&'a str>,
    /// The flavors of the pod's resources.
    pub flavors: &'a FlavorsByResource,
}

/// A pod that another controller made, reduced to the fields that Trellis reads.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalPod {
    /// Uid of the pod.
    pub uid: String,
    /// When the pod was created.
    pub created: Option<Timestamp>,
    /// Labels of the pod.
    pub labels: BTreeMap<String, String>,
    /// Index of the pod, if its controller sets one.
    pub index: Option<u32>,
    /// Node of the pod.
    pub node: Option<String>,
    /// Hash of the plan that bound it.
    pub plan: Option<String>,
    /// The queue in which the pod counts, if Trellis has bound it.
    pub queue: Option<String>,
    /// True if the annotations are trusted: users cannot write them, or a plan or this process
    /// confirms them.
    pub is_trusted: bool,
    /// The PodGroup of the gang that the pod was bound with.
    pub placed_with: Option<String>,
    /// The flavors that the binding gave it, by resource.
    pub flavors: FlavorsByResource,
    /// Phase of the pod.
    pub phase: PodPhase,
    /// True once the pod is being deleted.
    pub deleting: bool,
    /// True if the pod is being deleted with more than the longest grace period.
    pub has_overlong_grace: bool,
    /// Resources that the pod holds, or requests.
    pub request: Resources,
    /// The part of the spec that policies judge.
    pub judged_spec: JudgedSpec,
    /// Priority of the pod.
    pub priority: i32,
    /// ServiceAccount of the pod.
    pub service_account: Option<String>,
    /// Grace period in seconds, at most an hour.
    pub grace: u32,
    /// Longest run time in seconds.
    pub active_seconds: Option<i64>,
    /// Reason and message of the condition PodScheduled, while it is False.
    pub unscheduled_condition: Option<(String, String)>,
    /// The whole spec, while the pod has no node. An error if it does not decode.
    pub spec: Option<Result<Arc<PodSpec>, String>>,
}

impl ExternalPod {
    /// Reads a pod. None if it belongs to a TrainingJob or to another scheduler.
    #[must_use]
    pub fn from_pod(pod: &SlimPod) -> Option<Self> {
        let is_ours = pod.spec.scheduler_name.as_deref() == Some(names::SCHEDULER);
        if !is_ours || PodView::from_pod(pod).is_some() {
            return None;
        }
        let meta = &pod.metadata;
        let labels = meta.labels.clone().unwrap_or_default();
        let annotation = |key: &str| meta.annotations.as_ref().and_then(|a| a.get(key));
        let mut conditions = pod.status.conditions.iter();
        let unscheduled = conditions.find(|c| c.type_ == "PodScheduled" && c.status == "False");
        let spec = pod.spec.to_be_placed.as_ref().map(|raw| {
            let spec: Result<PodSpec, _> = serde_json::from_str(raw.get());
            spec.map(Arc::new).map_err(|error| error.to_string())
        });
        Some(Self {
            uid: meta.uid.clone().unwrap_or_default(),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            index: INDEX_LABELS
                .iter()
                .find_map(|key| labels.get(*key)?.parse().ok()),
            labels,
            node: pod.spec.node_name.clone(),
            plan: annotation(names::PLAN).cloned(),
            queue: annotation(names::PLACED_IN).cloned(),
            is_trusted: true,
            placed_with: annotation(names::PLACED_WITH).cloned(),
            flavors: parse_flavors(annotation(names::FLAVORS)),
            phase: pod_phase(pod),
            deleting: meta.deletion_timestamp.is_some(),
            has_overlong_grace: has_overlong_grace(meta),
            request: resource_request::pod_request(pod),
            judged_spec: JudgedSpec::from_spec(&pod.spec),
            priority: pod.spec.priority.unwrap_or(0),
            service_account: pod.spec.service_account_name.clone(),
            grace: limit_grace(pod.spec.termination_grace_period_seconds),
            active_seconds: pod.spec.active_deadline_seconds,
            unscheduled_condition: unscheduled.map(|c| {
                let text = |field: &Option<String>| field.clone().unwrap_or_default();
                (text(&c.reason), text(&c.message))
            }),
            spec,
        })
    }

    /// Returns the name of the pod's PodGroup, if it has one.
    #[must_use]
    pub fn group(&self) -> Option<&str> {
        let group = self.labels.get(names::POD_GROUP).map(String::as_str);
        group.filter(|group| !group.is_empty())
    }

    /// Returns the names of the pod's scheduling gates.
    pub fn scheduling_gates(&self) -> impl Iterator<Item = &str> {
        let spec = self.spec.as_ref().and_then(|spec| spec.as_ref().ok());
        let gates = spec.and_then(|spec| spec.scheduling_gates.as_ref());
        gates.into_iter().flatten().map(|gate| gate.name.as_str())
    }

    /// Returns true if the pod holds resources of its node.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.node.is_some() && !self.phase.is_over()
    }

    /// Returns the queue in which a bound pod counts. A pod that a user or another scheduler has
    /// bound counts in no queue, because Trellis checked no quota and no policy for it.
    #[must_use]
    pub fn charged_queue(&self) -> Option<&str> {
        let is_ours = self.is_trusted && self.is_bound();
        self.queue.as_deref().filter(|_| is_ours)
    }

    /// Returns the queue in which the pod counts, if it was bound as part of the gang of its
    /// PodGroup.
    #[must_use]
    pub fn gang_charged_queue(&self) -> Option<&str> {
        self.charged_queue()
            .filter(|_| self.placed_with.as_deref() == self.group())
    }

    /// Returns true if both have the same queue annotations.
    pub fn has_same_annotations(&self, other: &Self) -> bool {
        let annotations = |pod: &Self| {
            let place = (pod.plan.clone(), pod.queue.clone(), pod.placed_with.clone());
            (pod.uid.clone(), place, pod.flavors.clone())
        };
        annotations(self) == annotations(other)
    }

    /// Returns true if a delete by Trellis would end the pod sooner.
    #[must_use]
    pub(crate) fn can_be_deleted(&self) -> bool {
        !self.deleting || self.has_overlong_grace
    }

    /// Returns true if the pod waits for a node.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.node.is_none() && !self.phase.is_over() && !self.deleting
    }
}

/// Returns the flavors in the annotation, or no flavors if the annotation does not parse. Then the
/// pod is charged to the first flavor of its queue that matches its node.
fn parse_flavors(annotation: Option<&String>) -> FlavorsByResource {
    let flavors = annotation.and_then(|text| serde_json::from_str(text).ok());
    flavors.unwrap_or_default()
}
