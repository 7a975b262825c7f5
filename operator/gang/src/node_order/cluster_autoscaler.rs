//! The kind ProvisioningRequest, which Cluster Autoscaler and GKE read (`autoscaling.x-k8s.io/v1`,
//! `cluster-autoscaler/apis/provisioningrequest` in kubernetes/autoscaler).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Class of GKE's queued provisioning. Its nodes serve only the request that they came for.
pub const GKE_CLASS: &str = "queued-provisioning.gke.io";
/// Label of nodes that came for a request of [`GKE_CLASS`]. Its value is the request's detail
/// `ResizeRequestName`.
pub const GKE_NODE_LABEL: &str = "autoscaling.gke.io/provisioning-request";
/// Key of the request detail that holds the label value of its nodes.
const GKE_DETAIL: &str = "ResizeRequestName";

/// Annotation of pods that use the nodes of a request: its name.
pub const CONSUMED_REQUEST: &str = "autoscaling.x-k8s.io/consume-provisioning-request";
/// Annotation of pods that use the nodes of a request: its class.
pub const CONSUMED_CLASS: &str = "autoscaling.x-k8s.io/provisioning-class-name";

/// Pods for which an autoscaler adds nodes.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "autoscaling.x-k8s.io",
    version = "v1",
    kind = "ProvisioningRequest",
    namespaced,
    schema = "disabled",
    status = "ProvisioningRequestStatus",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ProvisioningRequestSpec {
    /// The pods.
    pub pod_sets: Vec<PodSet>,
    /// Which controller adds the nodes, and how.
    pub provisioning_class_name: String,
    /// Parameters of the class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
}

/// Pods of one PodTemplate.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PodSet {
    /// A PodTemplate in the namespace of the request.
    pub pod_template_ref: TemplateName,
    /// Number of pods.
    pub count: i64,
}

/// Name of a PodTemplate.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct TemplateName {
    /// The name.
    pub name: String,
}

/// Status that the autoscaler writes.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ProvisioningRequestStatus {
    /// Conditions. `Provisioned` does not mean that the nodes exist: it is set when the autoscaler
    /// has asked for them.
    pub conditions: Vec<Condition>,
    /// Details of the class.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub provisioning_class_details: BTreeMap<String, String>,
}

/// State of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestState {
    /// The nodes may still come.
    Open,
    /// The autoscaler no longer keeps the nodes for it. A new request keeps them again.
    Expired,
    /// The autoscaler adds no nodes. Holds its message.
    Failed(String),
}

impl ProvisioningRequest {
    /// Returns the state of the request.
    #[must_use]
    pub fn state(&self) -> RequestState {
        let ended = self.true_condition("Failed");
        match ended.or_else(|| self.true_condition("CapacityRevoked")) {
            Some(condition) => RequestState::Failed(text(condition)),
            None if self.true_condition("BookingExpired").is_some() => RequestState::Expired,
            None => RequestState::Open,
        }
    }

    /// Returns the message of condition Provisioned while it is not true. None: the condition is
    /// true or absent, or has no message.
    #[must_use]
    pub fn delay_message(&self) -> Option<String> {
        let provisioned = self.condition("Provisioned")?;
        (provisioned.status != "True" && !provisioned.message.is_empty())
            .then(|| provisioned.message.clone())
    }

    /// Returns the value of [`GKE_NODE_LABEL`] of the nodes that came for this request alone.
    #[must_use]
    pub fn node_label_value(&self) -> Option<&str> {
        let details = &self.status.as_ref()?.provisioning_class_details;
        let value = details.get(GKE_DETAIL)?.as_str();
        self.has_exclusive_nodes().then_some(value)
    }

    /// Returns true if nodes serve only the request that they came for.
    #[must_use]
    pub fn has_exclusive_nodes(&self) -> bool {
        self.spec.provisioning_class_name == GKE_CLASS
    }

    fn condition(&self, name: &str) -> Option<&Condition> {
        let mut conditions = self.status.iter().flat_map(|status| &status.conditions);
        conditions.find(|condition| condition.type_ == name)
    }

    fn true_condition(&self, name: &str) -> Option<&Condition> {
        self.condition(name)
            .filter(|condition| condition.status == "True")
    }
}

/// Returns the message of a condition, or its reason if it has no message.
fn text(condition: &Condition) -> String {
    match condition.message.is_empty() {
        true => condition.reason.clone(),
        false => condition.message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn request(class: &str, conditions: &[(&str, &str, &str)]) -> ProvisioningRequest {
        let conditions = conditions.iter().map(|(name, status, message)| {
            json!({"type": name, "status": status, "reason": "R", "message": message,
                "lastTransitionTime": "2026-11-28T18:00:00Z"})
        });
        let conditions: Vec<Value> = conditions.collect();
        let object = json!({
            "apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest",
            "metadata": {"name": "r"},
            "spec": {"podSets": [], "provisioningClassName": class},
            "status": {"conditions": conditions,
                "provisioningClassDetails": {"ResizeRequestName": "resize-1"}},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn failed_or_revoked_request_is_failed_despite_other_true_conditions() {
        let provisioned = ("Provisioned", "True", "");
        for (conditions, state) in [
            (vec![], RequestState::Open),
            (
                vec![("Accepted", "True", ""), provisioned],
                RequestState::Open,
            ),
            (vec![("Failed", "False", "x")], RequestState::Open),
            (
                vec![("Failed", "True", "no quota")],
                RequestState::Failed("no quota".to_owned()),
            ),
            (
                vec![("Failed", "True", "")],
                RequestState::Failed("R".to_owned()),
            ),
            (
                vec![provisioned, ("BookingExpired", "True", "")],
                RequestState::Expired,
            ),
            (
                vec![
                    provisioned,
                    ("BookingExpired", "True", ""),
                    ("CapacityRevoked", "True", "gone"),
                ],
                RequestState::Failed("gone".to_owned()),
            ),
        ] {
            assert_eq!(request("any", &conditions).state(), state, "{conditions:?}");
        }
    }

    #[test]
    fn message_is_shown_only_until_the_autoscaler_has_asked_for_the_nodes() {
        let waits = request(
            "any",
            &[("Provisioned", "False", "no room: tried again later")],
        );
        assert_eq!(
            waits.delay_message().as_deref(),
            Some("no room: tried again later")
        );
        let asked = request("any", &[("Provisioned", "True", "capacity is found")]);
        assert_eq!(asked.delay_message(), None);
    }

    #[test]
    fn only_gke_requests_have_exclusive_nodes() {
        assert_eq!(request(GKE_CLASS, &[]).node_label_value(), Some("resize-1"));
        assert_eq!(request("any", &[]).node_label_value(), None);
    }

    #[test]
    fn request_without_a_status_is_open() {
        let object = json!({
            "apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest",
            "metadata": {"name": "r"},
            "spec": {"podSets": [], "provisioningClassName": GKE_CLASS},
        });
        let request: ProvisioningRequest = serde_json::from_value(object).unwrap();
        assert_eq!(request.state(), RequestState::Open);
        assert_eq!(
            (request.node_label_value(), request.delay_message()),
            (None, None)
        );
    }
}
