//! ProvisioningRequests of node orders, with their status.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use kube::api::ListParams;
use parking_lot::RwLock;
use trellis_api::names;
use trellis_gang::key::Key;
use trellis_gang::node_order::cluster_autoscaler::{
    CONSUMED_CLASS, CONSUMED_REQUEST, ProvisioningRequest, RequestState,
};

use crate::commands::{Commands, WriteError};

/// The ProvisioningRequests that the last list has shown. None: there was no list yet.
#[derive(Debug, Default)]
pub(crate) struct ObservedRequests(RwLock<Option<Vec<KnownRequest>>>);

/// A ProvisioningRequest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct KnownRequest {
    /// The job that waits for the nodes.
    job: Key,
    job_uid: String,
    /// Hash of the order.
    order: String,
    flavor: String,
    name: String,
    class: String,
    /// Why the autoscaler adds no nodes.
    failure: Option<String>,
    /// Why the nodes have not been asked for yet.
    delay: Option<String>,
    /// Value of the label of nodes that came for this request alone.
    node_label_value: Option<String>,
}

impl ObservedRequests {
    /// Replaces all requests. Returns the jobs with a new request, a new failure or new nodes.
    pub(crate) fn replace(&self, requests: &[ProvisioningRequest]) -> BTreeSet<Key> {
        let mut known: Vec<_> = requests
            .iter()
            .filter_map(KnownRequest::from_request)
            .collect();
        known.sort_unstable();
        let mut before = self.0.write();
        let changed = known.iter().filter(|request| {
            let earlier = before
                .iter()
                .flatten()
                .find(|earlier| earlier.name == request.name && earlier.job == request.job);
            earlier.is_none_or(|earlier| {
                earlier.failure != request.failure
                    || earlier.node_label_value != request.node_label_value
            })
        });
        let jobs = changed.map(|request| request.job.clone()).collect();
        *before = Some(known);
        jobs
    }

    /// Returns why an autoscaler adds no nodes for an order.
    pub(crate) fn failure(&self, order: &str) -> Option<String> {
        self.find(order, |request| request.failure.clone())
    }

    /// Returns why an autoscaler has not asked for the nodes of an order yet.
    pub(crate) fn delay(&self, order: &str) -> Option<String> {
        self.find(order, |request| request.delay.clone())
    }

    /// Returns the label values of the nodes that serve only the job with this uid.
    pub(crate) fn node_label_values(&self, job_uid: &str) -> Vec<String> {
        let requests = self.0.read();
        let own = requests.iter().flatten();
        let own = own.filter(|request| request.job_uid == job_uid);
        own.filter_map(|request| request.node_label_value.clone())
            .collect()
    }

    /// Returns the annotations by which pods of the job with this uid use the nodes that came for it
    /// alone, by flavor.
    pub(crate) fn pod_annotations(
        &self,
        job_uid: &str,
    ) -> BTreeMap<String, BTreeMap<String, String>> {
        let requests = self.0.read();
        let own = requests.iter().flatten();
        let own =
            own.filter(|request| request.job_uid == job_uid && request.node_label_value.is_some());
        own.map(|request| (request.flavor.clone(), request.pod_annotations()))
            .collect()
    }

    /// Returns true if the last list has shown no requests.
    pub(crate) fn is_empty(&self) -> bool {
        let requests = self.0.read();
        requests.as_ref().is_some_and(Vec::is_empty)
    }

    /// Returns the orders that have a request.
    pub(super) fn orders(&self) -> BTreeSet<String> {
        let requests = self.0.read();
        let all = requests.iter().flatten();
        all.map(|request| request.order.clone()).collect()
    }

    fn find(&self, order: &str, read: impl Fn(&KnownRequest) -> Option<String>) -> Option<String> {
        let requests = self.0.read();
        let mut own = requests.iter().flatten();
        let mut own = own.by_ref().filter(|request| request.order == order);
        own.find_map(read)
    }
}

impl KnownRequest {
    /// Returns None if Trellis did not create the request.
    fn from_request(request: &ProvisioningRequest) -> Option<Self> {
        let label = |key: &str| request.labels().get(key).cloned();
        let job = request.annotations().get(names::ORDERING_JOB)?;
        let (namespace, name) = job.split_once('/')?;
        let failure = match request.state() {
            RequestState::Failed(message) => Some(message),
            RequestState::Open | RequestState::Expired => None,
        };
        Some(Self {
            job: Key::new(namespace, name),
            job_uid: label(names::ORDERING_JOB_UID)?,
            order: label(names::NODE_ORDER)?,
            flavor: label(names::ORDERED_FLAVOR)?,
            name: request.name_any(),
            class: request.spec.provisioning_class_name.clone(),
            failure,
            delay: request.delay_message(),
            node_label_value: request.node_label_value().map(str::to_owned),
        })
    }

    /// Returns the annotations of pods that use the nodes of the request.
    fn pod_annotations(&self) -> BTreeMap<String, String> {
        [
            (CONSUMED_REQUEST.to_owned(), self.name.clone()),
            (CONSUMED_CLASS.to_owned(), self.class.clone()),
        ]
        .into()
    }
}

/// Lists the ProvisioningRequests with these labels in a namespace, or in all. Returns no requests if
/// the cluster lacks the kind.
pub(crate) async fn list_requests(
    commands: &Commands,
    namespace: Option<&str>,
    labels: &str,
) -> Result<Vec<ProvisioningRequest>, WriteError> {
    let params = ListParams::default().labels(labels);
    let listed = match namespace {
        Some(namespace) => commands.list(namespace, &params).await,
        None => commands.list_all(&params).await,
    };
    match listed {
        Err(WriteError::NotFound(_)) => Ok(Vec::new()),
        listed => listed,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn request(order: &str, status: Value) -> ProvisioningRequest {
        let object = json!({
            "apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest",
            "metadata": {"name": format!("llm-{order}"), "namespace": "team-a",
                "labels": {"capacity.trellis.dev/order": order, "capacity.trellis.dev/job-uid": "u",
                    "capacity.trellis.dev/flavor": "h100"},
                "annotations": {"capacity.trellis.dev/job": "team-a/llm"}},
            "spec": {"podSets": [], "provisioningClassName": "queued-provisioning.gke.io"},
            "status": status,
        });
        serde_json::from_value(object).unwrap()
    }

    fn condition(name: &str, status: &str, message: &str) -> Value {
        json!({"conditions": [{"type": name, "status": status, "reason": "R", "message": message,
            "lastTransitionTime": "2026-11-28T18:00:00Z"}]})
    }

    #[test]
    fn job_is_tried_again_once_its_request_fails_or_has_nodes() {
        let requests = ObservedRequests::default();
        let job = BTreeSet::from([Key::new("team-a", "llm")]);
        let none = BTreeSet::new();
        assert_eq!(requests.replace(&[request("a", json!({}))]), job);
        assert_eq!(requests.replace(&[request("a", json!({}))]), none);
        let waits = condition("Provisioned", "False", "12 minutes");
        assert_eq!(requests.replace(&[request("a", waits)]), none);
        assert_eq!(requests.delay("a").as_deref(), Some("12 minutes"));
        let details = json!({"provisioningClassDetails": {"ResizeRequestName": "v"}});
        assert_eq!(requests.replace(&[request("a", details)]), job);
        assert_eq!(
            requests.pod_annotations("u")["h100"][CONSUMED_REQUEST],
            "llm-a"
        );
        assert_eq!(
            (requests.node_label_values("u"), requests.delay("a")),
            (vec!["v".to_owned()], None)
        );
        let failed = condition("Failed", "True", "no quota");
        assert_eq!(requests.replace(&[request("a", failed)]), job);
        assert_eq!(requests.failure("a").as_deref(), Some("no quota"));
        assert_eq!(requests.failure("b"), None);
        assert!(requests.node_label_values("other").is_empty());
        assert!(requests.pod_annotations("u").is_empty());
    }
}
