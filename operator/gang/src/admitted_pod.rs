//! A pod of a task group, as the API server would store it after admission.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Pod, PodSpec, Toleration};
use serde_json::Value;
use trellis_api::names;
use trellis_compiler::{CompiledGroup, PodPlacement};
use trellis_scheduler::{Constraints, Resources};
use unsupported_requirement::UnsupportedRequirement;

use super::quota::namespace_quota::PodQuotaFields;
use crate::observed::{SlimClaimSpec, SlimPod};
use crate::requirements::{constraints, gated_fields, resource_request, unsupported_requirement};

/// Labels that differ between jobs and pods. Facts about one job's pod also hold for another job's
/// pod that differs only in these labels.
pub const POD_IDENTITY_LABELS: [&str; 4] =
    [names::JOB, names::JOB_UID, names::INDEX, names::ATTEMPT];

/// Node requirements of one pod of a group, after admission.
#[derive(Clone, Debug, Default)]
pub struct AdmittedPod {
    /// Resources that the pod requests.
    pub request: Resources,
    /// Nodes on which the pod can run, without the constraints of its volumes.
    pub constraints: Constraints,
    /// Claims that the pod mounts.
    pub claims: BTreeSet<String>,
    /// Specs of the pod's ephemeral claims, by volume.
    pub ephemeral_claims: BTreeMap<String, SlimClaimSpec>,
    /// Labels of the pod, without those of [`POD_IDENTITY_LABELS`].
    pub labels: BTreeMap<String, String>,
    /// A requirement that the scheduler does not evaluate, so the pod must not be placed.
    pub unsupported: Option<UnsupportedRequirement>,
    /// Fields that the API server may have dropped from the pod that Trellis sends.
    pub gated_fields: BTreeSet<String>,
    /// Fields of the pod that core quotas count, besides its request.
    pub quota_fields: PodQuotaFields,
}

/// Equality for placement: the fields that quotas count and gated fields do not matter.
impl PartialEq for AdmittedPod {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            request,
            constraints,
            claims,
            ephemeral_claims: own_claims,
            labels,
            unsupported,
            gated_fields: _,
            quota_fields: _,
        } = self;
        let have_equal_claims = own_claims.len() == other.ephemeral_claims.len()
            && own_claims.iter().all(|(volume, claim)| {
                let same_volume = other.ephemeral_claims.get(volume);
                same_volume.is_some_and(|other| claim.has_same_requirements(other))
            });
        have_equal_claims
            && (request, constraints, claims, labels, unsupported)
                == (
                    &other.request,
                    &other.constraints,
                    &other.claims,
                    &other.labels,
                    &other.unsupported,
                )
    }
}

impl AdmittedPod {
    /// Returns the pod as Trellis sends it, before admission.
    #[must_use]
    pub fn from_group(group: &CompiledGroup) -> Self {
        // The constraints come from the same pod that would be created.
        let pod = group.pod(0, &PodPlacement::UNPLACED);
        let request = resource_request::group_pod_request(group);
        // The pods of a job have limits equal to their requests.
        let quota_fields = PodQuotaFields::from_pod(request.clone(), &pod);
        Self::new(request, quota_fields, &pod)
    }

    /// Removes the tolerations that the pod got from the flavors of its place. The group's own
    /// tolerations stay.
    #[must_use]
    pub fn strip_flavor_tolerations(
        mut self,
        flavor_tolerations: &[Toleration],
        group: &CompiledGroup,
    ) -> Self {
        if flavor_tolerations.is_empty() {
            return self;
        }
        let group_tolerations = Self::from_group(group).constraints.tolerations;
        let flavor_tolerations: Vec<_> = flavor_tolerations
            .iter()
            .filter_map(constraints::convert_toleration)
            .collect();
        self.constraints
            .tolerations
            .retain(|t| group_tolerations.contains(t) || !flavor_tolerations.contains(t));
        self
    }

    /// Reads the API server's answer to a create.
    ///
    /// # Errors
    /// If the answer is no pod.
    pub fn from_stored(stored: Value) -> Result<Self, serde_json::Error> {
        let slim: SlimPod = serde_json::from_value(stored.clone())?;
        let pod: Pod = serde_json::from_value(stored)?;
        let quota_fields = PodQuotaFields::from_pod(resource_request::pod_limits(&slim), &pod);
        Ok(Self::new(
            resource_request::pod_request(&slim),
            quota_fields,
            &pod,
        ))
    }

    fn new(request: Resources, quota_fields: PodQuotaFields, pod: &Pod) -> Self {
        let mut labels = pod.metadata.labels.clone().unwrap_or_default();
        labels.retain(|label, _| !POD_IDENTITY_LABELS.contains(&label.as_str()));
        let spec = pod.spec.as_ref();
        Self {
            request,
            constraints: spec.map(constraints::from_pod).unwrap_or_default(),
            claims: spec.map(mounted_claims).unwrap_or_default(),
            ephemeral_claims: spec.map(ephemeral_claim_specs).unwrap_or_default(),
            labels,
            unsupported: spec.and_then(unsupported_requirement::find_in_pod),
            gated_fields: spec
                .map(gated_fields::find_gated_fields)
                .unwrap_or_default(),
            quota_fields,
        }
    }

    /// Returns why the pod must not be placed: it has a requirement that the scheduler does not
    /// evaluate, mounts a claim that is not known, or has lost a field. `sent` is the pod before
    /// admission.
    #[must_use]
    pub fn refusal(
        &self,
        sent: &Self,
        known: impl Fn(&str) -> bool,
    ) -> Option<UnsupportedRequirement> {
        let unknown_claim = self.claims.iter().find(|claim| !known(claim));
        let mut ephemeral = self.ephemeral_claims.iter();
        let changed_volume = ephemeral.find(|(volume, claim)| {
            let sent = sent.ephemeral_claims.get(*volume);
            sent.is_none_or(|sent| !sent.has_same_requirements(claim))
        });
        self.unsupported
            .clone()
            .or_else(|| unknown_claim.map(|claim| unsupported_requirement::added_claim(claim)))
            .or_else(|| {
                changed_volume
                    .map(|(volume, _)| unsupported_requirement::changed_ephemeral_volume(volume))
            })
            .or_else(|| {
                let mut dropped = sent.gated_fields.difference(&self.gated_fields);
                dropped
                    .next()
                    .map(|field| gated_fields::dropped_field(field))
            })
    }
}

/// Returns the claims that a pod mounts.
fn mounted_claims(pod: &PodSpec) -> BTreeSet<String> {
    let volumes = pod.volumes.iter().flatten();
    let claims = volumes.filter_map(|v| v.persistent_volume_claim.as_ref());
    claims.map(|c| c.claim_name.clone()).collect()
}

/// Returns the specs of the claims that are created with the pod, by volume.
fn ephemeral_claim_specs(pod: &PodSpec) -> BTreeMap<String, SlimClaimSpec> {
    let volumes = pod.volumes.iter().flatten();
    let specs = volumes.filter_map(|volume| {
        let template = volume.ephemeral.as_ref()?.volume_claim_template.as_ref()?;
        Some((volume.name.clone(), template.spec.clone().into()))
    });
    specs.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::journal::open_plan_demand::OpenPlan;
    use crate::quota::namespace_quota::find_exceeded_quota;

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
    fn stored_pod_includes_constraints_added_by_admission() {
        let sent = AdmittedPod::from_stored(pod(json!({}))).unwrap();
        let stored = AdmittedPod::from_stored(pod(json!({
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
    fn pod_is_refused_when_admission_adds_unsupported_requirements() {
        let sent = AdmittedPod::from_stored(pod(json!({}))).unwrap();
        assert_eq!(sent.refusal(&sent, |_| true), None);
        let claim = AdmittedPod::from_stored(pod(json!({"volumes": [
            {"name": "v", "persistentVolumeClaim": {"claimName": "cache"}},
        ]})))
        .unwrap();
        assert_eq!(claim.refusal(&sent, |claim| claim == "cache"), None);
        let refusal = claim.refusal(&sent, |_| false).unwrap();
        assert!(refusal.message.contains("\"cache\""), "{refusal:?}");
        let spread = AdmittedPod::from_stored(pod(json!({"topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        }]})))
        .unwrap();
        assert!(spread.refusal(&sent, |_| true).is_some());
        let ephemeral = |size: &str| {
            let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}});
            AdmittedPod::from_stored(pod(json!({"volumes": [
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}},
            ]})))
            .unwrap()
        };
        let one_gib = ephemeral("1Gi");
        assert!(one_gib.refusal(&sent, |_| true).is_some(), "added");
        assert!(
            ephemeral("2Gi").refusal(&one_gib, |_| true).is_some(),
            "changed"
        );
        // An API server without the field stores an empty directory.
        let image = json!({"name": "data", "image": {"reference": "registry.example/data:1"}});
        let image = AdmittedPod::from_stored(pod(json!({"volumes": [image]}))).unwrap();
        let empty = json!({"name": "data", "emptyDir": {}});
        let empty = AdmittedPod::from_stored(pod(json!({"volumes": [empty]}))).unwrap();
        let refusal = empty.refusal(&image, |_| true).unwrap();
        let start = "the API server drops spec.volumes[name=data].image of the pods: ";
        assert!(refusal.message.starts_with(start), "{refusal:?}");
        assert_eq!(image.refusal(&image, |_| true), None);
        // The spelling of a quantity does not matter.
        assert_eq!(ephemeral("1024Mi").refusal(&one_gib, |_| true), None);
        assert_eq!(ephemeral("1024Mi"), one_gib);
    }

    #[test]
    fn admitted_pods_of_two_jobs_are_equal_without_identity_labels() {
        let labelled = |job: &str| {
            let mut pod = pod(json!({}));
            pod["metadata"]["labels"] = json!({
                names::JOB: job, names::JOB_UID: job, names::INDEX: "0", names::ATTEMPT: "1",
                names::GROUP: "worker", "team": "a",
            });
            AdmittedPod::from_stored(pod).unwrap()
        };
        assert_eq!(labelled("one"), labelled("two"));
        assert_eq!(labelled("one").labels.len(), 2);
    }

    #[test]
    fn flavor_tolerations_are_stripped_and_admission_tolerations_stay() {
        let desired = crate::fixtures::desired_run(1);
        let group = &desired.attempt().unwrap().job.compiled().groups()[0];
        let toleration = |key: &str| Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some("NoSchedule".to_owned()),
            ..Toleration::default()
        };
        // The group itself has the second toleration as well.
        let flavor_tolerations = [toleration("spot"), toleration("nvidia.com/gpu")];
        let placement = PodPlacement {
            tolerations: &flavor_tolerations,
            ..PodPlacement::UNPLACED
        };
        let sent = group.pod(0, &placement);
        let stored = AdmittedPod::from_stored(serde_json::to_value(&sent).unwrap()).unwrap();
        let stripped = stored.strip_flavor_tolerations(&flavor_tolerations, group);
        assert_eq!(
            stripped.constraints,
            AdmittedPod::from_group(group).constraints
        );
        // Tolerations that admission adds stay.
        let mut changed = sent;
        let spec = changed.spec.as_mut().unwrap();
        spec.tolerations
            .as_mut()
            .unwrap()
            .push(toleration("webhook"));
        let stored = AdmittedPod::from_stored(serde_json::to_value(&changed).unwrap()).unwrap();
        let stripped = stored
            .strip_flavor_tolerations(&flavor_tolerations, group)
            .constraints
            .tolerations;
        let keys: Vec<_> = stripped.iter().filter_map(|t| t.key.as_deref()).collect();
        assert_eq!(keys, [names::DEDICATED_NODE, "nvidia.com/gpu", "webhook"]);
    }

    /// Admission sets the cluster's default priority class, a sidecar with limits of its own, and a
    /// runtime class.
    #[test]
    fn quota_fields_come_from_the_stored_pod_without_changing_placement() {
        let desired = crate::fixtures::desired_run(1);
        let group = &desired.attempt().unwrap().job.compiled().groups()[0];
        let sent = AdmittedPod::from_group(group);
        assert_eq!(sent.quota_fields.limits, sent.request);
        assert_eq!(sent.quota_fields.priority_class, None);
        let mut pod = serde_json::to_value(group.pod(0, &PodPlacement::UNPLACED)).unwrap();
        pod["spec"]["priorityClassName"] = json!("default");
        pod["spec"]["activeDeadlineSeconds"] = json!(60);
        let stored = AdmittedPod::from_stored(pod.clone()).unwrap();
        assert_eq!(stored, sent, "the placement stays the same");
        assert_eq!(
            stored.quota_fields.priority_class.as_deref(),
            Some("default")
        );
        assert!(stored.quota_fields.is_terminating);
        pod["spec"]["overhead"] = json!({"cpu": "1"});
        let containers = pod["spec"]["containers"].as_array_mut().unwrap();
        containers.push(json!({"name": "proxy", "resources": {
            "requests": {"cpu": "1"}, "limits": {"cpu": "4"}}}));
        let stored = AdmittedPod::from_stored(pod).unwrap();
        let cpu =
            |resources: &Resources| resources.get(&trellis_scheduler::ResourceName::new("cpu"));
        assert_eq!(
            (cpu(&stored.request), cpu(&stored.quota_fields.limits)),
            (98_000, 101_000)
        );
        // The plan's pods that do not exist yet count in the same way.
        let job = desired.attempt().unwrap().job.compiled();
        let admitted = BTreeMap::from([(group.name().to_owned(), stored)]);
        let demand = OpenPlan::new("h", job, &admitted).total_demand();
        let quota = |hard: Value| {
            let spec = json!({"hard": hard, "scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["default"]}]}});
            let quota = json!({"metadata": {"name": "q"}, "spec": spec});
            find_exceeded_quota([&serde_json::from_value(quota).unwrap()], &demand, &[])
        };
        assert_eq!(quota(json!({"pods": "1", "limits.cpu": "101"})), None);
        assert!(quota(json!({"pods": "0"})).is_some());
        assert!(quota(json!({"limits.cpu": "100"})).is_some());
        assert!(quota(json!({"requests.cpu": "97"})).is_some());
    }

    #[test]
    fn default_tolerations_do_not_change_the_admitted_pod() {
        let default = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
        let stored = AdmittedPod::from_stored(pod(json!({"tolerations": [
            default("node.kubernetes.io/not-ready"),
            default("node.kubernetes.io/unreachable"),
        ]})));
        assert_eq!(
            stored.unwrap(),
            AdmittedPod::from_stored(pod(json!({}))).unwrap()
        );
    }
}
