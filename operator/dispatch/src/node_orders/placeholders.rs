//! Placeholder pods, which ask autoscalers for nodes. `trellis_gang::placeholder` builds them, and
//! a gang's task creates and withdraws them. [`Placeholders`] has those that the watch has shown,
//! and [`maintain_placeholders`] writes their conditions and deletes those that no journal names.

mod maintenance;

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::RwLock;
use tokio::sync::watch;
use trellis_api::names;
use trellis_gang::observed::SlimPod;

use crate::commands::UNSCHEDULABLE;

pub use maintenance::maintain_placeholders;

/// The placeholder pods that exist.
#[derive(Debug)]
pub struct Placeholders {
    /// Their namespace. None: nodes are not provisioned.
    namespace: Option<String>,
    pods: RwLock<BTreeMap<String, PlaceholderPod>>,
    /// Orders whose placeholder Jobs are gone or have failed.
    lost: RwLock<BTreeSet<String>>,
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

impl Placeholders {
    pub(crate) fn new(namespace: Option<String>) -> Self {
        Self {
            namespace,
            pods: RwLock::default(),
            lost: RwLock::default(),
            changed: watch::Sender::default(),
        }
    }

    /// Returns the namespace of placeholder pods. None: nodes are not provisioned.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Records a pod of the cluster, if it is a placeholder.
    pub(crate) fn apply(&self, namespace: &str, name: &str, pod: &SlimPod) {
        if self.namespace() != Some(namespace) {
            return;
        }
        let Some(known) = PlaceholderPod::from_pod(pod) else {
            return;
        };
        let before = self.pods.write().insert(name.to_owned(), known.clone());
        if before.as_ref() != Some(&known) {
            self.changed.send_replace(());
        }
    }

    /// Removes a pod that is gone.
    pub(crate) fn delete(&self, namespace: &str, name: &str) {
        if self.namespace() == Some(namespace) && self.pods.write().remove(name).is_some() {
            self.changed.send_replace(());
        }
    }

    /// Returns true if an autoscaler may still buy a node for a placeholder of the job with this
    /// uid.
    pub(crate) fn has_pods_of_job(&self, uid: &str) -> bool {
        let pods = self.pods.read();
        pods.values().any(|pod| pod.job == uid && !pod.has_ended)
    }

    /// Returns true if the placeholders of an order must be created again. The next call returns
    /// false.
    pub(crate) fn take_lost(&self, order: &str) -> bool {
        self.lost.write().remove(order)
    }

    /// Returns a receiver that is told of changes from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Returns the orders of the placeholders.
    fn orders(&self) -> BTreeSet<String> {
        let pods = self.pods.read();
        pods.values().map(|pod| pod.order.clone()).collect()
    }

    /// Returns the placeholders that autoscalers do not see yet, by name.
    fn hidden_pods(&self) -> Vec<(String, PlaceholderPod)> {
        let pods = self.pods.read();
        let hidden = pods
            .iter()
            .filter(|(_, pod)| !pod.has_ended && !pod.is_terminating && !pod.is_unschedulable);
        hidden
            .map(|(name, pod)| (name.clone(), pod.clone()))
            .collect()
    }
}

impl PlaceholderPod {
    /// Returns the placeholder. None: the pod is none.
    fn from_pod(pod: &SlimPod) -> Option<Self> {
        let labels = pod.metadata.labels.as_ref()?;
        let is_unschedulable = pod.status.conditions.iter().any(|condition| {
            condition.type_ == "PodScheduled"
                && condition.status == "False"
                && condition.reason.as_deref() == Some(UNSCHEDULABLE)
        });
        let has_ended = matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"));
        Some(Self {
            version: pod.metadata.resource_version.clone().unwrap_or_default(),
            order: labels.get(names::PLACEHOLDER_ORDER)?.clone(),
            job: labels.get(names::PLACEHOLDER_JOB_UID)?.clone(),
            is_unschedulable,
            is_terminating: pod.metadata.deletion_timestamp.is_some(),
            has_ended,
        })
    }
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
    fn placeholder_is_hidden_until_its_condition_says_unschedulable() {
        let placeholders = Placeholders::new(Some("capacity".to_owned()));
        placeholders.apply("capacity", "p", &pod(json!({}), json!({})));
        assert_eq!(placeholders.hidden_pods().len(), 1);
        assert!(placeholders.has_pods_of_job("uid"));
        let condition =
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
        placeholders.apply(
            "capacity",
            "p",
            &pod(json!({}), json!({"conditions": [condition]})),
        );
        assert!(placeholders.hidden_pods().is_empty());
        assert!(placeholders.has_pods_of_job("uid"));
    }

    #[test]
    fn placeholder_counts_until_it_is_gone_or_has_ended() {
        let deleted = json!({"deletionTimestamp": "2026-11-28T18:00:00Z"});
        for (pod, counts) in [
            (pod(deleted, json!({})), true),
            (pod(json!({}), json!({"phase": "Failed"})), false),
        ] {
            let placeholders = Placeholders::new(Some("capacity".to_owned()));
            placeholders.apply("capacity", "p", &pod);
            assert_eq!(placeholders.has_pods_of_job("uid"), counts);
            assert!(placeholders.hidden_pods().is_empty());
            placeholders.delete("capacity", "p");
            assert!(!placeholders.has_pods_of_job("uid"));
        }
    }

    #[test]
    fn pod_with_the_labels_in_another_namespace_is_no_placeholder() {
        let placeholders = Placeholders::new(Some("capacity".to_owned()));
        placeholders.apply("team-a", "p", &pod(json!({}), json!({})));
        assert!(placeholders.orders().is_empty());
    }
}
