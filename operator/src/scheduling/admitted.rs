//! A group's pod as the API server would store it.

use k8s_openapi::api::core::v1::{Pod, Toleration};
use serde_json::Value;
use trellis_compiler::{CompiledGroup, PodPlacement};
use trellis_scheduler::{Constraints, Resources};

use super::{constraints, gang, request};
use crate::watch::SlimPod;

/// What one pod of a group asks of its node, after admission has had its say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Admitted {
    /// What it takes of the node.
    pub request: Resources,
    /// Which nodes will do.
    pub constraints: Constraints,
}

impl Admitted {
    /// The pod as it is sent: what is taken to be true before admission is asked.
    #[must_use]
    pub fn unchanged(group: &CompiledGroup) -> Self {
        // The constraints are read from the very pod that would be created.
        let pod = group.pod(0, &PodPlacement::NOWHERE);
        Self {
            request: gang::request_of(group),
            constraints: pod
                .spec
                .as_ref()
                .map(constraints::of_pod)
                .unwrap_or_default(),
        }
    }

    /// The same without what the flavors of its place bring: in another place it
    /// would not have it. What the group asks for itself stays.
    #[must_use]
    pub fn without(mut self, brought: &[Toleration], group: &CompiledGroup) -> Self {
        if brought.is_empty() {
            return self;
        }
        let own = Self::unchanged(group).constraints.tolerations;
        let brought: Vec<_> = brought.iter().map(constraints::toleration).collect();
        self.constraints
            .tolerations
            .retain(|t| own.contains(t) || !brought.contains(t));
        self
    }

    /// What the API server's answer to a create says.
    ///
    /// # Errors
    /// If the answer is no pod.
    pub fn of(stored: Value) -> Result<Self, serde_json::Error> {
        let slim: SlimPod = serde_json::from_value(stored.clone())?;
        let pod: Pod = serde_json::from_value(stored)?;
        Ok(Self {
            request: request::of_pod(&slim),
            constraints: pod
                .spec
                .as_ref()
                .map(constraints::of_pod)
                .unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(more: Value) -> Value {
        let mut spec = json!({
            "nodeName": "n",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}],
        });
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    }

    #[test]
    fn what_admission_adds_to_the_constraints_is_read() {
        let sent = Admitted::of(pod(json!({}))).unwrap();
        let stored = Admitted::of(pod(json!({
            "nodeSelector": {"pool": "a"},
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}],
            }}},
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        })))
        .unwrap();
        assert_eq!(sent.request, stored.request);
        assert_ne!(sent, stored);
        assert_eq!(
            stored
                .constraints
                .node_selector
                .get("pool")
                .map(String::as_str),
            Some("a")
        );
        assert_eq!(stored.constraints.required.len(), 1);
        assert_eq!(stored.constraints.tolerations.len(), 1);
    }

    #[test]
    fn what_a_flavor_brings_is_not_taken_for_what_admission_adds() {
        let wish = crate::scheduling::fixtures::run(1);
        let group = &wish.run().unwrap().job.compiled().groups()[0];
        let toleration = |key: &str| Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some("NoSchedule".to_owned()),
            ..Toleration::default()
        };
        // The second is the group's own as well.
        let brought = [toleration("spot"), toleration("nvidia.com/gpu")];
        let at = PodPlacement {
            tolerations: &brought,
            ..PodPlacement::NOWHERE
        };
        let sent = group.pod(0, &at);
        let stored = Admitted::of(serde_json::to_value(&sent).unwrap()).unwrap();
        let without = stored.without(&brought, group);
        assert_eq!(without.constraints, Admitted::unchanged(group).constraints);
        // What admission adds stays.
        let mut changed = sent;
        let spec = changed.spec.as_mut().unwrap();
        spec.tolerations
            .as_mut()
            .unwrap()
            .push(toleration("webhook"));
        let stored = Admitted::of(serde_json::to_value(&changed).unwrap()).unwrap();
        let without = stored.without(&brought, group).constraints.tolerations;
        let keys: Vec<_> = without.iter().filter_map(|t| t.key.as_deref()).collect();
        assert_eq!(keys, ["nvidia.com/gpu", "webhook"]);
    }

    #[test]
    fn what_every_pod_is_given_changes_nothing() {
        let default = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
        let stored = Admitted::of(pod(json!({"tolerations": [
            default("node.kubernetes.io/not-ready"),
            default("node.kubernetes.io/unreachable"),
        ]})));
        assert_eq!(stored.unwrap(), Admitted::of(pod(json!({}))).unwrap());
    }
}
