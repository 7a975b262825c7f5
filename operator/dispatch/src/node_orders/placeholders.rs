//! The placeholder pods that the watch has shown.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::RwLock;
use tokio::sync::watch;
use trellis_api::names;
use trellis_gang::observed::SlimPod;

use crate::commands::UNSCHEDULABLE;

/// The placeholder pods that exist, by name.
#[derive(Debug, Default)]
pub(crate) struct ObservedPlaceholders {
    pods: RwLock<BTreeMap<String, PlaceholderPod>>,
    changed: watch::Sender<()>,
}

/// A placeholder pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlaceholderPod {
    pub(crate) version: String,
    /// Hash of its order.
    pub(crate) order: String,
    /// Uid of the job that waits for the nodes.
    pub(crate) job: String,
    /// True if autoscalers see it: its condition says that no scheduler finds a node for it.
    pub(crate) is_unschedulable: bool,
    /// True if it is being deleted. Karpenter buys a node for it until it is gone.
    pub(crate) is_terminating: bool,
    /// True if it has ended. Autoscalers ignore it.
    pub(crate) has_ended: bool,
}

impl ObservedPlaceholders {
    /// Records a pod of the placeholder namespace, if it is a placeholder.
    pub(super) fn apply(&self, name: &str, pod: &SlimPod) {
        let Some(known) = PlaceholderPod::from_pod(pod) else {
            return;
        };
        let before = self.pods.write().insert(name.to_owned(), known.clone());
        if before.as_ref() != Some(&known) {
            self.changed.send_replace(());
        }
    }

    /// Removes a pod that is gone.
    pub(super) fn delete(&self, name: &str) {
        if self.pods.write().remove(name).is_some() {
            self.changed.send_replace(());
        }
    }

    /// Returns a receiver for later changes.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Returns the orders of the placeholders.
    pub(super) fn orders(&self) -> BTreeSet<String> {
        let pods = self.pods.read();
        pods.values().map(|pod| pod.order.clone()).collect()
    }

    /// Returns the placeholders to mark as unschedulable, by name. Placeholders of an order stay
    /// unmarked while those of an earlier order of the same job exist: autoscalers would buy nodes
    /// for both.
    pub(super) fn unmarked_pods(&self) -> Vec<(String, PlaceholderPod)> {
        let pods = self.pods.read();
        let is_replaced = |pod: &PlaceholderPod| {
            let mut others = pods.values().filter(|other| !other.has_ended);
            others.any(|other| other.job == pod.job && other.order != pod.order)
        };
        let unmarked = pods.iter().filter(|(_, pod)| {
            !pod.has_ended && !pod.is_terminating && !pod.is_unschedulable && !is_replaced(pod)
        });
        unmarked
            .map(|(name, pod)| (name.clone(), pod.clone()))
            .collect()
    }
}

impl PlaceholderPod {
    /// Returns None if the pod is not a placeholder.
    fn from_pod(pod: &SlimPod) -> Option<Self> {
        let labels = pod.metadata.labels.as_ref()?;
        let is_unschedulable = pod.status.conditions.iter().any(|condition| {
            condition.type_ == "PodScheduled"
                && condition.status == "False"
                && condition.reason.as_deref() == Some(UNSCHEDULABLE)
        });
        Some(Self {
            version: pod.metadata.resource_version.clone().unwrap_or_default(),
            order: labels.get(names::NODE_ORDER)?.clone(),
            job: labels.get(names::ORDERING_JOB_UID)?.clone(),
            is_unschedulable,
            is_terminating: pod.metadata.deletion_timestamp.is_some(),
            has_ended: has_ended(pod),
        })
    }
}

/// Returns true if a pod has ended. Autoscalers buy no node for it then.
pub(crate) fn has_ended(pod: &SlimPod) -> bool {
    matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(extra: Value, status: Value) -> SlimPod {
        let mut metadata = json!({"name": "p", "resourceVersion": "7",
            "labels": {"capacity.trellis.dev/order": "order", "capacity.trellis.dev/job-uid": "uid"}});
        let extra = extra.as_object().unwrap().clone();
        metadata.as_object_mut().unwrap().extend(extra);
        serde_json::from_value(json!({"metadata": metadata, "spec": {}, "status": status})).unwrap()
    }

    #[test]
    fn placeholder_is_unmarked_until_its_condition_says_unschedulable() {
        let placeholders = ObservedPlaceholders::default();
        placeholders.apply("p", &pod(json!({}), json!({})));
        assert_eq!(placeholders.unmarked_pods().len(), 1);
        let condition =
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
        placeholders.apply("p", &pod(json!({}), json!({"conditions": [condition]})));
        assert!(placeholders.unmarked_pods().is_empty());
        assert_eq!(placeholders.orders().len(), 1);
    }

    #[test]
    fn placeholder_may_be_marked_once_those_of_an_earlier_order_are_gone() {
        let of_order = |order: &str, job: &str| {
            let labels = json!({"labels": {
                "capacity.trellis.dev/order": order, "capacity.trellis.dev/job-uid": job}});
            pod(labels, json!({}))
        };
        let placeholders = ObservedPlaceholders::default();
        placeholders.apply("earlier", &of_order("earlier", "uid"));
        placeholders.apply("later", &of_order("later", "uid"));
        placeholders.apply("other", &of_order("other", "other"));
        let names = || -> Vec<String> {
            let unmarked = placeholders.unmarked_pods().into_iter();
            unmarked.map(|(name, _)| name).collect()
        };
        assert_eq!(names(), ["other"]);
        placeholders.delete("earlier");
        assert_eq!(names(), ["later", "other"]);
    }

    #[test]
    fn terminating_or_ended_placeholder_needs_no_mark() {
        let deleted = json!({"deletionTimestamp": "2026-11-28T18:00:00Z"});
        for pod in [
            pod(deleted, json!({})),
            pod(json!({}), json!({"phase": "Failed"})),
        ] {
            let placeholders = ObservedPlaceholders::default();
            placeholders.apply("p", &pod);
            assert!(placeholders.unmarked_pods().is_empty());
            placeholders.delete("p");
            assert!(placeholders.orders().is_empty());
        }
    }
}
