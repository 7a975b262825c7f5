//! Requirements of a pod that the engine does not evaluate. The compiler sets none of them, but
//! admission may. Such a pod is not placed at all, because its node could violate the requirement.

use k8s_openapi::api::core::v1::{ContainerPort, PodSpec, Volume};
use trellis_api::Reason;

/// Why a pod is not placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedRequirement {
    /// The reason.
    pub reason: Reason,
    /// The reason in words, with the requirement.
    pub message: String,
}

/// Returns the pod's first requirement of this kind. Preferences do not count.
#[must_use]
pub(crate) fn find_in_pod(pod: &PodSpec) -> Option<UnsupportedRequirement> {
    let devices = pod.resource_claims.iter().flatten().next();
    if let Some(claim) = devices {
        return Some(UnsupportedRequirement {
            reason: Reason::NeedsDeviceAllocation,
            message: format!(
                "admission gives the pods the resource claim {:?}, and dynamic resource allocation is not done by trellis",
                claim.name
            ),
        });
    }
    find_constraint(pod).map(|requirement| not_supported(&requirement))
}

/// Returns the ports of all containers of the pod.
pub(crate) fn container_ports(pod: &PodSpec) -> impl Iterator<Item = &ContainerPort> {
    let inits = pod.init_containers.iter().flatten();
    let all = pod.containers.iter().chain(inits);
    all.flat_map(|container| container.ports.iter().flatten())
}

/// Returns the refusal of a claim that admission adds, because the location of its volume was not
/// checked.
#[must_use]
pub(crate) fn added_claim(name: &str) -> UnsupportedRequirement {
    not_supported(&format!(
        "the PersistentVolumeClaim {name:?}, which the job does not name in mounts"
    ))
}

/// Returns the refusal of an ephemeral volume that admission adds or changes.
#[must_use]
pub(crate) fn changed_ephemeral_volume(volume: &str) -> UnsupportedRequirement {
    not_supported(&format!(
        "the ephemeral volume {volume:?}, for which the job does not ask so"
    ))
}

fn not_supported(requirement: &str) -> UnsupportedRequirement {
    UnsupportedRequirement {
        reason: Reason::ConstraintNotSupported,
        message: format!("admission gives the pods {requirement}, which trellis does not evaluate"),
    }
}

/// Policies do not judge the data source of a claim.
fn has_data_source(volume: &Volume) -> bool {
    let template = volume
        .ephemeral
        .as_ref()
        .and_then(|e| e.volume_claim_template.as_ref());
    template.is_some_and(|template| {
        template.spec.data_source.is_some() || template.spec.data_source_ref.is_some()
    })
}

/// Returns a required constraint that the engine does not evaluate, in words.
#[must_use]
pub fn find_constraint(pod: &PodSpec) -> Option<String> {
    let affinity = pod.affinity.as_ref();
    let has_affinity = affinity
        .and_then(|a| {
            a.pod_affinity
                .as_ref()?
                .required_during_scheduling_ignored_during_execution
                .as_ref()
        })
        .is_some_and(|terms| !terms.is_empty());
    let has_anti_affinity = affinity
        .and_then(|a| {
            a.pod_anti_affinity
                .as_ref()?
                .required_during_scheduling_ignored_during_execution
                .as_ref()
        })
        .is_some_and(|terms| !terms.is_empty());
    let mut spread = pod.topology_spread_constraints.iter().flatten();
    let port = container_ports(pod).find_map(|p| p.host_port.filter(|port| *port > 0));
    let mut volumes = pod.volumes.iter().flatten();
    if has_affinity {
        Some("required pod affinity".to_owned())
    } else if has_anti_affinity {
        Some("required pod anti-affinity".to_owned())
    } else if spread.any(|s| s.when_unsatisfiable != "ScheduleAnyway") {
        Some("a topology spread constraint".to_owned())
    } else if let Some(port) = port {
        Some(format!("the host port {port}"))
    } else {
        let copies = volumes.find(|volume| has_data_source(volume));
        copies.map(|v| {
            format!(
                "data of another volume in the ephemeral volume {:?}",
                v.name
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn find_in_spec(more: Value) -> Option<(&'static str, String)> {
        let mut spec = json!({"containers": [{"name": "c"}]});
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let pod = serde_json::from_value(spec).unwrap();
        find_in_pod(&pod).map(|u| (u.reason.as_str(), u.message))
    }

    #[test]
    fn required_constraint_is_unsupported_and_preference_is_ignored() {
        let term = json!({"topologyKey": "zone", "labelSelector": {}});
        let affinity = |kind: &str, required: Value| {
            json!({"affinity": {kind: {
                "requiredDuringSchedulingIgnoredDuringExecution": required,
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}],
            }}})
        };
        let spread = |when: &str| {
            json!({"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when},
            ]})
        };
        let port = |port: Value| json!({"containers": [{"name": "c", "ports": [port]}]});
        for (spec, words) in [
            (json!({}), None),
            (
                affinity("podAffinity", json!([term])),
                Some("required pod affinity"),
            ),
            (affinity("podAffinity", json!([])), None),
            (
                affinity("podAntiAffinity", json!([term])),
                Some("required pod anti-affinity"),
            ),
            (affinity("podAntiAffinity", json!([])), None),
            (
                spread("DoNotSchedule"),
                Some("a topology spread constraint"),
            ),
            (spread("ScheduleAnyway"), None),
            (port(json!({"containerPort": 80})), None),
            (
                port(json!({"containerPort": 80, "hostPort": 8080})),
                Some("host port 8080"),
            ),
            (
                json!({"volumes": [{"name": "scratch", "ephemeral": {}}]}),
                None,
            ),
            (
                json!({"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {
                    "dataSource": {"kind": "PersistentVolumeClaim", "name": "other"}}}}}]}),
                Some("data of another volume in the ephemeral volume \"scratch\""),
            ),
        ] {
            let found = find_in_spec(spec.clone());
            assert_eq!(found.is_some(), words.is_some(), "{spec} {found:?}");
            if let (Some((reason, message)), Some(words)) = (found, words) {
                assert_eq!(reason, "ConstraintNotSupported");
                assert!(message.contains(words), "{message}");
            }
        }
    }

    #[test]
    fn pod_with_resource_claims_needs_device_allocation() {
        let (reason, message) = find_in_spec(json!({"resourceClaims": [{"name": "gpu"}]})).unwrap();
        assert_eq!(reason, "NeedsDeviceAllocation");
        assert!(message.contains("\"gpu\""), "{message}");
    }
}
