//! Fields of a pod that core ResourceQuotas count, besides its request.

use k8s_openapi::api::core::v1::{Affinity, Pod, PodAffinityTerm, ResourceQuota, Volume};
use trellis_api::Quantity;
use trellis_scheduler::Resources;

/// Fields of a pod that quotas count or that their scopes match, besides its request
/// (`k8s.io/kubernetes/pkg/quota/v1/evaluator/core`). They come from the stored pod, because
/// admission may add a priority class, limits or a deadline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodQuotaFields {
    /// Limits of the pod.
    pub limits: Resources,
    /// Name of the pod's priority class.
    pub priority_class: Option<String>,
    /// True if the pod has neither requests nor limits of cpu and memory.
    pub is_best_effort: bool,
    /// True if the pod has a deadline.
    pub is_terminating: bool,
    /// True if the pod's affinity names pods of other namespaces.
    pub has_cross_namespace_affinity: bool,
    /// The pod's ephemeral claims.
    pub ephemeral_claims: Vec<EphemeralClaim>,
}

/// An ephemeral claim, as quotas count it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EphemeralClaim {
    /// Its StorageClass. None for the cluster's default, which is not looked up here.
    pub class: Option<String>,
    /// Requested storage in bytes.
    pub bytes: i64,
}

impl EphemeralClaim {
    fn from_volume(volume: &Volume) -> Option<Self> {
        let template = volume.ephemeral.as_ref()?.volume_claim_template.as_ref()?;
        let resources = template.spec.resources.as_ref();
        let size = resources.and_then(|r| r.requests.as_ref()?.get("storage"));
        let size = size.and_then(|size| Quantity::new(size.0.as_str()).amount().ok());
        Some(Self {
            class: template.spec.storage_class_name.clone(),
            bytes: size.map_or(0, |size| size.ceil_units().unwrap_or(i64::MAX)),
        })
    }
}

impl PodQuotaFields {
    /// Reads a pod with these limits.
    #[must_use]
    pub fn from_pod(limits: Resources, pod: &Pod) -> Self {
        let spec = pod.spec.as_ref();
        let class = spec.and_then(|s| s.priority_class_name.clone());
        // The API server sets the class of each pod that is created.
        let quality = pod.status.as_ref().and_then(|s| s.qos_class.as_deref());
        Self {
            limits,
            priority_class: class.filter(|class| !class.is_empty()),
            is_best_effort: quality == Some("BestEffort"),
            is_terminating: spec.is_some_and(|s| s.active_deadline_seconds.is_some()),
            has_cross_namespace_affinity: spec
                .and_then(|s| s.affinity.as_ref())
                .is_some_and(has_cross_namespace_affinity),
            ephemeral_claims: spec
                .iter()
                .flat_map(|spec| spec.volumes.iter().flatten())
                .filter_map(EphemeralClaim::from_volume)
                .collect(),
        }
    }

    /// Returns true if the quota's scopes match the pod. An unknown scope matches no pod.
    pub(super) fn is_in_scopes(&self, quota: &ResourceQuota) -> bool {
        let Some(spec) = &quota.spec else {
            return false;
        };
        let scopes = spec.scopes.iter().flatten();
        let mut scopes = scopes.map(|scope| (scope.as_str(), "Exists", None));
        let selectors = spec.scope_selector.iter();
        let mut selectors = selectors
            .filter_map(|s| s.match_expressions.as_ref())
            .flatten()
            .map(|e| {
                (
                    e.scope_name.as_str(),
                    e.operator.as_str(),
                    e.values.as_ref(),
                )
            });
        scopes.all(|scope| self.is_in_scope(scope))
            && selectors.all(|scope| self.is_in_scope(scope))
    }

    fn is_in_scope(&self, (scope, operator, values): (&str, &str, Option<&Vec<String>>)) -> bool {
        let class = self.priority_class.as_ref();
        let is_listed = || class.is_some_and(|class| values.is_some_and(|v| v.contains(class)));
        match (scope, operator) {
            ("PriorityClass", "In") => is_listed(),
            ("PriorityClass", "NotIn") => !is_listed(),
            ("PriorityClass", "Exists") => class.is_some(),
            ("PriorityClass", "DoesNotExist") => class.is_none(),
            ("Terminating", _) => self.is_terminating,
            ("NotTerminating", _) => !self.is_terminating,
            ("BestEffort", _) => self.is_best_effort,
            ("NotBestEffort", _) => !self.is_best_effort,
            ("CrossNamespacePodAffinity", _) => self.has_cross_namespace_affinity,
            _ => false,
        }
    }
}

fn has_cross_namespace_affinity(affinity: &Affinity) -> bool {
    let with = affinity.pod_affinity.as_ref().map(|a| {
        let required = &a.required_during_scheduling_ignored_during_execution;
        (
            required,
            &a.preferred_during_scheduling_ignored_during_execution,
        )
    });
    let without = affinity.pod_anti_affinity.as_ref().map(|a| {
        let required = &a.required_during_scheduling_ignored_during_execution;
        (
            required,
            &a.preferred_during_scheduling_ignored_during_execution,
        )
    });
    let is_far = |term: &PodAffinityTerm| {
        term.namespace_selector.is_some() || term.namespaces.iter().flatten().next().is_some()
    };
    with.into_iter()
        .chain(without)
        .any(|(required, preferred)| {
            let preferred = preferred.iter().flatten().map(|p| &p.pod_affinity_term);
            required.iter().flatten().chain(preferred).any(is_far)
        })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns a stored pod with these spec fields.
    fn quota_fields(spec: Value, quality: &str) -> PodQuotaFields {
        let mut pod = json!({"spec": {"containers": []}, "status": {"qosClass": quality}});
        let more = spec.as_object().unwrap().clone();
        pod["spec"].as_object_mut().unwrap().extend(more);
        PodQuotaFields::from_pod(Resources::new(), &serde_json::from_value(pod).unwrap())
    }

    fn scoped(spec: Value) -> ResourceQuota {
        serde_json::from_value(json!({"spec": spec})).unwrap()
    }

    #[test]
    fn quota_scopes_match_the_same_pods_as_in_kubernetes() {
        let plain = || quota_fields(json!({}), "Burstable");
        let high = || quota_fields(json!({"priorityClassName": "high"}), "Burstable");
        let with_deadline = || quota_fields(json!({"activeDeadlineSeconds": 60}), "Burstable");
        let best_effort = || quota_fields(json!({}), "BestEffort");
        let with_affinity = |kind: &str, strength: &str, term: Value| {
            let rule = match strength {
                "required" => json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]}),
                _ => json!({"preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": term}]}),
            };
            quota_fields(json!({"affinity": {kind: rule}}), "Burstable")
        };
        let term = |more: Value| {
            let mut term = json!({"topologyKey": "zone"});
            term.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            term
        };
        let pods = [plain(), high(), with_deadline(), best_effort()];
        for (scope, expected) in [
            ("Terminating", [false, false, true, false]),
            ("NotTerminating", [true, true, false, true]),
            ("BestEffort", [false, false, false, true]),
            ("NotBestEffort", [true, true, true, false]),
            ("PriorityClass", [false, true, false, false]),
            ("CrossNamespacePodAffinity", [false; 4]),
            ("Unheard", [false; 4]),
        ] {
            let listed = scoped(json!({"scopes": [scope]}));
            let selected = scoped(json!({"scopeSelector": {"matchExpressions": [
                {"scopeName": scope, "operator": "Exists"}]}}));
            assert_eq!(
                pods.clone().map(|p| p.is_in_scopes(&listed)),
                expected,
                "{scope}"
            );
            assert_eq!(
                pods.clone().map(|p| p.is_in_scopes(&selected)),
                expected,
                "{scope}"
            );
        }
        for (operator, values, expected) in [
            ("In", json!(["low", "high"]), [false, true]),
            ("In", json!(["low"]), [false, false]),
            ("NotIn", json!(["high"]), [true, false]),
            ("NotIn", json!(["low"]), [true, true]),
            ("Exists", json!(null), [false, true]),
            ("DoesNotExist", json!(null), [true, false]),
            ("Unheard", json!(["high"]), [false, false]),
        ] {
            let quota = scoped(json!({"scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": operator, "values": values}]}}));
            let matches = [plain(), high()].map(|p| p.is_in_scopes(&quota));
            assert_eq!(matches, expected, "{operator} {values}");
        }
        // A quota with several scopes matches pods in all of them. A quota without scopes matches
        // all pods.
        let two_scopes = scoped(json!({"scopes": ["Terminating", "BestEffort"]}));
        assert!(pods.iter().all(|p| !p.is_in_scopes(&two_scopes)));
        assert!(
            pods.iter()
                .all(|p| p.is_in_scopes(&scoped(json!({"hard": {}}))))
        );
        let cross_namespace = scoped(json!({"scopes": ["CrossNamespacePodAffinity"]}));
        for kind in ["podAffinity", "podAntiAffinity"] {
            for strength in ["required", "preferred"] {
                assert!(
                    !with_affinity(kind, strength, term(json!({}))).is_in_scopes(&cross_namespace)
                );
                assert!(
                    with_affinity(kind, strength, term(json!({"namespaces": ["x"]})))
                        .is_in_scopes(&cross_namespace)
                );
                assert!(
                    with_affinity(kind, strength, term(json!({"namespaceSelector": {}})))
                        .is_in_scopes(&cross_namespace)
                );
            }
        }
    }
}
